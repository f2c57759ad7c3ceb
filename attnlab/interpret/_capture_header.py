"""The header of a capture: what it holds, and how its parts fit, checked before anything relies on
it. docs/capture-format.md describes it.

Letters: H heads that were kept, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, Strict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from attnlab.interpret._number_codes import Code, byte_count
from attnlab.interpret._records import (
    Axis,
    Flag,
    FlowKind,
    Items,
    LayerFacts,
    ModelFacts,
    NextTokens,
    Opening,
    Pattern,
    Several,
    Share,
    Text,
    Whole,
)

FORMAT: Literal["attnlab-capture"] = "attnlab-capture"
VERSION = 1
MOST_OPENED = 2**30  # bytes of all blocks together
MOST_VALUES = 2**29  # numbers in all arrays together: 2 GiB as floats
MOST_BLOCKS = 100_000

NUMBERS = ("f32", "sqrt8", "sqrt16", "signed8", "signed16", "linear16")
LAYER_ARRAYS = {
    "weights": "HTS", "sums": "HT", "norms": "HS", "q": "HTD", "k": "GSD", "v": "GSM",
    "bias": "BTS",
}  # fmt: skip
"""A letter for each axis; B is 1 or H."""

CONFIG = ConfigDict(extra="forbid")


@dataclass(kw_only=True, config=CONFIG)
class Array:
    block: Whole
    offset: Annotated[int, Strict(), Field(ge=0, le=MOST_OPENED)]
    shape: Several[Axis]
    code: Code
    error: Share

    @property
    def end(self) -> int:
        return self.offset + byte_count(self.shape, self.code)


@dataclass(kw_only=True, config=CONFIG)
class BlockHeader:
    length: Whole
    size: Annotated[int, Strict(), Field(ge=1, le=MOST_OPENED)]


@dataclass(kw_only=True, config=CONFIG)
class ImageHeader:
    width: Axis
    height: Axis
    rows: Axis
    columns: Axis
    first: Whole
    pixels: Array


@dataclass(kw_only=True, config=CONFIG)
class TokenHeader:
    text: Text
    word: Annotated[int, Strict(), Field(ge=-1)]
    special: Flag


@dataclass(kw_only=True, config=CONFIG)
class SequenceHeader:
    name: Text
    tokens: Several[TokenHeader]
    segments: Items[Whole] | None
    prompt: Whole | None
    image: ImageHeader | None


@dataclass(kw_only=True, config=CONFIG)
class MaskHeader:
    causal: Flag
    allowed: Array


@dataclass(kw_only=True, config=CONFIG)
class LayerHeader(LayerFacts):
    queries: Whole
    keys: Whole
    weights: Array
    sums: Array
    norms: Array | None
    q: Array | None
    k: Array | None
    v: Array | None
    bias: Array | None
    mask: Whole | None
    patterns: Items[Pattern]


@dataclass(kw_only=True, config=CONFIG)
class FlowHeader:
    rollout: Items[Array] | None
    gradient: Items[Array] | None
    target: Text
    reasons: dict[FlowKind, Text]
    layers: Items[Whole]


@dataclass(kw_only=True, config=CONFIG)
class SideHeader:
    label: Text
    model: ModelFacts
    sequences: Several[SequenceHeader]
    masks: Items[MaskHeader]
    layers: Several[LayerHeader]
    next: NextTokens | None
    flow: FlowHeader
    control: Items[Items[Pattern]] | None
    small: Array


@dataclass(kw_only=True, config=CONFIG)
class Header:
    format: Literal["attnlab-capture"] = FORMAT
    version: Annotated[int, Strict(), Field(ge=VERSION, le=VERSION)] = VERSION
    title: Text
    made: dict[Text, Text]
    notes: Items[Text]
    opening: Opening | None = None
    """Files of the first attnlab may lack it."""
    blocks: Annotated[Items[BlockHeader], Field(max_length=MOST_BLOCKS)]
    sides: Annotated[Several[SideHeader], Field(max_length=2)]


HEADER = TypeAdapter(Header)


def as_json(header: Header) -> dict[str, Any]:
    found: dict[str, Any] = HEADER.dump_python(header, mode="json")
    return found


class CheckedHeader:
    """A header whose parts fit each other; `arrays` are all that it has, and where they stand."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.arrays: list[tuple[str, Array]] = []
        total = sum(block.size for block in header.blocks)
        if total > MOST_OPENED:
            raise ValueError(f"blocks open to {total} bytes; {MOST_OPENED} is the most")
        for number, side in enumerate(header.sides):
            self._side(f"sides[{number}]", side)
        if header.opening is not None:
            _index("opening.layer", header.opening.layer, header.sides[0].layers)
        self._layout()

    def _layout(self) -> None:
        """The arrays of each block follow each other and fill it; so none is used twice."""
        ends = [0] * len(self.header.blocks)
        for where, array in sorted(self.arrays, key=lambda each: (each[1].block, each[1].offset)):
            if array.offset != ends[array.block]:
                raise ValueError(
                    f"{where} is at {array.offset} of block {array.block}; it would have to be "
                    f"at {ends[array.block]}, where the array before it ends"
                )
            ends[array.block] = array.end
        for number, (end, block) in enumerate(zip(ends, self.header.blocks, strict=True)):
            if end != block.size:
                raise ValueError(
                    f"block {number} opens to {block.size} bytes; its arrays need {end}"
                )
        values = sum(math.prod(array.shape) for _, array in self.arrays)
        if values > MOST_VALUES:
            raise ValueError(f"the capture has {values} numbers; {MOST_VALUES} is the most")

    def _array(
        self, where: str, array: Array, axes: str, sizes: dict[str, int], codes: Sequence[str]
    ) -> None:
        """Of these axes. A letter that `sizes` does not know may have any length, but one only."""
        _entries(f"{where}.shape", array.shape, len(axes))
        for letter, length in zip(axes, array.shape, strict=True):
            if sizes.setdefault(letter, length) != length:
                wanted = ", ".join(str(sizes.get(each, "any")) for each in axes)
                raise ValueError(f"{where}.shape is {tuple(array.shape)}; ({wanted}) is needed")
        _index(f"{where}.block", array.block, self.header.blocks)
        if array.code not in codes:
            raise ValueError(f"{where}.code is {array.code!r}; {' or '.join(codes)} is needed")
        self.arrays.append((where, array))

    def _side(self, where: str, side: SideHeader) -> None:
        for number, sequence in enumerate(side.sequences):
            self._sequence(f"{where}.sequences[{number}]", sequence)
        for number, mask in enumerate(side.masks):
            self._array(f"{where}.masks[{number}].allowed", mask.allowed, "TS", {}, ("bits",))
        for number, layer in enumerate(side.layers):
            self._layer(f"{where}.layers[{number}]", layer, side)
        if side.next is not None:
            _index(f"{where}.next.sequence", side.next.sequence, side.sequences)
            length = len(side.sequences[side.next.sequence].tokens)
            _entries(f"{where}.next.top", side.next.top, length)
            _entries(f"{where}.next.actual", side.next.actual, length)
        self._flow(f"{where}.flow", side.flow, side.layers)
        if side.control is not None:
            _entries(f"{where}.control", side.control, len(side.layers))
            for number, (patterns, layer) in enumerate(
                zip(side.control, side.layers, strict=True)
            ):  # fmt: skip
                _patterns(f"{where}.control[{number}]", patterns, len(layer.heads))
        maps = sum(len(layer.heads) for layer in side.layers)
        self._array(f"{where}.small", side.small, "HNN", {"H": maps}, ("u8",))

    def _sequence(self, where: str, sequence: SequenceHeader) -> None:
        length = len(sequence.tokens)
        if sequence.segments is not None:
            _entries(f"{where}.segments", sequence.segments, length)
        if sequence.prompt is not None and sequence.prompt > length:
            raise ValueError(f"{where}.prompt is {sequence.prompt}; there are {length} tokens")
        image = sequence.image
        if image is None:
            return
        patches = image.rows * image.columns
        if image.first + patches > length:
            raise ValueError(
                f"{where}.image has {patches} patches from token {image.first} on; "
                f"there are {length} tokens"
            )
        sizes = {"h": image.height, "w": image.width, "c": 3}
        self._array(f"{where}.image.pixels", image.pixels, "hwc", sizes, ("u8",))

    def _layer(self, where: str, layer: LayerHeader, side: SideHeader) -> None:
        for name in ("queries", "keys"):
            _index(f"{where}.{name}", getattr(layer, name), side.sequences)
        T, S = (len(side.sequences[each].tokens) for each in (layer.queries, layer.keys))
        H = len(layer.heads)
        if layer.all_heads < H:
            raise ValueError(f"{where}.heads has {H} entries; {layer.all_heads} are all heads")
        for number, head in enumerate(layer.heads):
            _index(f"{where}.heads[{number}]", head, range(layer.all_heads))
        if len(set(layer.heads)) < H:
            raise ValueError(f"{where}.heads names a head twice")
        sizes = {"H": H, "T": T, "S": S}
        for name, axes in LAYER_ARRAYS.items():
            array = getattr(layer, name)
            if array is not None:
                self._array(f"{where}.{name}", array, axes, sizes, NUMBERS)
        if sizes.get("B", 1) not in (1, H):
            raise ValueError(f"{where}.bias has {sizes['B']} heads; 1 or {H} fit")
        _entries(f"{where}.groups", layer.groups, H if "G" in sizes else 0)
        for number, group in enumerate(layer.groups):
            _index(f"{where}.groups[{number}]", group, range(sizes["G"]))
        if layer.mask is not None:
            _index(f"{where}.mask", layer.mask, side.masks)
            shape = tuple(side.masks[layer.mask].allowed.shape)
            if shape != (T, S):
                raise ValueError(f"{where}.mask is of shape {shape}; the layer needs {(T, S)}")
        _patterns(f"{where}.patterns", layer.patterns, H)

    def _flow(self, where: str, flow: FlowHeader, layers: list[LayerHeader]) -> None:
        for number, place in enumerate(flow.layers):
            _index(f"{where}.layers[{number}]", place, layers)
        for name in ("rollout", "gradient"):
            maps = getattr(flow, name)
            if maps is None:
                continue
            _entries(f"{where}.{name}", maps, len(flow.layers))
            for number, (array, place) in enumerate(zip(maps, flow.layers, strict=True)):
                _, T, S = layers[place].weights.shape
                self._array(f"{where}.{name}[{number}]", array, "TS", {"T": T, "S": S}, NUMBERS)


