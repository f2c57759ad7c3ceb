"""How much a head looks like a pattern that people know, and what it is called after.

A pattern names for each query some of the keys it may look at, P of n. With m the share of
|weight| on them and c = P / n what uniform attention would give, summed over the queries that have
such keys, the score is

    sum (m - c) / sum (1 - c), at least 0:

0 is chance, 1 is all there is. So a text of five tokens does not make every head "local": there c
is nearly 1 and leaves no room. `uniform` is scored by how much weight would have to move to be
uniform, d of at most 1 - 1/n: 1 - 2 * sum d / sum (1 - 1/n), at least 0.

A label needs a score of 0.5, more than half of what chance leaves: patterns with different keys
cannot all reach it. And it needs room, sum (1 - c), of two queries: a single one proves nothing.
"local" is wider than others, so it is given where no other label is.

Letters: H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence as Sequenced

import torch
from torch import Tensor

from attnlab.interpret._records import Layer, Pattern, Sequence

THRESHOLD = 0.5
ROOM = 2.0
NEAR = 3  # tokens to each side
UNKNOWN = "\ufffd"  # stands for bytes that are no character by themselves

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


def head_patterns(layer: Layer, queries: Sequence, keys: Sequence) -> list[Pattern]:
    """For each kept head its scores, and its label or "". What no query can show is not scored."""
    if layer.weights is None:
        return [Pattern("", {}) for _ in layer.heads]
    weights = layer.weights.detach().float().abs()  # (H, T, S)
    T, S = weights.shape[1:]
    if (len(queries.texts), len(keys.texts)) != (layer.start + T, S):
        raise ValueError(
            f"{layer.name}: weights of {layer.start + T} queries for {S} keys, but there are "
            f"{len(queries.texts)} and {len(keys.texts)} tokens"
        )
    allowed = _allowed(layer, T, S)
    weights = weights * allowed
    sums = weights.sum(-1, keepdim=True)  # (H, T, 1)
    real = (sums > 0) & sums.isfinite()
    weights = torch.where(real, weights / sums, 0.0)
    found: dict[str, tuple[Tensor, Tensor]] = {}
    for name, wanted in _wanted(layer, queries, keys).items():
        found[name] = _scores(weights, real[..., 0], allowed, wanted[layer.start :] & allowed)
    found["uniform"] = _uniform(weights, real[..., 0], allowed)
    return [_pattern(found, head) for head in range(len(weights))]


def _pattern(found: dict[str, tuple[Tensor, Tensor]], head: int) -> Pattern:
    scores, rooms = {}, {}
    for name in PATTERNS:
        if name in found and float(found[name][1][head]) > 0:
            scores[name] = float(found[name][0][head])
            rooms[name] = float(found[name][1][head])
    clear = [
        name
        for name, score in scores.items()
        if score >= THRESHOLD and rooms[name] >= ROOM and name != "local"
    ]
    if clear:
        return Pattern(max(clear, key=scores.__getitem__), scores)
    near = scores.get("local", 0.0) >= THRESHOLD and rooms["local"] >= ROOM
    return Pattern("local" if near else "", scores)


def _allowed(layer: Layer, T: int, S: int) -> Tensor:
    if layer.allowed is not None:
        return layer.allowed.bool()
    everywhere = torch.ones(T, S, dtype=torch.bool)
    return everywhere.tril(layer.start) if layer.causal else everywhere


def _scores(
    weights: Tensor, real: Tensor, allowed: Tensor, wanted: Tensor
) -> tuple[Tensor, Tensor]:
    """The score of each head, and its room: how many queries' weight could be above chance."""
    chance = wanted.sum(-1) / allowed.sum(-1).clamp(min=1)  # (T,)
    shown = (real & wanted.any(-1)).double()  # (H, T)
    mass = (weights * wanted).sum(-1).double()  # (H, T)
    room = (shown * (1 - chance)).sum(-1)
    gained = (shown * (mass - chance)).sum(-1)
    return (gained / room.clamp(min=1e-9)).clamp(0, 1), room


