"""Where attention leads through all layers, and how far each step weighs.

Letters: H heads, T queries, S keys; here both are tokens of one sequence, T of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence as Sequenced

import torch
from torch import Tensor

from attnlab.interpret._records import Flow, Layer, Sequence

TOLERANCE = 0.02  # of a row's sum; half precision and rounding in 8 bits stay below

Chain = list[tuple[int, Layer]]


def attention_flow(
    layers: Sequenced[Layer],
    places: Sequenced[tuple[int, int]],
    sequences: Sequenced[Sequence],
) -> Flow:
    """Attention through the longest chain of self-attention layers of one stack.

    What cannot be computed is missing, and `reasons` says why.
    """
    chain = longest_chain(layers, places)
    if not chain:
        why = "There is no self-attention layer, so nothing flows from token to token."
        return Flow(reasons={"rollout": why, "gradient": why})
    found = Flow(layers=[number for number, _ in chain])
    parts = [layer for _, layer in chain]
    tokens = len(sequences[places[chain[0][0]][0]].texts)
    gap = _gap(parts) or _unseen(parts, tokens)
    reason = gap or _no_shares(parts)
    if reason:
        found.reasons["rollout"] = reason
    else:
        found.rollout = rollout([_weights(layer) for layer in parts])
    reason = gap or _no_gradient(parts)
    if reason:
        found.reasons["gradient"] = reason
    else:
        pairs = [(_weights(layer), layer.gradient) for layer in parts]
        found.gradient = relevance([(w, g) for w, g in pairs if g is not None])
    return found


def rollout(layers: Sequenced[Tensor]) -> list[Tensor]:
    """Abnar and Zuidema 2020 (arXiv 2005.00928): for the weights (H, T, T) of each layer, (T, T).

    A token keeps half of itself by the residual connection and takes the rest from the mean of the
    heads: N = rows of (0.5 A + 0.5 I), made to sum to 1; the flow up to layer l is N_l ... N_1.
    """
    found: list[Tensor] = []
    for weights in layers:
        mixed = 0.5 * weights.mean(0) + 0.5 * torch.eye(weights.shape[1])  # (T, T)
        mixed = mixed / mixed.sum(-1, keepdim=True)  # never 0: the diagonal is at least a half
        found.append(mixed @ found[-1] if found else mixed)
    return found


def relevance(layers: Sequenced[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """Chefer, Gur and Wolf 2021 (arXiv 2103.15679), for self-attention: R = I, then R += Ā R with
    Ā the mean over heads of the positive part of gradient times weight. (H, T, T) each.

    Shown is R - I, what attention adds to a token's relevance for itself, divided by its largest
    row sum: gradients have no unit, while the sum of a row still tells how much that
    token matters for the target. R - I is what is computed, because beside 1 it may vanish.

    The paper has softmax in mind, but asks for no sum and no sign: gradient times weight is, to
    first order, what the target would lose without this step. So it serves signed weights too.
    """
    found: list[Tensor] = []
    added = torch.zeros(layers[0][0].shape[1:]) if layers else torch.zeros(0)  # R - I, (T, T)
    for weights, gradient in layers:
        mean = (gradient * weights).relu().mean(0)  # (T, T)
        added = added + mean + mean @ added
        most = added.sum(-1).max()
        found.append(added / most if most > 0 else added)
    return found


def longest_chain(layers: Sequenced[Layer], places: Sequenced[tuple[int, int]]) -> Chain:
    """The self-attention layers of one stack and sequence, numbered; of two as long the first."""
    chains: dict[tuple[str, int], Chain] = {}
    for number, (layer, (queries, keys)) in enumerate(zip(layers, places, strict=True)):
        if layer.kind == "self" and queries == keys:
            chains.setdefault((layer.stack, queries), []).append((number, layer))
    return max(chains.values(), key=len, default=[])


def _weights(layer: Layer) -> Tensor:
    assert layer.weights is not None  # _unseen has looked
    return layer.weights


def _named(layer: Layer) -> str:
    return f"{layer.name} ({layer.mechanism})"


def _gap(layers: list[Layer]) -> str:
    """A layer that was not captured, as the numbers in the modules' names tell.

    Those behind the last one are not missed: the flow is that up to each layer.
    """
    split = [layer.name.split(".") for layer in layers]
    numbers = [[int(part) for part in each if re.fullmatch("[0-9]{1,9}", part)] for each in split]
    if len({len(each) for each in numbers}) > 1:
        return ""  # names of several kinds tell nothing
    columns = list(zip(*numbers, strict=True))
    counting = [column for column in columns if len(set(column)) > 1] or columns[:1]
    if len(counting) != 1 or len(set(counting[0])) < len(layers):
        return ""  # no number counts the layers
    for place, (number, layer) in enumerate(zip(counting[0], layers, strict=True)):
        if number != place:
            return (
                f"Something before {_named(layer)} was not captured, and what flows through it "
                "is unknown; capture all layers."
            )
    return ""


def _unseen(layers: list[Layer], tokens: int) -> str:
    for layer in layers:
        if layer.weights is None:
            return f"{_named(layer)} was captured without its weights."
        if len(layer.heads) < layer.all_heads:
            return (
                f"Of {_named(layer)} only {len(layer.heads)} of {layer.all_heads} heads were "
                "captured, and the mean of all is needed."
            )
        if layer.weights.shape != (layer.all_heads, tokens, tokens):
            return (
                f"{_named(layer)} has weights of shape {tuple(layer.weights.shape)}, which do not "
                f"lead from {tokens} tokens to themselves."
            )
    return ""


def _no_shares(layers: list[Layer]) -> str:
    """Why the weights are not shares of a whole, which rollout takes them for."""
    for layer in layers:
        weights = _weights(layer)
        if not bool(weights.isfinite().all()):
            return f"Weights of {_named(layer)} are not finite."
        if layer.signed or bool((weights < 0).any()):
            return (
                f"Weights of {_named(layer)} can be negative, so they are no shares that could be "
                "multiplied through layers."
            )
        sums = weights.sum(-1)  # (H, T)
        empty = sums == 0  # nothing to look at: the token keeps itself
        if not layer.normalised or bool((((sums - 1).abs() > TOLERANCE) & ~empty).any()):
            return (
                f"Rows of {_named(layer)} do not sum to 1, so its weights are no shares that "
                "could be multiplied through layers."
            )
    return ""


def _no_gradient(layers: list[Layer]) -> str:
    told = [layer for layer in layers if layer.gradient is None and layer.no_gradient]
    if told:
        return f"There is no gradient of {_named(told[0])}: {told[0].no_gradient}"
    if all(layer.gradient is None for layer in layers):
        return "No gradients were captured; capture with gradients to see it."
    for layer in layers:
        if layer.gradient is None:
            return f"No gradient of {_named(layer)} was captured."
        if layer.gradient.shape != _weights(layer).shape:
            return f"The gradient of {_named(layer)} does not have the shape of its weights."
        if not bool((layer.gradient * _weights(layer)).isfinite().all()):
            return f"The gradient of {_named(layer)} is not finite."
    return ""
