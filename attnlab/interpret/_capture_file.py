"""A capture as one file: no pickle, no code, and nothing is believed when it is read.

docs/capture-format.md describes it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from attnlab._safe_files import write_whole
from attnlab.interpret._capture_header import (
    FORMAT,
    HEADER,
    VERSION,
    Array,
    CheckedHeader,
    LayerHeader,
    SequenceHeader,
    SideHeader,
    one_line_errors,
    shown,
)
from attnlab.interpret._capture_packing import pack
from attnlab.interpret._number_codes import decode
from attnlab.interpret._records import Capture, Flow, Layer, Picture, Sequence, Side, facts_of

MAGIC = f"{FORMAT} {VERSION}\n".encode("ascii")
MOST_HEADER = 2**24  # bytes
MOST_NAMES = 1000  # of one object: pydantic keeps an error for each that it does not know


def save(capture: Capture, path: str | Path, *, bits: int | None = None) -> None:
    """Write the whole file or nothing; `bits` of a weight: 8, 16, or as many as fit."""
    write_packed(*pack(capture, bits=bits), path)


def write_packed(header: dict[str, Any], blocks: Iterable[bytes], path: str | Path) -> None:
    def write(part: Path) -> None:
        with part.open("wb") as file:
            file.writelines(parts_of(header, blocks))

    write_whole(Path(path), write)


def parts_of(header: dict[str, Any], blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The file, part by part."""
    data = header_text(header).encode("ascii")
    yield MAGIC + len(data).to_bytes(8, "little") + data
    yield from blocks


def header_text(header: dict[str, Any]) -> str:
    """JSON in ASCII; no more of it than a reader accepts, of a file or of a page."""
    text = json.dumps(header, separators=(",", ":"), allow_nan=False)
    if len(text) > MOST_HEADER:
        raise ValueError(
            f"the header has {len(text)} bytes; {MOST_HEADER} is the most: choose fewer layers, "
            "heads or tokens"
        )
    return text


def read(path: str | Path) -> Capture:
    """The capture of a file; a ValueError of one line where it is not one."""
    with _opened(Path(path)) as file:
        _, checked = _header(file)
        header = checked.header
        sides = list(map(_Tensors(checked, file).side, header.sides))
        return Capture(header.title, sides, header.notes, header.made, header.opening)


