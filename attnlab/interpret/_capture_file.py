"""Saves and reads captures as files without pickle or code. Reading checks everything.

docs/reference/capture-format.md describes the format.
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

from attnlab._safe_files import write_atomically
from attnlab.interpret._array_header import ArrayHeader
from attnlab.interpret._capture_header import (
    FORMAT,
    HEADER,
    VERSION,
    CheckedHeader,
    LayerHeader,
    PanelHeader,
    SequenceHeader,
    format_value,
    one_line_errors,
)
from attnlab.interpret._capture_packing import pack
from attnlab.interpret._effects_header import read_effects
from attnlab.interpret._number_codes import decode
from attnlab.interpret._records import (
    Capture,
    CapturePanel,
    Flow,
    Layer,
    PatchedImage,
    Sequence,
    layer_fields,
)
from attnlab.interpret._walkthrough_header import read_walkthrough

MAGIC = f"{FORMAT} {VERSION}\n".encode("ascii")
MAX_HEADER_BYTES = 2**24
MAX_NAMES = 1000  # in one object: pydantic keeps an error for each unknown name


def save(capture: Capture, path: str | Path, *, bits: int | None = None) -> None:
    """Write the whole file or nothing. `bits` per weight are 8 or 16; None chooses by size."""
    write_packed(*pack(capture, bits=bits), path)


def write_packed(header: dict[str, Any], blocks: Iterable[bytes], path: str | Path) -> None:
    def write(part: Path) -> None:
        with part.open("wb") as file:
            file.writelines(file_parts(header, blocks))

    write_atomically(Path(path), write)


def file_parts(header: dict[str, Any], blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of the file, part by part."""
    data = header_text(header).encode("ascii")
    yield MAGIC + len(data).to_bytes(8, "little") + data
    yield from blocks


def header_text(header: dict[str, Any]) -> str:
    """The header as JSON in ASCII; raises if it is larger than a file or a page may have."""
    text = json.dumps(header, separators=(",", ":"), allow_nan=False)
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(
            f"the header has {len(text)} bytes, more than {MAX_HEADER_BYTES}: choose fewer "
            "layers, heads or tokens"
        )
    return text


def read(path: str | Path) -> Capture:
    """Read a capture file; raises a ValueError of one line if it is not valid."""
    with _opened(Path(path)) as file:
        _, checked = _header(file)
        header = checked.header
        panels = list(map(_TensorReader(checked, file).panel, header.panels))
        return Capture(
            header.title, panels, header.notes, header.made, header.opening, header.highlights
        )


