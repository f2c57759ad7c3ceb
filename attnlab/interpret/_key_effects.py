"""Does attention explain? The weight that a position gives to each token, and what it contributes.

The position is forbidden to attend to one token, in all captured layers and heads at once; what is
left of its weights is scaled to the same sum. The effect is the change of the target's
log-probability. All tokens are cut in turn, as rows of a batch.

Letters: B batch, H heads, T queries, S keys, n tokens that are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attnlab.interpret._inspected_model import BatchOutput
from attnlab.interpret._intervene import intervene
from attnlab.interpret._model_input import ModelInput
from attnlab.interpret._records import CapturePanel, KeyEffect, KeyEffects, Layer

MAX_KEYS = 256  # of more tokens, so many are cut, evenly chosen by the rank of their weight
BATCH_ENTRIES = 2**25  # numbers of a batch's output or of a layer's weights


def measure_keys(
    source: ModelInput,
    panel: CapturePanel,
    measured: int,
    log_probabilities: Callable[[BatchOutput], Tensor],
) -> KeyEffects:
    """`log_probabilities` gives those of all targets, (B, P). A class is read from all queries."""
    before_output = source.run()
    query = None if before_output.kind == "classes" else measured
    before = float(log_probabilities(before_output)[0, measured])
    predicted = len(panel.sequences) - 1
    layers: dict[int, list[Layer]] = {}
    for layer, (queries, keys) in zip(panel.layers, panel.sequence_indices, strict=True):
        if queries == predicted:
            layers.setdefault(keys, []).append(layer)
    points, all_keys = list[KeyEffect](), 0
    for sequence, attending in sorted(layers.items()):
        weights = _mean_weights(attending, query)  # (S,)
        chosen, count = _choose_keys(weights)
        all_keys += count
        effects = [
            value - before
            for keys in chosen.split(_batch_size(before_output, attending))
            for value in _cut(source, attending, query, keys, log_probabilities)[:, measured]
        ]
        points += [
            KeyEffect(sequence, int(key), float(weights[key]), float(effect))
            for key, effect in zip(chosen, effects, strict=True)
        ]
    if not points:
        raise ValueError(f"{source.label}: no captured layer attends from this position")
    correlation = rank_correlation(
        torch.tensor([point.weight for point in points]),
        torch.tensor([abs(point.effect) for point in points]),
    )
    return KeyEffects(points, all_keys, correlation)


def _mean_weights(layers: list[Layer], query: int | None) -> Tensor:
    """(S,): the size of the weights on each key, mean over layers, heads and, for a class, all
    queries."""
    rows = slice(None) if query is None else slice(query, query + 1)
    weights = [layer.weights for layer in layers if layer.weights is not None]
    means = [x[:, rows].float().abs().mean(1) for x in weights]  # (H, S) each
    return torch.cat(means).mean(0)


def _choose_keys(weights: Tensor) -> tuple[Tensor, int]:
    """The keys that get any weight, at most MAX_KEYS of them, in order; and how many there are."""
    keys = weights.nonzero()[:, 0]
    count = len(keys)
    if count > MAX_KEYS:
        ranked = keys[weights[keys].argsort()]
        keys = ranked[torch.linspace(0, count - 1, MAX_KEYS).round().long()].sort().values
    return keys, count


def _batch_size(output: BatchOutput, layers: list[Layer]) -> int:
    weights = max(layer.weights.numel() for layer in layers if layer.weights is not None)
    return max(1, BATCH_ENTRIES // max(output.values[0].numel(), weights))


def _cut(
    source: ModelInput,
    layers: list[Layer],
    query: int | None,
    keys: Tensor,
    log_probabilities: Callable[[BatchOutput], Tensor],
) -> Tensor:
    """(n, P): the log-probabilities if attention to one of the keys is cut in each row."""
    change = intervene(source.model)
    for layer in layers:
        edit = partial(cut_weights, query=query, keys=keys, scale=layer.normalised)
        change = change.weights(layer.name, layer.heads, edit)
    with change:
        return log_probabilities(source.repeated(len(keys)).run())


def cut_weights(A: Tensor, *, query: int | None, keys: Tensor, scale: bool) -> Tensor:
    """Row b of the batch (B, T, S) without attention of `query` (None: of all) to keys[b]. With
    `scale`, rows keep their sum."""
    if len(A) != len(keys):
        raise ValueError(f"weights have {len(A)} rows of a batch of {len(keys)}")
    rows = slice(None) if query is None else slice(query, query + 1)
    part = A[:, rows].clone()  # (B, T or 1, S)
    before = part.sum(-1, keepdim=True)
    part.scatter_(2, keys.to(A.device)[:, None, None].expand(-1, part.shape[1], 1), 0)
    after = part.sum(-1, keepdim=True)
    if scale:
        part = torch.where(after > 0, part * (before / after.clamp(min=1e-30)), part)
    A[:, rows] = part
    return A


def rank_correlation(one: Tensor, other: Tensor) -> float | None:
    """Spearman's rank correlation; equal values share their mean rank. None without variation."""
    ranks = torch.stack([_mean_ranks(values) for values in (one, other)])
    if len(one) < 2 or bool((ranks.std(1) == 0).any()):
        return None
    return max(-1.0, min(1.0, float(torch.corrcoef(ranks)[0, 1])))


def _mean_ranks(values: Tensor) -> Tensor:
    _, group, counts = values.double().unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()  # number of values up to each group
    return (last - (counts - 1) / 2)[group]
