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

from attnlab.command_options import options_of
from attnlab.models import ViTConfig
from attnlab.run_folder import StartMode
from attnlab.tasks.comparison import (
    Budget,
    Comparison,
    Metric,
    OptionGroup,
    Outcome,
    Trial,
    outcome_of,
    scaled,
)
from attnlab.tasks.vision.images import Dataset, Parts, digest, divided, fraction
from attnlab.tasks.vision.opening import open_data, source_of
from attnlab.tasks.vision.recipe import (
    VisionSettings,
    keep_beside,
    load_vision,
    make_model,
    prepared,
    settled,
    usual_epochs,
)
from attnlab.tasks.vision.task import logits_of
from attnlab.training import Run, Settings, train
from attnlab.training.run import as_begun

CONVNET = "convnet"
OWN = ("steps", "minutes", "seed", "batch_tokens", "evaluate_every", "evaluations", "best")
SAVING = {"best": False, "evaluate_every": 10**9, "save_every": 10**9, "keep": 1}
SET = ("classes", "image_size", "channels", "attention", "mean", "deviation")  # by the data


@dataclass(frozen=True)
class VisionComparison(Comparison):
    """A ViT with each mechanism, and a ConvNet with as many parameters."""

    data: Annotated[str | None, "digits, fashion, an .npz file or a folder of images"] = None
    fractions: Annotated[tuple[float, ...], "shares of the training images to learn from"] = (
        0.01, 0.03, 0.1, 0.3, 1.0,
    )  # fmt: skip
    epochs: Annotated[float | None, "passes over the whole set; all parts take as many steps"] = (
        None
    )
    convnet: Annotated[bool, "also train a ConvNet with as many parameters"] = True
    vision: VisionSettings = field(default_factory=VisionSettings)
    sizes: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    title = "Attention mechanisms compared: images"
    metrics = (Metric("accuracy", "test accuracy", "higher", percent=True),)
    margin = 0.01
    attention = ("softmax",)
    sweep = "training images"

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        return {
            "vision": OptionGroup(
                options_of(VisionSettings, without=("fraction",)), VisionSettings
            ),
            "sizes": OptionGroup(options_of(ViTConfig, without=SET, unset=True)),
            "training": OptionGroup(options_of(Settings, without=OWN, unset=True)),
        }

    def contenders(self, attention: Sequence[str]) -> dict[str, list[str]]:
        found = {name: [name] for name in attention}
        return {**found, CONVNET: [CONVNET]} if self.convnet else found

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

    def budget(self) -> Budget:
        """The steps that the whole training set usually has."""
        _, parts = self._data
        epochs = usual_epochs(len(parts.train)) if self.epochs is None else self.epochs
        return Budget(steps=settled("vit", len(parts.train), epochs, dict(self.training)).steps)

    def check(self, trials: Sequence[Trial]) -> None:
        """Two shares of the same images would be the same runs, counted as more seeds."""
        dataset, parts = self._data
        for spec in {trial.variant for trial in trials} - {CONVNET}:
            make_model("vit", dataset, parts.train, spec, dict(self.sizes))
        first: dict[int, float] = {}
        for share in self.places():
            assert share is not None
            first.setdefault(len(fraction(parts.train, share, 0)), share)
        if len(first) < len(self.places()):
            listed = " ".join(f"{share:g}" for share in self.places())
            each = ", ".join(f"{share:g} ({count:,})" for count, share in first.items())
            raise ValueError(
                f"--fractions {listed}: some are of the same images; of {len(parts.train):,} these "
                f"differ: {each}"
            )

    def plan(self) -> dict[str, Any]:
        """`fractions` may change: more of them are more runs."""
        _, parts = self._data
        options = {name: value for name, value in asdict(self).items() if name != "fractions"}
        content = digest(parts.train, parts.validation, parts.test)
        return {**options, "data": source_of(self.data), "content": content}

    def train(
        self, trial: Trial, folder: Path, budget: Budget, start: StartMode, quiet: bool
    ) -> None:
        del quiet  # a line for each run is enough
        dataset, parts = self._data
        assert trial.place is not None
        kind = CONVNET if trial.variant == CONVNET else "vit"
        spec = "softmax" if kind == CONVNET else trial.variant
        whole = settled("vit", len(parts.train), None, {**self.training, **budget.settings()})
        changes = {**SAVING, "batch_rows": whole.batch_rows, **self.training, **budget.settings()}
        task, model, settings = prepared(
            dataset, parts, source_of(self.data), kind, spec,
            replace(self.vision, fraction=trial.place), None, self._sizes(kind),
            {**changes, "seed": trial.seed},
        )  # fmt: skip
        settings = scaled(settings, trial.rate)
        if start is StartMode.RESUME:
            settings = as_begun(settings, folder, changes)
        train(
            task, model, settings, Run(folder), start=start, quiet=True,
            on_begin=lambda: keep_beside(dataset, task, folder),
        )  # fmt: skip

    def _sizes(self, kind: str) -> dict[str, Any]:
        """Of the ConvNet: those with which it has as many parameters as the ViT."""
        if kind != CONVNET:
            return dict(self.sizes)
        dataset, parts = self._data
        vit = make_model("vit", dataset, parts.train, "softmax", dict(self.sizes))
        net = make_model(CONVNET, dataset, parts.train, "softmax", {}, vit.parameter_count())
        return {name: getattr(net.config, name) for name in ("width", "stages", "blocks")}

    def measure(self, trial: Trial, folder: Path) -> Outcome:
        del trial
        _, parts = self._data
        model, config = load_vision(folder)
        right = logits_of(model, parts.test.pixels).argmax(-1) == parts.test.labels
        count, total = int(right.sum()), len(parts.test)
        return replace(
            outcome_of(
                folder,
                {"accuracy": count / total},
                validation=-Run(folder).metrics()[-1]["validation"]["accuracy"],
                correct={"accuracy": (count, total)},
                place=float(config["task"]["images"]),
            ),
            curves={},
        )

    def baseline(self) -> tuple[str, Mapping[str, float]]:
        _, parts = self._data
        most = parts.train.labels.bincount().argmax()
        return "always one class", {"accuracy": float((parts.test.labels == most).float().mean())}

    def describe(self) -> str:
        dataset, parts = self._data
        return (
            f"Each run took as many steps, whatever the size of its training set, on images of "
            f"{dataset.source}. It was measured once on {len(parts.test):,} test images."
        )
