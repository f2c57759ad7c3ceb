"""Packs a capture into the header and the compressed blocks of a file or a page.

Letters: H captured heads, G key heads, T queries, S keys, D head size, M value size.
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

from attnlab.interpret._array_header import ArrayHeader
from attnlab.interpret._capture_header import (
    MAX_VALUES,
    BlockHeader,
    CheckedHeader,
    FlowHeader,
    Header,
    ImageHeader,
    LayerHeader,
    MaskHeader,
    PanelHeader,
    SequenceHeader,
    TokenHeader,
    as_json,
    one_line_errors,
)
from attnlab.interpret._effects_header import effects_header
from attnlab.interpret._number_codes import Code, encode, error_bound
from attnlab.interpret._records import (
    Capture,
    CapturePanel,
    Flow,
    HeadPattern,
    Layer,
    NextTokens,
    PatchedImage,
    Sequence,
    layer_fields,
    to_cpu_float32,
)
from attnlab.interpret._walkthrough_header import walkthrough_header

FEW_WEIGHTS = 300_000  # up to this number a weight gets 16 bits
THUMBNAIL_SIZE = 32  # rows and columns
THUMBNAIL_LEVELS = 31  # more shades would not be visible
# With 8 bits a page of 128 tokens must stay below 1.5 MB, one of 512 below 15. So the scale of a
# row of S weights is at least MIN_SCALE / S of its sum: uniform weights are then exact to 8 %. And
# q, k, v and bias use only every eighth code, which is still more exact than that.
MIN_SCALE, CODE_STEP = 384, 8
# Measured on 19 million weights of a real model: level 6 needs 0.482 bytes per weight in 1.8 s,
# level 9 0.477 in 4.4 s, level 4 0.489 in 0.8 s. zlib's default strategy needs 0.512 at level 6.
LEVEL, STRATEGY = 6, zlib.Z_FILTERED

Packed = tuple[dict[str, Any], list[bytes]]


def pack(capture: Capture, *, bits: int | None = None) -> Packed:
    """The header and its blocks. `bits` per weight are 8 or 16; None chooses by size."""
    if bits not in (None, 8, 16):
        raise ValueError(f"bits is {bits!r}; give 8, 16 or None")
    count = _count_weights(capture)
    with one_line_errors():
        return _CapturePacker(bits or (16 if count <= FEW_WEIGHTS else 8)).pack(capture)


class BlockWriter:
    """Collects encoded arrays; `close` compresses those since the last `close` into a block."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.blocks: list[bytes] = []
        self.headers: list[BlockHeader] = []
        self.parts: list[bytes] = []
        self.offset = 0

    def optional_array(self, x: Tensor | None, what: str, step: int = 1) -> ArrayHeader | None:
        """None for an empty tensor too: a mechanism that ignores its queries gets them empty."""
        return None if x is None or x.numel() == 0 else self.array(x, "linear16", what, step=step)

    def array(
        self, x: Tensor, code: Code, what: str, *, limit_scale: bool = False, step: int = 1
    ) -> ArrayHeader:
        limited = limit_scale and self.bits == 8
        min_scale = min(1.0, MIN_SCALE / x.shape[-1]) if limited else 0.0
        try:
            data = encode(to_numpy(x), code, min_scale=min_scale, step=step)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None
        header = ArrayHeader(
            block=len(self.blocks),
            offset=self.offset,
            shape=list(x.shape),
            code=code,
            error=error_bound(code, step),
        )
        self.parts.append(data)
        self.offset += len(data)
        return header

    def close(self) -> None:
        """Compress the arrays since the last call into a block."""
        if not self.parts:
            return
        compressor = zlib.compressobj(LEVEL, strategy=STRATEGY)
        compressed = [compressor.compress(part) for part in self.parts]
        self.blocks.append(b"".join([*compressed, compressor.flush()]))
        self.headers.append(BlockHeader(length=len(self.blocks[-1]), size=self.offset))
        self.parts, self.offset = [], 0


