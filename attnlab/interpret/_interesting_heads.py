"""Choose the heads that say most about an input, and what a page opens with.

A head is trivial if a rule that does not read the text predicts it: attend to yourself, to your
neighbor, to the first token, to separators, or to everything alike. So the key of a query counts
only if it is none of these, and only the weight above uniform attention, w - 1/n. A head's score is
the mean of its three largest such weights: a head that finds one antecedent is worth a look, even
if it does nothing elsewhere. Where the effects of heads were measured, these decide instead.

Letters: H heads, T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import torch
from torch import Tensor

from attnlab.interpret._head_patterns import allowed_keys
from attnlab.interpret._records import (
    Capture,
    CapturePanel,
    Effects,
    Highlight,
    InitialView,
    Layer,
    View,
)
from attnlab.interpret._records import Sequence as Tokens

MAX_NONTRIVIAL = 3  # heads that are listed because of what they attend to
MAX_HIGHLIGHTS = 8
SCORED_QUERIES = 3
MIN_SCORE = 0.02  # less is not worth a look
MAX_ALIGNED = 512  # tokens of texts that are aligned
MIN_KEYS = 3  # a query that sees fewer keys chooses nothing
TRIVIAL_PATTERNS = ("uniform", "local")  # no label that makes a head worth a look


@dataclass(frozen=True)
class HeadCandidate:
    """A head, its clearest query and key, and how far it is from trivial patterns."""

    score: float
    highlight: Highlight


def find_highlights(panel: CapturePanel) -> list[Highlight]:
    """The most telling heads first, then the clearest head of each pattern. No head twice."""
    scored = [
        head
        for number, layer in enumerate(panel.layers)
        if layer.weights is not None and not layer.start
        for head in _score_layer(panel, number, layer)
    ]
    scored.sort(key=lambda head: -head.score)
    if panel.effects is not None and any(x is not None for x in panel.effects.heads):
        return _by_effect(panel, panel.effects, scored)
    chosen = [head.highlight for head in scored[:MAX_NONTRIVIAL] if head.score > MIN_SCORE]
    clearest = sorted(
        (head.highlight for head in scored),
        key=lambda each: -_pattern_score(panel, each),
    )
    labels = set(TRIVIAL_PATTERNS) | {each.pattern for each in chosen} | {""}
    for highlight in clearest:
        if highlight.pattern not in labels and len(chosen) < MAX_HIGHLIGHTS:
            labels.add(highlight.pattern)
            chosen.append(highlight)
    return chosen


def _by_effect(
    panel: CapturePanel, effects: Effects, scored: list[HeadCandidate]
) -> list[Highlight]:
    """The heads without which the measured target changes most, with what they attend to there."""

    def size(highlight: Highlight) -> float:
        rows = effects.heads[highlight.layer]
        return -1.0 if rows is None else abs(float(rows[highlight.head, effects.measured]))

    ranked = sorted((each.highlight for each in scored), key=size, reverse=True)[:MAX_HIGHLIGHTS]
    return [_at_target(panel, effects, highlight) for highlight in ranked if size(highlight) >= 0]


def _at_target(panel: CapturePanel, effects: Effects, highlight: Highlight) -> Highlight:
    """The head at the measured position, if its queries are those tokens."""
    weights = panel.layers[highlight.layer].weights
    if weights is None or panel.sequence_indices[highlight.layer][0] != effects.sequence:
        return highlight
    row = weights[highlight.head, effects.measured].abs()  # (S,)
    row = row / row.sum().clamp(min=1e-30)
    key = int(row.argmax())
    return replace(highlight, query=effects.measured, key=key, weight=round(float(row[key]), 4))


def opening_view(capture: Capture) -> InitialView | None:
    """What a page shows first: the difference of two panels, or the most telling head."""
    if len(capture.panels) > 1:
        number, head = _most_changed(*capture.panels)
        return InitialView("compare", number, head)
    if not capture.highlights:
        return None
    best = capture.highlights[0]
    panel = capture.panels[0]
    layer = panel.layers[best.layer]
    keys = panel.sequences[panel.sequence_indices[best.layer][1]]
    view: View = "heads"
    if keys.image is not None:
        view = "image"
    elif layer.kind == "cross":
        view = "cross"
    return InitialView(view, best.layer, best.head, best.query)


def _pattern_score(panel: CapturePanel, highlight: Highlight) -> float:
    patterns = panel.patterns[highlight.layer] if panel.patterns else []
    return patterns[highlight.head].scores[highlight.pattern] if highlight.pattern else 0.0


def _score_layer(panel: CapturePanel, number: int, layer: Layer) -> list[HeadCandidate]:
    queries, keys = (panel.sequences[index] for index in panel.sequence_indices[number])
    assert layer.weights is not None
    H, T, S = layer.weights.shape
    allowed = allowed_keys(layer, T, S)
    counted = allowed & _nontrivial_pairs(layer, queries, keys)
    seen = allowed.sum(-1)  # (T,)
    counted &= ((seen >= MIN_KEYS) & _nontrivial_queries(queries))[:, None]
    patterns = panel.patterns[number] if panel.patterns else []
    heads = []
    for head in range(H):  # one at a time: the weights may be large
        weights = layer.weights[head].detach().float().abs() * allowed  # (T, S)
        weights = torch.nan_to_num(weights / weights.sum(-1, keepdim=True), 0.0, 0.0, 0.0)
        largest, key = (weights * counted).max(-1)  # (T,)
        gain = torch.where(counted.any(-1), largest - 1 / seen.clamp(min=1), -1.0)
        query = int(gain.argmax())
        top = gain.topk(min(SCORED_QUERIES, T)).values.clamp(min=0)
        pattern = patterns[head].label if patterns else ""
        highlight = Highlight(
            number, head, query, int(key[query]), round(float(largest[query]), 4), pattern
        )
        heads.append(HeadCandidate(float(top.mean()), highlight))
    return heads


def _nontrivial_queries(queries: Tokens) -> Tensor:
    """(T,): words, not separators; of a vision model its class token, if it has one."""
    special = torch.tensor(queries.special, dtype=torch.bool)
    if queries.image is not None and queries.image.first:
        return torch.arange(len(special)) < queries.image.first
    return special if special.all() else ~special


def _nontrivial_pairs(layer: Layer, queries: Tokens, keys: Tokens) -> Tensor:
    """(T, S): keys that no trivial pattern predicts for a query."""
    T, S = len(queries.texts), len(keys.texts)
    nontrivial = ~torch.tensor(keys.special, dtype=torch.bool)
    if keys.image is None:
        nontrivial = nontrivial & (torch.arange(S) > 0)
    else:
        patch = torch.arange(S) - keys.image.first
        nontrivial = (patch >= 0) & (patch < keys.image.rows * keys.image.columns)
    pairs = nontrivial.expand(T, S).clone()
    if layer.kind == "self" and T == S:
        pairs &= ~_neighbors(keys)
    return pairs


def _neighbors(tokens: Tokens) -> Tensor:
    """(S, S): a token, the tokens beside it and the rest of its word; of a patch the eight patches
    around it."""
    positions = torch.arange(len(tokens.texts))
    if tokens.image is None:
        words = torch.tensor(tokens.words)
        same_word = (words[:, None] == words) & (words >= 0)
        return ((positions[:, None] - positions).abs() <= 1) | same_word
    patch = positions - tokens.image.first
    row, column = patch // tokens.image.columns, patch % tokens.image.columns
    near = ((row[:, None] - row).abs() <= 1) & ((column[:, None] - column).abs() <= 1)
    is_patch = (patch >= 0) & (patch < tokens.image.rows * tokens.image.columns)
    return near & is_patch[:, None] & is_patch


def _most_changed(first: CapturePanel, second: CapturePanel) -> tuple[int, int | None]:
    """The layer and head whose weights differ most between two panels of the same shape, on the
    tokens that both have; without such a pair, the first layer."""
    best: tuple[int, int | None] = (0, None)
    most = 0.0
    if [len(layer.heads) for layer in first.layers] != [
        len(layer.heads) for layer in second.layers
    ]:
        return best
    aligned: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    for number, (one, other) in enumerate(zip(first.layers, second.layers, strict=True)):
        if one.weights is None or other.weights is None:
            continue
        pairs = []
        for index, other_index in zip(
            first.sequence_indices[number], second.sequence_indices[number], strict=True
        ):
            tokens = first.sequences[index], second.sequences[other_index]
            if (index, other_index) not in aligned:
                aligned[index, other_index] = _align(*tokens)
            pairs.append(aligned[index, other_index])
        (query, other_query), (key, other_key) = pairs
        if not len(query) or not len(key):
            continue
        for head in range(len(one.weights)):
            left = _with_rest(one.weights[head][query], key)  # (T, S + 1), common tokens
            right = _with_rest(other.weights[head][other_query], other_key)
            total = (left.abs() + right.abs()).sum(-1).clamp(min=1e-30)
            change = float(((left - right).abs().sum(-1) / total).mean())
            if change > most:
                most, best = change, (number, head)
    return best


def _with_rest(weights: Tensor, keys: Tensor) -> Tensor:
    """The weights on these keys, and their sum on all others as one key more."""
    chosen = weights[:, keys].float()
    return torch.cat(
        [chosen, weights.float().sum(-1, keepdim=True) - chosen.sum(-1, keepdim=True)], 1
    )


def _align(first: Tokens, second: Tokens) -> tuple[Tensor, Tensor]:
    """The positions of the tokens that two texts have in common, in both of them."""
    texts = [[text.strip().casefold() for text in tokens.texts] for tokens in (first, second)]
    if texts[0] == texts[1]:
        return torch.arange(len(texts[0])), torch.arange(len(texts[0]))
    if max(map(len, texts)) > MAX_ALIGNED:
        return torch.arange(0), torch.arange(0)
    blocks = SequenceMatcher(None, texts[0], texts[1], autojunk=False).get_matching_blocks()
    left = [block.a + i for block in blocks for i in range(block.size)]
    right = [block.b + i for block in blocks for i in range(block.size)]
    return torch.tensor(left, dtype=torch.long), torch.tensor(right, dtype=torch.long)
