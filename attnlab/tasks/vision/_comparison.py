"""`attnlab compare vision`: a ViT with each mechanism, and a ConvNet of equal size, trained on
growing fractions of the training set.

All runs take the same number of steps, so a small set is seen more often. Each run keeps its last
weights: to choose weights by the validation images would give runs on few images extra labels. Each
run is measured on the test images once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from attnlab._command_options import options_of
from attnlab._help_groups import COMMON, DATA, MODEL, TRAINING
from attnlab.models import Model, ViTConfig
from attnlab.run_folder import StartMode
from attnlab.run_folder._config import MAY_CHANGE
from attnlab.tasks.comparison import (
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
from attnlab.tasks.vision._dataset import Dataset, Parts, digest, split_dataset, take_fraction
from attnlab.tasks.vision._equals_softmax import softmax_notes
from attnlab.tasks.vision._open_data import open_data, source_of
from attnlab.tasks.vision._task import compute_logits
from attnlab.tasks.vision._training import (
    VisionSettings,
    default_epochs,
    image_lists,
    load_vision,
    make_model,
    prepare_training,
    resolve_settings,
    skipped_lines,
)
from attnlab.tasks.vision.kind import SKIPPED
from attnlab.training import Run, Settings, train
from attnlab.training._trained_run import resumed_settings

CONVNET = "convnet"
SET_BY_COMPARISON = (
    *("steps", "minutes", "training_time_only", "seed", "batch_tokens"),
    *("evaluate_every", "evaluations", "keep_best", "save_every", "keep_checkpoints"),
)
SAVE_RARELY = {
    "keep_best": False,
    "evaluate_every": 10**9,
    "save_every": 10**9,
    "keep_checkpoints": 1,
}
SET_BY_DATA = ("classes", "image_size", "channels", "attention", "mean", "deviation")


@dataclass(frozen=True)
class VisionComparison(Comparison):
    """A ViT with each mechanism, and a ConvNet with as many parameters."""

    data: Annotated[
        str | None,
        "Images: digits, fashion, an .npz file or a folder. Without it, digits.",
        DATA,
        COMMON,
    ] = None
    fractions: Annotated[
        tuple[float, ...], "Fractions of the training images to train on.", DATA, COMMON
    ] = (0.01, 0.03, 0.1, 0.3, 1.0)
    epochs: Annotated[
        float | None,
        "Passes over all training images. Runs on a fraction of them take the same number of "
        "steps.",
        TRAINING,
        COMMON,
    ] = None
    convnet: Annotated[
        bool, "Also train a ConvNet with the same number of parameters.", MODEL, COMMON
    ] = True
    vision: VisionSettings = field(default_factory=VisionSettings)
    sizes: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    title = "Attention mechanisms compared: images"
    metrics = (Metric("accuracy", "accuracy", "higher", percent=True),)
    margin = 0.01
    attention = ("softmax",)
    default_budget = None

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        return {
            "vision": OptionGroup(
                options_of(VisionSettings, without=("fraction",)), VisionSettings
            ),
            "sizes": OptionGroup(
                options_of(ViTConfig, without=SET_BY_DATA, optional=True, common=())
            ),
            "training": OptionGroup(
                options_of(Settings, without=SET_BY_COMPARISON, optional=True, common=())
            ),
        }

    @classmethod
    def for_overview(cls, quick: bool) -> VisionComparison:
        del quick
        return cls(fractions=(1.0,), convnet=False)

    @property
    def sweep_title(self) -> str:
        return "training images"

    def contenders(self, attention: Sequence[str]) -> dict[str, list[str]]:
        """The ConvNet has as many parameters as the ViT with the first mechanism."""
        vits = {name: [name] for name in attention}
        if not self.convnet:
            return vits
        count = self._model(attention[0]).parameter_count()
        return {**vits, CONVNET: [f"{CONVNET}:size={count}"]}

    def sweep_values(self) -> Sequence[float]:
        fractions = sorted(set(self.fractions))
        if not fractions or not all(
            0 < fraction <= 1 for fraction in fractions
        ):  # false for NaN too
            listed = " ".join(f"{fraction:g}" for fraction in fractions)
            raise ValueError(
                f"--fractions are {listed}; give fractions of the training images, above 0, at "
                "most 1"
            )
        return fractions

    @cached_property
    def _data(self) -> tuple[Dataset, Parts]:
        dataset = open_data(self.data, self.vision.image_size)
        return dataset, split_dataset(dataset)

    def _model(self, variant: str) -> Model:
        """A ViT with this mechanism, or the ConvNet of this size."""
        dataset, parts = self._data
        if not variant.startswith(f"{CONVNET}:"):
            return make_model("vit", dataset, parts.train, variant, dict(self.sizes))
        count = int(variant.partition("=")[2])
        return make_model(CONVNET, dataset, parts.train, "softmax", {}, count)

    def displayed_sweep_value(self, sweep_value: float) -> float:
        return float(len(take_fraction(self._data[1].train, sweep_value, 0)))

    def budget(self, requested: TrainingBudget | None) -> TrainingBudget:
        """By default as many steps as the default epochs of the whole training set."""
        if requested is not None:
            if self.epochs is not None:
                raise ValueError(
                    "--epochs, --steps and --minutes exclude each other; give one of them"
                )
            return requested
        _, parts = self._data
        epochs = default_epochs(len(parts.train)) if self.epochs is None else self.epochs
        return TrainingBudget(
            steps=resolve_settings("vit", len(parts.train), epochs, dict(self.training)).steps
        )

    def check(self, trials: Sequence[ComparisonTrial]) -> None:
        """Refuse fractions with the same images: their runs would count as more seeds."""
        resolve_settings("vit", 1, None, {**self.training, "steps": 1})
        for variant in {trial.variant for trial in trials}:
            self._model(variant)
        by_count: dict[float, float] = {}
        for fraction in self.sweep_values():
            by_count.setdefault(self.displayed_sweep_value(fraction), fraction)
        if len(by_count) < len(self.sweep_values()):
            listed = " ".join(f"{fraction:g}" for fraction in self.sweep_values())
            distinct = ", ".join(
                f"{fraction:g} ({count:,.0f})" for count, fraction in by_count.items()
            )
            count = len(self._data[1].train)
            raise ValueError(
                f"--fractions {listed}: some select the same number of the {count:,} images; "
                f"give only {distinct}"
            )

    def notes(self, trials: Sequence[ComparisonTrial]) -> list[str]:
        dataset, _ = self._data
        models = [self._model(variant) for variant in {trial.variant for trial in trials}]
        notes = [*dataset.notes, *(note for model in models for note in softmax_notes(model))]
        return [*notes, *skipped_lines(dataset.skipped, f"; all in {SKIPPED} of each run")]

    def plan(self) -> dict[str, Any]:
        """Without `fractions`, which may grow, and `epochs`, which are part of the budget."""
        _, parts = self._data
        training = {name: value for name, value in self.training.items() if name not in MAY_CHANGE}
        return {
            "data": source_of(self.data),
            "content": digest(parts.train, parts.validation, parts.test),
            "convnet": self.convnet,
            **asdict(self.vision),
            **self.sizes,
            **training,
        }

    def train(
        self,
        trial: ComparisonTrial,
        folder: Path,
        budget: TrainingBudget,
        start: StartMode,
        quiet: bool,
    ) -> None:
        del quiet  # a line for each run is enough
        dataset, parts = self._data
        assert trial.place is not None
        kind, spec, sizes = "vit", trial.variant, dict(self.sizes)
        if trial.contender == CONVNET:
            config = self._model(trial.variant).config
            kind, spec = CONVNET, "softmax"
            sizes = {name: getattr(config, name) for name in ("width", "stages", "blocks")}
        whole = resolve_settings(
            "vit", len(parts.train), None, {**self.training, **budget.settings()}
        )
        changes = {
            **SAVE_RARELY,
            "batch_size": whole.batch_size,
            **self.training,
            **budget.settings(),
        }
        task, model, settings = prepare_training(
            dataset, parts, source_of(self.data), kind, spec,
            replace(self.vision, fraction=trial.place), None, sizes,
            {**changes, "seed": trial.seed},
        )  # fmt: skip
        settings, start = scale_learning_rates(settings, trial.rate), start.for_part(folder)
        if start is StartMode.RESUME:
            settings = resumed_settings(settings, folder, changes)
        train(
            task, model, settings, Run(folder), start=start, quiet=True,
            files=image_lists(dataset, task),
        )  # fmt: skip

    def measure(self, trial: ComparisonTrial, folder: Path) -> TrialResult:
        del trial
        _, parts = self._data
        model, _ = load_vision(folder)
        correct = compute_logits(model, parts.test.pixels).argmax(-1) == parts.test.labels
        count, total = int(correct.sum()), len(parts.test)
        outcome = trial_result(
            folder,
            {"accuracy": count / total},
            validation=last_validation(folder, "accuracy"),
            correct={"accuracy": (count, total)},
        )
        return replace(outcome, curves={})  # too many for one figure

    def baseline(self, place: float | None = None) -> tuple[str, Mapping[str, float]]:
        del place
        _, parts = self._data
        most_common = parts.train.labels.bincount().argmax()
        return "always one class", {
            "accuracy": float((parts.test.labels == most_common).float().mean())
        }

    def describe(self) -> str:
        dataset, parts = self._data
        return (
            f"The images are from {dataset.source}. Runs on few of them see each image more often. "
            f"Each run was measured once, on {len(parts.test):,} test images."
        )
