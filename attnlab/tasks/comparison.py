"""What a task declares so that `attnlab compare` can compare mechanisms on it.

A `Comparison` is a dataclass of the task's own options. The engine in `attnlab.compare` does the
rest: the grid, equal budgets, resuming, intervals, verdicts, tables and plots.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from attnlab.run_folder import RunFolder, StartMode
from attnlab.tasks.kind import Better
from attnlab.training._settings import Settings

VALIDATIONS = 6  # points of a curve over the training


def given_only(**values: Any) -> dict[str, Any]:
    """Those that were given."""
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Metric:
    """One measurement of a trained model on test data."""

    name: str
    title: str
    better: Better = "lower"
    percent: bool = False


@dataclass(frozen=True)
class Budget:
    """What every run may spend: minutes of training steps, or a number of steps."""

    minutes: float | None = None
    steps: int | None = None

    def settings(self, share: float = 1.0) -> dict[str, Any]:
        """Settings of a training that spends this share of it."""
        if self.minutes is not None:
            return {"minutes": share * self.minutes, "training_time_only": True}
        return {"steps": max(1, round(share * (self.steps or 1))), "minutes": None}

    def __str__(self) -> str:
        if self.minutes is not None:
            return f"{self.minutes:g} minutes of training"
        return "1 step" if self.steps == 1 else f"{self.steps:,} steps"


TRIAL_FOLDER = re.compile(r".+-rate[0-9.e+-]+-seed[0-9]+")  # as `Trial.folder` names it


@dataclass(frozen=True)
class Trial:
    """One training run of a comparison."""

    contender: str
    """As it was asked for: favor."""
    variant: str
    """With the options that are tried: favor:features=64."""
    rate: float
    """Times the task's own learning rates."""
    seed: int
    place: float | None = None
    """Where the task sweeps over something: its value."""

    @property
    def folder(self) -> str:
        place = "" if self.place is None else f"-{self.place:g}"
        name = f"{self.variant}{place}-rate{self.rate:g}-seed{self.seed}"
        return "".join(c if c.isalnum() or c in "-_=." else "-" for c in name)


@dataclass(frozen=True)
class Outcome:
    """What a trained run came to."""

    metrics: Mapping[str, float]
    """On test data."""
    validation: float
    """The deciding metric on validation data: the best setting of a contender is chosen by it."""
    parameters: int
    steps: int
    minutes: float
    correct: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of metrics that are shares: how many of how many, for an interval of one seed."""
    curves: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """By title: points over minutes of training."""


@dataclass(frozen=True)
class OptionGroup:
    """A field of a comparison that is a group of options on the command line."""

    options: type[Any]
    """Made by `options_of`."""
    build: Callable[..., Any] = given_only
    """The field's value from the options' values."""


class Comparison(ABC):
    """Subclasses are frozen dataclasses; their fields are the command's options."""

    title: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]
    """The first one decides."""
    margin: ClassVar[float]
    """Two contenders match if the interval of their difference lies within it."""
    attention: ClassVar[tuple[str, ...]] = ("softmax", "favor")
    """What is compared by default. The first is what the others are compared with."""
    usual: ClassVar[Budget | None] = Budget(minutes=5.0)
    """The budget if the command names none. None: `budget` decides."""
    sweep: ClassVar[str] = ""
    """What a trial's place is, if the task sweeps over something: training images."""
    seeds: ClassVar[int] = 3
    rates: ClassVar[tuple[float, ...]] = (1.0,)

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        """Fields that hold a whole group of options."""
        return {}

    def contenders(self, attention: Sequence[str]) -> dict[str, list[str]]:
        """Each contender with the variants to try; also those that the task adds."""
        return {name: [name] for name in attention}

    def places(self) -> Sequence[float | None]:
        """The values of the sweep."""
        return (None,)

    def place_shown(self, place: float) -> float:
        """A value of the sweep as the report shows it, such as the number of images."""
        return place

    def budget(self, given: Budget | None) -> Budget:
        """`given`: the one that the command names."""
        budget = given or self.usual
        assert budget is not None
        return budget

    def notes(self, trials: Sequence[Trial]) -> Sequence[str]:
        """What you should know before the training starts, line by line."""
        del trials
        return ()

    @abstractmethod
    def check(self, trials: Sequence[Trial]) -> None:
        """Raise what can be wrong before anything is trained."""

    @abstractmethod
    def plan(self) -> dict[str, Any]:
        """All settings and a digest of the data: a comparison resumes only with the same."""

    @abstractmethod
    def train(
        self, trial: Trial, folder: Path, budget: Budget, start: StartMode, quiet: bool
    ) -> None:
        """Train one run into `folder`. `start` is the comparison's; a part that never began is
        new, as `start.for_part` says."""

    @abstractmethod
    def measure(self, trial: Trial, folder: Path) -> Outcome:
        """Measure it on test data."""

    def baseline(self) -> tuple[str, Mapping[str, float]] | None:
        """What needs no training, and its metrics: a contender that does not beat it has not
        learned enough to be compared with."""
        return None

    def describe(self) -> str:
        """A sentence about what all runs share."""
        return ""


def scaled(settings: Settings, rate: float) -> Settings:
    """With learning rates that are this many times as large."""
    return replace(
        settings,
        learning_rate=rate * settings.learning_rate,
        muon_learning_rate=rate * settings.muon_learning_rate,
    )


def last_validation(folder: Path, metric: str) -> float:
    checks = [row["validation"] for row in RunFolder(folder).metrics() if "validation" in row]
    return float(checks[-1][metric])


def outcome_of(
    folder: Path, metrics: Mapping[str, float], *, before: Path | None = None, **rest: Any
) -> Outcome:
    """Of a finished run: its size, steps, minutes and curves stand in its folder. `before` is a
    run that spent its share of the budget first."""
    run = RunFolder(folder)
    rows = run.metrics()
    earlier = {"step": 0, "seconds": 0.0} if before is None else RunFolder(before).metrics()[-1]
    minutes = [(earlier["seconds"] + row["seconds"]) / 60 for row in rows]
    curves: dict[str, list[tuple[float, float]]] = {}
    if rows:
        curves["training loss"] = _thinned(
            [(at, row["loss"]) for at, row in zip(minutes, rows, strict=True)]
        )
    for at, row in zip(minutes, rows, strict=True):
        for name, value in row.get("validation", {}).items():
            if math.isfinite(value):
                curves.setdefault(f"validation {name}", []).append((at, value))
    return Outcome(
        metrics=metrics,
        parameters=int(run.config()["parameters"]),
        steps=int(earlier["step"] + rows[-1]["step"]),
        minutes=minutes[-1],
        curves=curves,
        **rest,
    )


def _thinned(points: list[tuple[float, float]], pieces: int = 40) -> list[tuple[float, float]]:
    """Means of neighbors: the loss of a single batch says little."""
    size = max(1, -(-len(points) // pieces))
    parts = [points[i : i + size] for i in range(0, len(points), size)]
    return [(part[-1][0], sum(y for _, y in part) / len(part)) for part in parts]
