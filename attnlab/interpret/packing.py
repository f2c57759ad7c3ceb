"""From a capture to the header and the compressed blocks of its file, or of its page.

Letters: H heads that were kept, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Sequenced
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.interpret.arrays import encode
from attnlab.interpret.blocks import STEP, Blocks, numbers, small_map
from attnlab.interpret.header import FORMAT, MOST_VALUES, VERSION, HeaderCheck
from attnlab.interpret.records import Capture, Flow, Layer, Pattern, Picture, Sequence, Side

FEW_WEIGHTS = 300_000  # up to here a weight has 16 bits
SMALL = 32  # rows and columns of a small map

Packed = tuple[dict[str, Any], list[bytes]]


def pack(capture: Capture, *, bits: int | None = None) -> Packed:
    """The header and its blocks; `bits` of a weight are 8 or 16, by default as many as fit."""
    if bits not in (None, 8, 16):
        raise ValueError(f"bits is {bits!r}; give 8 or 16, or None to have it chosen")
    count = _count(capture)
    return _Packing(bits or (16 if count <= FEW_WEIGHTS else 8)).pack(capture)


class _Packing(Blocks):
    """A capture's header, while its arrays go into the blocks."""

    def pack(self, capture: Capture) -> Packed:
        sides = [self.side(side) for side in capture.sides]
        header: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "title": capture.title,
            "made": dict(capture.made),
            "notes": list(capture.notes),
            "opening": None if capture.opening is None else asdict(capture.opening),
            "blocks": [
                {"length": len(block), "size": size}
                for block, size in zip(self.blocks, self.sizes, strict=True)
            ],
            "sides": sides,
        }
        HeaderCheck(header)  # what is saved can be read
        return header, self.blocks

    def side(self, side: Side) -> dict[str, Any]:
        _check_side(side)
        masks, places = _masks(side.layers)
        patterns = side.patterns or [[Pattern("", {})] * len(each.heads) for each in side.layers]
        layers = [
            self.layer(layer, place, mask, found)
            for layer, place, mask, found in zip(
                side.layers, side.places, places, patterns, strict=True
            )
        ]
        found: dict[str, Any] = {
            "label": side.label,
            "model": dict(side.model),
            "sequences": [self.sequence(each) for each in side.sequences],
            "masks": [
                {"causal": causal, "allowed": self.array(allowed, "bits", "mask")}
                for causal, allowed in masks
            ],
            "layers": layers,
            "next": _next(side),
            "control": None,
        }
        self.close()
        found["flow"] = self.flow(side.flow)
        if side.control is not None:
            found["control"] = [[_pattern(each) for each in layer] for layer in side.control]
        found["small"] = self.small(side.layers)
        return found

    def layer(
        self, layer: Layer, place: tuple[int, int], mask: int | None, patterns: list[Pattern]
    ) -> dict[str, Any]:
        weights = layer.weights
        assert weights is not None  # _check_side has seen it
        root = "signed" if layer.signed or bool((weights < 0).any()) else "sqrt"
        sums = weights.sum(-1, dtype=torch.float64).float()
        arrays: dict[str, dict[str, Any] | None] = {
            "weights": self.array(
                weights,
                f"{root}{self.bits}",
                f"{layer.name}: weights",
                flat=root == "sqrt",
            ),
            "sums": self.array(sums, "linear16" if layer.normalised else "f32", layer.name),
            "norms": self.maybe(layer.norms, f"{layer.name}: norms"),
        }
        self.close()
        for name in ("q", "k", "v", "bias"):
            step = STEP if self.bits == 8 else 1
            arrays[name] = self.maybe(getattr(layer, name), f"{layer.name}: {name}", step)
        self.close()
        return {
            "name": layer.name,
            "stack": layer.stack,
            "kind": layer.kind,
            "queries": place[0],
            "keys": place[1],
            "heads": list(layer.heads),
            "all_heads": layer.all_heads,
            "mechanism": layer.mechanism,
            "signed": layer.signed,
            "normalised": layer.normalised,
            "scale": layer.scale,
            "difference": layer.difference,
            "excess": layer.excess,
            "note": layer.note,
            **arrays,
            "groups": _groups(layer) if arrays["k"] or arrays["v"] else [],
            "mask": mask,
            "patterns": [_pattern(each) for each in patterns],
        }

    def sequence(self, sequence: Sequence) -> dict[str, Any]:
        tokens = zip(sequence.texts, sequence.words, sequence.special, strict=True)
        return {
            "name": sequence.name,
            "tokens": [
                {"text": text, "word": word, "special": special} for text, word, special in tokens
            ],
            "segments": sequence.segments,
            "prompt": sequence.prompt,
            "image": None if sequence.picture is None else self.picture(sequence.picture),
        }

    def picture(self, picture: Picture) -> dict[str, Any]:
        height, width, _ = picture.pixels.shape
        pixels = self.array(picture.pixels, "u8", "the picture")
        self.close()
        return {
            "width": width,
            "height": height,
            "rows": picture.rows,
            "columns": picture.columns,
            "first": picture.first,
            "pixels": pixels,
        }

    def flow(self, flow: Flow) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, maps in (("rollout", flow.rollout), ("gradient", flow.gradient)):
            found[name] = None if maps is None else []
            for each in maps or []:
                found[name].append(self.array(each, f"sqrt{self.bits}", name, flat=True))
                self.close()
        return {
            **found,
            "target": flow.target,
            "reasons": dict(flow.reasons),
            "layers": list(flow.layers),
        }

    def small(self, layers: list[Layer]) -> dict[str, Any]:
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


def _pattern(pattern: Pattern) -> dict[str, Any]:
    scores = {name: round(float(score), 4) for name, score in pattern.scores.items()}
    return {"label": pattern.label, "scores": scores}


def _next(side: Side) -> dict[str, Any] | None:
    if side.next is None:
        return None
    return {
        "sequence": side.next.sequence,
        "top": [
            [[word, _probability(value)] for word, value in each] for each in side.next.top
        ],
        "actual": [None if each is None else _probability(each) for each in side.next.actual],
    }  # fmt: skip


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
