"""Scores how closely each head follows known attention patterns, and labels the head.

A pattern selects some keys for each query: P of the n keys that the query may attend to. Let m be
the fraction of |weight| on the selected keys, and c = P / n the same under uniform attention. The
score sums over the queries that have such keys:

    sum (m - c) / sum (1 - c), at least 0

0 is chance, 1 is the maximum. So a text of five tokens does not make every head "local": there c is
nearly 1, and the margin 1 - c is small. `uniform` is scored by how much weight d, at most 1 - 1/n,
would have to move to become uniform: 1 - 2 * sum d / sum (1 - 1/n), at least 0. The score is never
above the largest 1 - d / (1 - 1/n) that all queries with at least 4 keys reach: a head is not
uniform if one of its queries attends mostly to one key.

A label needs a score of 0.5, which patterns with different keys cannot all reach. It also needs a
margin, sum (1 - c), of two queries: a single query proves nothing. "local" includes other patterns,
so a head gets it only if no other label fits.

Letters: H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence as Sequenced

import torch
from torch import Tensor

from attnlab.interpret._records import HeadPattern, Layer, Sequence

THRESHOLD = 0.5
MIN_MARGIN = 2.0
LOCAL_DISTANCE = 3  # tokens before and after
MIN_UNIFORM_KEYS = 4  # queries with fewer keys cannot contradict "uniform"
REPLACEMENT = "\ufffd"  # stands for bytes that are not a whole character

PATTERNS = (
    "previous token",
    "next token",
    "first-token sink",
    "separator",
    "same word",
    "itself",
    "induction",
    "uniform",
    "local",
)


def head_patterns(layer: Layer, queries: Sequence, keys: Sequence) -> list[HeadPattern]:
    """Scores and label (or "") of each captured head. Patterns without keys get no score."""
    if layer.weights is None:
        return [HeadPattern("", {}) for _ in layer.heads]
    T, S = layer.weights.shape[1:]
    if (len(queries.texts), len(keys.texts)) != (layer.start + T, S):
        raise ValueError(
            f"{layer.name}: has {layer.start + T} queries and {S} keys, but the sequences have "
            f"{len(queries.texts)} and {len(keys.texts)} tokens"
        )
    weights, valid, allowed = _shares(layer.weights, layer)
    scored: dict[str, tuple[Tensor, Tensor]] = {}
    for name, selected in _selected_keys(layer, queries, keys).items():
        scored[name] = _score(weights, valid, allowed, selected[layer.start :] & allowed)
    scored["uniform"] = _score_uniform(weights, valid, allowed)
    return [_label(scored, head) for head in range(len(weights))]


def score_selected(layer: Layer, selected: Tensor) -> tuple[Tensor, Tensor]:
    """The score of each head for the keys (T, S) that a pattern selects, and its margin."""
    assert layer.weights is not None
    weights, valid, allowed = _shares(layer.weights, layer)
    return _score(weights, valid, allowed, selected & allowed)


def _shares(given: Tensor, layer: Layer) -> tuple[Tensor, Tensor, Tensor]:
    """Each key's share of a query's |weight| (H, T, S), which queries have any (H, T), and which
    keys they may attend to (T, S)."""
    weights = given.detach().float().abs()
    allowed = allowed_keys(layer, *weights.shape[1:])
    weights = weights * allowed
    sums = weights.sum(-1, keepdim=True)  # (H, T, 1)
    valid = (sums > 0) & sums.isfinite()
    return torch.where(valid, weights / sums, 0.0), valid[..., 0], allowed


def _label(scored: dict[str, tuple[Tensor, Tensor]], head: int) -> HeadPattern:
    scores, margins = {}, {}
    for name in PATTERNS:
        if name in scored and float(scored[name][1][head]) > 0:
            scores[name] = float(scored[name][0][head])
            margins[name] = float(scored[name][1][head])
    clear = [
        name
        for name, score in scores.items()
        if score >= THRESHOLD and margins[name] >= MIN_MARGIN and name != "local"
    ]
    if clear:
        return HeadPattern(max(clear, key=scores.__getitem__), scores)
    local = scores.get("local", 0.0) >= THRESHOLD and margins["local"] >= MIN_MARGIN
    return HeadPattern("local" if local else "", scores)


def allowed_keys(layer: Layer, T: int, S: int) -> Tensor:
    """(T, S): True where a query may attend."""
    if layer.allowed is not None:
        return layer.allowed.bool()
    everywhere = torch.ones(T, S, dtype=torch.bool)
    return everywhere.tril(layer.start) if layer.causal else everywhere


def _score(
    weights: Tensor, valid: Tensor, allowed: Tensor, selected: Tensor
) -> tuple[Tensor, Tensor]:
    """The score of each head (H,), and its margin (H,)."""
    chance = selected.sum(-1) / allowed.sum(-1).clamp(min=1)  # (T,)
    counted = (valid & selected.any(-1)).double()  # (H, T)
    mass = (weights * selected).sum(-1).double()  # (H, T)
    margin = (counted * (1 - chance)).sum(-1)
    gain = (counted * (mass - chance)).sum(-1)
    return (gain / margin.clamp(min=1e-9)).clamp(0, 1), margin


def _score_uniform(weights: Tensor, valid: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    uniform = allowed / allowed.sum(-1, keepdim=True).clamp(min=1)  # (T, S)
    distance = 0.5 * (weights - uniform).abs().sum(-1).double()  # (H, T)
    margin = (valid * (1 - uniform.amax(-1)).double()).sum(-1)
    total = (valid * distance).sum(-1)
    mean = 1 - 2 * total / margin.clamp(min=1e-9)
    largest = (1 - uniform.amax(-1)).clamp(min=1e-9)  # (T,): the largest possible distance
    counted = valid & (allowed.sum(-1) >= MIN_UNIFORM_KEYS)
    worst = 1 - torch.where(counted, distance / largest, 0.0).amax(-1)
    return torch.minimum(mean, worst).clamp(0, 1), margin


def _selected_keys(layer: Layer, queries: Sequence, keys: Sequence) -> dict[str, Tensor]:
    """For each pattern except `uniform`, (T, S): the keys that it selects for each query.

    Here T counts all queries, also those that were not captured.
    """
    T, S = len(queries.texts), len(keys.texts)
    is_self = layer.kind == "self" and T == S
    other = ~torch.eye(T, S, dtype=torch.bool) if is_self else torch.ones(T, S, dtype=torch.bool)
    first = torch.arange(S) == 0
    special = torch.tensor(keys.special, dtype=torch.bool)
    selected = {
        "first-token sink": first.expand(T, S) & other,
        "separator": (special & ~first).expand(T, S) & other,
        "same word": _pairwise_equal(_word_keys(queries), _word_keys(keys)) & other,
    }
    if is_self:
        offset = torch.arange(S) - torch.arange(T)[:, None]  # (T, S): key minus query position
        same_number = _pairwise_equal(_word_numbers(queries), _word_numbers(keys))
        selected["same word"] |= same_number & other
        selected["previous token"] = offset == -1
        selected["next token"] = offset == 1
        selected["itself"] = offset == 0
        selected["local"] = offset.abs() <= LOCAL_DISTANCE
        selected["induction"] = _induction(queries)
    return selected


def _induction(sequence: Sequence) -> Tensor:
    """(T, T): tokens right after an earlier occurrence of the query's token."""
    names: Sequenced[object] = sequence.texts if sequence.ids is None else sequence.ids
    tokens = [
        None if special else token for token, special in zip(names, sequence.special, strict=True)
    ]
    earlier = _pairwise_equal(tokens, tokens).tril(-1)
    after = torch.zeros_like(earlier)
    after[:, 1:] = earlier[:, :-1]
    return after.tril(-1)  # without the query itself


