"""The header of a capture file: its fields, and the checks that its parts fit together.
docs/reference/capture-format.md describes it.

Letters: H captured heads, G key heads, T queries, S keys, D head size, M value size,
L layers and the embedding, P targets of effects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import Field, Strict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from attnlab.interpret._array_header import CONFIG, MAX_BYTES, ArrayHeader
from attnlab.interpret._effects_header import EffectsHeader
from attnlab.interpret._records import (
    AnyText,
    AxisLength,
    FlowKind,
    HeadPattern,
    Highlight,
    InitialView,
    ItemList,
    LayerInfo,
    ModelInfo,
    NextTokens,
    NonEmptyList,
    NonNegativeInt,
    StrictBool,
)
from attnlab.interpret._walkthrough_header import ARRAYS as WALKTHROUGH_ARRAYS
from attnlab.interpret._walkthrough_header import WalkthroughHeader

FORMAT: Literal["attnlab-capture"] = "attnlab-capture"
VERSION = 1
MAX_VALUES = 2**29  # in all arrays: 2 GiB as floats
MAX_BLOCKS = 100_000
MAX_HIGHLIGHTS = 100

NUMBERS = ("f32", "sqrt8", "sqrt16", "signed8", "signed16", "linear16")
LAYER_ARRAYS = {
    "weights": "HTS", "sums": "HT", "norms": "HS", "q": "HTD", "k": "GSD", "v": "GSM",
    "bias": "BTS",
}  # fmt: skip
"""A letter for each axis; B is 1 or H."""


@dataclass(kw_only=True, config=CONFIG)
class BlockHeader:
    length: NonNegativeInt
    size: Annotated[int, Strict(), Field(ge=1, le=MAX_BYTES)]


@dataclass(kw_only=True, config=CONFIG)
class ImageHeader:
    width: AxisLength
    height: AxisLength
    rows: AxisLength
    columns: AxisLength
    first: NonNegativeInt
    pixels: ArrayHeader


@dataclass(kw_only=True, config=CONFIG)
class TokenHeader:
    text: AnyText
    word: Annotated[int, Strict(), Field(ge=-1)]
    special: StrictBool


@dataclass(kw_only=True, config=CONFIG)
class SequenceHeader:
    name: AnyText
    tokens: NonEmptyList[TokenHeader]
    segments: ItemList[NonNegativeInt] | None
    prompt: NonNegativeInt | None
    image: ImageHeader | None


@dataclass(kw_only=True, config=CONFIG)
class MaskHeader:
    causal: StrictBool
    allowed: ArrayHeader


@dataclass(kw_only=True, config=CONFIG)
class LayerHeader(LayerInfo):
    queries: NonNegativeInt
    keys: NonNegativeInt
    weights: ArrayHeader
    sums: ArrayHeader
    norms: ArrayHeader | None
    q: ArrayHeader | None
    k: ArrayHeader | None
    v: ArrayHeader | None
    bias: ArrayHeader | None
    mask: NonNegativeInt | None
    patterns: ItemList[HeadPattern]


@dataclass(kw_only=True, config=CONFIG)
class FlowHeader:
    rollout: ItemList[ArrayHeader] | None
    gradient: ItemList[ArrayHeader] | None
    target: AnyText
    reasons: dict[FlowKind, AnyText]
    layers: ItemList[NonNegativeInt]


@dataclass(kw_only=True, config=CONFIG)
class PanelHeader:
    label: AnyText
    model: ModelInfo
    sequences: NonEmptyList[SequenceHeader]
    masks: ItemList[MaskHeader]
    layers: NonEmptyList[LayerHeader]
    next: NextTokens | None
    flow: FlowHeader
    control: ItemList[ItemList[HeadPattern]] | None
    small: ArrayHeader
    effects: EffectsHeader | None = None
    """Missing in files of version 0.2 and earlier."""
    walkthrough: WalkthroughHeader | None = None
    """Missing in files of version 0.2 and earlier."""


@dataclass(kw_only=True, config=CONFIG)
class Header:
    format: Literal["attnlab-capture"] = FORMAT
    version: Annotated[int, Strict(), Field(ge=VERSION, le=VERSION)] = VERSION
    title: AnyText
    made: dict[AnyText, AnyText]
    notes: ItemList[AnyText]
    opening: InitialView | None = None
    """Missing in some files of version 0.1."""
    highlights: Annotated[ItemList[Highlight], Field(max_length=MAX_HIGHLIGHTS)] = field(
        default_factory=list
    )
    """Missing in files of version 0.2 and earlier."""
    blocks: Annotated[ItemList[BlockHeader], Field(max_length=MAX_BLOCKS)]
    panels: Annotated[NonEmptyList[PanelHeader], Field(max_length=2, alias="sides")]


HEADER = TypeAdapter(Header)


def as_json(header: Header) -> dict[str, Any]:
    fields: dict[str, Any] = HEADER.dump_python(header, mode="json", by_alias=True)
    return fields


class CheckedHeader:
    """A header whose parts fit together. `arrays` lists all of its arrays with their JSON paths."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.arrays: list[tuple[str, ArrayHeader]] = []
        total = sum(block.size for block in header.blocks)
        if total > MAX_BYTES:
            raise ValueError(f"blocks decompress to {total} bytes; at most {MAX_BYTES} are allowed")
        for number, panel in enumerate(header.panels):
            self._check_panel(f"sides[{number}]", panel)
        if header.opening is not None:
            _check_opening(header.opening, header.panels[0])
        for number, highlight in enumerate(header.highlights):
            _check_highlight(f"highlights[{number}]", highlight, header.panels[0])
        self._check_layout()

    def _check_layout(self) -> None:
        """Arrays must fill each block without gaps, so that no byte is used twice."""
        ends = [0] * len(self.header.blocks)
        for where, array in sorted(self.arrays, key=lambda item: (item[1].block, item[1].offset)):
            if array.offset != ends[array.block]:
                raise ValueError(
                    f"{where} is at {array.offset} of block {array.block}; it must be at "
                    f"{ends[array.block]}, where the array before it ends"
                )
            ends[array.block] = array.end
        for number, (end, block) in enumerate(zip(ends, self.header.blocks, strict=True)):
            if end != block.size:
                raise ValueError(f"block {number} has {block.size} bytes; its arrays need {end}")
        values = sum(math.prod(array.shape) for _, array in self.arrays)
        if values > MAX_VALUES:
            raise ValueError(f"the capture has {values} numbers; at most {MAX_VALUES} are allowed")

    def _check_array(
        self, where: str, array: ArrayHeader, axes: str, sizes: dict[str, int], codes: Sequence[str]
    ) -> None:
        """The array must have these axes. A letter new to `sizes` gets the array's length."""
        _check_length(f"{where}.shape", array.shape, len(axes))
        for letter, length in zip(axes, array.shape, strict=True):
            if sizes.setdefault(letter, length) != length:
                expected = ", ".join(str(sizes.get(axis, "any")) for axis in axes)
                raise ValueError(f"{where}.shape is {tuple(array.shape)}; it must be ({expected})")
        _check_index(f"{where}.block", array.block, self.header.blocks)
        if array.code not in codes:
            raise ValueError(f"{where}.code is {array.code!r}; it must be {' or '.join(codes)}")
        self.arrays.append((where, array))

    def _check_panel(self, where: str, panel: PanelHeader) -> None:
        for number, sequence in enumerate(panel.sequences):
            self._check_sequence(f"{where}.sequences[{number}]", sequence)
        for number, mask in enumerate(panel.masks):
            self._check_array(f"{where}.masks[{number}].allowed", mask.allowed, "TS", {}, ("bits",))
        for number, layer in enumerate(panel.layers):
            self._check_layer(f"{where}.layers[{number}]", layer, panel)
        if panel.next is not None:
            _check_index(f"{where}.next.sequence", panel.next.sequence, panel.sequences)
            length = len(panel.sequences[panel.next.sequence].tokens)
            _check_length(f"{where}.next.top", panel.next.top, length)
            _check_length(f"{where}.next.actual", panel.next.actual, length)
        self._check_flow(f"{where}.flow", panel.flow, panel.layers)
        if panel.control is not None:
            _check_length(f"{where}.control", panel.control, len(panel.layers))
            for number, (patterns, layer) in enumerate(
                zip(panel.control, panel.layers, strict=True)
            ):  # fmt: skip
                _check_patterns(f"{where}.control[{number}]", patterns, len(layer.heads))
        maps = sum(len(layer.heads) for layer in panel.layers)
        self._check_array(f"{where}.small", panel.small, "HNN", {"H": maps}, ("u8",))
        if panel.effects is not None:
            self._check_effects(f"{where}.effects", panel.effects, panel)
        if panel.walkthrough is not None:
            self._check_walkthrough(f"{where}.walkthrough", panel.walkthrough, panel)

    def _check_sequence(self, where: str, sequence: SequenceHeader) -> None:
        length = len(sequence.tokens)
        if sequence.segments is not None:
            _check_length(f"{where}.segments", sequence.segments, length)
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
        self._check_array(f"{where}.image.pixels", image.pixels, "hwc", sizes, ("u8",))

    def _check_layer(self, where: str, layer: LayerHeader, panel: PanelHeader) -> None:
        for name in ("queries", "keys"):
            _check_index(f"{where}.{name}", getattr(layer, name), panel.sequences)
        T, S = (len(panel.sequences[index].tokens) for index in (layer.queries, layer.keys))
        H = len(layer.heads)
        if layer.all_heads < H:
            raise ValueError(
                f"{where}.heads has {H} entries; the layer has {layer.all_heads} heads"
            )
        for number, head in enumerate(layer.heads):
            _check_index(f"{where}.heads[{number}]", head, range(layer.all_heads))
        if len(set(layer.heads)) < H:
            raise ValueError(f"{where}.heads lists a head twice")
        sizes = {"H": H, "T": T, "S": S}
        for name, axes in LAYER_ARRAYS.items():
            array = getattr(layer, name)
            if array is not None:
                self._check_array(f"{where}.{name}", array, axes, sizes, NUMBERS)
        if sizes.get("B", 1) not in (1, H):
            raise ValueError(f"{where}.bias has {sizes['B']} heads; it must have 1 or {H}")
        _check_length(f"{where}.groups", layer.groups, H if "G" in sizes else 0)
        for number, group in enumerate(layer.groups):
            _check_index(f"{where}.groups[{number}]", group, range(sizes["G"]))
        if layer.mask is not None:
            _check_index(f"{where}.mask", layer.mask, panel.masks)
            shape = tuple(panel.masks[layer.mask].allowed.shape)
            if shape != (T, S):
                raise ValueError(f"{where}.mask has shape {shape}; the layer needs {(T, S)}")
        _check_patterns(f"{where}.patterns", layer.patterns, H)

    def _check_effects(self, where: str, effects: EffectsHeader, panel: PanelHeader) -> None:
        P, targets = len(effects.targets), 1
        if (effects.sequence is None) != (effects.kind == "classes"):
            raise ValueError(f"{where}.sequence must be null for classes, and only for them")
        if effects.sequence is not None:
            _check_index(f"{where}.sequence", effects.sequence, panel.sequences)
            targets = len(panel.sequences[effects.sequence].tokens)
        _check_length(f"{where}.targets", effects.targets, targets)
        _check_index(f"{where}.measured", effects.measured, effects.targets)
        _check_length(f"{where}.heads", effects.heads, len(panel.layers))
        for number, (array, layer) in enumerate(zip(effects.heads, panel.layers, strict=True)):
            if array is not None:
                sizes = {"H": len(layer.heads), "P": P}
                self._check_array(f"{where}.heads[{number}]", array, "HP", sizes, NUMBERS)
        for number, point in enumerate(effects.keys.points if effects.keys else []):
            name = f"{where}.keys.points[{number}]"
            _check_index(f"{name}.sequence", point.sequence, panel.sequences)
            _check_index(f"{name}.position", point.position, panel.sequences[point.sequence].tokens)
        lens, patching = effects.lens, effects.patching
        if lens is not None:
            L = len(lens.layers)
            _check_length(f"{where}.lens.best", lens.best, L)
            _check_length(f"{where}.lens.top", lens.top, L)
            for number, row in enumerate(lens.best):
                _check_length(f"{where}.lens.best[{number}]", row, P)
                for word in row:
                    _check_index(f"{where}.lens.best[{number}]", word, lens.vocabulary)
            for name in ("best_probability", "target_probability"):
                sizes = {"L": L, "P": P}
                self._check_array(f"{where}.lens.{name}", getattr(lens, name), "LP", sizes, NUMBERS)
        if patching is not None:
            sizes = {"L": len(patching.layers), "T": len(patching.clean_tokens)}
            _check_length(
                f"{where}.patching.corrupted_tokens", patching.corrupted_tokens, sizes["T"]
            )
            self._check_array(f"{where}.patching.restored", patching.restored, "LT", sizes, NUMBERS)

    def _check_walkthrough(self, where: str, walk: WalkthroughHeader, panel: PanelHeader) -> None:
        _check_index(f"{where}.layer", walk.layer, panel.layers)
        layer = panel.layers[walk.layer]
        _check_index(f"{where}.head", walk.head, layer.heads)
        _check_index(f"{where}.query", walk.query, panel.sequences[layer.queries].tokens)
        if walk.blocks and walk.block >= walk.blocks:
            raise ValueError(f"{where}.block is {walk.block}; there are {walk.blocks} blocks")
        for number, head in enumerate(walk.key_heads):
            _check_index(f"{where}.key_heads[{number}]", head, layer.heads)
        H, S = len(layer.heads), len(panel.sequences[layer.keys].tokens)
        sizes = {"H": H, "S": S, "N": len(walk.key_heads), "P": len(walk.parts)}
        for name, axes in WALKTHROUGH_ARRAYS.items():
            array = getattr(walk, name)
            if array is not None:
                self._check_array(f"{where}.{name}", array, axes, sizes, NUMBERS)
        if sizes.get("B", 1) not in (1, H):
            raise ValueError(f"{where}.bias has {sizes['B']} heads; it must have 1 or {H}")
        if bool(walk.parts) != (walk.added is not None):
            raise ValueError(f"{where}.added must have a row for each of {len(walk.parts)} parts")

    def _check_flow(self, where: str, flow: FlowHeader, layers: list[LayerHeader]) -> None:
        for number, index in enumerate(flow.layers):
            _check_index(f"{where}.layers[{number}]", index, layers)
        for name in ("rollout", "gradient"):
            maps = getattr(flow, name)
            if maps is None:
                continue
            _check_length(f"{where}.{name}", maps, len(flow.layers))
            for number, (array, index) in enumerate(zip(maps, flow.layers, strict=True)):
                _, T, S = layers[index].weights.shape
                self._check_array(
                    f"{where}.{name}[{number}]", array, "TS", {"T": T, "S": S}, NUMBERS
                )


