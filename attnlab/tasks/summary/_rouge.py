"""ROUGE: how many words, pairs of words, and words in order a summary shares with the right one.

The same numbers as Google's `rouge-score` without its stemmer, which the tests compare with.
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
    """What ROUGE compares: runs of Latin letters and digits, in lower case."""
    return WORD.findall(text.lower())


def rouge(written: str, right: str) -> dict[str, Rouge]:
    """All kinds, for one summary."""
    mine, theirs = words_of(written), words_of(right)
    found = {f"rouge{n}": _shared(_spans(mine, n), _spans(theirs, n)) for n in (1, 2)}
    common = common_length(mine, theirs)
    found["rougeL"] = Rouge(common / max(1, len(mine)), common / max(1, len(theirs)))
    return found


def _spans(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[i:] for i in range(n)), strict=False))


def _shared(mine: Counter[tuple[str, ...]], theirs: Counter[tuple[str, ...]]) -> Rouge:
    both = (mine & theirs).total()
    return Rouge(both / max(1, mine.total()), both / max(1, theirs.total()))


def common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Of the longest common subsequence, all of a row at once in the bits of one number (Hyyrö)."""
    places: dict[str, int] = {}
    for i, word in enumerate(other):
        places[word] = places.get(word, 0) | 1 << i
    full = (1 << len(other)) - 1
    row = full
    for word in one:
        met = row & places.get(word, 0)
        row = (row + met | row - met) & full
    return len(other) - row.bit_count()


def common_words(text: Sequence[str], right: Sequence[str]) -> list[int]:
    """Places in `text` of one longest common subsequence: the earliest that there are."""
    T, R = len(text), len(right)
    table = [[0] * (R + 1) for _ in range(T + 1)]  # of what is left from here on
    for i in range(T - 1, -1, -1):
        row, below = table[i], table[i + 1]
        for j in range(R - 1, -1, -1):
            same = text[i] == right[j]
            row[j] = below[j + 1] + 1 if same else max(below[j], row[j + 1])
    places, i, j = [], 0, 0
    while i < T and j < R:
        if text[i] == right[j]:
            places.append(i)
            i, j = i + 1, j + 1
        elif table[i][j + 1] >= table[i + 1][j]:
            j += 1
        else:
            i += 1
    return places


@dataclass(frozen=True)
class Scores:
    """The mean F of each kind over many summaries, in percent, with 95% intervals."""

    mean: dict[str, float]
    interval: dict[str, tuple[float, float]]
    count: int
    each: dict[str, list[float]]
    """F of every summary."""

    def as_dict(self) -> dict[str, object]:
        return {
            "count": self.count,
            **{kind: self.mean[kind] for kind in KINDS},
            "interval": {kind: list(self.interval[kind]) for kind in KINDS},
        }


def score(written: Sequence[str], right: Sequence[str], seed: int = 0) -> Scores:
    """Of many summaries; intervals by the bootstrap over texts."""
    if len(written) != len(right) or not written:
        raise ValueError(f"{len(written)} summaries for {len(right)} texts; give as many, above 0")
    found = [rouge(one, other) for one, other in zip(written, right, strict=True)]
    each = {kind: [100 * row[kind].f for row in found] for kind in KINDS}
    return Scores(
        {kind: statistics.fmean(values) for kind, values in each.items()},
        {kind: bootstrap(values, seed) for kind, values in each.items()},
        len(found),
        each,
    )


def bootstrap(values: Sequence[float], seed: int = 0, draws: int = 1000) -> tuple[float, float]:
    """The 95% interval of the mean: of what other draws of as many texts would have given."""
    chance, count = random.Random(seed), len(values)
    means = sorted(statistics.fmean(chance.choices(values, k=count)) for _ in range(draws))
    return means[round(0.025 * (draws - 1))], means[round(0.975 * (draws - 1))]