def _pairwise_equal(left: Sequenced[object], right: Sequenced[object]) -> Tensor:
    """(T, S): True where two items are equal; None equals nothing."""
    numbers: dict[object, int] = {}
    rows, columns = (
        torch.tensor([-1 if x is None else numbers.setdefault(x, len(numbers)) for x in items])
        for items in (left, right)
    )
    return (rows[:, None] == columns) & (rows[:, None] >= 0)


def _word_keys(sequence: Sequence) -> list[object]:
    """For each token a key that is equal for equal words; None for tokens that are no word.

    The key is the word's text without the tokenizer's marks, or its ids if it contains incomplete
    characters, whose texts all look the same.
    """
    keys: list[object] = [None] * len(sequence.texts)
    for tokens in _group_by_word(sequence):
        text = "".join(_strip_marks(sequence.texts[token]) for token in tokens).strip().casefold()
        key: object = text or None
        if REPLACEMENT in text and sequence.ids is not None:
            key = tuple(sequence.ids[token] for token in tokens)
        for token in tokens:
            keys[token] = key
    return keys


def _group_by_word(sequence: Sequence) -> list[list[int]]:
    """The tokens of each word, in order; a token without a number is a word of its own."""
    groups: dict[tuple[int, int], list[int]] = {}
    for token, number in enumerate(_word_numbers(sequence)):
        if not sequence.special[token]:
            key = (-1, token) if number is None else (number, 0)
            groups.setdefault(key, []).append(token)
    return list(groups.values())


def _strip_marks(text: str) -> str:
    plain = text.strip().lstrip("Ġ▁")
    return plain.removeprefix("##") if len(plain) > 2 else plain  # "##" alone is a word


def _word_numbers(sequence: Sequence) -> list[int | None]:
    return [
        word if word >= 0 and not special else None
        for word, special in zip(sequence.words, sequence.special, strict=True)
    ]
