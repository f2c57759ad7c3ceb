"""A claim: a statement, an experiment, a judge whose threshold was fixed beforehand, a control.

To add one is to write one function and to say what it measures:

    @claim(
        "copy",
        topic="retrieve",
        source="course",
        statement="if k_j.q is far above every other k_i.q, then c is v_j",
        why="...",
        judge=Below(0.01, "largest distance of c from v_j"),
        control="all scores alike",
    )
    def copy(trial: Trial) -> Evidence: ...

The function runs twice, the second time with `trial.control`: there the experiment is spoilt (or,
for a statement that is wrong, put right), and the same judge must come to the other verdict.
Otherwise it would have said the same of anything.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

import torch

from attnlab.charts import Mark, Series
from attnlab.intervals import mean_interval, student

T = TypeVar("T")

Size = Literal["small", "full"]
Source = Literal["course", "paper", "attnlab"]
Outcome = Literal["holds", "refuted", "holds only when", "undecided", "not run", "failed"]

SIZES: tuple[Size, ...] = ("small", "full")
TOPICS = {
    "retrieve": "What one query can retrieve",
    "handmade": "What a hand-made self-attention layer can do",
    "temperature": "Temperature, masks, perturbations",
    "positions": "Positions",
    "kernels": "Attention as a kernel",
    "efficient": "Other efficient mechanisms, and the alternatives",
    "trained": "What trained models do",
    "own": "Added by attnlab",
}


@dataclass(frozen=True)
class Trial:
    """One run of an experiment."""

    seed: int = 0
    size: Size = "small"
    control: bool = False

    def pick(self, small: T, full: T) -> T:
        return small if self.size == "small" else full

    def random(self, *place: int) -> torch.Generator:
        """Its own draws for each place in an experiment, the same for the control: what differs
        then is only what was spoilt."""
        seed = self.seed
        for each in place:
            seed = seed * 1_000_003 + each + 1
        return torch.Generator().manual_seed(seed % 2**63)


@dataclass(frozen=True)
class Figure:
    """A measured number; with low and high where it has an interval (95%)."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        return (
            self.value if self.low is None else self.low,
            self.value if self.high is None else self.high,
        )


@dataclass(frozen=True)
class Plot:
    """What a figure is drawn from: in the terminal, as a picture, on a page."""

    x: str
    y: str
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Bars:
    """Named values side by side."""

    y: str
    values: Mapping[str, Figure]
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Evidence:
    """What was measured."""

    figure: Figure
    """The one that decides."""
    plot: Plot | Bars
    sweep: Sequence[tuple[float, Figure]] = ()
    """The same figure at each value of a condition, for a statement that may depend on it."""
    details: Mapping[str, float | int | str] = field(default_factory=dict)
    """Other numbers that a reader wants, by name."""


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    condition: str = ""
    """Of "holds only when"; of "not run" and "failed" the reason."""


class Judge(Protocol):
    """Comes to a verdict by a threshold that was fixed beforehand."""

    @property
    def name(self) -> str:
        """What the figure is."""

    @property
    def threshold(self) -> str:
        """In words: below 0.01."""

    def __call__(self, evidence: Evidence) -> Verdict: ...


Measure = Callable[[Trial], Evidence]


@dataclass(frozen=True)
class Claim:
    name: str
    topic: str
    source: Source
    statement: str
    why: str
    """Three to six sentences with the formula: why it should or should not be so."""
    judge: Judge
    control: str
    """What is spoilt, or put right, in the control."""
    measure: Measure | None
    """None where there is nothing to run: then `needs` says why."""
    quoted: bool = False
    """Stated as people write it, though it is probably wrong."""
    reference: str = ""
    alone: bool = False
    """Measures time or memory: nothing else may run beside it."""
    needs: Callable[[], str] | None = None
    """What is missing to run it, or an empty text."""


CLAIMS: dict[str, Claim] = {}


def claim(
    name: str,
    *,
    topic: str,
    source: Source,
    statement: str,
    why: str,
    judge: Judge,
    control: str,
    quoted: bool = False,
    reference: str = "",
    alone: bool = False,
    needs: Callable[[], str] | None = None,
) -> Callable[[Measure], Measure]:
    """Enter the function below as a claim."""
    assert topic in TOPICS, topic
    assert name not in CLAIMS, name

    def enter(measure: Measure) -> Measure:
        CLAIMS[name] = Claim(
            name, topic, source, statement, " ".join(why.split()), judge, control, measure,
            quoted, reference, alone, needs,
        )  # fmt: skip
        return measure

    return enter


@dataclass(frozen=True)
class Unjudged:
    """Of a statement that is entered and not run."""

    name: str = ""
    threshold: str = ""

    def __call__(self, evidence: Evidence) -> Verdict:
        raise AssertionError(f"nothing was measured, but given {evidence}")


def unrun(
    name: str,
    *,
    reason: str,
    topic: str,
    source: Source,
    statement: str,
    why: str,
    quoted: bool = False,
    reference: str = "",
) -> None:
    """Enter a statement that is not run, a theorem or one whose experiment cannot be made yet."""
    assert topic in TOPICS, topic
    assert name not in CLAIMS, name
    CLAIMS[name] = Claim(
        name, topic, source, statement, " ".join(why.split()), Unjudged(), "", None, quoted,
        reference, needs=lambda: reason,
    )  # fmt: skip


# Intervals


def over(values: Sequence[float]) -> Figure:
    """The mean of independent repeats and its 95% interval by Student's t."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Figure(mean)
    return Figure(mean, *mean_interval(values))


def share(hits: int, of: int) -> Figure:
    """A share and its 95% interval after Wilson."""
    z = 1.959964
    p, n = hits / of, of
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Figure(p, 0.0 if hits == 0 else middle - half, 1.0 if hits == of else middle + half)


def exponent(points: Sequence[tuple[float, float]]) -> Figure:
    """The slope of log y against log x by least squares, and its 95% interval."""
    x = [math.log(at) for at, _ in points]
    y = [math.log(value) for _, value in points]
    slope, start = statistics.linear_regression(x, y)
    if len(points) < 3:
        return Figure(slope)
    left = sum((b - start - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    spread = sum((a - statistics.fmean(x)) ** 2 for a in x)
    half = student(len(points) - 2) * math.sqrt(left / (len(points) - 2) / spread)
    return Figure(slope, slope - half, slope + half)
