"""Finds where two curves over a sweep cross, with the uncertainty over seeds."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SAMPLES = 4000


@dataclass(frozen=True)
class CurveCrossover:
    """Zeros of the difference of two curves, first minus second. The fields are JSON names."""

    places: list[float]
    """Where the mean difference is zero, in order; empty if it keeps its sign."""
    low: float | None = None
    high: float | None = None
    """95% interval of the last crossing, over the random samples that cross."""
    share: float | None = None
    """Fraction of the random samples that cross; None with one seed, which has no spread."""

    @property
    def last(self) -> float | None:
        """The last crossing."""
        return self.places[-1] if self.places else None


def find_crossover(
    sizes: Sequence[float], differences: Sequence[Sequence[float]], seed: int = 0
) -> CurveCrossover:
    """Where the sign changes, by straight lines over the logarithm of the size.

    `differences` has the values of all seeds for each size. The uncertainty comes from random
    samples: each mean moves by Student's t times its standard error.
    """
    assert len(sizes) == len(differences)
    means = [rounded_mean(values) for values in differences]
    zeros = crossings(sizes, means)
    repeats = min(map(len, differences))
    if repeats < 2:
        return CurveCrossover(zeros)
    generator = random.Random(seed)
    errors = [statistics.stdev(values) / math.sqrt(len(values)) for values in differences]
    last_zeros = []
    for _ in range(SAMPLES):
        sample = [
            mean + error * _sample_student(repeats - 1, generator)
            for mean, error in zip(means, errors, strict=True)
        ]
        last_zeros += crossings(sizes, sample)[-1:]
    fraction = len(last_zeros) / SAMPLES
    if not last_zeros:
        return CurveCrossover(zeros, share=fraction)
    last_zeros.sort()
    count = len(last_zeros)
    low, high = (last_zeros[min(count - 1, int(q * count))] for q in (0.025, 0.975))
    return CurveCrossover(zeros, low, high, fraction)


def crossings(sizes: Sequence[float], values: Sequence[float]) -> list[float]:
    """Where the line through these values reaches zero. A stretch of zeros counts once, and not at
    the start.
    """
    zeros = []
    for i, (size, value) in enumerate(zip(sizes, values, strict=True)):
        before = values[i - 1] if i else 0.0
        if value == 0 and before != 0:
            zeros.append(float(size))
        elif before * value < 0:
            low, high = math.log(sizes[i - 1]), math.log(size)
            zeros.append(math.exp(low + before / (before - value) * (high - low)))
    return zeros


def rounded_mean(differences: Sequence[float]) -> float:
    """Rounded, because the mean of fractions that sum to zero may be 1e-17."""
    return round(statistics.fmean(differences), 12)


def _sample_student(freedom: int, generator: random.Random) -> float:
    """A sample of Student's t: a normal number over the root of a mean of squared ones."""
    squares = sum(generator.gauss(0, 1) ** 2 for _ in range(freedom))
    return generator.gauss(0, 1) / math.sqrt(max(squares, 1e-12) / freedom)
