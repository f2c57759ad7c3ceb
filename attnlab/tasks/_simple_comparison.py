"""`attnlab compare TASK` for tasks that have a recipe and no comparison of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

from attnlab._command_options import options_of
from attnlab._create_mechanism import create_attention
from attnlab.models import StackConfig
from attnlab.run_folder import StartMode
from attnlab.run_folder._config import MAY_CHANGE
from attnlab.tasks._simple_training import default_settings, digest, make_model, make_rows
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

    recipe: ClassVar[Recipe]
    margin = 0.02

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        sizes = ("vocabulary", "context", "attention")
        return {
            "model": OptionGroup(options_of(StackConfig, without=sizes, optional=True)),
            "training": OptionGroup(options_of(Settings, without=SET_BY_COMPARISON, optional=True)),
        }

    @property
    def _settings(self) -> Settings:
        return replace(default_training(self.recipe), **self.training)

    def check(self, trials: Sequence[ComparisonTrial]) -> None:
        settings, task = self._settings, self.recipe
        for variant in {trial.variant for trial in trials}:
            if isinstance(task, SimpleTask):
                rows = [*make_rows(task, "train"), *make_rows(task, "validation")]
                make_model(task, rows, variant, self.model, settings.seed)
            else:
                create_attention(variant, head_dim=16, heads=4, max_length=64)

    def plan(self) -> dict[str, Any]:
        changes, task = {**self.model, **self.training}, self.recipe
        if isinstance(task, SimpleTask):
            parts = ("train", "validation", "test")
            rows = [row for part in parts for row in make_rows(task, part)]
            changes = {**task.model, **task.training, **changes, "data": digest(rows)}
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
            "evaluations": VALIDATIONS,
            **budget.settings(),
        }
        self.recipe.train(
            folder, attention=trial.variant, model=self.model, training=changes,
            start=start.for_part(folder), quiet=quiet,
        )  # fmt: skip

    def measure(self, trial: ComparisonTrial, folder: Path) -> TrialResult:
        del trial
        validation = last_validation(folder, self.metrics[0].name)
        return trial_result(folder, self.recipe.evaluate(folder), validation=validation)


def default_training(recipe: Recipe) -> Settings:
    return default_settings(recipe) if isinstance(recipe, SimpleTask) else Settings()


def comparison_class(kind: TaskKind) -> type[Comparison]:
    """The task's own comparison, or one made from its recipe."""
    if kind.comparison:
        return cast(type[Comparison], load_reference(kind.comparison))
    recipe = load_reference(kind.recipe)
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
