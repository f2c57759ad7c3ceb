"""A comparison without training: its runs have given metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from attnlab.compare._runs import ComparisonRun
from attnlab.errors import TrainingStoppedError
from attnlab.run_folder import RunFolder, StartMode
from attnlab.tasks.comparison import (
    Comparison,
    ComparisonTrial,
    Metric,
    TrainingBudget,
    TrialResult,
)

MODEL = {"model": "decoder", "attention": "softmax", "width": 8}


@dataclass(frozen=True)
class FakeComparison(Comparison):
    """`losses`: by variant, one for each seed. A run without a loss diverges."""

    losses: Mapping[str, Sequence[float]] = field(default_factory=dict)
    width: Annotated[int, "a setting"] = 8
    floor: float | None = None
    trained: list[tuple[str, StartMode]] = field(default_factory=list)

    title = "Fakes compared"
    metrics = (Metric("loss", "loss"), Metric("accuracy", "right tokens", "higher", percent=True))
    margin = 0.1

    def contenders(self, attention: Sequence[str]) -> dict[str, list[str]]:
        names = {variant: variant.split(":")[0] for variant in self.losses}
        return {name: [v for v in names if names[v] == name] or [name] for name in attention}

    def check(self, trials: Sequence[ComparisonTrial]) -> None:
        assert trials
        if self.width < 1:
            raise ValueError(f"width is {self.width}; give 1 or more")

    def plan(self) -> dict[str, Any]:
        return {"width": self.width}

    def notes(self, trials: Sequence[ComparisonTrial]) -> list[str]:
        return [f"a note about {len(trials)} trials"]

    def train(
        self,
        trial: ComparisonTrial,
        folder: Path,
        budget: TrainingBudget,
        start: StartMode,
        quiet: bool,
    ) -> None:
        assert quiet or budget
        self.trained.append((trial.folder, start.for_part(folder)))
        config = {"task": {"name": "language", "headline": "loss"}, "model": MODEL}
        RunFolder(folder).folder.mkdir(parents=True, exist_ok=True)
        RunFolder(folder).write_json("config.json", {**config, "training": budget.settings()})
        if len(self.losses[trial.variant]) <= trial.seed:
            raise TrainingStoppedError(f"{folder}: the loss became nan at step 3")

    def measure(self, trial: ComparisonTrial, folder: Path) -> TrialResult:
        assert folder.is_dir()
        return create_run(trial.variant, self.losses[trial.variant][trial.seed], trial.seed).outcome

    def baseline(self, place: float | None = None) -> tuple[str, Mapping[str, float]] | None:
        del place
        return None if self.floor is None else ("a guess", {"accuracy": self.floor})


@dataclass(frozen=True)
class FakeSweep(FakeComparison):
    """A sweep over the fractions 0.1 and 1 of 1,000 images. `losses` change sign between them."""

    @property
    def sweep_title(self) -> str:
        return "images"

    def sweep_values(self) -> Sequence[float]:
        return (0.1, 1.0)

    def displayed_sweep_value(self, place: float) -> float:
        return 1000 * place

    def measure(self, trial: ComparisonTrial, folder: Path) -> TrialResult:
        assert folder.is_dir()
        assert trial.place is not None
        loss = self.losses[trial.variant][trial.seed]
        change = loss if trial.place == 1.0 else -loss
        return create_run(trial.variant, 5 + change, trial.seed).outcome


def create_run(
    variant: str,
    loss: float,
    seed: int = 0,
    learning_rate_factor: float = 1.0,
    accuracy: float = 0.5,
) -> ComparisonRun:
    curve = [(0.1, loss + 1), (0.2, loss)]
    outcome = TrialResult(
        metrics={"loss": loss, "accuracy": accuracy},
        validation=loss,
        parameters=1234,
        steps=9,
        minutes=0.2,
        curves={"training loss": curve, "validation accuracy": [(0.2, accuracy)]},
    )
    return ComparisonRun(
        ComparisonTrial(variant.split(":")[0], variant, learning_rate_factor, seed), outcome
    )
