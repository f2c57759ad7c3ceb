"""Judges: each compares an estimate and its interval with a threshold."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from attnlab._confidence_intervals import format_number
from attnlab.claims._claim import Estimate, Evidence, Outcome, Verdict


class _Interval(ABC):
    """Judges the deciding figure by both ends of its interval."""

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
        """Whether the whole interval is outside."""


@dataclass(frozen=True)
class Below(_Interval):
    """Holds if the whole interval is at most the limit, refuted if all of it is above."""

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
    """Holds if the whole interval is at least the limit, refuted if all of it is below."""

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
    """Holds if the whole interval lies between the limits, refuted if all of it is outside."""

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
    """The judge of an identity: the largest error in float64 over many random instances."""
    return Below(tolerance, name)


@dataclass(frozen=True)
class Every:
    """Judges a statement with several parts: holds if all hold, refuted if one is refuted.

    `first` judges the figure; each other judge judges the part that has its name.
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
        """The outcome of each part."""
        names = [judge.name for judge in self.others]
        assert list(evidence.parts) == names, f"parts {list(evidence.parts)} but judges of {names}"
        return [
            self.first.outcome(evidence.figure),
            *(judge.outcome(evidence.parts[judge.name]) for judge in self.others),
        ]


@dataclass(frozen=True)
class OnlyWhen:
    """Judges the figure at each value of a condition, and finds the values where it holds.

    With `at_least` the statement should hold from some value of the condition upwards, otherwise
    up to some value. If the values are not such a range, the verdict lists them all.
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
        outcomes_at = [(at, self.inner.outcome(figure)) for at, figure in sorted(evidence.sweep)]
        outcomes = {outcome for _, outcome in outcomes_at}
        if len(outcomes) == 1:
            return Verdict(outcomes.pop())
        if "holds" not in outcomes:
            return Verdict("refuted" if "refuted" in outcomes else "undecided")
        if "refuted" not in outcomes:
            return Verdict("undecided")
        return Verdict(
            "holds only when", self._range([(at, o == "holds") for at, o in outcomes_at])
        )

    def _range(self, holds_at: list[tuple[float, bool]]) -> str:
        groups = groupby(holds_at, lambda pair: pair[1])
        runs = [(holds, [value for value, _ in pairs]) for holds, pairs in groups]
        ranges = [values for holds, values in runs if holds]
        if self.at_least and len(ranges) == 1 and runs[-1][0]:
            return f"{self.condition} is at least {format_number(ranges[0][0])}"
        if not self.at_least and len(ranges) == 1 and runs[0][0]:
            return f"{self.condition} is at most {format_number(ranges[0][-1])}"
        listed = ", ".join(
            format_number(values[0])
            if len(values) == 1
            else f"{format_number(values[0])} to {format_number(values[-1])}"
            for values in ranges
        )
        first, last = format_number(holds_at[0][0]), format_number(holds_at[-1][0])
        return f"{self.condition} is {listed} (of {first} to {last})"
