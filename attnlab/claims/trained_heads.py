"""What the heads of a trained encoder do, beside those of an untrained twin.

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
from attnlab.claims._trained_models import Read, Reader, needs, one_of, texts, trained
from attnlab.claims.judges import Above
from attnlab.interpret._head_patterns import head_patterns
from attnlab.report import Series

# Patterns: the best head is chosen on one half of the sentences and measured on the other

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
KINDS = ("previous token", "next token", "marks [CLS], [SEP]", "same word", "similar meaning")


@claim(
    "head-patterns",
    topic="trained",
    source="paper",
    statement="heads for previous token, next token, separators, same word, similar meaning exist "
    "in a trained encoder, not in an untrained one",
    why="""A head whose q and k read positions can look one token back, one that reads words can
    look at equal or related words. With m the weight on what a pattern names and c what uniform
    weights would put there, a head scores (m - c) / (1 - c): 0 is chance, 1 is all there is. With
    72 heads some score well by luck, so for each pattern the best head is chosen on one half of the
    sentences and measured on the other. In an untrained twin all weights are near 1/n and no head
    scores. Words of equal or similar meaning are looked for in lists of six words, among the weight
    that a word gives to the other five. How clear patterns are differs much: they are tendencies
    rather than rules.""",
    reference="Clark et al. 2019, What does BERT look at?, arXiv 1906.04341",
    judge=Above(0.25, "score of the best head of the weakest of the five patterns (MiniLM)"),
    control="the untrained twin",
    needs=needs("minilm"),
)
def head_patterns_exist(trial: Trial) -> Evidence:
    found: dict[str, Estimate] = {}
    weakest = Estimate(math.inf)
    for fresh in (False, True):
        scores = _pattern_scores(trial.seed, trial.size, fresh)
        best = {kind: _held_out(scores[kind]) for kind in KINDS}
        label = "untrained: " if fresh else ""
        found |= {f"{label}{kind}": figure for kind, figure in best.items()}
        if fresh == trial.control:
            weakest = min(best.values(), key=lambda figure: figure.value)
    clear = sum(found[kind].value >= 0.5 for kind in KINDS)
    return Evidence(
        weakest,
        Bars("score of the best head on the other half", found),
        details={"patterns with more than half of what chance leaves": clear},
    )


def _held_out(scores: Tensor) -> Estimate:
    """(texts, L, H): the head that is best on every other text, measured on the others."""
    best = int(scores[::2].mean(0).argmax())
    return mean_interval(scores[1::2].flatten(1)[:, best].tolist())


@lru_cache(maxsize=4)
def _pattern_scores(seed: int, size: Size, fresh: bool) -> dict[str, Tensor]:
    """For each kind (texts, L, H); kept, because the control asks for the same."""
    trial, reader = Trial(seed, size), one_of("minilm", seed, fresh=fresh)
    reads = [reader.read(text) for text in texts(trial)]
    return {
        "previous token": _named(reads, "previous token"),
        "next token": _named(reads, "next token"),
        "marks [CLS], [SEP]": torch.stack([_on_marks(read) for read in reads]),
        "same word": _in_lists(reader, trial, [(one, one) for one, _ in PAIRS]),
        "similar meaning": _in_lists(reader, trial, PAIRS),
    }


def _named(reads: Sequence[Read], name: str) -> Tensor:
    """(texts, L, H): by attnlab's own score of patterns."""
    return torch.tensor([
        [
            [each.scores[name] for each in head_patterns(layer, read.sequence, read.sequence)]
            for layer in read.layers
        ]
        for read in reads
    ])  # fmt: skip


def _on_marks(read: Read) -> Tensor:
    """(L, H): words that look at the marks, above chance."""
    marks = torch.tensor(read.sequence.special)
    return _above_chance(read.weights[:, :, ~marks][..., marks].sum(-1).mean(-1), marks)


def _in_lists(reader: Reader, trial: Trial, pairs: Sequence[tuple[str, str]]) -> Tensor:
    """(pairs, L, H): how much two words look at each other rather than at others of their list.

    Weight on the word itself and on the marks is left aside: most heads have most of it there.
    """
    draw = random.Random(trial.seed)
    lists = []
    for one, other in list(pairs) * trial.pick(2, 6):
        lists.append([one, other, *draw.sample(FILLERS, 4)])
        draw.shuffle(lists[-1])
    found = []
    reads = reader.read_all([" ".join(words) for words in lists])
    for (one, other), words, read in zip(cycle(pairs), lists, reads, strict=False):
        i, j = (words.index(one) + 1, len(words) - words[::-1].index(other))  # [CLS] is before
        assert [read.sequence.texts[k] for k in (i, j)] == [one, other]
        both = (_among_words(read, i, j) + _among_words(read, j, i)) / 2
        found.append((both - CHANCE) / (1 - CHANCE))
    return torch.stack(found).unflatten(0, (-1, len(pairs))).mean(0)


def _among_words(read: Read, word: int, other: int) -> Tensor:
    """(L, H): what a word gives to another one of all that it gives to other words."""
    row = read.weights[:, :, word, 1:-1].clone()  # the marks stand at both ends
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
    why="""Two heads are as far apart as the Jensen-Shannon divergence of their rows says,
    JS = (KL(a, m) + KL(b, m)) / 2 with m = (a + b) / 2, averaged over all tokens. Heads of a layer
    read the same vectors, heads of different layers read what others have already mixed. So if
    layers have work of their own, pairs from two layers are further apart on average than
    pairs of one layer. If the layer said nothing, the ratio would be 1, as it is when heads are
    dealt to layers by chance.""",
    reference="Clark et al. 2019, What does BERT look at?, arXiv 1906.04341",
    judge=Above(1.05, "distance of heads of two layers over that of heads of one layer (MiniLM)"),
    control="heads dealt to layers by chance",
    needs=needs("minilm"),
)
def layers_differ(trial: Trial) -> Evidence:
    ratios, between = [], []
    for number, text in enumerate(texts(trial)):
        weights = trained("minilm").read(text).weights.double()  # (L, H, T, T)
        layers, heads = weights.shape[:2]
        distances = _jensen_shannon(weights.flatten(0, 1))  # (L H, L H)
        layer = torch.arange(layers).repeat_interleave(heads)
        if trial.control:
            layer = layer[torch.randperm(len(layer), generator=trial.random(number))]
        apart = (layer[:, None] - layer).abs()
        itself = torch.eye(len(layer), dtype=torch.bool)
        by_gap = [float(distances[(apart == gap) & ~itself].mean()) for gap in range(layers)]
        ratios.append(float(distances[apart > 0].mean()) / by_gap[0])
        between.append(by_gap)
    curve = torch.tensor(between).mean(0).tolist()
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
    found = []
    for each in weights:
        middle = (each + weights) / 2  # (heads, T, T)
        found.append(-torch.special.xlogy(middle, middle).sum(-1).mean(-1))
    return torch.stack(found) + (own[:, None] + own) / 2
