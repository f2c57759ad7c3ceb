"""From a capture to the header and the compressed blocks of its file, or of its page.

Letters: H heads that were kept, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence as Sequenced
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.interpret._capture_header import (
    MOST_VALUES,
    Array,
    BlockHeader,
    CheckedHeader,
    FlowHeader,
    Header,
    ImageHeader,
    LayerHeader,
    MaskHeader,
    SequenceHeader,
    SideHeader,
    TokenHeader,
    as_json,
    one_line_errors,
)
from attnlab.interpret._number_codes import Code, encode, error_of
from attnlab.interpret._records import (
    Capture,
    Flow,
    Layer,
    NextTokens,
    Pattern,
    Picture,
    Sequence,
    Side,
    facts_of,
    plain,
)

FEW_WEIGHTS = 300_000  # up to here a weight has 16 bits
SMALL = 32  # rows and columns of a small map
STEPS = 31  # of the values of a small map: an eye sees no more
# In 8 bits a page of 128 tokens must stay below 1.5 MB, one of 512 below 15. So the float of a row
# of S weights is at least this / S of its sum: even weights are then exact to 8 % of themselves.
# And of the codes of q, k, v and bias only each eighth is used, which is still more exact.
FLAT, STEP = 384, 8
# Of 19 million weights of a real model this leaves 0.482 bytes each in 1.8 s; level 9 0.477 in 4.4,
# level 4 0.489 in 0.8; with zlib's own strategy level 6 leaves 0.512, level 1 0.550.
LEVEL, STRATEGY = 6, zlib.Z_FILTERED

Packed = tuple[dict[str, Any], list[bytes]]


def pack(capture: Capture, *, bits: int | None = None) -> Packed:
    """The header and its blocks; `bits` of a weight are 8 or 16, by default as many as fit."""
    if bits not in (None, 8, 16):
        raise ValueError(f"bits is {bits!r}; give 8 or 16, or None to have it chosen")
    count = _count(capture)
    with one_line_errors():
        return _Packing(bits or (16 if count <= FEW_WEIGHTS else 8)).pack(capture)


class Blocks:
    """What was added between two times that it was closed is a block; `bits` of a weight."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.blocks: list[bytes] = []
        self.headers: list[BlockHeader] = []
        self.parts: list[bytes] = []
        self.offset = 0

    def maybe(self, x: Tensor | None, what: str, step: int = 1) -> Array | None:
        """A mechanism that ignores its queries or keys gets them with width 0: nothing to keep."""
        return None if x is None or x.numel() == 0 else self.array(x, "linear16", what, step=step)

    def array(
        self, x: Tensor, code: Code, what: str, *, flat: bool = False, step: int = 1
    ) -> Array:
        share = min(1.0, FLAT / x.shape[-1]) if flat and self.bits == 8 else 0.0
        try:
            data = encode(numbers(x), code, flat=share, step=step)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None
        found = Array(
            block=len(self.blocks),
            offset=self.offset,
            shape=list(x.shape),
            code=code,
            error=error_of(code, step),
        )
        self.parts.append(data)
        self.offset += len(data)
        return found

    def close(self) -> None:
        """What was added since the last time is a block."""
        if not self.parts:
            return
        press = zlib.compressobj(LEVEL, strategy=STRATEGY)
        pressed = [press.compress(part) for part in self.parts]
        self.blocks.append(b"".join([*pressed, press.flush()]))
        self.headers.append(BlockHeader(length=len(self.blocks[-1]), size=self.offset))
        self.parts, self.offset = [], 0


