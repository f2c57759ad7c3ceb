"""Compare names by spelling: find similar names, and group names.

A profile is the unit vector of a name's tf-idf weighted runs of two and three characters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
TINY = 1e-9  # less than this is rounding
RESTARTS = 4  # of k-means; the best result counts
MAX_ROUNDS = 50  # k-means seldom needs half of them


@dataclass(frozen=True)
class NameGroup:
    label: str  # its most typical runs: Mc- begins a word, -ov ends one, -sch- is anywhere
    examples: list[str]  # the names nearest to its center
    count: int


def _grams(name: str, commonness: Mapping[str, int]) -> dict[str, float]:
    """Weights of runs of two and three characters. Spaces mark the ends of a word; common words
    weigh less."""
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
        grams_of_names = [_grams(name, commonness) for name in names]
        self.number: dict[str, int] = {}
        for grams in grams_of_names:
            for gram in grams:
                self.number.setdefault(gram, len(self.number))
        self.names = len(names)
        self.rows: Integers = np.repeat(
            np.arange(len(names)), [len(grams) for grams in grams_of_names]
        )
        columns = [self.number[gram] for grams in grams_of_names for gram in grams]
        self.columns: Integers = np.array(columns, dtype=np.int64)
        holders = np.bincount(self.columns, minlength=len(self.number))
        self.rarity: Floats = np.log((1 + self.names) / (1 + holders)) + 1
        values = np.array([weight for grams in grams_of_names for weight in grams.values()])
        values = values * self.rarity[self.columns]
        lengths = np.sqrt(np.bincount(self.rows, weights=values**2, minlength=len(names)))
        self.values: Floats = values / lengths[self.rows]

    def center(self, chosen: NDArray[np.bool_]) -> Floats:
        """The direction of the mean of the chosen profiles."""
        inside = chosen[self.rows]
        columns, values = self.columns[inside], self.values[inside]
        total = np.bincount(columns, weights=values, minlength=len(self.number))
        return total / max(float(np.linalg.norm(total)), TINY)

    def similarities(self, centers: Floats) -> Floats:
        """The cosine of each center with each name: (centers, names)."""
        terms = (self.values * center[self.columns] for center in centers)
        return np.stack([np.bincount(self.rows, each, minlength=self.names) for each in terms])


class NameIndex:
    """Finds the names that are most similar to a given name."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(dict.fromkeys(names))
        if not self.names:
            raise ValueError("no names to compare with; give one or more")
        self._profiles = _Profiles(self.names, {})
        order = np.argsort(self._profiles.columns, kind="stable")
        holders = np.bincount(self._profiles.columns, minlength=len(self._profiles.number))
        self._ends = np.cumsum(holders)
        self._rows, self._values = self._profiles.rows[order], self._profiles.values[order]

    def nearest(self, name: str, count: int = 3) -> list[tuple[str, float]]:
        """The most similar names with their similarity (cosine; 1 for the same name).

        Names without a common run of characters are left out, so there may be fewer than `count`.
        Equally similar names keep their order.
        """
        if count < 1:
            raise ValueError(f"count is {count}; give 1 or more")
        similarity = np.zeros(len(self.names))
        length = 0.0
        for gram, weight in _grams(name, {}).items():
            column = self._profiles.number.get(gram)
            if column is None:  # an unknown run makes the profile longer
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


def ngram_groups(
    names: Sequence[str], groups: int = 6, seed: int = 0
) -> tuple[list[int], list[NameGroup]]:
    """The group of each name by spelling, and the groups, the largest first.

    Spherical k-means, initialized by k-means++. A common word ("John") weighs less; otherwise the
    groups would follow given names. Spelling is only a rough sign of origin. There are fewer groups
    if there are fewer different names.
    """
    if not names:
        raise ValueError("no names to group; give one or more")
    if groups < 1:
        raise ValueError(f"groups is {groups}; give 1 or more")
    groups = min(groups, len(set(names)))
    words = Counter(word for name in names for word in set(name.casefold().split()))
    profiles = _Profiles(names, words)
    generator = np.random.default_rng(seed)
    tries = [_cluster(profiles, groups, generator) for _ in range(RESTARTS)]
    group, similarity = max(tries, key=lambda each: float(each[1].sum()))
    order = np.argsort(-np.bincount(group, minlength=groups), kind="stable")
    described = [_describe_group(names, profiles, group == old, similarity) for old in order]
    return np.argsort(order)[group].tolist(), described


def _cluster(
    profiles: _Profiles, groups: int, generator: np.random.Generator
) -> tuple[Integers, Floats]:
    """The group of each name, and its similarity to that group's center."""
    all_names = np.arange(profiles.names)
    chosen = int(generator.integers(profiles.names))
    centers = profiles.center(all_names == chosen)[None]
    while len(centers) < groups:
        far = 1 - profiles.similarities(centers).max(0)
        far[far < TINY] = 0  # it is a center already
        probabilities = far / far.sum() if far.any() else None
        chosen = int(generator.choice(profiles.names, p=probabilities))
        centers = np.concatenate([centers, profiles.center(all_names == chosen)[None]])
    group = np.full(profiles.names, -1)
    for _ in range(MAX_ROUNDS):
        similarity = profiles.similarities(centers)
        before, group = group, similarity.argmax(0)
        for empty in sorted(
            set(range(groups)) - set(group.tolist())
        ):  # gets the name that fits its group least
            crowded = np.bincount(group, minlength=groups)[group] > 1
            group[np.where(crowded, similarity.max(0), np.inf).argmin()] = empty
        if (group == before).all():
            break
        centers = np.stack([profiles.center(group == each) for each in range(groups)])
    return group, similarity[group, all_names]


def _describe_group(
    names: Sequence[str], profiles: _Profiles, members: NDArray[np.bool_], similarity: Floats
) -> NameGroup:
    """Typical runs are those that the group has more often than all names; longer runs count
    more."""
    grams = list(profiles.number)
    more = profiles.center(members) - profiles.center(np.ones(profiles.names, dtype=bool))
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
    return NameGroup(" ".join(map(_format_gram, typical)), examples, len(inside))


def _format_gram(gram: str) -> str:
    text = gram.strip().capitalize() if gram.startswith(" ") else f"-{gram.strip()}"
    return text if gram.endswith(" ") else f"{text}-"