def _entries(where: str, entries: Sized, count: int) -> None:
    if len(entries) != count:
        raise ValueError(f"{where} has {len(entries)} entries; {count} are needed")


def _index(where: str, index: int, of: Sized) -> None:
    if not 0 <= index < len(of):
        needed = f"a whole number from 0 to {len(of) - 1}"
        raise ValueError(f"{where} is {shown(index)}; {needed} is needed")


def _patterns(where: str, patterns: Sequence[Pattern], heads: int) -> None:
    _entries(where, patterns, heads)
    for number, pattern in enumerate(patterns):
        if pattern.label not in {"", *pattern.scores}:
            raise ValueError(
                f"{where}[{number}].label is {shown(pattern.label)}; one of the scores' names, or "
                "nothing, is needed"
            )


WORDS = {
    "^(Input|List) should": "it should",
    r"a dictionary or an instance of \w+": "an object",
    "an instance of str": "text",
    " after validation, not .*": "",
}
"""How pydantic says it, and how it is said of a file."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """The first thing that pydantic does not accept, and where it stands."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        *parents, last = first["loc"] or ("",)
        inside = _place(parents) or "the header"
        if first["type"] == "missing" and isinstance(last, str):
            raise ValueError(f"{inside} has no {shown(last)}") from None
        if first["type"] == "unexpected_keyword_argument":
            message = f"{inside} has a field {shown(last)}, which it cannot have"
            raise ValueError(message) from None
        where, needed = _place(first["loc"]) or "the header", first["msg"]
        for pydantics, ours in WORDS.items():
            needed = re.sub(pydantics, ours, needed)
        raise ValueError(f"{where} is {shown(first['input'])}; {needed}") from None


def _place(loc: Sequence[str | int]) -> str:
    found = ""
    for each in loc:
        if each == "[key]":  # the name before it is the one that is wrong
            continue
        plain = re.fullmatch(r"\w{1,40}", str(each), re.ASCII)
        found += f"[{each}]" if isinstance(each, int) else f".{each if plain else shown(each)}"
    return found.lstrip(".")


def shown(value: Any) -> str:
    """One short line of ASCII, whatever it is."""
    if isinstance(value, Mapping | list):
        return f"a list of {len(value)}" if isinstance(value, list) else "an object"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        return "a huge number"  # its digits would take long to write
    line = ascii(value[:60] if isinstance(value, str) else value)
    return line if len(line) <= 60 else f"{line[:57]}..."
