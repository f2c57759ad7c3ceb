"""What the heads of a trained encoder do, compared with an untrained copy.

Letters: L layers, H heads, T tokens.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import cycle

import torch
from torch import Tensor

from attnlab.claims._claim import Bars, Estimate, Evidence, Lines, Size, Trial, claim, mean_interval
from attnlab.claims._pretrained_models import (
    ReadText,
    SentenceReader,
    get_reader,
    needs_models,
    sentences_for,
    trained_reader,
)
from attnlab.claims.judges import Above
from attnlab.interpret._head_patterns import head_patterns
from attnlab.report import Series

# Patterns: the best head is selected on one half of the sentences and measured on the other

PAIRS = (
    ("big", "large"), ("car", "vehicle"), ("house", "home"), ("doctor", "physician"),
    ("rich", "wealthy"), ("boat", "ship"), ("stone", "rock"), ("child", "kid"),
    ("begin", "start"), ("street", "road"), ("happy", "glad"), ("gift", "present"),
    ("fast", "quick"), ("smart", "clever"), ("job", "work"), ("error", "mistake"),
    ("forest", "woods"), ("story", "tale"), ("movie", "film"), ("shop", "store"),
    ("angry", "mad"), ("answer", "reply"), ("cold", "chilly"), ("enemy", "foe"),
)  # fmt: skip
FILLERS = ("blue", "window", "music", "seven", "paper", "garden", "metal", "winter", "lemon")
CHANCE = 1 / 5  # a list has six words
PATTERNS = ("previous token", "next token", "marks [CLS], [SEP]", "same word", "similar meaning")


@claim(
    "head-patterns",
    topic="trained",
    source="paper",
    statement="heads for previous token, next token, separators, same word, similar meaning exist "
    "in a trained encoder, not in an untrained one",
    why="""A head whose q and k depend on positions can attend to the previous token; one whose q
    and k depend on words can attend to equal or related words. Let m be the weight on the tokens of
    a pattern, and c the weight that uniform attention would put there. The score of a head is (m -
    c) / (1 - c): 0 is chance, 1 is the maximum. Of 72 heads some score well by luck, so for each
    pattern the best head is selected on one half of the sentences and measured on the other. In an
    untrained copy all weights are near 1/n and no head scores well. Equal words and words of
    similar meaning are tested in lists of six words, with the weight that a word gives to the other
    five. Some patterns are much clearer than others: they are tendencies rather than rules.""",
    reference="Clark et al. 2019, What does BERT look at?, arXiv 1906.04341",
    judge=Above(0.25, "score of the best head of the weakest of the five patterns (MiniLM)"),
    control="an untrained copy",
    needs=needs_models("minilm"),
)
def head_patterns_exist(trial: Trial) -> Evidence:
    bars: dict[str, Estimate] = {}
    weakest = Estimate(math.inf)
    for untrained in (False, True):
        scores = _pattern_scores(trial.seed, trial.size, untrained)
        best = {kind: _held_out_score(scores[kind]) for kind in PATTERNS}
        label = "untrained: " if untrained else ""
        bars |= {f"{label}{kind}": figure for kind, figure in best.items()}
        if untrained == trial.control:
            weakest = min(best.values(), key=lambda figure: figure.value)
    clear = sum(bars[kind].value >= 0.5 for kind in PATTERNS)
    return Evidence(
        weakest,
        Bars("score of the best head, on the other half of the sentences", bars),
        details={"patterns with a score of at least 0.5": clear},
    )


def _held_out_score(scores: Tensor) -> Estimate:
    """Selects the best head on every other text, and measures it on the others. (texts, L, H)"""
    best = int(scores[::2].mean(0).argmax())
    return mean_interval(scores[1::2].flatten(1)[:, best].tolist())


@lru_cache(maxsize=4)
def _pattern_scores(seed: int, size: Size, untrained: bool) -> dict[str, Tensor]:
    """For each pattern (texts, L, H). Cached, because the control needs the same."""
    trial, reader = Trial(seed, size), get_reader("minilm", seed, untrained=untrained)
    reads = [reader.read(text) for text in sentences_for(trial)]
    return {
        "previous token": _pattern_scores_by_name(reads, "previous token"),
        "next token": _pattern_scores_by_name(reads, "next token"),
        "marks [CLS], [SEP]": torch.stack([_special_token_scores(read) for read in reads]),
        "same word": _word_list_scores(reader, trial, [(one, one) for one, _ in PAIRS]),
        "similar meaning": _word_list_scores(reader, trial, PAIRS),
    }


def _pattern_scores_by_name(reads: Sequence[ReadText], name: str) -> Tensor:
    """(texts, L, H): the scores of attnlab's head_patterns."""
    return torch.tensor([
        [
            [head.scores[name] for head in head_patterns(layer, read.sequence, read.sequence)]
            for layer in read.layers
        ]
        for read in reads
    ])  # fmt: skip