def _uniform(weights: Tensor, real: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    even = allowed / allowed.sum(-1, keepdim=True).clamp(min=1)  # (T, S)
    moved = 0.5 * (weights - even).abs().sum(-1).double()  # (H, T)
    room = (real * (1 - even.amax(-1)).double()).sum(-1)
    away = (real * moved).sum(-1)
    return (1 - 2 * away / room.clamp(min=1e-9)).clamp(0, 1), room


def _wanted(layer: Layer, queries: Sequence, keys: Sequence) -> dict[str, Tensor]:
    """For each pattern but `uniform`, (T, S): the keys where a query would show it.

    T are all queries here, also those that were not captured.
    """
    T, S = len(queries.texts), len(keys.texts)
    own = layer.kind == "self" and T == S
    other = ~torch.eye(T, S, dtype=torch.bool) if own else torch.ones(T, S, dtype=torch.bool)
    first = torch.arange(S) == 0
    special = torch.tensor(keys.special, dtype=torch.bool)
    found = {
        "first-token sink": first.expand(T, S) & other,
        "separator": (special & ~first).expand(T, S) & other,
        "same word": _same(_words(queries), _words(keys)) & other,
    }
    if own:
        ahead = (
            torch.arange(S) - torch.arange(T)[:, None]
        )  # (T, S): the key's place less the query's
        found["same word"] |= _same(_numbers(queries), _numbers(keys)) & other
        found["previous token"] = ahead == -1
        found["next token"] = ahead == 1
        found["itself"] = ahead == 0
        found["local"] = ahead.abs() <= NEAR
        found["induction"] = _induction(queries)
    return found


def _induction(sequence: Sequence) -> Tensor:
    """(T, T): tokens that stand behind an earlier one that is the same token as the query."""
    known: Sequenced[object] = sequence.texts if sequence.ids is None else sequence.ids
    tokens = [
        None if special else token for token, special in zip(known, sequence.special, strict=True)
    ]
    same = _same(tokens, tokens).tril(-1)  # an earlier one
    behind = torch.zeros_like(same)
    behind[:, 1:] = same[:, :-1]
    return behind.tril(-1)  # the token behind it may be the query itself


def _same(left: Sequenced[object], right: Sequenced[object]) -> Tensor:
    """(T, S): where two are equal; None equals nothing."""
    numbers: dict[object, int] = {}
    one, two = (
        torch.tensor([-1 if each is None else numbers.setdefault(each, len(numbers)) for each in x])
        for x in (left, right)
    )
    return (one[:, None] == two) & (one[:, None] >= 0)


def _words(sequence: Sequence) -> list[object]:
    """For each token what its whole word is told by, without tokenizers' marks; None is no word.

    That is its text, or its ids where bytes of a character stand alone: they all look the same.
    """
    found: list[object] = [None] * len(sequence.texts)
    for tokens in _tokens_of_words(sequence):
        text = "".join(_unmarked(sequence.texts[token]) for token in tokens).strip().casefold()
        told: object = text or None
        if UNKNOWN in text and sequence.ids is not None:
            told = tuple(sequence.ids[token] for token in tokens)
        for token in tokens:
            found[token] = told
    return found


def _tokens_of_words(sequence: Sequence) -> list[list[int]]:
    """The tokens of each word, in order; one without a number is a word of its own."""
    found: dict[tuple[int, int], list[int]] = {}
    for token, number in enumerate(_numbers(sequence)):
        if not sequence.special[token]:
            key = (-1, token) if number is None else (number, 0)
            found.setdefault(key, []).append(token)
    return list(found.values())


def _unmarked(text: str) -> str:
    plain = text.strip().lstrip("Ġ▁")
    return plain.removeprefix("##") if len(plain) > 2 else plain  # two alone are a word


def _numbers(sequence: Sequence) -> list[int | None]:
    return [
        word if word >= 0 and not special else None
        for word, special in zip(sequence.words, sequence.special, strict=True)
    ]
