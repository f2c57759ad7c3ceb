"""Where two curves over training-set sizes meet, and how sure that is."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.intervals import over
from attnlab.words import joined

DRAWS = 4000


@dataclass(frozen=True)
class Meeting:
    """Of the difference of two curves, first minus second."""

    places: list[float]
    """Images where the mean difference is zero, in order; none: it keeps its sign."""
    low: float | None = None
    high: float | None = None
    """Between these the middle 95% of the draws that meet do so, for the last time."""
    share: float | None = None
    """Of the draws, how many meet; None: of one seed nothing can be drawn."""

    @property
    def at(self) -> float | None:
        """The last place: from there on nothing changes."""
        return self.places[-1] if self.places else None


def meeting(sizes: Sequence[int], differences: Sequence[Sequence[float]], seed: int = 0) -> Meeting:
    """By straight lines over the logarithm of the size, the places where the sign changes.

    `differences` has for each size those of all seeds. How sure the last place is comes from
    draws: each mean is moved by Student's t times its standard error, and it is found again.
    """
    assert len(sizes) == len(differences)
    means = [mean_of(each) for each in differences]
    places = crossings(sizes, means)
    repeats = min(map(len, differences))
    if repeats < 2:
        return Meeting(places)
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
        return Meeting(places, share=share)
    found.sort()
    ends = [found[min(len(found) - 1, int(q * len(found)))] for q in (0.025, 0.975)]
    return Meeting(places, ends[0], ends[1], share)


def crossings(sizes: Sequence[int], values: Sequence[float]) -> list[float]:
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


def in_words(
    sizes: Sequence[int],
    differences: Sequence[Sequence[float]],
    names: tuple[str, str],
) -> list[str]:
    """What the comparison says, sentence by sentence."""
    leads = [_lead(size, each, names) for size, each in zip(sizes, differences, strict=True)]
    if len(sizes) == 1:
        return [leads[0], "One size does not show where the curves meet."]
    means = [mean_of(each) for each in differences]
    where = " ".join([leads[0], leads[-1], *_between(sizes[1:-1], differences[1:-1], names)])
    if not any(means):
        return [where, "The curves are level at every size that was tried."]
    found = meeting(sizes, differences)
    if found.at is None:
        level = next(i for i, mean in enumerate(means) if mean)  # sizes before any lead
        leader = names[0] if means[level] > 0 else names[1]
        text = (
            f"The curves do not meet after {sizes[level - 1]:,} images, where they are level: "
            f"{leader} is ahead at every larger size that was tried"
            if level
            else f"The curves do not meet: {leader} is ahead at every size that was tried"
        )
    else:
        times = f" {len(found.places)} times," if len(found.places) > 1 else ""
        text = f"The curves meet{times} at about {_listed(found.places)} training images"
    return [where, f"{text}{_sureness(found)}"]


def _between(
    sizes: Sequence[int], differences: Sequence[Sequence[float]], names: tuple[str, str]
) -> list[str]:
    """Who leads beyond chance at the sizes between the ends."""
    ends = [over(each).ends if len(each) > 1 else (0, 0) for each in differences]
    told = []
    for name, sign in zip(names, (1, -1), strict=True):
        surely = [
            size
            for size, (low, high) in zip(sizes, ends, strict=True)
            if low * high > 0 and low * sign > 0
        ]
        if surely:
            told.append(f"{name} is ahead with {_listed(surely)}")
    return [f"Between them, by their 95% intervals, {' and '.join(told)}."] if told else []


def _listed(places: Sequence[float]) -> str:
    return joined([f"{place:,.0f}" for place in places])


def _sureness(found: Meeting) -> str:
    if found.share is None:
        return ". With one seed nothing can be said about how sure that is."
    if found.low is None or found.high is None:
        return "; of draws from the spread of the seeds none meet."
    low, high = f"{found.low:,.0f}", f"{found.high:,.0f}"
    last = " for the last time" if len(found.places) > 1 else ""
    where = f"at {low}" if low == high else f"between {low} and {high}"
    return (
        f"; of draws from the spread of the seeds {found.share:.0%} meet, the middle 95% of them"
        f"{last} {where}."
    )


def _lead(size: int, differences: Sequence[float], names: tuple[str, str]) -> str:
    mean, (low, high) = mean_of(differences), over(differences).ends
    leader, other = names if mean > 0 else names[::-1]
    points = 100 * abs(mean)
    ahead = f"{points:.1f} points" if points >= 0.05 else "less than 0.1 points"
    if not any(differences):
        return f"With {size:,} images the two are level."
    if len(differences) < 2:
        return f"With {size:,} images {leader} is {ahead} ahead of {other}."
    ends = sorted((100 * abs(low), 100 * abs(high)))
    if low * high > 0:
        return (
            f"With {size:,} images {leader} is {ahead} ahead of {other} "
            f"(95% interval {ends[0]:.1f} to {ends[1]:.1f})."
        )
    who = f"{leader} {ahead} ahead" if mean else "level in the mean"
    return (
        f"With {size:,} images the two cannot be told apart ({who}, "
        f"95% interval of {names[0]} minus {names[1]} {100 * low:z.1f} to {100 * high:z.1f})."
    )
