"""How a task tells `attnlab compare` to train and measure mechanisms on it.

A `Comparison` is a dataclass of the task's options. The engine in `attnlab.compare` does the rest:
the grid, equal budgets, resuming, intervals, verdicts, tables and plots.
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
from attnlab.run_folder._file_names import METRICS
from attnlab.run_folder._metrics import to_float
from attnlab.tasks.kind import Better
from attnlab.training._settings import Settings

VALIDATIONS = 6  # validations per run, which are the points of its curves


def drop_unset(**values: Any) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Metric:
    """One measurement of a trained model on test data."""

    name: str
    title: str
    better: Better = "lower"
    percent: bool = False


@dataclass(frozen=True)
class TrainingBudget:
    """How long every run may train: minutes of training time, or a number of steps."""

    minutes: float | None = None
    steps: int | None = None

    def settings(self, fraction: float = 1.0) -> dict[str, Any]:
        """Training settings that spend this fraction of the budget."""
        if self.minutes is not None:
            return {"minutes": fraction * self.minutes, "training_time_only": True}
        return {"steps": max(1, round(fraction * (self.steps or 1))), "minutes": None}

    def __str__(self) -> str:
        if self.minutes is not None:
            return f"{self.minutes:g} minutes of training"
        return "1 step" if self.steps == 1 else f"{self.steps:,} steps"


TRIAL_FOLDER = re.compile(r".+-rate[0-9.e+-]+-seed[0-9]+")  # see `ComparisonTrial.folder`


@dataclass(frozen=True)
class ComparisonTrial:
    """One training run of a comparison."""

    contender: str
    """The mechanism as you named it: favor."""
    variant: str
    """The mechanism with the options of this trial: favor:features=64."""
    rate: float
    """Factor on the task's learning rates."""
    seed: int
    place: float | None = None
    """The value of the sweep, if the task sweeps over something."""
    model: tuple[tuple[str, int], ...] = ()
    """Model settings that make the contenders equal, such as (("feed_width", 120),)."""

    @property
    def folder(self) -> str:
        sweep_value = "" if self.place is None else f"-{self.place:g}"
        name = f"{self.variant}{sweep_value}-rate{self.rate:g}-seed{self.seed}"
        return "".join(c if c.isalnum() or c in "-_=." else "-" for c in name)


@dataclass(frozen=True)
class TrialResult:
    """The measurements of one trained run."""

    metrics: Mapping[str, float]
    """On test data."""
    validation: float
    """The first metric on validation data. It chooses the best setting of a contender."""
    parameters: int
    steps: int
    minutes: float
    correct: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """For metrics that are fractions: how many of how many, for an interval with one seed."""
    state_bytes: int | None = None
    """Size of the decoding state of one row after the longest test row."""
    curves: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """Title to points (minutes of training, value)."""


@dataclass(frozen=True)
class OptionGroup:
    """A field of a comparison that is a group of options on the command line."""

    options: type[Any]
    """A class made by `options_of`."""
    build: Callable[..., Any] = drop_unset
    """Makes the field's value from the option values."""


