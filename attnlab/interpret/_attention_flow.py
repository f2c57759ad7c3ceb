"""Attention through all layers: rollout, and gradient-weighted relevance.

Letters: H heads, T tokens of one sequence, which are queries and keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence as Sequenced

import torch
from torch import Tensor

from attnlab.interpret._records import Flow, Layer, Sequence

TOLERANCE = 0.02  # for a row's sum; half precision and 8-bit rounding stay below

Chain = list[tuple[int, Layer]]
"""Layers with their indices."""


def attention_flow(
    layers: Sequenced[Layer],
    sequence_indices: Sequenced[tuple[int, int]],
    sequences: Sequenced[Sequence],
) -> Flow:
    """Attention through the longest chain of self-attention layers of one stack.

    If a map cannot be computed, it is None, and `reasons` says why.
    """
    chain = longest_chain(layers, sequence_indices)
    if not chain:
        reason = "There is no self-attention layer, so nothing flows from token to token."
        return Flow(reasons={"rollout": reason, "gradient": reason})
    flow = Flow(layers=[number for number, _ in chain])
    chained = [layer for _, layer in chain]
    tokens = len(sequences[sequence_indices[chain[0][0]][0]].texts)
    incomplete = _missing_layer(chained) or _missing_weights(chained, tokens)
    reason = incomplete or _invalid_for_rollout(chained)
    if reason:
        flow.reasons["rollout"] = reason
    else:
        flow.rollout = rollout([_weights(layer) for layer in chained])
    reason = incomplete or _missing_gradient(chained)
    if reason:
        flow.reasons["gradient"] = reason
    else:
        pairs = [(_weights(layer), layer.gradient) for layer in chained]
        flow.gradient = relevance([(w, g) for w, g in pairs if g is not None])
    return flow


def rollout(layers: Sequenced[Tensor]) -> list[Tensor]:
    """Attention rollout (Abnar and Zuidema 2020, arXiv 2005.00928): a (T, T) map for each layer.

    A token keeps half of itself through the residual connection, and the other half is the mean of
    the heads: N = 0.5 A + 0.5 I with normalized rows. The flow up to layer l is N_l ... N_1.
    """
    maps: list[Tensor] = []
    for weights in layers:
        mixed = 0.5 * weights.mean(0) + 0.5 * torch.eye(weights.shape[1])  # (T, T)
        mixed = mixed / mixed.sum(-1, keepdim=True)  # never 0: the diagonal is at least a half
        maps.append(mixed @ maps[-1] if maps else mixed)
    return maps


def relevance(layers: Sequenced[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """Relevance (Chefer, Gur and Wolf 2021, arXiv 2103.15679), for self-attention: R = I, then
    R += Ā R, where Ā is the mean over heads of the positive part of gradient times weight. Takes
    weights and gradients (H, T, T) of each layer.

    Returns R - I, what attention adds to a token's relevance for itself, divided by its largest
    row sum: gradients have no unit, but row sums still show how much each token matters for the
    target. R - I is computed directly, because small values would vanish next to 1.

    The paper assumes softmax, but needs neither normalized rows nor positive weights: gradient
    times weight is, to first order, what the target would lose without this step. So it works for
    signed weights too.
    """
    maps: list[Tensor] = []
    added = torch.zeros(layers[0][0].shape[1:]) if layers else torch.zeros(0)  # R - I, (T, T)
    for weights, gradient in layers:
        mean = (gradient * weights).relu().mean(0)  # (T, T)
        added = added + mean + mean @ added
        largest = added.sum(-1).max()
        maps.append(added / largest if largest > 0 else added)
    return maps


def longest_chain(layers: Sequenced[Layer], sequence_indices: Sequenced[tuple[int, int]]) -> Chain:
    """The longest run of self-attention layers of one stack and sequence; the first of equals."""
    chains: dict[tuple[str, int], Chain] = {}
    for number, (layer, (queries, keys)) in enumerate(zip(layers, sequence_indices, strict=True)):
        if layer.kind == "self" and queries == keys:
            chains.setdefault((layer.stack, queries), []).append((number, layer))
    return max(chains.values(), key=len, default=[])


def _weights(layer: Layer) -> Tensor:
    assert layer.weights is not None  # checked by _missing_weights
    return layer.weights


def _describe(layer: Layer) -> str:
    return f"{layer.name} ({layer.mechanism})"


def _missing_layer(layers: list[Layer]) -> str:
    """A message if the numbers in the module names show that a layer was not captured.

    Layers after the last one do not matter: each flow goes up to its own layer.
    """
    split = [layer.name.split(".") for layer in layers]
    numbers = [[int(part) for part in name if re.fullmatch("[0-9]{1,9}", part)] for name in split]
    if len({len(row) for row in numbers}) > 1:
        return ""  # names of different forms cannot be compared
    columns = list(zip(*numbers, strict=True))
    counting = [column for column in columns if len(set(column)) > 1] or columns[:1]
    if len(counting) != 1 or len(set(counting[0])) < len(layers):
        return ""  # no number counts the layers
    for index, (number, layer) in enumerate(zip(counting[0], layers, strict=True)):
        if number != index:
            return (
                f"A layer before {_describe(layer)} was not captured, so the flow through it is "
                "unknown; capture all layers."
            )
    return ""


def _missing_weights(layers: list[Layer], tokens: int) -> str:
    for layer in layers:
        if layer.weights is None:
            return f"{_describe(layer)} was captured without its weights."
        if len(layer.heads) < layer.all_heads:
            return (
                f"Only {len(layer.heads)} of {layer.all_heads} heads of {_describe(layer)} were "
                "captured, but the mean needs all of them."
            )
        if layer.weights.shape != (layer.all_heads, tokens, tokens):
            return (
                f"{_describe(layer)} has weights of shape {tuple(layer.weights.shape)}, which are "
                f"not from {tokens} tokens to the same tokens."
            )
    return ""


def _invalid_for_rollout(layers: list[Layer]) -> str:
    """A message if some weights are not fractions of a whole, which rollout needs."""
    for layer in layers:
        weights = _weights(layer)
        if not bool(weights.isfinite().all()):
            return f"Weights of {_describe(layer)} are not finite."
        if layer.signed or bool((weights < 0).any()):
            return (
                f"Weights of {_describe(layer)} can be negative, so they are not fractions that "
                "could be multiplied through layers."
            )
        sums = weights.sum(-1)  # (H, T)
        empty = sums == 0  # every key is masked: the token keeps itself
        if not layer.normalised or bool((((sums - 1).abs() > TOLERANCE) & ~empty).any()):
            return (
                f"Rows of {_describe(layer)} do not sum to 1, so its weights are not fractions "
                "that could be multiplied through layers."
            )
    return ""


def _missing_gradient(layers: list[Layer]) -> str:
    for layer in layers:
        if layer.gradient is None and layer.no_gradient:
            return f"There is no gradient of {_describe(layer)}: {layer.no_gradient}"
    if all(layer.gradient is None for layer in layers):
        return "No gradients were captured; capture with gradients to see this view."
    for layer in layers:
        if layer.gradient is None:
            return f"No gradient of {_describe(layer)} was captured."
        if layer.gradient.shape != _weights(layer).shape:
            return f"The gradient of {_describe(layer)} does not have the shape of its weights."
        if not bool((layer.gradient * _weights(layer)).isfinite().all()):
            return f"The gradient of {_describe(layer)} is not finite."
    return ""
