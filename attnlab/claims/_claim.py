"""A claim: a statement, an experiment, a judge with a stated threshold, a control.

The threshold stands in the code before a run and is the same for every seed. It was not always
chosen blindly: docs/log.md ("Not blind") names the claims whose threshold or setting was set after
first numbers had been seen.

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

The function runs twice, the second time with `trial.control`: there the experiment is spoiled (or,
for a statement that is wrong, put right), and the same judge must come to the other verdict.
Otherwise it would have said the same of anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

import torch

from attnlab._confidence_intervals import (
    Estimate,
    fraction_interval,
    log_log_slope,
    mean_interval,
    student_quantile,
)
from attnlab.report import Bars, Lines

# all that an experiment is written with
__all__ = [
    "CLAIMS",
    "SIZES",
    "TOPICS",
    "Bars",
    "Claim",
    "Estimate",
    "Evidence",
    "Judge",
    "Lines",
    "Measure",
    "Outcome",
    "Size",
    "Source",
    "Trial",
    "Unjudged",
    "Verdict",
    "claim",
    "fraction_interval",
    "log_log_slope",
    "mean_interval",
    "student_quantile",
    "unrun",
]

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
        then is only what was spoiled."""
        seed = self.seed
        for each in place:
            seed = seed * 1_000_003 + each + 1
        return torch.Generator().manual_seed(seed % 2**63)


@dataclass(frozen=True)
class Evidence:
    """What was measured."""

    figure: Estimate
    """The one that decides."""
    plot: Lines | Bars
    sweep: Sequence[tuple[float, Estimate]] = ()
    """The same figure at each value of a condition, for a statement that may depend on it."""
    details: Mapping[str, float | int | str] = field(default_factory=dict)
    """Other numbers that a reader wants, by name."""
    parts: Mapping[str, Estimate] = field(default_factory=dict)
    """The figure of each further part, for a statement that says several things."""

    @property
    def told(self) -> dict[str, float | int | str]:
        """What stands beside the figure that decides."""
        return {**{name: str(figure) for name, figure in self.parts.items()}, **self.details}


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    condition: str = ""
    """Of "holds only when"; of "not run" and "failed" the reason."""


class Judge(Protocol):
    """Comes to a verdict by a threshold that is stated, and the same for every seed."""

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
    """What is spoiled, or put right, in the control."""
    measure: Measure | None
    """None where there is nothing to run: then `needs` says why."""
    quoted: bool = False
    """Stated as people write it, though it is probably wrong."""
    reference: str = ""
    alone: bool = False
    """Measures time or memory: nothing else may run beside it."""
    needs: Callable[[], str] | None = None
    """What is missing to run it, or an empty text."""
    together: str = ""
    """Claims with the same name here run in one process, where they share what is slow to make."""


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
    together: str = "",
) -> Callable[[Measure], Measure]:
    """Enter the function below as a claim."""

    def enter(measure: Measure) -> Measure:
        register_claim(Claim(
            name, topic, source, statement, " ".join(why.split()), judge, control, measure,
            quoted, reference, alone, needs, together,
        ))  # fmt: skip
        return measure

    return enter


def register_claim(claim: Claim) -> Claim:
    """Enter a claim by its name. The module that entered one can enter it again, as notebooks
    do."""
    known = CLAIMS.get(claim.name)
    if known is not None and _module_of(known) != _module_of(claim):
        raise ValueError(f"claim {claim.name!r}: there is one of this name; choose another")
    if claim.topic not in TOPICS:
        raise ValueError(
            f"claim {claim.name!r}: topic {claim.topic!r}; there are {', '.join(TOPICS)}"
        )
    if claim.alone and claim.together:
        raise ValueError(f"claim {claim.name!r}: runs alone or together with others, not both")
    CLAIMS[claim.name] = claim
    return claim


def _module_of(claim: Claim) -> str | None:
    return getattr(claim.measure, "__module__", None)


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
    register_claim(Claim(
        name, topic, source, statement, " ".join(why.split()), Unjudged(), "", None, quoted,
        reference, needs=lambda: reason,
    ))  # fmt: skip
