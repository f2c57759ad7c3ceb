"""Knowledge or a guess? What confidences, answers and names say, in small exact versions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
TINY = 1e-9  # less than this is rounding


@dataclass(frozen=True)
class Bin:
    """The answers whose confidence is at least `low` and below `high`."""

    low: float
    high: float
    count: int
    confidence: float  # their mean
    accuracy: float


@dataclass(frozen=True)
class Point:
    """What remains when only answers with a confidence of `threshold` or more are given."""

    threshold: float
    coverage: float
    precision: float


# Confidence against correctness


def reliability(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> list[Bin]:
    """Bins of equal width from 0 to 1 (1 is in the last); a bin without answers is left out."""
    sure, right = _checked(confidence, correct)
    if sure.min() < 0 or sure.max() > 1:
        raise ValueError(
            f"confidences from {sure.min():g} to {sure.max():g}; bins need probabilities"
        )
    edges = np.arange(_positive(bins, "bins") + 1) / bins
    return _bins(sure, right, edges[:-1], edges[1:])


def expected_calibration_error(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> float:
    """How far confidence and accuracy lie apart in the bin of an average answer."""
    found = reliability(confidence, correct, bins)
    total = sum(each.count for each in found)
    return sum(each.count / total * abs(each.accuracy - each.confidence) for each in found)


def accuracy_by(confidence: ArrayLike, correct: ArrayLike, groups: int = 10) -> list[Bin]:
    """Groups of nearly equal count. Equal confidences stay together, so there may be fewer.

    `low` is a group's least confidence and `high` the next group's, in the last group its largest.
    """
    sure, right = _checked(confidence, correct)
    cuts = np.arange(_positive(groups, "groups")) * len(sure) // groups
    lows = np.unique(np.sort(sure)[cuts])
    return _bins(sure, right, lows, np.append(lows[1:], sure.max()))


def roc_area(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """How often a right answer is more confident than a wrong one; a tie counts half.

    None when all answers are right or all are wrong: there is no pair to compare.
    """
    sure, right = _checked(confidence, correct)
    _, place = np.unique(sure, return_inverse=True)
    rights = np.bincount(place, weights=right)
    wrongs = np.bincount(place) - rights
    pairs = rights.sum() * wrongs.sum()
    below = np.cumsum(wrongs) - wrongs
    return float((rights * (below + wrongs / 2)).sum() / pairs) if pairs else None


def risk_coverage(confidence: ArrayLike, correct: ArrayLike) -> list[Point]:
    """One point for each distinct confidence, from the fewest answers to all of them.

    Answers of equal confidence cannot be told apart: a threshold gives all of them or none.
    """
    sure, right = _checked(confidence, correct)
    values, place = np.unique(-sure, return_inverse=True)
    given = np.cumsum(np.bincount(place))
    rights = np.cumsum(np.bincount(place, weights=right))
    return [
        Point(float(-value), float(count / len(sure)), float(hits / count))
        for value, count, hits in zip(values, given, rights, strict=True)
    ]


def threshold_for(precision: float, confidence: ArrayLike, correct: ArrayLike) -> Point | None:
    """The lowest threshold at which the answers given are right at least that often.

    Precision need not fall steadily, so a higher threshold may miss what this one reaches. Ties go
    together as in `risk_coverage`. None when no threshold will do. Fitted and judged on the same
    answers it flatters: choose it on some and report it on others.
    """
    if not 0 < precision <= 1:
        raise ValueError(f"a precision of {precision} cannot be asked for; give one in (0, 1]")
    points = risk_coverage(confidence, correct)
    return next((each for each in reversed(points) if each.precision >= precision), None)


def interval(right: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a share; nothing is known of 0 of 0, which gives (0, 1)."""
    if not 0 <= right <= total:
        raise ValueError(f"{right} right of {total} is no share")
    if not 0 < level < 1:
        raise ValueError(f"a level of {level} is none; give one between 0 and 1, such as 0.95")
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, grown = right / total, 1 + z * z / total
    centre = (share + z * z / (2 * total)) / grown
    reach = z / grown * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    low = 0.0 if right == 0 else max(0.0, centre - reach)  # exactly, whatever rounding does
    return low, 1.0 if right == total else min(1.0, centre + reach)


def lower_bound(right: int, total: int, level: float = 0.95) -> float:
    """The lower end of `interval`: what can be promised."""
    return interval(right, total, level)[0]