def _check_opening(opening: InitialView, panel: PanelHeader) -> None:
    _check_index("opening.layer", opening.layer, panel.layers)
    layer = panel.layers[opening.layer]
    if opening.head is not None:
        _check_index("opening.head", opening.head, layer.heads)
    if opening.query is not None:
        _check_index("opening.query", opening.query, panel.sequences[layer.queries].tokens)


def _check_highlight(where: str, highlight: Highlight, panel: PanelHeader) -> None:
    _check_index(f"{where}.layer", highlight.layer, panel.layers)
    layer = panel.layers[highlight.layer]
    _check_index(f"{where}.head", highlight.head, layer.heads)
    _check_index(f"{where}.query", highlight.query, panel.sequences[layer.queries].tokens)
    _check_index(f"{where}.key", highlight.key, panel.sequences[layer.keys].tokens)


def _check_length(where: str, entries: Sized, count: int) -> None:
    if len(entries) != count:
        raise ValueError(f"{where} has {len(entries)} entries; it must have {count}")


def _check_index(where: str, index: int, items: Sized) -> None:
    if not 0 <= index < len(items):
        expected = f"a whole number from 0 to {len(items) - 1}"
        raise ValueError(f"{where} is {format_value(index)}; it must be {expected}")


def _check_patterns(where: str, patterns: Sequence[HeadPattern], heads: int) -> None:
    _check_length(where, patterns, heads)
    for number, pattern in enumerate(patterns):
        if pattern.label not in {"", *pattern.scores}:
            raise ValueError(
                f"{where}[{number}].label is {format_value(pattern.label)}; it must be empty or "
                "one of the names of the scores"
            )