def _special_token_scores(read: ReadText) -> Tensor:
    """(L, H): the weight of words on special tokens, above chance."""
    marks = torch.tensor(read.sequence.special)
    return _above_chance(read.weights[:, :, ~marks][..., marks].sum(-1).mean(-1), marks)


def _word_list_scores(
    reader: SentenceReader, trial: Trial, pairs: Sequence[tuple[str, str]]
) -> Tensor:
    """(pairs, L, H): how much two words attend to each other rather than to others of their list.

    Ignores weight on the word itself and on special tokens, where most heads have most of it.
    """
    rng = random.Random(trial.seed)
    lists = []
    for one, other in list(pairs) * trial.pick(2, 6):
        lists.append([one, other, *rng.sample(FILLERS, 4)])
        rng.shuffle(lists[-1])
    scores = []
    reads = reader.read_all([" ".join(words) for words in lists])
    for (one, other), words, read in zip(cycle(pairs), lists, reads, strict=False):
        i, j = (words.index(one) + 1, len(words) - words[::-1].index(other))  # [CLS] is before
        assert [read.sequence.texts[k] for k in (i, j)] == [one, other]
        mutual = (_weight_among_words(read, i, j) + _weight_among_words(read, j, i)) / 2
        scores.append((mutual - CHANCE) / (1 - CHANCE))
    return torch.stack(scores).unflatten(0, (-1, len(pairs))).mean(0)


def _weight_among_words(read: ReadText, word: int, other: int) -> Tensor:
    """(L, H): the weight on one word, as a fraction of the weight on all other words."""
    row = read.weights[:, :, word, 1:-1].clone()  # without [CLS] and [SEP] at the ends
    row[..., word - 1] = 0
    return row[..., other - 1] / row.sum(-1)


def _above_chance(mass: Tensor, named: Tensor) -> Tensor:
    chance = float(named.float().mean())
    return (mass - chance) / (1 - chance)


@claim(
    "layers-differ",
    topic="trained",
    source="paper",
    statement="heads of different layers attend differently, more than heads of one layer do",
    why="""The distance of two heads is the Jensen-Shannon divergence of their rows, JS = (KL(a, m)
    + KL(b, m)) / 2 with m = (a + b) / 2, averaged over all tokens. Heads of one layer read the same
    vectors; heads of different layers read vectors that earlier layers have already mixed. If
    layers have different functions, pairs from two layers are further apart on average than pairs
    from one layer. If the layer did not matter, the ratio would be 1, as it is when heads are
    assigned to layers at random.""",
    reference="Clark et al. 2019, What does BERT look at?, arXiv 1906.04341",
    judge=Above(1.05, "distance of heads of two layers / that of heads of one layer (MiniLM)"),
    control="heads assigned to layers at random",
    needs=needs_models("minilm"),
)
def layers_differ(trial: Trial) -> Evidence:
    ratios, curves = [], []
    for number, text in enumerate(sentences_for(trial)):
        weights = trained_reader("minilm").read(text).weights.double()  # (L, H, T, T)
        layers, heads = weights.shape[:2]
        distances = _jensen_shannon(weights.flatten(0, 1))  # (L H, L H)
        layer = torch.arange(layers).repeat_interleave(heads)
        if trial.control:
            layer = layer[torch.randperm(len(layer), generator=trial.generator(number))]
        layer_gap = (layer[:, None] - layer).abs()
        same_head = torch.eye(len(layer), dtype=torch.bool)
        by_gap = [float(distances[(layer_gap == gap) & ~same_head].mean()) for gap in range(layers)]
        ratios.append(float(distances[layer_gap > 0].mean()) / by_gap[0])
        curves.append(by_gap)
    curve = torch.tensor(curves).mean(0).tolist()
    return Evidence(
        mean_interval(ratios),
        Lines(
            "layers between two heads",
            "Jensen-Shannon divergence",
            [Series("mean of all pairs", [(float(gap), y) for gap, y in enumerate(curve)])],
        ),
    )


def _jensen_shannon(weights: Tensor) -> Tensor:
    """(heads, T, T) -> (heads, heads), the mean over tokens."""
    own = torch.special.xlogy(weights, weights).sum(-1).mean(-1)  # minus the entropy
    mixed = []
    for head_weights in weights:
        mean = (head_weights + weights) / 2  # (heads, T, T)
        mixed.append(-torch.special.xlogy(mean, mean).sum(-1).mean(-1))
    return torch.stack(mixed) + (own[:, None] + own) / 2