def header_and_blocks(path: str | Path) -> tuple[dict[str, Any], list[bytes]]:
    """The content of a page: the checked header, and the blocks, still compressed."""
    with _opened(Path(path)) as file:
        header, checked = _header(file)
        return header, [_block(file, block.length) for block in checked.header.blocks]


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open the file; errors inside the `with` become a ValueError that begins with its name."""
    name = "".join(letter if letter.isprintable() else "?" for letter in str(path))
    try:
        if path.exists() and not path.is_file():
            raise ValueError("is not a file")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise ValueError(f"{name}: does not exist") from None
    except OSError as error:
        raise ValueError(f"{name}: cannot be read ({error.strerror})") from None
    except MemoryError:
        raise ValueError(f"{name}: not enough memory to read it") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _header(file: BinaryIO) -> tuple[dict[str, Any], CheckedHeader]:
    """The header as JSON and as a checked object. Leaves the file at its first block."""
    size = file.seek(0, 2)
    file.seek(0)
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        if not magic.startswith(FORMAT.encode("ascii")):
            raise ValueError("is not an attnlab capture")
        raise ValueError(f"is a capture of another version; this attnlab reads version {VERSION}")
    length = int.from_bytes(file.read(8), "little")
    start = len(MAGIC) + 8
    if length > MAX_HEADER_BYTES or start + length > size:
        raise ValueError(f"declares a header of {length} bytes; the whole file has {size}")
    header = _parse(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("the header is not a JSON object")
    if header.get("format") != FORMAT:
        raise ValueError(f"the header's format is not {FORMAT}")
    if header.get("version") != VERSION:
        version = format_value(header.get("version"))
        raise ValueError(f"version is {version}; this attnlab reads version {VERSION}")
    with one_line_errors():
        checked = CheckedHeader(HEADER.validate_python(header))
    needed = start + length + sum(block.length for block in checked.header.blocks)
    if needed != size:
        raise ValueError(f"has {size} bytes, but its header and blocks need {needed}")
    return header, checked


def _parse(data: bytes) -> Any:
    """Parse JSON; raises for NaN, infinities and duplicate names."""
    try:
        return json.loads(
            data.decode("ascii"), object_pairs_hook=_unique_names, parse_constant=_reject_constant
        )
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"the header is not ASCII: see byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the header is not JSON: {error.msg} at {error.pos}") from None


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_NAMES:
        raise ValueError(
            f"the header has {len(pairs)} names in one object; at most {MAX_NAMES} are allowed"
        )
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"the header has {format_value(name)} twice in one object")
        result[name] = value
    return result


def _reject_constant(name: str) -> Any:
    raise ValueError(f"the header has {name}; only finite numbers are allowed")


def _block(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) != length:
        raise ValueError("ends inside a block")
    return data


def _inflate(block: bytes, size: int, number: int) -> bytes:
    """Decompress at most `size` bytes, the declared size, to be safe from zip bombs."""
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(block, size)
        rest = inflate.decompress(inflate.unconsumed_tail, 1)  # its end marker may be left
    except zlib.error as error:
        raise ValueError(f"block {number} is damaged: {error}") from None
    if rest:
        raise ValueError(f"block {number} decompresses to more than the declared {size} bytes")
    if len(data) != size or not inflate.eof or inflate.unused_data:
        raise ValueError(f"block {number} does not decompress to exactly {size} bytes")
    return data


class _TensorReader:
    """Reads all arrays of a file, each block once, and builds the records from them."""

    def __init__(self, checked: CheckedHeader, file: BinaryIO) -> None:
        blocks = checked.header.blocks
        self.tensors: dict[tuple[int, int], Tensor] = {}
        arrays: list[list[tuple[str, ArrayHeader]]] = [[] for _ in blocks]
        for where, array in checked.arrays:
            arrays[array.block].append((where, array))
        for number, block in enumerate(blocks):
            data = memoryview(_inflate(_block(file, block.length), block.size, number))
            for where, array in arrays[number]:
                try:
                    x = decode(data[array.offset : array.end], array.shape, array.code)
                except ValueError as error:
                    raise ValueError(f"{where}: {error}") from None
                self.tensors[number, array.offset] = torch.from_numpy(np.ascontiguousarray(x))

    def tensor(self, array: ArrayHeader) -> Tensor:
        return self.tensors[array.block, array.offset]

    def tensors_of(self, arrays: list[ArrayHeader] | None) -> list[Tensor] | None:
        return None if arrays is None else list(map(self.tensor, arrays))

    def panel(self, panel: PanelHeader) -> CapturePanel:
        flow = panel.flow
        return CapturePanel(
            label=panel.label,
            model=panel.model,
            sequences=list(map(self.sequence, panel.sequences)),
            layers=[self.layer(layer, panel) for layer in panel.layers],
            sequence_indices=[(layer.queries, layer.keys) for layer in panel.layers],
            patterns=[layer.patterns for layer in panel.layers],
            control=panel.control,
            next_tokens=panel.next,
            flow=Flow(
                self.tensors_of(flow.rollout),
                self.tensors_of(flow.gradient),
                flow.target,
                flow.reasons,
                flow.layers,
            ),
            effects=None if panel.effects is None else read_effects(panel.effects, self.tensor),
            walkthrough=None
            if panel.walkthrough is None
            else read_walkthrough(panel.walkthrough, self.tensor),
        )

    def layer(self, layer: LayerHeader, panel: PanelHeader) -> Layer:
        parts = layer_fields(layer)
        for name in ("weights", "q", "k", "v", "bias", "norms"):
            array = getattr(layer, name)
            parts[name] = None if array is None else self.tensor(array)
        if layer.mask is not None:
            mask = panel.masks[layer.mask]
            parts |= {"allowed": self.tensor(mask.allowed), "causal": mask.causal}
        return Layer(**parts)

    def sequence(self, sequence: SequenceHeader) -> Sequence:
        tokens, header, image = sequence.tokens, sequence.image, None
        if header is not None:
            pixels = self.tensor(header.pixels)
            image = PatchedImage(pixels, header.rows, header.columns, header.first)
        return Sequence(
            name=sequence.name,
            texts=[token.text for token in tokens],
            words=[token.word for token in tokens],
            special=[token.special for token in tokens],
            segments=sequence.segments,
            prompt=sequence.prompt,
            image=image,
        )


__all__ = ["MAGIC", "header_and_blocks", "header_text", "pack", "read", "save"]
