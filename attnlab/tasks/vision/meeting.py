"""Where two curves over training-set sizes meet, and how sure that is."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.intervals import over

DRAWS = 4000


@dataclass(frozen=True)
class Meeting:
    """Of the difference of two curves, first minus second."""

    at: float | None
    """Images where the mean difference is zero; None: it keeps its sign."""
    low: float | None = None
    high: float | None = None
    """Between these the middle 95% of the draws that meet do so."""
    share: float | None = None
    """Of the draws, how many meet; None: of one seed nothing can be drawn."""


def meeting(sizes: Sequence[int], differences: Sequence[Sequence[float]], seed: int = 0) -> Meeting:
    """By straight lines over the logarithm of the size, the last place where the sign changes.

    `differences` has for each size those of all seeds. How sure it is comes from draws: each
    mean is moved by Student's t times its standard error, and the place is found again.
    """
    assert len(sizes) == len(differences)
    means = [statistics.fmean(each) for each in differences]
    at = crossing(sizes, means)
    repeats = min(map(len, differences))
    if repeats < 2:
        return Meeting(at)
    chance = random.Random(seed)
    errors = [statistics.stdev(each) / math.sqrt(len(each)) for each in differences]
    found = []
    for _ in range(DRAWS):
        drawn = [
            mean + error * _student(repeats - 1, chance)
            for mean, error in zip(means, errors, strict=True)
        ]
        place = crossing(sizes, drawn)
        if place is not None:
            found.append(place)
    share = len(found) / DRAWS
    if not found:
        return Meeting(at, share=share)
    found.sort()
    ends = [found[min(len(found) - 1, int(q * len(found)))] for q in (0.025, 0.975)]
    return Meeting(at, ends[0], ends[1], share)


def crossing(sizes: Sequence[int], values: Sequence[float]) -> float | None:
    """The last size where the line through these values goes through zero."""
    place = None
    for i in range(len(sizes) - 1):
        one, other = values[i], values[i + 1]
        if one == 0 or one * other < 0:
            share = one / (one - other) if one != other else 0.0
            low, high = math.log(sizes[i]), math.log(sizes[i + 1])
            place = math.exp(low + share * (high - low))
    return float(sizes[-1]) if values[-1] == 0 else place


def _student(freedom: int, chance: random.Random) -> float:
    """A draw of Student's t: a normal number over the root of a mean of squared ones."""
    squares = sum(chance.gauss(0, 1) ** 2 for _ in range(freedom))
    return chance.gauss(0, 1) / math.sqrt(max(squares, 1e-12) / freedom)


def in_words(
    sizes: Sequence[int],
    differences: Sequence[Sequence[float]],
    names: tuple[str, str],
) -> list[str]:
    """What the comparison says, sentence by sentence."""
    found = meeting(sizes, differences)
    words = [_lead(size, each, names) for size, each in zip(sizes, differences, strict=True)]
    said = [f"{words[0]} {words[-1]}" if len(sizes) > 1 else words[0]]
    if found.at is None:
        leader = names[0] if statistics.fmean(differences[0]) > 0 else names[1]
        text = f"The curves do not meet: {leader} is ahead at every size that was tried"
    else:
        text = f"The curves meet at about {found.at:,.0f} training images"
    if found.share is None:
        said.append(f"{text}. With one seed nothing can be said about how sure that is.")
    elif found.low is None or found.high is None:
        said.append(f"{text}, in all draws from the spread of the seeds.")
    else:
        said.append(
            f"{text}; of draws from the spread of the seeds {found.share:.0%} meet, the middle 95% "
            f"of them between {found.low:,.0f} and {found.high:,.0f}."
        )
    return said


def _lead(size: int, differences: Sequence[float], names: tuple[str, str]) -> str:
    found = over(differences)
    mean, (low, high) = found.value, found.ends
    leader, other = names if mean > 0 else names[::-1]
    points = 100 * abs(mean)
    if not mean and len(differences) < 2:
        return f"With {size:,} images the two are level."
    if len(differences) < 2:
        return f"With {size:,} images {leader} is {points:.1f} points ahead of {other}."
    ends = sorted((100 * abs(low), 100 * abs(high)))
    if low * high > 0:
        return (
            f"With {size:,} images {leader} is {points:.1f} points ahead of {other} "
            f"(95% interval {ends[0]:.1f} to {ends[1]:.1f})."
        )
    return (
        f"With {size:,} images the two cannot be told apart ({leader} {points:.1f} points ahead, "
        f"95% interval of {names[0]} minus {names[1]} {100 * low:.1f} to {100 * high:.1f})."
    )