class Comparison(ABC):
    """Subclasses are frozen dataclasses; their fields are the command's options."""

    title: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]
    """The first one ranks the contenders."""
    margin: ClassVar[float]
    """Two contenders match if the interval of their difference lies within this margin."""
    attention: ClassVar[tuple[str, ...]] = ("softmax", "favor")
    """The mechanisms compared by default. The others are compared with the first."""
    default_budget: ClassVar[TrainingBudget | None] = TrainingBudget(minutes=5.0)
    """The budget if the command sets none. If this is None, override `budget`."""
    seeds: ClassVar[int] = 3
    learning_rate_factors: ClassVar[tuple[float, ...]] = (1.0,)

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        """Fields that hold a whole group of options."""
        return {}

    @classmethod
    def for_overview(cls, quick: bool) -> Comparison:
        """This task with the options that it has in `attnlab compare all`, which has no sweeps."""
        del quick
        return cls()

    @property
    def sweep_title(self) -> str:
        """What the task sweeps over, if anything: training images."""
        return ""

    def with_sweep_title(self, values: str) -> str:
        """Values of the sweep in a sentence: 300 training images."""
        return f"{values} {self.sweep_title}"

    def contenders(self, attention: Sequence[str]) -> dict[str, list[str]]:
        """Each contender with the variants to try. A task may add contenders."""
        return {name: [name] for name in attention}

    def sweep_values(self) -> Sequence[float | None]:
        """The values of the sweep."""
        return (None,)

    def displayed_sweep_value(self, sweep_value: float) -> float:
        """A sweep value as the report shows it, for example the number of images."""
        return sweep_value

    def budget(self, requested: TrainingBudget | None) -> TrainingBudget:
        """The budget of each run. `requested` is the one that the command sets, if any."""
        budget = requested or self.default_budget
        assert budget is not None
        return budget

    def with_equal_sizes(self, trials: Sequence[ComparisonTrial]) -> list[ComparisonTrial]:
        """The same trials, with model settings that make the contenders equal. The first trial is
        one of the first contender, and all of them passed `check`."""
        return list(trials)

    def notes(self, trials: Sequence[ComparisonTrial]) -> Sequence[str]:
        """Lines to print before the training starts."""
        del trials
        return ()

    @abstractmethod
    def check(self, trials: Sequence[ComparisonTrial]) -> None:
        """Raise an error for settings that cannot work, before anything is trained."""

    @abstractmethod
    def plan(self) -> dict[str, Any]:
        """All settings and a digest of the data. A comparison can only resume if they are the
        same."""

    @abstractmethod
    def train(
        self,
        trial: ComparisonTrial,
        folder: Path,
        budget: TrainingBudget,
        start: StartMode,
        quiet: bool,
    ) -> None:
        """Train one run into `folder`. `start` is the start mode of the whole comparison; use
        `start.for_part`, because a run that never started must start new."""

    @abstractmethod
    def measure(self, trial: ComparisonTrial, folder: Path) -> TrialResult:
        """Measure a trained run on test data."""

    def baseline(self, place: float | None = None) -> tuple[str, Mapping[str, float]] | None:
        """The name and metrics of a method that needs no training, at this value of the sweep. A
        contender that does not beat it has not learned enough to be compared."""
        del place
        return None

    def describe(self) -> str:
        """A sentence about what all runs have in common."""
        return ""


def scale_learning_rates(settings: Settings, rate: float) -> Settings:
    """The settings with all learning rates multiplied by `rate`."""
    return replace(
        settings,
        learning_rate=rate * settings.learning_rate,
        muon_learning_rate=rate * settings.muon_learning_rate,
    )


def last_validation(folder: Path, metric: str) -> float:
    checks = [to_float(values.get(metric)) for _, values in _validations(folder)]
    value = checks[-1] if checks else None
    if value is None:
        raise ValueError(
            f"{folder}: {METRICS} has no validation {metric}; delete this folder, then give "
            "--resume to train it again"
        )
    return value


def trial_result(
    folder: Path, metrics: Mapping[str, float], *, before: Path | None = None, **rest: Any
) -> TrialResult:
    """The result of a finished run: its size, steps, minutes and curves come from its folder.
    `before` is an earlier run that spent a part of the budget."""
    steps, minutes = (0, 0.0) if before is None else _spent(_complete_rows(before)[-1])
    rows = _complete_rows(folder)
    losses = [(minutes + _spent(row)[1], row["loss"]) for row in rows]
    curves = {"training loss": _average_neighbors(losses)}
    for row, values in _validations(folder):
        for name, value in values.items():
            number = to_float(value)
            if number is not None and math.isfinite(number):
                point = (minutes + _spent(row)[1], number)
                curves.setdefault(f"validation {name}", []).append(point)
    last_steps, last_minutes = _spent(rows[-1])
    return TrialResult(
        metrics=metrics,
        parameters=int(RunFolder(folder).config()["parameters"]),
        steps=steps + last_steps,
        minutes=minutes + last_minutes,
        curves=curves,
        **rest,
    )


def _complete_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run that have what every training step writes. There is at least one."""
    rows = [
        row
        for row in RunFolder(folder).metrics()
        if None not in (to_float(row.get("loss")), to_float(row.get("seconds")))
    ]
    if not rows:
        raise ValueError(
            f"{folder}: {METRICS} has no training step; delete this folder, then give --resume to "
            "train it again"
        )
    return rows


def _validations(folder: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The rows with a validation, and its metrics."""
    rows = _complete_rows(folder)
    return [(row, row["validation"]) for row in rows if isinstance(row.get("validation"), dict)]


def _spent(row: Mapping[str, Any]) -> tuple[int, float]:
    """The steps and the minutes of training up to this row."""
    return int(row["step"]), row["seconds"] / 60


def _average_neighbors(
    points: list[tuple[float, float]], count: int = 40
) -> list[tuple[float, float]]:
    """At most `count` points, each the mean of neighbors, because single batches are noisy."""
    size = max(1, -(-len(points) // count))
    chunks = [points[i : i + size] for i in range(0, len(points), size)]
    return [(chunk[-1][0], sum(y for _, y in chunk) / len(chunk)) for chunk in chunks]
