"""How the server and its workers talk: JSON with bytes behind it, over pipes, nothing pickled."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import IO, Any

SIZES = struct.Struct(">IQ")
MOST_JSON, MOST_BYTES = 2**27, 2**31
Frame = tuple[dict[str, Any], bytes]


def packed(message: dict[str, Any], content: bytes = b"") -> bytes:
    text = json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii")
    return SIZES.pack(len(text), len(content)) + text + content


def read_frame(source: IO[bytes]) -> Frame | None:
    """None at the end."""
    head = source.read(SIZES.size)
    if len(head) < SIZES.size:
        return None
    text, content = SIZES.unpack(head)
    _check(text, content)
    return _message(source.read(text)), source.read(content)


async def receive_frame(source: asyncio.StreamReader) -> Frame:
    """An IncompleteReadError at the end."""
    text, content = SIZES.unpack(await source.readexactly(SIZES.size))
    _check(text, content)
    return _message(await source.readexactly(text)), await source.readexactly(content)


def _check(text: int, content: int) -> None:
    if text > MOST_JSON or content > MOST_BYTES:
        raise ValueError(f"a frame of {text} and {content} bytes")


def _message(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
