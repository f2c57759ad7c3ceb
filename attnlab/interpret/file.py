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

from attnlab.files import write_whole
from attnlab.interpret.arrays import decode
from attnlab.interpret.fields import parse
from attnlab.interpret.header import HeaderCheck, Stored
from attnlab.interpret.packing import pack
from attnlab.interpret.records import (
    Capture,
    Flow,
    Layer,
    NextTokens,
    Opening,
    Pattern,
    Picture,
    Sequence,
    Side,
)

MAGIC = b"attnlab-capture 1\n"
MOST_HEADER = 2**24  # bytes

Tensors = dict[tuple[int, int], Tensor]


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
        header, check = _header(file)
        blocks = (_block(file, length) for length, _ in check.blocks)
        tensors = _tensors(check, blocks)
        sides = [_side(side, tensors) for side in header["sides"]]
        opening = header.get("opening")
        opened = None if opening is None else Opening(**opening)
        return Capture(header["title"], sides, header["notes"], header["made"], opened)


def header_and_blocks(path: str | Path) -> tuple[dict[str, Any], list[bytes]]:
    """What a page holds: the header, checked, and the blocks as they are, compressed."""
    with _opened(Path(path)) as file:
        header, check = _header(file)
        return header, [_block(file, length) for length, _ in check.blocks]


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


def _header(file: BinaryIO) -> tuple[dict[str, Any], HeaderCheck]:
    """Checked against itself and the size of the file; the file is then at the first block."""
    size = file.seek(0, 2)
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("is no capture of attnlab, or of another version")
    length = int.from_bytes(file.read(8), "little")
    start = len(MAGIC) + 8
    if length > MOST_HEADER or start + length > size:
        raise ValueError(f"says that its header has {length} bytes; {size} has the whole file")
    header = parse(file.read(length))
    check = HeaderCheck(header)
    needed = start + length + sum(length for length, _ in check.blocks)
    if needed != size:
        raise ValueError(f"has {size} bytes, but its header and blocks {needed}")
    return header, check


def _block(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) != length:
        raise ValueError("ends within a block")
    return data


def _tensors(check: HeaderCheck, blocks: Iterator[bytes]) -> Tensors:
    """All arrays, by block and offset; each block is opened once and let go."""
    wanted: list[list[Stored]] = [[] for _ in check.blocks]
    for each in check.arrays:
        wanted[each.block].append(each)
    found: Tensors = {}
    for number, (block, (_, size)) in enumerate(zip(blocks, check.blocks, strict=True)):
        data = memoryview(_inflate(block, size, number))
        for each in wanted[number]:
            try:
                x = decode(data[each.offset : each.end], each.shape, each.code)
            except ValueError as error:
                raise ValueError(f"{each.where}: {error}") from None
            found[number, each.offset] = torch.from_numpy(np.ascontiguousarray(x))
    return found


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


def _side(side: dict[str, Any], tensors: Tensors) -> Side:
    def maps(arrays: list[dict[str, Any]] | None) -> list[Tensor] | None:
        return None if arrays is None else [tensors[_place(each)] for each in arrays]

    flow = side["flow"]
    return Side(
        label=side["label"],
        model=side["model"],
        sequences=[_sequence(each, tensors) for each in side["sequences"]],
        layers=[_layer(each, side["masks"], tensors) for each in side["layers"]],
        places=[(each["queries"], each["keys"]) for each in side["layers"]],
        patterns=[_patterns(each["patterns"]) for each in side["layers"]],
        control=None if side["control"] is None else list(map(_patterns, side["control"])),
        next=_next(side["next"]),
        flow=Flow(
            maps(flow["rollout"]),
            maps(flow["gradient"]),
            flow["target"],
            flow["reasons"],
            flow["layers"],
        ),
    )


def _patterns(found: list[dict[str, Any]]) -> list[Pattern]:
    return [Pattern(each["label"], each["scores"]) for each in found]


def _place(array: dict[str, Any]) -> tuple[int, int]:
    return array["block"], array["offset"]


def _layer(found: dict[str, Any], masks: list[dict[str, Any]], tensors: Tensors) -> Layer:
    names = (
        "name", "stack", "kind", "heads", "all_heads", "mechanism", "signed", "normalised", "scale",
        "groups", "difference", "note",
    )  # fmt: skip
    parts: dict[str, Any] = {name: found[name] for name in names}
    parts["excess"] = found.get("excess")
    for name in ("weights", "q", "k", "v", "bias", "norms"):
        parts[name] = None if found[name] is None else tensors[_place(found[name])]
    if found["mask"] is not None:
        mask = masks[found["mask"]]
        parts["allowed"], parts["causal"] = tensors[_place(mask["allowed"])], mask["causal"]
    return Layer(**parts)


def _sequence(sequence: dict[str, Any], tensors: Tensors) -> Sequence:
    tokens, image = sequence["tokens"], sequence["image"]
    picture = None
    if image is not None:
        pixels = tensors[_place(image["pixels"])]
        picture = Picture(pixels, image["rows"], image["columns"], image["first"])
    return Sequence(
        name=sequence["name"],
        texts=[token["text"] for token in tokens],
        words=[token["word"] for token in tokens],
        special=[token["special"] for token in tokens],
        segments=sequence["segments"],
        prompt=sequence["prompt"],
        picture=picture,
    )


def _next(found: dict[str, Any] | None) -> NextTokens | None:
    if found is None:
        return None
    top = [[(word, float(value)) for word, value in each] for each in found["top"]]
    return NextTokens(found["sequence"], top, found["actual"])


__all__ = ["MAGIC", "header_and_blocks", "header_text", "pack", "read", "save"]
