"""`attnlab compare TASK` for tasks that have a recipe and no comparison of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

from attnlab._command_options import options_of
from attnlab._confidence_intervals import format_number
from attnlab._create_mechanism import create_attention
from attnlab.models import Model, StackConfig
from attnlab.run_folder import StartMode
from attnlab.run_folder._config import MAY_CHANGE
from attnlab.tasks._equal_sizes import Sizes, state_bytes
from attnlab.tasks._simple_commands import task_option_class
from attnlab.tasks._simple_training import (
    default_settings,
    digest,
    evaluate_counts,
    longest_row,
    make_model,
    make_rows,
)
from attnlab.tasks._stack_comparison import SET_BY_TASK, StackComparison
from attnlab.tasks._task_options import option_names, task_options, with_options
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
from attnlab.training import Run, Settings

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
class RecipeComparison(StackComparison):
    """Trains and measures with the task's own recipe."""

    options: Mapping[str, Any] = field(default_factory=dict)

    recipe: ClassVar[Recipe]
    """With the default options; `task` has those of the comparison."""
    kind_name: ClassVar[str]
    margin = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        for place in self.sweep_values():
            self.task_at(place)  # refuses wrong options

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        return {
            "options": OptionGroup(task_option_class(cls.recipe)),
            "model": OptionGroup(
                options_of(StackConfig, without=SET_BY_TASK, optional=True, common=())
            ),
            "training": OptionGroup(
                options_of(Settings, without=SET_BY_COMPARISON, optional=True, common=())
            ),
        }

    @classmethod
    def for_overview(cls, quick: bool) -> RecipeComparison:
        """With the options that the task declares for `compare all --quick`."""
        options = dict(getattr(cls.recipe, "quick", {})) if quick else {}
        training, model = options.pop("training", {}), options.pop("model", {})
        return cls(options=options, training=training, model=model)

    def budget(self, requested: TrainingBudget | None) -> TrainingBudget:
        """By default the steps of the training settings, which a quick variant changes."""
        if requested is None and "steps" in self.training:
            return TrainingBudget(steps=self.training["steps"])
        return super().budget(requested)

    def task_at(self, place: float | None) -> Recipe:
        """The task at this value of the sweep."""
        options = {**self.options, **self.swept(place, self.sweep_options())}
        return with_options(self.recipe, options)

    @property
    def task(self) -> Recipe:
        """The task at the first value of the sweep: without one, its options may be impossible."""
        return self.task_at(self.sweep_values()[0])

    @property
    def _fixed_options(self) -> dict[str, Any]:
        """The options of the task that are the same at all values of the sweep."""
        swept = self.swept(self.sweep_values()[0], self.sweep_options())
        return {name: value for name, value in task_options(self.task).items() if name not in swept}

    def sweep_options(self) -> Sequence[str]:
        return option_names(self.recipe)

    @property
    def _settings(self) -> Settings:
        return replace(default_training(self.task), **self.training)

    @cached_property
    def _data(self) -> dict[float | None, dict[str, tuple[int, str]]]:
        """The longest row and the digest of each part at each value of the sweep."""
        data: dict[float | None, dict[str, tuple[int, str]]] = {}
        known: dict[str, dict[str, tuple[int, str]]] = {}  # the width changes no rows
        for place in self.sweep_values():
            key, task = repr(self.swept(place, self.sweep_options())), self.task_at(place)
            assert isinstance(task, SimpleTask)
            if key not in known:
                parts = {part: make_rows(task, part) for part in PARTS}
                known[key] = {p: (longest_row(rows), digest(rows)) for p, rows in parts.items()}
            data[place] = known[key]
        return data

    def test_length(self, place: float | None) -> int:
        return self._data[place]["test"][0]

    def build(self, variant: str, sizes: Sizes, place: float | None) -> Model:
        task = self.task_at(place)
        assert isinstance(task, SimpleTask)
        longest = max(length for length, _ in self._data[place].values())
        changes = {**self.sizes_at(place), **sizes}
        return make_model(task, longest, variant, changes, self._settings.seed)

    def check(self, trials: Sequence[ComparisonTrial]) -> None:
        for variant, place in dict.fromkeys((trial.variant, trial.place) for trial in trials):
            if isinstance(self.recipe, SimpleTask):
                _ = self._settings
                self.build(variant, {}, place)
            else:
                create_attention(variant, head_dim=16, heads=4, max_length=64)

    def with_equal_sizes(self, trials: Sequence[ComparisonTrial]) -> list[ComparisonTrial]:
        is_simple = isinstance(self.recipe, SimpleTask)  # other recipes make their own models
        return super().with_equal_sizes(trials) if is_simple else list(trials)

    def notes(self, trials: Sequence[ComparisonTrial]) -> list[str]:
        return super().notes(trials) if isinstance(self.recipe, SimpleTask) else []

    def plan(self) -> dict[str, Any]:
        changes, task = {**self.options, **self.model, **self.training}, self.task
        if isinstance(task, SimpleTask):
            digests = {
                place: [digest for _, digest in parts.values()]
                for place, parts in self._data.items()
            }
            first = self.sweep_values()[0]
            swept = self.swept(first, self.sweep_options())
            fixed = {name: value for name, value in changes.items() if name not in swept}
            changes = {**self._fixed_options, **task.model, **task.training, **fixed}
            changes |= {"data": digests if swept else digests[first], **self.sweep_plan()}
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
        self.task_at(trial.place).train(
            folder, attention=trial.variant,
            model={**self.sizes_at(trial.place), **dict(trial.model)}, training=changes,
            start=start.for_part(folder), quiet=quiet,
        )  # fmt: skip

    def measure(self, trial: ComparisonTrial, folder: Path) -> TrialResult:
        validation = last_validation(folder, self.metrics[0].name)
        if not isinstance(self.recipe, SimpleTask):
            return trial_result(folder, self.recipe.evaluate(folder), validation=validation)
        metrics, correct = evaluate_counts(self.recipe, folder)
        state = state_bytes(Run(folder).model(), self.test_length(trial.place))
        return trial_result(
            folder, metrics, validation=validation, correct=correct, state_bytes=state
        )

    def baseline(self, place: float | None = None) -> tuple[str, Mapping[str, float]] | None:
        task = self.task if place is None else self.task_at(place)
        chance = task.chance if isinstance(task, SimpleTask) else None
        return None if chance is None else ("chance", {self.metrics[0].name: chance})

    def describe(self) -> str:
        listed = ", ".join(f"{name} {value}" for name, value in self._fixed_options.items())
        parts = [f"The rows have {listed}." if listed else ""]
        baselines, metric = map(self.baseline, self.sweep_values()), self.metrics[0]
        chances = sorted({pair[1][metric.name] for pair in baselines if pair is not None})
        if chances:
            ends = [format_number(chance, metric.percent) for chance in chances]
            value = ends[0] if len(ends) == 1 else f"{ends[0]} to {ends[-1]}"
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
        "kind_name": kind.name,
        "default_budget": TrainingBudget(defaults.minutes, steps),
    }
    return dataclass(frozen=True)(type("TaskComparison", (RecipeComparison,), attributes))