class _Packing(Blocks):
    """A capture's header, while its arrays go into the blocks."""

    def pack(self, capture: Capture) -> Packed:
        sides = [self.side(side) for side in capture.sides]
        header = Header(
            title=capture.title,
            made=capture.made,
            notes=capture.notes,
            opening=capture.opening,
            blocks=self.headers,
            sides=sides,
        )
        CheckedHeader(header)  # what is saved can be read
        return as_json(header), self.blocks

    def side(self, side: Side) -> SideHeader:
        _check_side(side)
        masks, places = _masks(side.layers)
        layers = [self.layer(side, number, mask) for number, mask in enumerate(places)]
        sequences = [self.sequence(each) for each in side.sequences]
        mask_headers = [
            MaskHeader(causal=causal, allowed=self.array(allowed, "bits", "mask"))
            for causal, allowed in masks
        ]
        self.close()
        return SideHeader(
            label=side.label,
            model=side.model,
            sequences=sequences,
            masks=mask_headers,
            layers=layers,
            next=None if side.next is None else _rounded(side.next),
            flow=self.flow(side.flow),
            control=None if side.control is None else list(map(_patterns, side.control)),
            small=self.small(side.layers),
        )

    def layer(self, side: Side, number: int, mask: int | None) -> LayerHeader:
        layer, (queries, keys) = side.layers[number], side.places[number]
        weights = layer.weights
        assert weights is not None  # _check_side has seen it
        signed = layer.signed or bool((weights < 0).any())
        codes: dict[int, tuple[Code, Code]] = {
            8: ("sqrt8", "signed8"), 16: ("sqrt16", "signed16"),
        }  # fmt: skip
        sums = weights.sum(-1, dtype=torch.float64).float()
        arrays: dict[str, Any] = {
            "weights": self.array(
                weights, codes[self.bits][signed], f"{layer.name}: weights", flat=not signed
            ),
            "sums": self.array(sums, "linear16" if layer.normalised else "f32", layer.name),
            "norms": self.maybe(layer.norms, f"{layer.name}: norms"),
        }
        self.close()
        for name in ("q", "k", "v", "bias"):
            step = STEP if self.bits == 8 else 1
            arrays[name] = self.maybe(getattr(layer, name), f"{layer.name}: {name}", step)
        self.close()
        facts = facts_of(layer)
        facts["groups"] = _groups(layer) if arrays["k"] or arrays["v"] else []
        patterns = side.patterns[number] if side.patterns else [Pattern("", {})] * len(layer.heads)
        return LayerHeader(
            **facts, **arrays, queries=queries, keys=keys, mask=mask, patterns=_patterns(patterns)
        )  # fmt: skip

    def sequence(self, sequence: Sequence) -> SequenceHeader:
        tokens = zip(sequence.texts, sequence.words, sequence.special, strict=True)
        return SequenceHeader(
            name=sequence.name,
            tokens=[TokenHeader(text=text, word=word, special=flag) for text, word, flag in tokens],
            segments=sequence.segments,
            prompt=sequence.prompt,
            image=None if sequence.picture is None else self.picture(sequence.picture),
        )

    def picture(self, picture: Picture) -> ImageHeader:
        height, width, _ = picture.pixels.shape
        pixels = self.array(picture.pixels, "u8", "the picture")
        self.close()
        return ImageHeader(
            width=width,
            height=height,
            rows=picture.rows,
            columns=picture.columns,
            first=picture.first,
            pixels=pixels,
        )

    def flow(self, flow: Flow) -> FlowHeader:
        return FlowHeader(
            rollout=self.maps(flow.rollout, "rollout"),
            gradient=self.maps(flow.gradient, "gradient"),
            target=flow.target,
            reasons=flow.reasons,
            layers=flow.layers,
        )

    def maps(self, maps: list[Tensor] | None, what: str) -> list[Array] | None:
        found = []
        for each in maps or []:
            found.append(self.array(each, "sqrt8" if self.bits == 8 else "sqrt16", what, flat=True))
            self.close()
        return None if maps is None else found

    def small(self, layers: list[Layer]) -> Array:
        weights = [layer.weights for layer in layers if layer.weights is not None]
        size = min(SMALL, max(max(each.shape[1:]) for each in weights))
        maps = np.concatenate([small_map(each, size) for each in weights])
        found = self.array(torch.from_numpy(maps), "u8", "small")
        self.close()
        return found


def _count(capture: Capture) -> int:
    """Of all weights; and no more numbers than a reader accepts, before any work is done."""
    layers = [layer for side in capture.sides for layer in side.layers]
    flows = [side.flow for side in capture.sides]
    weights = [layer.weights for layer in layers if layer.weights is not None]
    maps = [each for flow in flows for each in (*(flow.rollout or []), *(flow.gradient or []))]
    parts = [getattr(layer, name) for layer in layers for name in ("q", "k", "v", "bias", "norms")]
    count = sum(each.numel() for each in weights)
    sums = sum(each.shape[:-1].numel() for each in weights)
    others = sum(each.numel() for each in (*maps, *parts) if each is not None)
    if count + sums + others > MOST_VALUES:
        raise ValueError(
            f"the capture has {count + sums + others} numbers; {MOST_VALUES} is the most: "
            "choose fewer layers, heads or tokens"
        )
    return count


