"""ROUGE: how many words, word pairs and words in order a summary shares with the reference.

It gives the same numbers as Google's `rouge-score` without its stemmer; a test compares them.
"""

from __future__ import annotations

import random
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

WORD = re.compile("[a-z0-9]+")
KINDS = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True)
class Rouge:
    """Precision, recall and their harmonic mean, each from 0 to 1."""

    precision: float
    recall: float

    @property
    def f(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def words_of(text: str) -> list[str]:
    """The words that ROUGE compares: runs of Latin letters and digits, in lower case."""
    return WORD.findall(text.lower())


def rouge(summary: str, reference: str) -> dict[str, Rouge]:
    """ROUGE-1, ROUGE-2 and ROUGE-L of one summary."""
    words, reference_words = words_of(summary), words_of(reference)
    scores = {
        f"rouge{n}": _overlap(_word_spans(words, n), _word_spans(reference_words, n))
        for n in (1, 2)
    }
    length = common_subsequence_length(words, reference_words)
    scores["rougeL"] = Rouge(length / max(1, len(words)), length / max(1, len(reference_words)))
    return scores


def _word_spans(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[i:] for i in range(n)), strict=False))


def _overlap(spans: Counter[tuple[str, ...]], reference_spans: Counter[tuple[str, ...]]) -> Rouge:
    common = (spans & reference_spans).total()
    return Rouge(common / max(1, spans.total()), common / max(1, reference_spans.total()))


def common_subsequence_length(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest common subsequence, a whole row in the bits of a number (Hyyrö)."""
    positions: dict[str, int] = {}
    for i, word in enumerate(other):
        positions[word] = positions.get(word, 0) | 1 << i
    full = (1 << len(other)) - 1
    row = full
    for word in one:
        matches = row & positions.get(word, 0)
        row = (row + matches | row - matches) & full
    return len(other) - row.bit_count()


def common_subsequence(text: Sequence[str], reference: Sequence[str]) -> list[int]:
    """Positions in `text` of a longest common subsequence, as early as possible."""
    T, R = len(text), len(reference)
    table = [[0] * (R + 1) for _ in range(T + 1)]  # lengths for the rest from here on
    for i in range(T - 1, -1, -1):
        row, below = table[i], table[i + 1]
        for j in range(R - 1, -1, -1):
            same = text[i] == reference[j]
            row[j] = below[j + 1] + 1 if same else max(below[j], row[j + 1])
    positions, i, j = [], 0, 0
    while i < T and j < R:
        if text[i] == reference[j]:
            positions.append(i)
            i, j = i + 1, j + 1
        elif table[i][j + 1] >= table[i + 1][j]:
            j += 1
        else:
            i += 1
    return positions


@dataclass(frozen=True)
class Scores:
    """The mean F-measure of each kind over many summaries, in percent, with 95% intervals."""

    mean: dict[str, float]
    interval: dict[str, tuple[float, float]]
    count: int
    each: dict[str, list[float]]
    """The F-measure of every summary."""

    def as_dict(self) -> dict[str, object]:
        return {
            "count": self.count,
            **{kind: self.mean[kind] for kind in KINDS},
            "interval": {kind: list(self.interval[kind]) for kind in KINDS},
        }


def score(summaries: Sequence[str], references: Sequence[str], seed: int = 0) -> Scores:
    """Scores of many summaries. The intervals come from a bootstrap over texts."""
    if len(summaries) != len(references) or not summaries:
        raise ValueError(
            f"{len(summaries)} summaries for {len(references)} texts; give the same number of "
            "each, at least one"
        )
    scores = [
        rouge(summary, reference) for summary, reference in zip(summaries, references, strict=True)
    ]
    each = {kind: [100 * row[kind].f for row in scores] for kind in KINDS}
    return Scores(
        {kind: statistics.fmean(values) for kind, values in each.items()},
        {kind: bootstrap(values, seed) for kind, values in each.items()},
        len(scores),
        each,
    )


def bootstrap(values: Sequence[float], seed: int = 0, resamples: int = 1000) -> tuple[float, float]:
    """The 95% interval of the mean, from random samples of the values with replacement."""
    generator, count = random.Random(seed), len(values)
    means = sorted(statistics.fmean(generator.choices(values, k=count)) for _ in range(resamples))
    return means[round(0.025 * (resamples - 1))], means[round(0.975 * (resamples - 1))]
