"""`attnlab compare TASK` for every task that is a recipe and declares no comparison of its own."""

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
from attnlab.tasks._simple_training import digest, make_model, rows_of, usual_settings
from attnlab.tasks.comparison import (
    VALIDATIONS,
    Budget,
    Comparison,
    Metric,
    OptionGroup,
    Outcome,
    Trial,
    last_validation,
    outcome_of,
    scaled,
)
from attnlab.tasks.kind import TaskKind, load
from attnlab.tasks.simple import Recipe, SimpleTask
from attnlab.training import Settings

OWN = ("steps", "minutes", "training_time_only", "seed", "evaluate_every", "evaluations")


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
            "training": OptionGroup(options_of(Settings, without=OWN, optional=True)),
        }

    @property
    def _settings(self) -> Settings:
        return replace(usual_training(self.recipe), **self.training)

    def check(self, trials: Sequence[Trial]) -> None:
        settings, task = self._settings, self.recipe
        for variant in {trial.variant for trial in trials}:
            if isinstance(task, SimpleTask):
                rows = [*rows_of(task, "train"), *rows_of(task, "validation")]
                make_model(task, rows, variant, self.model, settings.seed)
            else:
                create_attention(variant, head_dim=16, heads=4, max_length=64)

    def plan(self) -> dict[str, Any]:
        changes, task = {**self.model, **self.training}, self.recipe
        if isinstance(task, SimpleTask):
            parts = ("train", "validation", "test")
            rows = [row for part in parts for row in rows_of(task, part)]
            changes = {**task.model, **task.training, **changes, "data": digest(rows)}
        ours = {*MAY_CHANGE, "seed"}
        return {name: value for name, value in changes.items() if name not in ours}

    def train(
        self, trial: Trial, folder: Path, budget: Budget, start: StartMode, quiet: bool
    ) -> None:
        rates = scaled(self._settings, trial.rate)
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

    def measure(self, trial: Trial, folder: Path) -> Outcome:
        del trial
        validation = last_validation(folder, self.metrics[0].name)
        return outcome_of(folder, self.recipe.evaluate(folder), validation=validation)


def usual_training(recipe: Recipe) -> Settings:
    return usual_settings(recipe) if isinstance(recipe, SimpleTask) else Settings()


def comparison_class(kind: TaskKind) -> type[Comparison]:
    """The task's own comparison, or one made from its recipe."""
    if kind.comparison:
        return cast(type[Comparison], load(kind.comparison))
    recipe = load(kind.recipe)
    metric = Metric(kind.headline, kind.headline, kind.better, percent=kind.headline == "accuracy")
    usual = usual_training(recipe)
    steps = None if usual.minutes else usual.steps
    own = {
        "title": f"Attention mechanisms compared: {kind.name}",
        "metrics": (metric,),
        "recipe": recipe,
        "usual": Budget(usual.minutes, steps),
    }
    return dataclass(frozen=True)(type("TaskComparison", (RecipeComparison,), own))
