"""`attnlab compare TASK` for tasks that have a recipe and no comparison of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

from attnlab._command_options import options_of
from attnlab._confidence_intervals import format_number
from attnlab._create_mechanism import create_attention
from attnlab.models import StackConfig
from attnlab.run_folder import StartMode
from attnlab.run_folder._config import MAY_CHANGE
from attnlab.tasks._simple_commands import task_option_class
from attnlab.tasks._simple_training import (
    default_settings,
    digest,
    evaluate_counts,
    longest_row,
    make_model,
    make_rows,
)
from attnlab.tasks._task_options import task_options, with_options
from attnlab.tasks.comparison import (
    VALIDATIONS,
    Comparison,
    ComparisonTrial,
    Metric,
    OptionGroup,
    TrainingBudget,
    TrialResult,
    last_validation,
    scale_learning_rates,
    trial_result,
)
from attnlab.tasks.kind import TaskKind, load_reference
from attnlab.tasks.simple import Recipe, SimpleTask
from attnlab.training import Settings

PARTS = ("train", "validation", "test")
SET_BY_COMPARISON = (
    "steps",
    "minutes",
    "training_time_only",
    "seed",
    "evaluate_every",
    "evaluations",
)


@dataclass(frozen=True)
class RecipeComparison(Comparison):
    """Trains and measures with the task's own recipe."""

    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    recipe: ClassVar[Recipe]
    """With the default options; `task` has those of the comparison."""
    margin = 0.02

    def __post_init__(self) -> None:
        with_options(self.recipe, self.options)  # refuses wrong options

    @property
    def task(self) -> Recipe:
        return with_options(self.recipe, self.options)

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        sizes = ("vocabulary", "context", "attention")
        return {
            "options": OptionGroup(task_option_class(cls.recipe)),
            "model": OptionGroup(options_of(StackConfig, without=sizes, optional=True)),
            "training": OptionGroup(options_of(Settings, without=SET_BY_COMPARISON, optional=True)),
        }

    @property
    def _settings(self) -> Settings:
        return replace(default_training(self.task), **self.training)

    def check(self, trials: Sequence[ComparisonTrial]) -> None:
        settings, task = self._settings, self.task
        longest = 0
        if isinstance(task, SimpleTask):
            longest = max(longest_row(make_rows(task, part)) for part in PARTS)
        for variant in {trial.variant for trial in trials}:
            if isinstance(task, SimpleTask):
                make_model(task, longest, variant, self.model, settings.seed)
            else:
                create_attention(variant, head_dim=16, heads=4, max_length=64)

    def plan(self) -> dict[str, Any]:
        changes, task = {**self.options, **self.model, **self.training}, self.task
        if isinstance(task, SimpleTask):
            data = [digest(make_rows(task, part)) for part in PARTS]
            changes = {**task_options(task), **task.model, **task.training, **changes, "data": data}
        ignored = {*MAY_CHANGE, "seed"}
        return {name: value for name, value in changes.items() if name not in ignored}

    def train(
        self,
        trial: ComparisonTrial,
        folder: Path,
        budget: TrainingBudget,
        start: StartMode,
        quiet: bool,
    ) -> None:
        rates = scale_learning_rates(self._settings, trial.rate)
        changes = {
            **self.training,
            "seed": trial.seed,
            "learning_rate": rates.learning_rate,
            "muon_learning_rate": rates.muon_learning_rate,
            "evaluations": max(VALIDATIONS, self._settings.evaluations or 0),
            **budget.settings(),
        }
        self.task.train(
            folder, attention=trial.variant, model=self.model, training=changes,
            start=start.for_part(folder), quiet=quiet,
        )  # fmt: skip

    def measure(self, trial: ComparisonTrial, folder: Path) -> TrialResult:
        del trial
        validation = last_validation(folder, self.metrics[0].name)
        if not isinstance(self.recipe, SimpleTask):
            return trial_result(folder, self.recipe.evaluate(folder), validation=validation)
        metrics, correct = evaluate_counts(self.recipe, folder)
        return trial_result(folder, metrics, validation=validation, correct=correct)

    def baseline(self) -> tuple[str, Mapping[str, float]] | None:
        chance = self.task.chance if isinstance(self.task, SimpleTask) else None
        return None if chance is None else ("chance", {self.metrics[0].name: chance})

    def describe(self) -> str:
        options = task_options(self.task)
        listed = ", ".join(f"{name} {value}" for name, value in options.items())
        chance = self.baseline()
        parts = [f"The rows have {listed}." if listed else ""]
        if chance is not None:
            value = format_number(chance[1][self.metrics[0].name], self.metrics[0].percent)
            parts.append(f"Guessing would give {value}.")
        return " ".join(filter(None, parts))


def default_training(recipe: Recipe) -> Settings:
    return default_settings(recipe) if isinstance(recipe, SimpleTask) else Settings()


def comparison_class(kind: TaskKind) -> type[Comparison]:
    """The task's own comparison, or one made from its recipe."""
    if kind.comparison:
        return cast(type[Comparison], load_reference(kind.comparison))
    recipe = kind.load_recipe()
    metric = Metric(kind.headline, kind.headline, kind.better, percent=kind.headline == "accuracy")
    defaults = default_training(recipe)
    steps = None if defaults.minutes else defaults.steps
    attributes = {
        "title": f"Attention mechanisms compared: {kind.name}",
        "metrics": (metric,),
        "recipe": recipe,
        "default_budget": TrainingBudget(defaults.minutes, steps),
    }
    return dataclass(frozen=True)(type("TaskComparison", (RecipeComparison,), attributes))
