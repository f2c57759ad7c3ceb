"""`attnlab compare TASK` for every task that is a recipe and declares no comparison of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from attnlab.command_options import options_of
from attnlab.create import create_attention
from attnlab.models import StackConfig
from attnlab.run_folder import RunFolder, StartMode
from attnlab.tasks.comparison import (
    Budget,
    Comparison,
    Metric,
    OptionGroup,
    Outcome,
    Trial,
    outcome_of,
)
from attnlab.tasks.kind import TaskKind, load
from attnlab.tasks.simple import SimpleTask
from attnlab.training import Settings

OWN = ("steps", "minutes", "seed", "evaluate_every", "evaluations")


@dataclass(frozen=True)
class RecipeComparison(Comparison):
    """Trains and measures by the task's own recipe."""

    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    margin = 0.02

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        sizes = ("vocabulary", "context", "attention")
        return {
            "model": OptionGroup(options_of(StackConfig, without=sizes, unset=True)),
            "training": OptionGroup(options_of(Settings, without=OWN, unset=True)),
        }

    @property
    def recipe(self) -> SimpleTask:
        raise NotImplementedError

    def budget(self) -> Budget:
        return Budget(steps=Settings(**self.recipe.training).steps)

    def check(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            create_attention(trial.variant, head_dim=16, heads=4, max_length=64)

    def plan(self) -> dict[str, Any]:
        return {"task": self.recipe.name, **asdict(self)}

    def train(
        self, trial: Trial, folder: Path, budget: Budget, start: StartMode, quiet: bool
    ) -> None:
        usual = Settings(**{**self.recipe.training, **self.training})
        changes = {
            **self.training,
            "seed": trial.seed,
            "rate": trial.rate * usual.rate,
            "muon_rate": trial.rate * usual.muon_rate,
            **budget.settings(),
        }
        self.recipe.train(
            folder, attention=trial.variant, model=self.model, training=changes, start=start,
            quiet=quiet,
        )  # fmt: skip

    def measure(self, trial: Trial, folder: Path) -> Outcome:
        del trial
        metrics = self.recipe.evaluate(folder)
        checks = [row["validation"] for row in RunFolder(folder).metrics() if "validation" in row]
        value = checks[-1][self.recipe.headline]
        better = self.recipe.better
        return outcome_of(folder, metrics, validation=-value if better == "higher" else value)


def comparison_class(kind: TaskKind) -> type[Comparison]:
    """The task's own comparison, or one made from its recipe."""
    if kind.comparison:
        return cast(type[Comparison], load(kind.comparison))
    recipe = load(kind.recipe)
    metric = Metric(kind.headline, kind.headline, kind.better, percent=kind.headline == "accuracy")
    return dataclass(frozen=True)(
        type(
            "TaskComparison",
            (RecipeComparison,),
            {
                "title": f"Attention mechanisms compared: {kind.name}",
                "metrics": (metric,),
                "recipe": property(lambda _: recipe),
            },
        )
    )
