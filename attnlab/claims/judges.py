"""Judges: a threshold, and what it means for an interval to lie on one side of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from attnlab._confidence_intervals import format_number
from attnlab.claims._claim import Estimate, Evidence, Outcome, Verdict


class _Interval(ABC):
    """Judges the figure that decides by both ends of its interval."""

    def __call__(self, evidence: Evidence) -> Verdict:
        return Verdict(self.outcome(evidence.figure))

    def outcome(self, figure: Estimate) -> Outcome:
        low, high = figure.ends
        if math.isnan(low) or math.isnan(high):
            return "undecided"
        if self.within(low) and self.within(high):
            return "holds"
        return "refuted" if self.outside(low, high) else "undecided"

    @abstractmethod
    def within(self, value: float) -> bool: ...

    @abstractmethod
    def outside(self, low: float, high: float) -> bool:
        """All of the interval."""


@dataclass(frozen=True)
class Below(_Interval):
    """Holds where the whole interval is at most the limit, refuted where all of it is above."""

    limit: float
    name: str

    @property
    def threshold(self) -> str:
        return f"at most {format_number(self.limit)}"

    def within(self, value: float) -> bool:
        return value <= self.limit

    def outside(self, low: float, high: float) -> bool:
        del high
        return low > self.limit


@dataclass(frozen=True)
class Above(_Interval):
    """Holds where the whole interval is at least the limit, refuted where all of it is below."""

    limit: float
    name: str

    @property
    def threshold(self) -> str:
        return f"at least {format_number(self.limit)}"

    def within(self, value: float) -> bool:
        return value >= self.limit

    def outside(self, low: float, high: float) -> bool:
        del low
        return high < self.limit


@dataclass(frozen=True)
class Between(_Interval):
    """Holds where the whole interval lies between the two, refuted where all of it is outside."""

    low: float
    high: float
    name: str

    @property
    def threshold(self) -> str:
        return f"{format_number(self.low)} to {format_number(self.high)}"

    def within(self, value: float) -> bool:
        return self.low <= value <= self.high

    def outside(self, low: float, high: float) -> bool:
        return high < self.low or low > self.high


def exact(name: str, tolerance: float = 1e-9) -> Below:
    """An identity: float64, the largest error of many random instances."""
    return Below(tolerance, name)


@dataclass(frozen=True)
class Every:
    """Of a statement that says several things: holds where all do, refuted where one is.

    `first` judges the figure that is shown, each other one the part that has its name.
    """

    first: Below | Above | Between
    others: Sequence[Below | Above | Between]

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def threshold(self) -> str:
        rest = [f"{judge.name} {judge.threshold}" for judge in self.others]
        return "; and ".join([self.first.threshold, *rest])

    def __call__(self, evidence: Evidence) -> Verdict:
        outcomes = self.outcomes(evidence)
        if "refuted" in outcomes:
            return Verdict("refuted")
        return Verdict("undecided" if "undecided" in outcomes else "holds")

    def outcomes(self, evidence: Evidence) -> list[Outcome]:
        """Of each part."""
        names = [judge.name for judge in self.others]
        assert list(evidence.parts) == names, "parts that nobody judges, or missing"
        return [
            self.first.outcome(evidence.figure),
            *(judge.outcome(evidence.parts[judge.name]) for judge in self.others),
        ]


@dataclass(frozen=True)
class OnlyWhen:
    """Judges each value of a condition: all, none, or from which value on.

    `at_least`: the statement is expected to hold from some value of the condition upwards;
    otherwise up to some value. If what was found is no such range, all values are listed.
    """

    inner: Below | Above | Between
    condition: str
    at_least: bool = True

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def threshold(self) -> str:
        return self.inner.threshold

    def __call__(self, evidence: Evidence) -> Verdict:
        assert evidence.sweep, "a sweep over the condition is missing"
        found = [(at, self.inner.outcome(figure)) for at, figure in sorted(evidence.sweep)]
        outcomes = {outcome for _, outcome in found}
        if len(outcomes) == 1:
            return Verdict(outcomes.pop())
        if "holds" not in outcomes:
            return Verdict("refuted" if "refuted" in outcomes else "undecided")
        if "refuted" not in outcomes:
            return Verdict("undecided")
        return Verdict("holds only when", self._range([(at, o == "holds") for at, o in found]))

    def _range(self, found: list[tuple[float, bool]]) -> str:
        runs = [(holds, [at for at, _ in each]) for holds, each in groupby(found, lambda x: x[1])]
        good = [places for holds, places in runs if holds]
        if self.at_least and len(good) == 1 and runs[-1][0]:
            return f"{self.condition} is at least {format_number(good[0][0])}"
        if not self.at_least and len(good) == 1 and runs[0][0]:
            return f"{self.condition} is at most {format_number(good[0][-1])}"
        places = ", ".join(
            format_number(each[0])
            if len(each) == 1
            else f"{format_number(each[0])} to {format_number(each[-1])}"
            for each in good
        )
        tried = f"{format_number(found[0][0])} to {format_number(found[-1][0])}"
        return f"{self.condition} is {places} (of {tried})"