def _checked(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    sure, given = np.asarray(confidence, dtype=np.float64), np.asarray(correct)
    if sure.ndim != 1 or sure.shape != given.shape:
        raise ValueError(
            f"confidence has shape {sure.shape} and correct {given.shape}; give two equal lists"
        )
    if not len(sure):
        raise ValueError("no answers to measure")
    if not np.isfinite(sure).all():
        raise ValueError(f"confidence {int(np.argmin(np.isfinite(sure)))} is not a finite number")
    if not all(each in (False, True) for each in given.tolist()):
        raise ValueError("correct holds something other than True and False; leave out the unknown")
    return sure, given.astype(np.float64)


def _bins(sure: Floats, right: Floats, lows: Floats, highs: Floats) -> list[Bin]:
    place = np.searchsorted(lows, sure, side="right") - 1
    counts = np.bincount(place, minlength=len(lows))
    sums = [np.bincount(place, weights=each, minlength=len(lows)) for each in (sure, right)]
    return [
        Bin(float(low), float(high), int(count), float(total / count), float(hits / count))
        for low, high, count, total, hits in zip(lows, highs, counts, *sums, strict=True)
        if count
    ]


def _positive(value: int, name: str) -> int:
    if value < 1:
        raise ValueError(f"{name} is {value}; give 1 or more")
    return value


# Answers


def histogram_of_answers(answers: Iterable[str]) -> list[tuple[str, int]]:
    """Each answer with its count, the most frequent first and equals by alphabet."""
    return sorted(Counter(answers).items(), key=lambda item: (-item[1], item[0]))


def top_share(histogram: Sequence[tuple[str, int]], top: int = 3) -> float:
    """The share of the most frequent answers (0 of none): near 1, the model has collapsed."""
    counts = sorted((count for _, count in histogram), reverse=True)
    return sum(counts[: _positive(top, "top")]) / sum(counts) if counts else 0.0


# Names: a profile is the unit vector of a name's tf-idf weighted runs of two and three characters

BEGINNINGS = 4  # of k-means, of which the best is kept
ROUNDS = 50  # it seldom needs half of them


@dataclass(frozen=True)
class NameGroup:
    label: str  # its most typical runs: "Mc- -ov -sch-" begin a word, end one, stand anywhere
    examples: list[str]  # the names nearest to its centre
    count: int


def _grams(name: str, commonness: Mapping[str, int]) -> dict[str, float]:
    """Runs of two and three characters, spaces marking a word's ends; common words weigh less."""
    weights: dict[str, float] = {}
    for word in name.casefold().split():
        weight = commonness.get(word, 1) ** -0.5
        marked = f" {word} "
        for size in (2, 3):
            for i in range(len(marked) - size + 1):
                gram = marked[i : i + size]
                weights[gram] = weights.get(gram, 0.0) + weight
    return weights


class _Profiles:
    """Sparse profiles of all names, as parallel arrays ordered by name: row, column, value."""

    def __init__(self, names: Sequence[str], commonness: Mapping[str, int]) -> None:
        found = [_grams(name, commonness) for name in names]
        self.number: dict[str, int] = {}
        for each in found:
            for gram in each:
                self.number.setdefault(gram, len(self.number))
        self.names = len(names)
        self.rows: Integers = np.repeat(np.arange(len(names)), [len(each) for each in found])
        columns = [self.number[gram] for each in found for gram in each]
        self.columns: Integers = np.array(columns, dtype=np.int64)
        holders = np.bincount(self.columns, minlength=len(self.number))
        self.rarity: Floats = np.log((1 + self.names) / (1 + holders)) + 1
        values = np.array([weight for each in found for weight in each.values()])
        values = values * self.rarity[self.columns]
        lengths = np.sqrt(np.bincount(self.rows, weights=values**2, minlength=len(names)))
        self.values: Floats = values / lengths[self.rows]

    def centre(self, chosen: NDArray[np.bool_]) -> Floats:
        """The direction of the mean of the chosen profiles."""
        inside = chosen[self.rows]
        columns, values = self.columns[inside], self.values[inside]
        total = np.bincount(columns, weights=values, minlength=len(self.number))
        return total / max(float(np.linalg.norm(total)), TINY)

    def similarities(self, centres: Floats) -> Floats:
        """The cosine of each centre with each name: (centres, names)."""
        terms = (self.values * centre[self.columns] for centre in centres)
        return np.stack([np.bincount(self.rows, each, minlength=self.names) for each in terms])


class NameIndex:
    """Names that answer quickly which of them resemble another one."""

    def __init__(self, known: Iterable[str]) -> None:
        self.names = list(dict.fromkeys(known))
        if not self.names:
            raise ValueError("no known names to compare with")
        self._profiles = _Profiles(self.names, {})
        order = np.argsort(self._profiles.columns, kind="stable")
        holders = np.bincount(self._profiles.columns, minlength=len(self._profiles.number))
        self._ends = np.cumsum(holders)
        self._rows, self._values = self._profiles.rows[order], self._profiles.values[order]

    def nearest(self, name: str, count: int = 3) -> list[tuple[str, float]]:
        """The most similar names (cosine, 1 for the same name) and how similar they are.

        Names that share no run of characters are not near at all: there may be fewer than `count`,
        even none. Equals come in the order in which they were given.
        """
        _positive(count, "count")
        similarity = np.zeros(len(self.names))
        length = 0.0
        for gram, weight in _grams(name, {}).items():
            column = self._profiles.number.get(gram)
            if column is None:  # a run seen nowhere lengthens the profile, as it should
                length += (weight * (math.log(1 + len(self.names)) + 1)) ** 2
                continue
            value = weight * float(self._profiles.rarity[column])
            length += value**2
            begin = self._ends[column - 1] if column else 0
            holders = slice(begin, self._ends[column])
            similarity[self._rows[holders]] += value * self._values[holders]
        best = np.argsort(-similarity, kind="stable")[:count]
        return [
            (self.names[i], min(1.0, float(similarity[i]) / math.sqrt(length)))
            for i in best
            if similarity[i] > 0
        ]


def nearest_names(name: str, known: Iterable[str], count: int = 3) -> list[tuple[str, float]]:
    """One question to a `NameIndex`; for many, build the index once."""
    return NameIndex(known).nearest(name, count)


def ngram_groups(
    names: Sequence[str], groups: int = 6, seed: int = 0
) -> tuple[list[int], list[NameGroup]]:
    """Each name's group by its spelling, and the groups, the largest first.

    Spherical k-means, begun by k-means++. A word that many share ("John") weighs less, else the
    groups would be those of given names. It is spelling that is grouped, a rough sign of origin and
    no more. There are fewer groups when there are fewer different names.
    """
    if not names:
        raise ValueError("no names to group")
    groups = min(_positive(groups, "groups"), len(set(names)))
    words = Counter(word for name in names for word in set(name.casefold().split()))
    profiles = _Profiles(names, words)
    generator = np.random.default_rng(seed)
    tries = [_cluster(profiles, groups, generator) for _ in range(BEGINNINGS)]
    group, similarity = max(tries, key=lambda each: float(each[1].sum()))
    order = np.argsort(-np.bincount(group, minlength=groups), kind="stable")
    described = [_describe(names, profiles, group == old, similarity) for old in order]
    return np.argsort(order)[group].tolist(), described


def _cluster(
    profiles: _Profiles, groups: int, generator: np.random.Generator
) -> tuple[Integers, Floats]:
    """The group of each name, and its similarity to that group's centre."""
    everyone = np.arange(profiles.names)
    chosen = int(generator.integers(profiles.names))
    centres = profiles.centre(everyone == chosen)[None]
    while len(centres) < groups:
        far = 1 - profiles.similarities(centres).max(0)
        far[far < TINY] = 0  # a centre already
        chance = far / far.sum() if far.any() else None
        chosen = int(generator.choice(profiles.names, p=chance))
        centres = np.concatenate([centres, profiles.centre(everyone == chosen)[None]])
    group = np.full(profiles.names, -1)
    for _ in range(ROUNDS):
        similarity = profiles.similarities(centres)
        before, group = group, similarity.argmax(0)
        for empty in sorted(set(range(groups)) - set(group.tolist())):  # gets whom none fits
            crowded = np.bincount(group, minlength=groups)[group] > 1
            group[np.where(crowded, similarity.max(0), np.inf).argmin()] = empty
        if (group == before).all():
            break
        centres = np.stack([profiles.centre(group == each) for each in range(groups)])
    return group, similarity[group, everyone]


def _describe(
    names: Sequence[str], profiles: _Profiles, members: NDArray[np.bool_], similarity: Floats
) -> NameGroup:
    """Typical is what the members have more of than all names have; longer runs tell more."""
    grams = list(profiles.number)
    more = profiles.centre(members) - profiles.centre(np.ones(profiles.names, dtype=bool))
    more *= [len(gram) for gram in grams]
    typical: list[str] = []
    for column in np.argsort(-more, kind="stable"):
        if len(typical) == 4 or (typical and more[column] <= 0):
            break
        if not any(grams[column] in other or other in grams[column] for other in typical):
            typical.append(grams[column])
    inside = np.flatnonzero(members)
    nearest = inside[np.argsort(-similarity[inside], kind="stable")]
    examples = list(dict.fromkeys(names[i] for i in nearest))[:3]
    return NameGroup(" ".join(map(_shown, typical)), examples, len(inside))


def _shown(gram: str) -> str:
    text = gram.strip().capitalize() if gram.startswith(" ") else f"-{gram.strip()}"
    return text if gram.endswith(" ") else f"{text}-"
