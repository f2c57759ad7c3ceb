"""Follows one token through one layer of a model, for the walkthrough of a page.

The model runs once more, with hooks that keep what happens to this token.

Letters: B batch, H captured heads, G key heads, T queries, S keys, D head size, M value size,
W width, V vocabulary, N heads whose keys and values are kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from attnlab._short_repr import one_line
from attnlab.interpret._adapters import attention_sites
from attnlab.interpret._attention_sites import (
    AttentionSite,
    StreamBlock,
    block_of,
    find_blocks,
)
from attnlab.interpret._block_parts import BlockWatcher, split_block
from attnlab.interpret._capture import record
from attnlab.interpret._inspected_model import BatchOutput, InspectedModel, PreparedInput
from attnlab.interpret._layer_numbers import layer_numbers
from attnlab.interpret._model_input import ModelInput, from_prepared
from attnlab.interpret._options import CaptureLimits, parse_place
from attnlab.interpret._record import StreamRecorder, recording_heads
from attnlab.interpret._recorder import CaptureOptions
from attnlab.interpret._records import CapturePanel, Highlight, Layer
from attnlab.interpret._walkthrough import Walkthrough

TOP = 10  # tokens or classes with their logits
ALL_KEYS = 40_000  # numbers of keys and values: up to so many, those of all heads are kept
CHOSEN_KEYS = 2**18  # and up to so many, those of the chosen head
MAX_REASON = 300  # characters


@torch.no_grad()
def trace_token(
    inspected: InspectedModel,
    prepared: PreparedInput,
    panel: CapturePanel,
    limits: CaptureLimits,
    place: tuple[int, int, int],
) -> Walkthrough:
    """The path of a token: `place` is a layer of the panel, one of its captured heads and a query.

    The model must be in evaluation mode."""
    index, head, query = place
    layer, source = panel.layers[index], from_prepared(inspected, prepared)
    sites = attention_sites(inspected.model)
    name = re.sub(r" \(\d+\)$", "", layer.name)  # a layer that runs again has a number
    site = next((each for each in sites if each.name == name), None)
    blocks = find_blocks(inspected.model, sites)
    number = None if site is None else block_of(site, blocks)
    assert layer.weights is not None
    watcher = BlockWatcher(
        nn.Identity() if number is None else blocks[number].module, query, layer.weights.shape[1]
    )
    streams = StreamRecorder(blocks)
    options = CaptureOptions(
        qkv=True, layers=[layer.name], heads=limits.heads, max_tokens=limits.max_tokens,
        memory=limits.memory,
    )  # fmt: skip
    with ExitStack() as stack:
        heads = stack.enter_context(recording_heads([] if site is None else [site]))
        stack.enter_context(streams.recording())
        stack.enter_context(watcher.watching())
        captured = stack.enter_context(record(inspected.model, options))
        output = source.run()
    walk = Walkthrough(index, query, head, block=0, blocks=0, rotary=_is_rotary(site, inspected))
    _add_vectors(walk, captured.layers[0])
    _add_outputs(walk, layer, heads.get(layer.name))
    _add_stream(walk, number, blocks, streams, watcher, sites)
    _add_prediction(walk, panel, source, output)
    return walk


def choose_place(
    panel: CapturePanel, highlights: Sequence[Highlight], limits: CaptureLimits
) -> tuple[int, int, int]:
    """The layer, head and token of `limits.walkthrough`, or the most telling ones."""
    if limits.walkthrough is None:
        if highlights:
            return highlights[0].layer, highlights[0].head, highlights[0].query
        queries = panel.sequences[panel.sequence_indices[0][0]].texts
        return 0, 0, len(queries) - 1
    layer, head, token = parse_place(limits.walkthrough)
    numbers = sorted(set(limits.layers or layer_numbers([each.name for each in panel.layers])))
    if layer not in numbers or numbers.index(layer) >= len(panel.layers):
        raise ValueError(f"no layer {layer}; give one of {', '.join(map(str, numbers))}")
    layer = numbers.index(layer)
    heads = panel.layers[layer].heads
    if head not in heads:
        raise ValueError(f"no head {head}; give one of {', '.join(map(str, heads))}")
    count = len(panel.sequences[panel.sequence_indices[layer][0]].texts)
    if token >= count:
        raise ValueError(f"no token {token}; give 0 to {count - 1}")
    return layer, heads.index(head), token


def _is_rotary(site: AttentionSite | None, inspected: InspectedModel) -> bool:
    """Whether positions rotate q and k: by the layer's own module, or the names of the model's."""
    if inspected.source == "attnlab":
        layer = None if site is None else site.module
        latent = getattr(layer, "latent", None)
        return bool(getattr(layer, "rotary", None) or getattr(latent, "rotary", None))
    kinds = {type(module).__name__ for module in inspected.model.modules()}
    config = getattr(inspected.model, "config", None)
    return any("Rotary" in kind for kind in kinds) or hasattr(config, "rotary_dim")


def _add_vectors(walk: Walkthrough, layer: Layer) -> None:
    """q of the token, and its dot products with all keys; keys and values of some heads."""
    walk.q = _nonempty(None if layer.q is None else layer.q[:, walk.query])  # (H, D)
    k, v = _nonempty(layer.k), _nonempty(layer.v)  # (G, S, D), (G, S, M)
    H = len(layer.heads)
    if walk.q is None:
        walk.reasons["vectors"] = "The model shows no queries in this layer."
    if walk.q is not None and k is not None and walk.q.shape[-1] == k.shape[-1]:
        walk.dots = torch.stack([k[layer.groups[h]] @ walk.q[h] for h in range(H)])  # (H, S)
    walk.bias = None if layer.bias is None else layer.bias[:, walk.query]
    size = sum(x[0].numel() for x in (k, v) if x is not None)
    if not size:
        walk.reasons["keys"] = "The model shows no keys and values in this layer."
    elif size <= CHOSEN_KEYS:
        walk.key_heads = list(range(H)) if H * size <= ALL_KEYS else [walk.head]
        groups = [layer.groups[h] for h in walk.key_heads]
        walk.k, walk.v = (None if x is None else x[groups] for x in (k, v))
    else:
        walk.reasons["keys"] = "The text is too long to keep the keys and values of a head."


def _nonempty(x: Tensor | None) -> Tensor | None:
    return None if x is None or x.numel() == 0 else x


def _add_outputs(walk: Walkthrough, layer: Layer, heads: Tensor | None) -> None:
    """(B, T, all heads, M)"""
    fits = heads is not None and heads.dim() == 4 and heads.shape[2] == layer.all_heads
    if heads is None or not fits or heads.shape[1] <= walk.query:
        walk.reasons["heads"] = "The model does not show the outputs of the heads in this layer."
        return
    walk.outputs = heads[0, walk.query, layer.heads].float().cpu()  # (H, M)


def _add_stream(
    walk: Walkthrough,
    number: int | None,
    blocks: list[StreamBlock],
    streams: StreamRecorder,
    watcher: BlockWatcher,
    sites: list[AttentionSite],
) -> None:
    """The residual stream before and after the block, and what its parts add."""
    runs = [] if number is None else streams.runs.get(number, [])
    if number is None or len(runs) != 1:
        reason = (
            "The model has no list of blocks around this layer."
            if not runs
            else "The model runs this block several times with the same weights."
        )
        walk.reasons |= {"embedding": reason, "parts": reason}
        return
    stack = [i for i in streams.order if blocks[i].group == blocks[number].group]
    walk.block, walk.blocks = stack.index(number), len(stack)
    before, after = runs[0]
    first = streams.inputs.get(stack[0])
    width = None if before is None else before.shape[-1]
    if before is None or after is None or after.shape != before.shape:
        walk.reasons["embedding"] = walk.reasons["parts"] = (
            "The block of this layer does not change one vector for each token."
        )
        return
    walk.input, walk.stream = _row(before, walk.query), _row(after, walk.query)
    if first is not None and first.shape[-1] == width:
        walk.embedding = _row(first, walk.query)
    try:
        split = split_block(before[0, walk.query], after[0, walk.query], watcher.runs, sites)
    except RuntimeError as error:  # modules of an unknown kind
        split, walk.reasons["parts"] = None, one_line(error, MAX_REASON)
    if split is None:
        walk.reasons.setdefault(
            "parts",
            "attnlab cannot tell what attention and what the feed-forward layer add: the outputs "
            "of the block's modules do not add up to its output.",
        )
        return
    walk.parts, walk.norm_first, walk.hidden = split.parts, split.norm_first, split.hidden


def _row(stream: Tensor, query: int) -> Tensor:
    return stream[0, query].detach().float().cpu()


def _add_prediction(
    walk: Walkthrough, panel: CapturePanel, source: ModelInput, output: BatchOutput
) -> None:
    if output.kind == "vectors":
        walk.reasons["output"] = "The model returns vectors and predicts nothing."
        return
    logits = output.values[0].detach().float().cpu()  # (T, V) or (K,)
    queries = panel.sequence_indices[walk.layer][0]
    if output.kind != "classes":
        if queries != len(panel.sequences) - 1:
            walk.reasons["output"] = (
                "A token of the encoder predicts nothing itself: the decoder reads it."
            )
            return
        logits = logits[walk.query]
    values, ids = logits.topk(min(TOP, len(logits)))
    shares = logits.softmax(-1)[ids].tolist()
    classes = [] if source.inspected is None else list(source.inspected.classes)
    named = output.kind == "classes"
    walk.top = [
        ((classes[i] if i < len(classes) else str(i)) if named else source.token(i), value, share)
        for i, value, share in zip(ids.tolist(), values.tolist(), shares, strict=True)
    ]
