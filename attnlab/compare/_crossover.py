"""Where two curves over a sweep cross, and how sure that is."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

DRAWS = 4000


@dataclass(frozen=True)
class Crossover:
    """Of the difference of two curves, first minus second."""

    places: list[float]
    """Where the mean difference is zero, in order; none: it keeps its sign."""
    low: float | None = None
    high: float | None = None
    """Between these the middle 95% of the draws that cross do so for the last time."""
    share: float | None = None
    """Of the draws, how many cross; None: one seed gives nothing to draw from."""

    @property
    def at(self) -> float | None:
        """The last place: from there on nothing changes."""
        return self.places[-1] if self.places else None


def find_crossover(
    sizes: Sequence[float], differences: Sequence[Sequence[float]], seed: int = 0
) -> Crossover:
    """By straight lines over the logarithm of the size, the places where the sign changes.

    `differences` has for each size those of all seeds. How sure the last place is comes from
    draws: each mean is moved by Student's t times its standard error, and it is found again.
    """
    assert len(sizes) == len(differences)
    means = [mean_of(each) for each in differences]
    places = crossings(sizes, means)
    repeats = min(map(len, differences))
    if repeats < 2:
        return Crossover(places)
    chance = random.Random(seed)
    errors = [statistics.stdev(each) / math.sqrt(len(each)) for each in differences]
    found = []
    for _ in range(DRAWS):
        drawn = [
            mean + error * _student(repeats - 1, chance)
            for mean, error in zip(means, errors, strict=True)
        ]
        found += crossings(sizes, drawn)[-1:]
    share = len(found) / DRAWS
    if not found:
        return Crossover(places, share=share)
    found.sort()
    ends = [found[min(len(found) - 1, int(q * len(found)))] for q in (0.025, 0.975)]
    return Crossover(places, ends[0], ends[1], share)


def crossings(sizes: Sequence[float], values: Sequence[float]) -> list[float]:
    """Where the line through these values comes to zero; once for a stretch that is level.

    One that begins at zero does not come there.
    """
    places = []
    for i, (size, value) in enumerate(zip(sizes, values, strict=True)):
        before = values[i - 1] if i else 0.0
        if value == 0 and before != 0:
            places.append(float(size))
        elif before * value < 0:
            low, high = math.log(sizes[i - 1]), math.log(size)
            places.append(math.exp(low + before / (before - value) * (high - low)))
    return places


def mean_of(differences: Sequence[float]) -> float:
    """Shares whose sum is nothing leave some 1e-17 behind, which is no lead."""
    return round(statistics.fmean(differences), 12)


def _student(freedom: int, chance: random.Random) -> float:
    """A draw of Student's t: a normal number over the root of a mean of squared ones."""
    squares = sum(chance.gauss(0, 1) ** 2 for _ in range(freedom))
    return chance.gauss(0, 1) / math.sqrt(max(squares, 1e-12) / freedom)
