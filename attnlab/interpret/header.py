"""What a capture's header must hold, checked before anything relies on it.

Letters: H heads that were kept, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from attnlab.interpret.arrays import byte_count
from attnlab.interpret.fields import Field

FORMAT = "attnlab-capture"
VERSION = 1
MOST_OPENED = 2**30  # bytes of all blocks together
MOST_VALUES = 2**29  # numbers in all arrays together: 2 GiB as floats
MOST_BLOCKS = 100_000
LONGEST_AXIS = 2**24

KINDS = ("encoder", "decoder", "encoder-decoder", "vision")
SOURCES = ("attnlab", "huggingface")
VIEWS = (
    "heads", "matrix", "model", "neurons", "compare", "generation", "cross", "flow", "image",
    "mask",
)  # fmt: skip
_NUMBERS = ("f32", "sqrt8", "sqrt16", "signed8", "signed16", "linear16")


@dataclass(frozen=True)
class Stored:
    """An array of the file."""

    where: str
    block: int
    offset: int
    shape: tuple[int, ...]
    code: str

    @property
    def end(self) -> int:
        return self.offset + byte_count(self.shape, self.code)


class HeaderCheck:
    """Goes through a header once; `arrays` and `blocks` are what it found."""

    def __init__(self, header: Any) -> None:
        self.arrays: list[Stored] = []
        self.blocks: list[tuple[int, int]] = []
        """Of each block its length in the file and its size when opened."""
        top = Field(header, "")
        if not isinstance(header, dict):
            raise ValueError("the header is no object")
        if header.get("format") != FORMAT:
            raise ValueError("the header is not of a capture")
        if header.get("version") != VERSION:
            raise Field(header.get("version"), "version").wrong(f"version {VERSION}")
        _, version, title, made, notes, blocks, sides, opening = top.fields(
            "format", "version", "title", "made", "notes", "blocks", "sides", newer=("opening",)
        )
        version.whole()
        title.text()
        for each in made.entries().values():
            each.text()
        for each in notes.items():
            each.text()
        self._blocks(blocks)
        layers = [self._side(side) for side in sides.items(least=1, most=2)]
        opening.maybe(lambda field: _opening(field, layers[0]))
        self._layout()

    def _blocks(self, field: Field) -> None:
        for each in field.items(most=MOST_BLOCKS):
            length, size = each.fields("length", "size")
            self.blocks.append((length.whole(), size.whole(1, MOST_OPENED)))
        total = sum(size for _, size in self.blocks)
        if total > MOST_OPENED:
            raise ValueError(f"blocks open to {total} bytes; {MOST_OPENED} is the most")

    def _layout(self) -> None:
        """The arrays of each block follow each other and fill it; so none is used twice."""
        ends = [0] * len(self.blocks)
        for each in sorted(self.arrays, key=lambda each: (each.block, each.offset)):
            if each.offset != ends[each.block]:
                raise ValueError(
                    f"{each.where} is at {each.offset} of block {each.block}; it would have to be "
                    f"at {ends[each.block]}, where the array before it ends"
                )
            ends[each.block] = each.end
        for number, (end, (_, size)) in enumerate(zip(ends, self.blocks, strict=True)):
            if end != size:
                raise ValueError(f"block {number} opens to {size} bytes; its arrays need {end}")
        values = sum(math.prod(each.shape) for each in self.arrays)
        if values > MOST_VALUES:
            raise ValueError(f"the capture has {values} numbers; {MOST_VALUES} is the most")

    def _array(
        self, field: Field, shape: tuple[int | None, ...], codes: tuple[str, ...] = _NUMBERS
    ) -> tuple[int, ...]:
        """Of this shape, where None is any length."""
        block, offset, axes, code, error = field.fields("block", "offset", "shape", "code", "error")
        found = tuple(each.whole(1, LONGEST_AXIS) for each in axes.exactly(len(shape)))
        if any(want is not None and want != have for want, have in zip(shape, found, strict=True)):
            wanted = ", ".join("any" if each is None else str(each) for each in shape)
            raise ValueError(f"{axes.where} is {found}; ({wanted}) is needed")
        error.number(0, 1)
        self.arrays.append(
            Stored(
                field.where,
                block.whole(0, len(self.blocks) - 1),
                offset.whole(0, MOST_OPENED),
                found,
                code.one_of(*codes),
            )
        )
        return found

    def _side(self, field: Field) -> int:
        """How many layers it has."""
        label, model, sequences, masks, layers, following, flow, control, small = field.fields(
            "label", "model", "sequences", "masks", "layers", "next", "flow", "control", "small"
        )
        label.text()
        name, kind, source, parameters = model.fields("name", "kind", "source", "parameters")
        name.text()
        kind.one_of(*KINDS)
        source.one_of(*SOURCES)
        parameters.whole()
        lengths = [self._sequence(each) for each in sequences.items(least=1)]
        mask_shapes = [self._mask(each) for each in masks.items()]
        shapes = [self._layer(each, lengths, mask_shapes) for each in layers.items(least=1)]
        following.maybe(lambda field: _next(field, lengths))
        self._flow(flow, shapes)
        control.maybe(lambda field: _control(field, shapes))
        _, rows, columns = self._array(
            small, (sum(H for H, _, _ in shapes), None, None), codes=("u8",)
        )
        if rows != columns:
            raise ValueError(f"{small.where}.shape is {rows} x {columns}; a square is needed")
        return len(shapes)

    def _sequence(self, field: Field) -> int:
        name, tokens, segments, prompt, image = field.fields(
            "name", "tokens", "segments", "prompt", "image"
        )
        name.text()
        length = len(tokens.items(least=1))
        for token in tokens.items():
            text, word, special = token.fields("text", "word", "special")
            text.text()
            word.whole(-1)
            special.flag()
        if segments.value is not None:
            for each in segments.exactly(length):
                each.whole()
        prompt.maybe(lambda field: field.whole(0, length))
        image.maybe(lambda field: self._picture(field, length))
        return length

    def _picture(self, field: Field, length: int) -> None:
        width, height, rows, columns, first, pixels = field.fields(
            "width", "height", "rows", "columns", "first", "pixels"
        )
        patches = rows.whole(1, LONGEST_AXIS) * columns.whole(1, LONGEST_AXIS)
        if first.whole(0, length) + patches > length:
            raise ValueError(
                f"{field.where} has {patches} patches from token {first.value} on; "
                f"there are {length} tokens"
            )
        size = height.whole(1, LONGEST_AXIS), width.whole(1, LONGEST_AXIS), 3
        self._array(pixels, size, codes=("u8",))

    def _mask(self, field: Field) -> tuple[int, ...]:
        causal, allowed = field.fields("causal", "allowed")
        causal.flag()
        return self._array(allowed, (None, None), codes=("bits",))

    def _layer(
        self, field: Field, lengths: list[int], masks: list[tuple[int, ...]]
    ) -> tuple[int, int, int]:
        names = (
            "name", "stack", "kind", "queries", "keys", "heads", "all_heads", "mechanism", "signed",
            "normalised", "scale", "difference", "note", "weights", "sums", "norms", "q", "k", "v",
            "groups", "bias", "mask", "patterns",
        )  # fmt: skip
        newer = ("excess",)
        found = field.fields(*names, newer=newer)
        part = dict(zip((*names, *newer), found, strict=True))
        for name in ("name", "mechanism", "note"):
            part[name].text()
        part["stack"].one_of("encoder", "decoder")
        part["kind"].one_of("self", "cross")
        T, S = (lengths[part[name].whole(0, len(lengths) - 1)] for name in ("queries", "keys"))
        all_heads = part["all_heads"].whole(1, LONGEST_AXIS)
        heads = [
            each.whole(0, all_heads - 1)
            for each in part["heads"].items(least=1, most=all_heads)
        ]  # fmt: skip
        if len(set(heads)) < len(heads):
            raise ValueError(f"{part['heads'].where} names a head twice")
        H = len(heads)
        part["signed"].flag()
        part["normalised"].flag()
        part["scale"].maybe(Field.number)
        for name in ("difference", "excess"):
            part[name].maybe(lambda field: field.number(0, math.inf))
        self._array(part["weights"], (H, T, S))
        self._array(part["sums"], (H, T))
        self._parts(part, H, T, S)
        mask = part["mask"].maybe(lambda field: field.whole(0, len(masks) - 1))
        if mask is not None and masks[mask] != (T, S):
            raise ValueError(
                f"{part['mask'].where} is of shape {masks[mask]}; the layer needs {(T, S)}"
            )
        _patterns(part["patterns"], H)
        return H, T, S

    def _parts(self, part: dict[str, Field], H: int, T: int, S: int) -> None:
        """What a layer may have beside its weights."""
        wanted: dict[str, tuple[int | None, ...]] = {
            "norms": (H, S), "q": (H, T, None), "k": (None, S, None), "v": (None, S, None),
            "bias": (None, T, S),
        }  # fmt: skip
        found = {
            name: self._array(part[name], shape)
            for name, shape in wanted.items()
            if part[name].value is not None
        }
        if "bias" in found and found["bias"][0] not in (1, H):
            raise ValueError(f"{part['bias'].where} has {found['bias'][0]} heads; 1 or {H} fit")
        if "q" in found and "k" in found and found["q"][2] != found["k"][2]:
            raise ValueError(f"{part['k'].where} is {found['k'][2]} wide, q {found['q'][2]}")
        groups = [found[name][0] for name in ("k", "v") if name in found]
        if len(set(groups)) > 1:
            raise ValueError(f"{part['v'].where} has {groups[1]} heads, k {groups[0]}")
        for each in part["groups"].exactly(H if groups else 0):
            each.whole(0, groups[0] - 1)

    def _flow(self, field: Field, shapes: list[tuple[int, int, int]]) -> None:
        rollout, gradient, target, reasons, layers = field.fields(
            "rollout", "gradient", "target", "reasons", "layers"
        )
        target.text()
        for name, each in reasons.entries().items():
            if name not in ("rollout", "gradient"):
                raise ValueError(f"{reasons.where} can name rollout and gradient alone")
            each.text()
        places = [each.whole(0, len(shapes) - 1) for each in layers.items(most=len(shapes))]
        for maps in (rollout, gradient):
            if maps.value is not None:
                for each, place in zip(maps.exactly(len(places)), places, strict=True):
                    self._array(each, shapes[place][1:])


def _opening(field: Field, layers: int) -> None:
    view, layer = field.fields("view", "layer")
    view.one_of(*VIEWS)
    layer.whole(0, layers - 1)


def _patterns(field: Field, heads: int) -> None:
    for each in field.exactly(heads):
        label, scores = each.fields("label", "scores")
        known = scores.entries()
        for score in known.values():
            score.number(0, 1)
        if label.text() not in {"", *known}:
            raise label.wrong("one of the scores' names, or nothing")


def _control(field: Field, shapes: list[tuple[int, int, int]]) -> None:
    for each, (H, _, _) in zip(field.exactly(len(shapes)), shapes, strict=True):
        _patterns(each, H)


def _next(field: Field, lengths: list[int]) -> None:
    sequence, top, actual = field.fields("sequence", "top", "actual")
    length = lengths[sequence.whole(0, len(lengths) - 1)]
    for each in top.exactly(length):
        for pair in each.items():
            word, probability = pair.exactly(2)
            word.text()
            probability.number(0, 1)
    for each in actual.exactly(length):
        each.maybe(lambda field: field.number(0, 1))