class _CapturePacker(BlockWriter):
    """Builds a capture's header while its arrays go into the blocks."""

    def pack(self, capture: Capture) -> Packed:
        fields: dict[str, Any] = {
            "title": capture.title,
            "sides": [self.panel(panel) for panel in capture.panels],
            "made": capture.versions,
            "notes": capture.notes,
            "opening": capture.initial_view,
            "highlights": capture.highlights,
            "blocks": self.headers,
        }
        header = Header(**fields)
        CheckedHeader(header)  # so that whatever is saved can be read
        return as_json(header), self.blocks

    def panel(self, panel: CapturePanel) -> PanelHeader:
        _check_panel(panel)
        masks, mask_indices = _unique_masks(panel.layers)
        layers = [self.layer(panel, number, mask) for number, mask in enumerate(mask_indices)]
        sequences = [self.sequence(sequence) for sequence in panel.sequences]
        mask_headers = [
            MaskHeader(causal=causal, allowed=self.array(allowed, "bits", "mask"))
            for causal, allowed in masks
        ]
        self.close()
        effects = None
        if panel.effects is not None:
            effects = effects_header(panel.effects, lambda x, what: self.array(x, "signed16", what))
            self.close()
        walkthrough = None
        if panel.walkthrough is not None:
            step = CODE_STEP if self.bits == 8 else 1
            walkthrough = walkthrough_header(
                panel.walkthrough, lambda x, what: self.array(x, "linear16", what, step=step)
            )
            self.close()
        return PanelHeader(
            label=panel.label,
            model=panel.model,
            sequences=sequences,
            masks=mask_headers,
            layers=layers,
            next=None if panel.next_tokens is None else _round_next_tokens(panel.next_tokens),
            flow=self.flow(panel.flow),
            control=None if panel.control is None else list(map(_round_patterns, panel.control)),
            small=self.thumbnails(panel.layers),
            effects=effects,
            walkthrough=walkthrough,
        )

    def layer(self, panel: CapturePanel, number: int, mask: int | None) -> LayerHeader:
        layer, (queries, keys) = panel.layers[number], panel.sequence_indices[number]
        weights = layer.weights
        assert weights is not None  # _check_panel raises otherwise
        signed = layer.signed or bool((weights < 0).any())
        codes: dict[int, tuple[Code, Code]] = {
            8: ("sqrt8", "signed8"), 16: ("sqrt16", "signed16"),
        }  # fmt: skip
        sums = weights.sum(-1, dtype=torch.float64).float()
        arrays: dict[str, Any] = {
            "weights": self.array(
                weights, codes[self.bits][signed], f"{layer.name}: weights", limit_scale=not signed
            ),
            "sums": self.array(sums, "linear16" if layer.normalised else "f32", layer.name),
            "norms": self.optional_array(layer.norms, f"{layer.name}: norms"),
        }
        self.close()
        for name in ("q", "k", "v", "bias"):
            step = CODE_STEP if self.bits == 8 else 1
            arrays[name] = self.optional_array(getattr(layer, name), f"{layer.name}: {name}", step)
        self.close()
        fields = layer_fields(layer)
        fields["groups"] = _groups(layer) if arrays["k"] or arrays["v"] else []
        patterns = (
            panel.patterns[number] if panel.patterns else [HeadPattern("", {})] * len(layer.heads)
        )
        return LayerHeader(
            **fields,
            **arrays,
            queries=queries,
            keys=keys,
            mask=mask,
            patterns=_round_patterns(patterns),
        )

    def sequence(self, sequence: Sequence) -> SequenceHeader:
        tokens = zip(sequence.texts, sequence.words, sequence.special, strict=True)
        return SequenceHeader(
            name=sequence.name,
            tokens=[TokenHeader(text=text, word=word, special=flag) for text, word, flag in tokens],
            segments=sequence.segments,
            prompt=sequence.prompt,
            image=None if sequence.image is None else self.image(sequence.image),
        )

    def image(self, image: PatchedImage) -> ImageHeader:
        height, width, _ = image.pixels.shape
        pixels = self.array(image.pixels, "u8", "the image")
        self.close()
        return ImageHeader(
            width=width,
            height=height,
            rows=image.rows,
            columns=image.columns,
            first=image.first,
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

    def maps(self, maps: list[Tensor] | None, what: str) -> list[ArrayHeader] | None:
        code: Code = "sqrt8" if self.bits == 8 else "sqrt16"
        headers = []
        for x in maps or []:
            headers.append(self.array(x, code, what, limit_scale=True))
            self.close()
        return None if maps is None else headers

    def thumbnails(self, layers: list[Layer]) -> ArrayHeader:
        weights = [layer.weights for layer in layers if layer.weights is not None]
        size = min(THUMBNAIL_SIZE, max(max(x.shape[1:]) for x in weights))
        maps = np.concatenate([thumbnail(x, size) for x in weights])
        header = self.array(torch.from_numpy(maps), "u8", "small")
        self.close()
        return header


def _count_weights(capture: Capture) -> int:
    """The number of weights; raises if a file cannot hold all numbers, before any work is done."""
    layers = [layer for panel in capture.panels for layer in panel.layers]
    flows = [panel.flow for panel in capture.panels]
    weights = [layer.weights for layer in layers if layer.weights is not None]
    maps = [x for flow in flows for x in (*(flow.rollout or []), *(flow.gradient or []))]
    parts = [getattr(layer, name) for layer in layers for name in ("q", "k", "v", "bias", "norms")]
    count = sum(x.numel() for x in weights)
    sums = sum(x.shape[:-1].numel() for x in weights)
    others = sum(x.numel() for x in (*maps, *parts) if x is not None)
    if count + sums + others > MAX_VALUES:
        raise ValueError(
            f"the capture has {count + sums + others} numbers; at most {MAX_VALUES} are allowed: "
            "choose fewer layers, heads or tokens"
        )
    return count


def _unique_masks(layers: Sequenced[Layer]) -> tuple[list[tuple[bool, Tensor]], list[int | None]]:
    """Each mask once, and for each layer the index of its mask."""
    mask_indices: dict[tuple[bool, tuple[int, ...], bytes], int] = {}
    masks: list[tuple[bool, Tensor]] = []
    indices: list[int | None] = []
    for layer in layers:
        if layer.allowed is None:
            single = layer.weights is not None and layer.weights.shape[1:] == (1, 1)
            if layer.causal and not single:
                raise ValueError(f"{layer.name}: is causal, but `allowed` is None; set it")
            indices.append(None)
            continue
        allowed = layer.allowed.bool()
        key = layer.causal, tuple(allowed.shape), encode(to_numpy(allowed), "bits")
        if key not in mask_indices:
            mask_indices[key] = len(masks)
            masks.append((layer.causal, allowed))
        indices.append(mask_indices[key])
    return masks, indices


def _groups(layer: Layer) -> list[int]:
    if layer.groups:
        return list(layer.groups)
    k = layer.k if layer.k is not None else layer.v
    assert k is not None
    if len(layer.heads) != layer.all_heads or layer.all_heads % len(k):
        raise ValueError(f"{layer.name}: `groups` is empty; give the key head of each head")
    return [head * len(k) // layer.all_heads for head in layer.heads]


def _round_patterns(patterns: Sequenced[HeadPattern]) -> list[HeadPattern]:
    return [
        HeadPattern(pattern.label, {name: round(float(x), 4) for name, x in pattern.scores.items()})
        for pattern in patterns
    ]


def _round_next_tokens(tokens: NextTokens) -> NextTokens:
    return replace(
        tokens,
        top=[
            [(text, _round_probability(p)) for text, p in candidates] for candidates in tokens.top
        ],
        actual=[None if p is None else _round_probability(p) for p in tokens.actual],
    )


def _round_probability(value: float) -> float:
    """Round to four significant digits, at most 1."""
    return min(1.0, float(f"{value:.4g}")) if math.isfinite(value) else value


def _check_panel(panel: CapturePanel) -> None:
    """Checks that the header cannot make, because it is built from the arrays that exist."""
    if len(panel.layers) != len(panel.sequence_indices):
        count = len(panel.sequence_indices)
        raise ValueError(f"{len(panel.layers)} layers, but {count} sequence_indices")
    if not panel.layers:
        raise ValueError(f"{panel.label}: no layer was captured, so there is nothing to save")
    if panel.patterns and len(panel.patterns) != len(panel.layers):
        raise ValueError(f"{len(panel.layers)} layers, but patterns for {len(panel.patterns)}")
    for sequence in panel.sequences:
        if not len(sequence.texts) == len(sequence.words) == len(sequence.special):
            raise ValueError(f"sequence {sequence.name}: texts, words and special differ in length")
    for layer in panel.layers:
        if layer.weights is None:
            raise ValueError(f"{layer.name}: has no weights; capture with weights=True to save it")
        if layer.start:
            raise ValueError(
                f"{layer.name}: was captured from query {layer.start} on; a file needs all queries"
            )
        if layer.weights.dim() != 3 or layer.weights.numel() == 0:
            shape = tuple(layer.weights.shape)
            raise ValueError(f"{layer.name}: weights have shape {shape}; they must be (H, T, S)")


def thumbnail(weights: Tensor, size: int) -> NDArray[np.uint8]:
    """(H, T, S) to (H, size, size): the square root of each cell's largest weight, 255 at most."""
    x = np.abs(to_numpy(weights))
    for axis in (1, 2):
        length = x.shape[axis]
        x = np.maximum.reduceat(x, np.arange(size) * length // size, axis)
    largest = x.max((1, 2), keepdims=True)
    fraction = np.divide(x, np.where(largest > 0, largest, 1))
    levels = np.rint(np.sqrt(fraction) * np.float32(THUMBNAIL_LEVELS))
    return np.rint(levels * np.float32(255 / THUMBNAIL_LEVELS)).astype(np.uint8)


def to_numpy(x: Tensor) -> NDArray[Any]:
    is_integer = x.dtype in (torch.bool, torch.uint8)
    return (x.detach().cpu() if is_integer else to_cpu_float32(x)).contiguous().numpy()
