"""A claim: a statement, an experiment, a judge with a stated threshold, a control.

The threshold is in the code before a run and is the same for every seed. Some thresholds and
settings were chosen after first results: docs/log.md ("Not blind") lists these claims.

To add a claim, write one function and declare what it measures:

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

The function runs twice, the second time with `trial.control`. The control spoils the experiment
(or corrects it, if the statement is wrong), and the same judge must then reach the opposite
verdict. This shows that the judge can tell the difference.
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

# everything that an experiment needs
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
    "register_unrun_claim",
    "student_quantile",
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
    "abilities": "What small models learn",
    "effects": "What changes the prediction",
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

    def generator(self, *key: int) -> torch.Generator:
        """A random generator for this part of the experiment, seeded by the trial and `key`.

        The control gets the same numbers, so that it differs only in what it spoils.
        """
        seed = self.seed
        for number in key:
            seed = seed * 1_000_003 + number + 1
        return torch.Generator().manual_seed(seed % 2**63)


@dataclass(frozen=True)
class Evidence:
    """The measurements of one trial."""

    figure: Estimate
    """The measured value that decides the verdict."""
    plot: Lines | Bars
    sweep: Sequence[tuple[float, Estimate]] = ()
    """The figure at each value of a condition, for a statement that may depend on it."""
    details: Mapping[str, float | int | str] = field(default_factory=dict)
    """Other numbers of interest, by name."""
    parts: Mapping[str, Estimate] = field(default_factory=dict)
    """The figure of each further part, for a statement with several parts."""

    @property
    def all_details(self) -> dict[str, float | int | str]:
        """The parts and the details, in the order in which they are shown."""
        return {**{name: str(figure) for name, figure in self.parts.items()}, **self.details}


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    condition: str = ""
    """The condition of "holds only when"; the reason of "not run" and "failed"."""


class Judge(Protocol):
    """Reaches a verdict by a stated threshold, which is the same for every seed."""

    @property
    def name(self) -> str:
        """What the figure measures."""

    @property
    def threshold(self) -> str:
        """In words, such as "at most 0.01"."""

    def __call__(self, evidence: Evidence) -> Verdict: ...


Measure = Callable[[Trial], Evidence]


@dataclass(frozen=True)
class Claim:
    name: str
    topic: str
    source: Source
    statement: str
    why: str
    """Three to six sentences with the formula: why the statement should or should not hold."""
    judge: Judge
    control: str
    """What the control spoils or corrects."""
    measure: Measure | None
    """None if there is nothing to run; then `needs` returns the reason."""
    quoted: bool = False
    """The statement is a common but probably wrong one, quoted as people write it."""
    reference: str = ""
    alone: bool = False
    """It measures time or memory, so that no other claim may run at the same time."""
    needs: Callable[[], str] | None = None
    """Returns what is missing to run it, or an empty string."""
    group: str = ""
    """Claims of one group run in one process and share what is slow to make, such as a model."""


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
    group: str = "",
) -> Callable[[Measure], Measure]:
    """Register the decorated function as a claim.

    >>> import torch
    >>> from attnlab.claims import CLAIMS, Bars, Estimate, Evidence, claim, run_claim
    >>> from attnlab.claims.judges import Below
    >>> @claim(
    ...     "softmax-sums-example", topic="own", source="attnlab",
    ...     statement="rows of softmax sum to 1", why="Softmax divides by the sum.",
    ...     judge=Below(1e-9, "largest distance of a sum from 1"), control="no division",
    ... )
    ... def softmax_sums(trial):
    ...     scores = torch.randn(5, 7, generator=trial.generator(), dtype=torch.float64)
    ...     weights = scores.exp() if trial.control else scores.softmax(-1)
    ...     worst = Estimate(float((weights.sum(-1) - 1).abs().max()))
    ...     return Evidence(worst, Bars("distance", {"largest": worst}))
    >>> run_claim(CLAIMS["softmax-sums-example"], seed=0, size="small").verdict.outcome
    'holds'
    """

    def register(measure: Measure) -> Measure:
        register_claim(Claim(
            name, topic, source, statement, " ".join(why.split()), judge, control, measure,
            quoted, reference, alone, needs, group,
        ))  # fmt: skip
        return measure

    return register


def register_claim(claim: Claim) -> Claim:
    """Add a claim to the registry. A module can register its own claim again, as notebooks do."""
    existing = CLAIMS.get(claim.name)
    if existing is not None and _module_of(existing) != _module_of(claim):
        raise ValueError(f"claim {claim.name!r} already exists; choose another name")
    if claim.topic not in TOPICS:
        raise ValueError(
            f"claim {claim.name!r}: unknown topic {claim.topic!r}; use {', '.join(TOPICS)}"
        )
    if claim.alone and claim.group:
        raise ValueError(f"claim {claim.name!r}: give alone or group, not both")
    CLAIMS[claim.name] = claim
    return claim


def _module_of(claim: Claim) -> str | None:
    return getattr(claim.measure, "__module__", None)


@dataclass(frozen=True)
class Unjudged:
    """The judge of a statement that is registered but not run."""

    name: str = ""
    threshold: str = ""

    def __call__(self, evidence: Evidence) -> Verdict:
        raise AssertionError(f"a claim that is not run has no evidence, but got {evidence}")


def register_unrun_claim(
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
    """Register a statement that is not run, such as a theorem. `reason` says why."""
    register_claim(Claim(
        name, topic, source, statement, " ".join(why.split()), Unjudged(), "", None, quoted,
        reference, needs=lambda: reason,
    ))  # fmt: skip