PYDANTIC_PHRASES = {
    "^(Input|List) should": "it should",
    r"a dictionary or an instance of \w+": "an object",
    "an instance of str": "text",
    " after validation, not .*": "",
}
"""Phrases of pydantic's messages, and what replaces them."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn a ValidationError into a ValueError with its first problem and its JSON path."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        *parents, last = first["loc"] or ("",)
        inside = _json_path(parents) or "the header"
        if first["type"] == "missing" and isinstance(last, str):
            raise ValueError(f"{inside} has no {format_value(last)}") from None
        if first["type"] == "unexpected_keyword_argument":
            message = f"{inside} has an unknown field {format_value(last)}"
            raise ValueError(message) from None
        where, problem = _json_path(first["loc"]) or "the header", first["msg"]
        for phrase, replacement in PYDANTIC_PHRASES.items():
            problem = re.sub(phrase, replacement, problem)
        raise ValueError(f"{where} is {format_value(first['input'])}; {problem}") from None


def _json_path(loc: Sequence[str | int]) -> str:
    path = ""
    for step in loc:
        if step == "[key]":  # the name before it is the one that is wrong
            continue
        simple = re.fullmatch(r"\w{1,40}", str(step), re.ASCII)
        path += (
            f"[{step}]" if isinstance(step, int) else f".{step if simple else format_value(step)}"
        )
    return path.lstrip(".")


def format_value(value: Any) -> str:
    """Any value as one short line of ASCII."""
    if isinstance(value, Mapping | list):
        return f"a list of {len(value)}" if isinstance(value, list) else "an object"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        return "a huge number"  # formatting its digits would take long
    line = ascii(value[:60] if isinstance(value, str) else value)
    return line if len(line) <= 60 else f"{line[:57]}..."
