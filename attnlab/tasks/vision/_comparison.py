"""`attnlab compare vision`: mechanisms in a ViT, and a ConvNet of equal size, on growing parts of a
training set.

Every run takes the same number of steps: few images are seen often. The last weights are taken:
choosing by the validation images would give a run on a few images many more labels than it may
have. Each run is measured on the test images once.
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
from attnlab.tasks.vision._dataset import Dataset, Parts, digest, divided, fraction
from attnlab.tasks.vision._model_notes import softmax_notes
from attnlab.tasks.vision._open_data import open_data, source_of
from attnlab.tasks.vision._task import logits_of
from attnlab.tasks.vision._training import (
    VisionSettings,
    keep_beside,
    load_vision,
    make_model,
    prepared,
    settled,
    skipped_lines,
    usual_epochs,
)
from attnlab.tasks.vision.kind import SKIPPED
from attnlab.training import Run, Settings, train
from attnlab.training._run import resumed_settings

CONVNET = "convnet"
OWN = (
    *("steps", "minutes", "training_time_only", "seed", "batch_tokens"),
    *("evaluate_every", "evaluations", "keep_best", "save_every", "keep_checkpoints"),
)
SAVING = {"keep_best": False, "evaluate_every": 10**9, "save_every": 10**9, "keep_checkpoints": 1}
SET = ("classes", "image_size", "channels", "attention", "mean", "deviation")  # by the data


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
        "Passes over all training images. A fraction of them is trained for as many steps.",
        TRAINING,
        COMMON,
    ] = None
    convnet: Annotated[bool, "Also train a ConvNet with as many parameters.", MODEL, COMMON] = True
    vision: VisionSettings = field(default_factory=VisionSettings)
    sizes: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    title = "Attention mechanisms compared: images"
    metrics = (Metric("accuracy", "accuracy", "higher", percent=True),)
    margin = 0.01
    attention = ("softmax",)
    sweep = "training images"
    usual = None

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        return {
            "vision": OptionGroup(
                options_of(VisionSettings, without=("fraction",)), VisionSettings
            ),
            "sizes": OptionGroup(options_of(ViTConfig, without=SET, optional=True, common=())),
            "training": OptionGroup(options_of(Settings, without=OWN, optional=True, common=())),
        }

    def contenders(self, attention: Sequence[str]) -> dict[str, list[str]]:
        """The ConvNet has as many parameters as the ViT with the first mechanism."""
        vits = {name: [name] for name in attention}
        if not self.convnet:
            return vits
        count = self._model(attention[0]).parameter_count()
        return {**vits, CONVNET: [f"{CONVNET}:size={count}"]}

    def places(self) -> Sequence[float]:
        shares = sorted(set(self.fractions))
        if not shares or not all(0 < share <= 1 for share in shares):  # of NaN neither holds
            given = " ".join(f"{share:g}" for share in shares)
            raise ValueError(
                f"--fractions {given}; give shares of the training images, above 0, at most 1"
            )
        return shares

    @cached_property
    def _data(self) -> tuple[Dataset, Parts]:
        dataset = open_data(self.data, self.vision.image_size)
        return dataset, divided(dataset)

    def _model(self, variant: str) -> Model:
        """A ViT with this mechanism, or a ConvNet with so many parameters."""
        dataset, parts = self._data
        if not variant.startswith(f"{CONVNET}:"):
            return make_model("vit", dataset, parts.train, variant, dict(self.sizes))
        count = int(variant.partition("=")[2])
        return make_model(CONVNET, dataset, parts.train, "softmax", {}, count)

    def place_shown(self, place: float) -> float:
        return float(len(fraction(self._data[1].train, place, 0)))

    def budget(self, given: Budget | None) -> Budget:
        """The steps that the whole training set usually has."""
        if given is not None:
            if self.epochs is not None:
                raise ValueError("--epochs, --steps and --minutes; give one of them")
            return given
        _, parts = self._data
        epochs = usual_epochs(len(parts.train)) if self.epochs is None else self.epochs
        return Budget(steps=settled("vit", len(parts.train), epochs, dict(self.training)).steps)

    def check(self, trials: Sequence[Trial]) -> None:
        """Two shares of the same images would be the same runs, counted as more seeds."""
        settled("vit", 1, None, {**self.training, "steps": 1})
        for variant in {trial.variant for trial in trials}:
            self._model(variant)
        first: dict[float, float] = {}
        for share in self.places():
            first.setdefault(self.place_shown(share), share)
        if len(first) < len(self.places()):
            listed = " ".join(f"{share:g}" for share in self.places())
            each = ", ".join(f"{share:g} ({count:,.0f})" for count, share in first.items())
            count = len(self._data[1].train)
            raise ValueError(
                f"--fractions {listed}: some are of the same images; of {count:,} these differ: "
                f"{each}"
            )

    def notes(self, trials: Sequence[Trial]) -> list[str]:
        dataset, _ = self._data
        models = [self._model(variant) for variant in {trial.variant for trial in trials}]
        about = [*dataset.notes, *(note for model in models for note in softmax_notes(model))]
        return [*about, *skipped_lines(dataset.skipped, f"; all in {SKIPPED} of each run")]

    def plan(self) -> dict[str, Any]:
        """`fractions` may change: more of them are more runs. `epochs` are part of the budget."""
        _, parts = self._data
        training = {name: each for name, each in self.training.items() if name not in MAY_CHANGE}
        return {
            "data": source_of(self.data),
            "content": digest(parts.train, parts.validation, parts.test),
            "convnet": self.convnet,
            **asdict(self.vision),
            **self.sizes,
            **training,
        }

    def train(
        self, trial: Trial, folder: Path, budget: Budget, start: StartMode, quiet: bool
    ) -> None:
        del quiet  # a line for each run is enough
        dataset, parts = self._data
        assert trial.place is not None
        kind, spec, sizes = "vit", trial.variant, dict(self.sizes)
        if trial.contender == CONVNET:
            config = self._model(trial.variant).config
            kind, spec = CONVNET, "softmax"
            sizes = {name: getattr(config, name) for name in ("width", "stages", "blocks")}
        whole = settled("vit", len(parts.train), None, {**self.training, **budget.settings()})
        changes = {**SAVING, "batch_size": whole.batch_size, **self.training, **budget.settings()}
        task, model, settings = prepared(
            dataset, parts, source_of(self.data), kind, spec,
            replace(self.vision, fraction=trial.place), None, sizes,
            {**changes, "seed": trial.seed},
        )  # fmt: skip
        settings, start = scaled(settings, trial.rate), start.for_part(folder)
        if start is StartMode.RESUME:
            settings = resumed_settings(settings, folder, changes)
        train(
            task, model, settings, Run(folder), start=start, quiet=True,
            on_begin=lambda: keep_beside(dataset, task, folder),
        )  # fmt: skip

    def measure(self, trial: Trial, folder: Path) -> Outcome:
        del trial
        _, parts = self._data
        model, _ = load_vision(folder)
        right = logits_of(model, parts.test.pixels).argmax(-1) == parts.test.labels
        count, total = int(right.sum()), len(parts.test)
        outcome = outcome_of(
            folder,
            {"accuracy": count / total},
            validation=last_validation(folder, "accuracy"),
            correct={"accuracy": (count, total)},
        )
        return replace(outcome, curves={})  # too many for one figure

    def baseline(self) -> tuple[str, Mapping[str, float]]:
        _, parts = self._data
        most = parts.train.labels.bincount().argmax()
        return "always one class", {"accuracy": float((parts.test.labels == most).float().mean())}

    def describe(self) -> str:
        dataset, parts = self._data
        return (
            f"The images are of {dataset.source}. Runs on few of them see each image more often. "
            f"Each run was measured once, on {len(parts.test):,} test images."
        )