def _masks(layers: Sequenced[Layer]) -> tuple[list[tuple[bool, Tensor]], list[int | None]]:
    """Each mask once, and for each layer which one it has."""
    masks: dict[tuple[bool, tuple[int, ...], bytes], int] = {}
    found: list[tuple[bool, Tensor]] = []
    places: list[int | None] = []
    for layer in layers:
        if layer.allowed is None:
            lone = layer.weights is not None and layer.weights.shape[1:] == (1, 1)
            if layer.causal and not lone:
                raise ValueError(f"{layer.name}: is causal, but `allowed` does not say where")
            places.append(None)
            continue
        allowed = layer.allowed.bool()
        key = layer.causal, tuple(allowed.shape), encode(numbers(allowed), "bits")
        if key not in masks:
            masks[key] = len(found)
            found.append((layer.causal, allowed))
        places.append(masks[key])
    return found, places


def _groups(layer: Layer) -> list[int]:
    if layer.groups:
        return list(layer.groups)
    k = layer.k if layer.k is not None else layer.v
    assert k is not None
    if len(layer.heads) != layer.all_heads or layer.all_heads % len(k):
        raise ValueError(f"{layer.name}: `groups` does not say which key head each head reads")
    return [head * len(k) // layer.all_heads for head in layer.heads]


def _patterns(patterns: Sequenced[Pattern]) -> list[Pattern]:
    return [
        Pattern(each.label, {name: round(float(x), 4) for name, x in each.scores.items()})
        for each in patterns
    ]


def _rounded(tokens: NextTokens) -> NextTokens:
    return replace(
        tokens,
        top=[[(word, _probability(value)) for word, value in each] for each in tokens.top],
        actual=[None if each is None else _probability(each) for each in tokens.actual],
    )


def _probability(value: float) -> float:
    """Four digits that count, and no 1.0000001."""
    return min(1.0, float(f"{value:.4g}")) if math.isfinite(value) else value


def _check_side(side: Side) -> None:
    """What the header cannot tell, because it is made of the arrays that are there."""
    if len(side.layers) != len(side.places):
        raise ValueError(f"{len(side.layers)} layers, but {len(side.places)} places for them")
    if not side.layers:
        raise ValueError(f"{side.label}: no layer was captured, so there is nothing to save")
    if side.patterns and len(side.patterns) != len(side.layers):
        raise ValueError(f"{len(side.layers)} layers, but patterns of {len(side.patterns)}")
    for sequence in side.sequences:
        if not len(sequence.texts) == len(sequence.words) == len(sequence.special):
            raise ValueError(f"sequence {sequence.name}: texts, words and special differ in length")
    for layer in side.layers:
        if layer.weights is None:
            raise ValueError(f"{layer.name}: has no weights; capture them to save it")
        if layer.start:
            raise ValueError(
                f"{layer.name}: was captured from query {layer.start} on; a file holds all of them"
            )
        if layer.weights.dim() != 3 or layer.weights.numel() == 0:
            shape = tuple(layer.weights.shape)
            raise ValueError(f"{layer.name}: weights have shape {shape}; (H, T, S) is needed")


def small_map(weights: Tensor, size: int) -> NDArray[np.uint8]:
    """(H, T, S) to (H, size, size): the largest of each cell, as the square root of its share."""
    x = np.abs(numbers(weights))
    for axis in (1, 2):
        length = x.shape[axis]
        x = np.maximum.reduceat(x, np.arange(size) * length // size, axis)
    most = x.max((1, 2), keepdims=True)
    share = np.divide(x, np.where(most > 0, most, 1))
    steps = np.rint(np.sqrt(share) * np.float32(STEPS))
    return np.rint(steps * np.float32(255 / STEPS)).astype(np.uint8)


def numbers(x: Tensor) -> NDArray[Any]:
    whole = x.dtype in (torch.bool, torch.uint8)
    return (x.detach().cpu() if whole else plain(x)).contiguous().numpy()