def header_and_blocks(path: str | Path) -> tuple[dict[str, Any], list[bytes]]:
    """What a page holds: the header, checked, and the blocks as they are, compressed."""
    with _opened(Path(path)) as file:
        header, checked = _header(file)
        return header, [_block(file, block.length) for block in checked.header.blocks]


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file; whatever is wrong with it is a ValueError that begins with its name."""
    name = "".join(letter if letter.isprintable() else "?" for letter in str(path))
    try:
        if path.exists() and not path.is_file():
            raise ValueError("is not a file")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise ValueError(f"{name}: there is no such file") from None
    except OSError as error:
        raise ValueError(f"{name}: cannot be read ({error.strerror})") from None
    except MemoryError:
        raise ValueError(f"{name}: there is not enough memory for it") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _header(file: BinaryIO) -> tuple[dict[str, Any], CheckedHeader]:
    """As JSON, and checked against itself and the size of the file, which is then at its blocks."""
    size = file.seek(0, 2)
    file.seek(0)
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        if not magic.startswith(FORMAT.encode("ascii")):
            raise ValueError("is no capture of attnlab")
        raise ValueError(f"is a capture of another version; this attnlab reads version {VERSION}")
    length = int.from_bytes(file.read(8), "little")
    start = len(MAGIC) + 8
    if length > MOST_HEADER or start + length > size:
        raise ValueError(f"says that its header has {length} bytes; {size} has the whole file")
    header = _parse(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("the header is no object")
    if header.get("format") != FORMAT:
        raise ValueError("the header is not of a capture")
    if header.get("version") != VERSION:
        version = shown(header.get("version"))
        raise ValueError(f"version is {version}; this attnlab reads version {VERSION}")
    with one_line_errors():
        checked = CheckedHeader(HEADER.validate_python(header))
    needed = start + length + sum(block.length for block in checked.header.blocks)
    if needed != size:
        raise ValueError(f"has {size} bytes, but its header and blocks {needed}")
    return header, checked


def _parse(data: bytes) -> Any:
    """JSON without NaN, infinities and names that stand twice."""
    try:
        return json.loads(
            data.decode("ascii"), object_pairs_hook=_object, parse_constant=_no_constant
        )
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"the header is not ASCII, from its byte {error.start} on") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the header is not JSON: {error.msg} at {error.pos}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_NAMES:
        raise ValueError(
            f"the header has {len(pairs)} names in one object; {MOST_NAMES} is the most"
        )
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the header has {shown(name)} twice in one object")
        found[name] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"the header has {name}; only finite numbers are allowed")


def _block(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) != length:
        raise ValueError("ends within a block")
    return data


def _inflate(block: bytes, size: int, number: int) -> bytes:
    """Never more than the size that was declared, whatever the bytes would become."""
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(block, size)
        rest = inflate.decompress(inflate.unconsumed_tail, 1)  # the end may still be to come
    except zlib.error as error:
        raise ValueError(f"block {number} is damaged: {error}") from None
    if rest:
        raise ValueError(f"block {number} opens to more than the {size} bytes it says")
    if len(data) != size or not inflate.eof or inflate.unused_data:
        raise ValueError(f"block {number} does not open to exactly {size} bytes")
    return data


class _Tensors:
    """All arrays of a file, and the records that hold them. A block is opened once and let go."""

    def __init__(self, checked: CheckedHeader, file: BinaryIO) -> None:
        blocks = checked.header.blocks
        self.tensors: dict[tuple[int, int], Tensor] = {}
        wanted: list[list[tuple[str, Array]]] = [[] for _ in blocks]
        for where, array in checked.arrays:
            wanted[array.block].append((where, array))
        for number, block in enumerate(blocks):
            data = memoryview(_inflate(_block(file, block.length), block.size, number))
            for where, array in wanted[number]:
                try:
                    x = decode(data[array.offset : array.end], array.shape, array.code)
                except ValueError as error:
                    raise ValueError(f"{where}: {error}") from None
                self.tensors[number, array.offset] = torch.from_numpy(np.ascontiguousarray(x))

    def of(self, array: Array) -> Tensor:
        return self.tensors[array.block, array.offset]

    def maps(self, arrays: list[Array] | None) -> list[Tensor] | None:
        return None if arrays is None else list(map(self.of, arrays))

    def side(self, side: SideHeader) -> Side:
        flow = side.flow
        return Side(
            label=side.label,
            model=side.model,
            sequences=list(map(self.sequence, side.sequences)),
            layers=[self.layer(each, side) for each in side.layers],
            places=[(each.queries, each.keys) for each in side.layers],
            patterns=[each.patterns for each in side.layers],
            control=side.control,
            next=side.next,
            flow=Flow(
                self.maps(flow.rollout),
                self.maps(flow.gradient),
                flow.target,
                flow.reasons,
                flow.layers,
            ),
        )

    def layer(self, layer: LayerHeader, side: SideHeader) -> Layer:
        parts = facts_of(layer)
        for name in ("weights", "q", "k", "v", "bias", "norms"):
            array = getattr(layer, name)
            parts[name] = None if array is None else self.of(array)
        if layer.mask is not None:
            mask = side.masks[layer.mask]
            parts |= {"allowed": self.of(mask.allowed), "causal": mask.causal}
        return Layer(**parts)

    def sequence(self, sequence: SequenceHeader) -> Sequence:
        tokens, image = sequence.tokens, sequence.image
        picture = None
        if image is not None:
            picture = Picture(self.of(image.pixels), image.rows, image.columns, image.first)
        return Sequence(
            name=sequence.name,
            texts=[token.text for token in tokens],
            words=[token.word for token in tokens],
            special=[token.special for token in tokens],
            segments=sequence.segments,
            prompt=sequence.prompt,
            picture=picture,
        )


__all__ = ["MAGIC", "header_and_blocks", "header_text", "pack", "read", "save"]
