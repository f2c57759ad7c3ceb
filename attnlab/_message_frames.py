"""Messages between processes, over pipes: JSON followed by bytes, never pickled."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import IO, Any

SIZES = struct.Struct(">IQ")
MAX_JSON_BYTES, MAX_ATTACHED_BYTES = 2**27, 2**31
Frame = tuple[dict[str, Any], bytes]


def pack_frame(message: dict[str, Any], attached: bytes = b"") -> bytes:
    text = json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii")
    return SIZES.pack(len(text), len(attached)) + text + attached


def read_frame(source: IO[bytes]) -> Frame | None:
    """The next frame; None at the end."""
    header = source.read(SIZES.size)
    if len(header) < SIZES.size:
        return None
    json_bytes, attached_bytes = SIZES.unpack(header)
    _check_sizes(json_bytes, attached_bytes)
    return _parse_message(source.read(json_bytes)), source.read(attached_bytes)


async def receive_frame(source: asyncio.StreamReader) -> Frame:
    """The next frame; raises IncompleteReadError at the end."""
    json_bytes, attached_bytes = SIZES.unpack(await source.readexactly(SIZES.size))
    _check_sizes(json_bytes, attached_bytes)
    text = await source.readexactly(json_bytes)
    return _parse_message(text), await source.readexactly(attached_bytes)


def _check_sizes(json_bytes: int, attached_bytes: int) -> None:
    if json_bytes > MAX_JSON_BYTES or attached_bytes > MAX_ATTACHED_BYTES:
        raise ValueError(f"a frame of {json_bytes} and {attached_bytes} bytes is too large")


def _parse_message(text: bytes) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(text)
    return message
