"""`attnlab compare knowledge`: which mechanism learns most facts with the same budget?

Three quarters of the budget are for pretraining on the corpus, the rest for questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from attnlab._help_groups import COMMON, DATA, MODEL, TRAINING
from attnlab.run_folder import StartMode
from attnlab.tasks.comparison import (
    VALIDATIONS,
    Comparison,
    ComparisonTrial,
    Metric,
    TrainingBudget,
    TrialResult,
    last_validation,
    scale_learning_rates,
    trial_result,
)
from attnlab.tasks.knowledge._data import digest
from attnlab.tasks.knowledge._load import find_preset, load_data, make_model
from attnlab.tasks.knowledge._pretraining_objectives import create_objectives
from attnlab.tasks.knowledge._scoring import Score, baseline, evaluate
from attnlab.tasks.knowledge._training import SCRATCH, finetune, pretrain
from attnlab.tokenizer import Bytes
from attnlab.training import Settings

PRETRAINING = 0.75  # of the budget
HELD_OUT = 0.1  # of the training pairs, to measure the curves
UNPRETRAINED = " (no pretraining)"  # after the name of a contender
PRETRAINED, FINETUNED = "pretrained", "finetuned"


@dataclass(frozen=True)
class KnowledgeComparison(Comparison):
    """A decoder with each mechanism. Without files it learns the embedded world."""

    corpus: Annotated[
        Path | None,
        "File with one document per line. Without it, use the built-in people.",
        DATA,
        COMMON,
    ] = None
    pairs: Annotated[
        Path | None, "File with training questions: question, tab, answer.", DATA, COMMON
    ] = None
    evaluation_pairs: Annotated[
        Path | None, "File with questions to evaluate on: question, tab, answer.", DATA, COMMON
    ] = None
    preset: Annotated[str, "Model and training settings: small or course.", MODEL, COMMON] = "small"
    objective: Annotated[
        str | None,
        "Pretraining objective: span, lines, lm, entities, or a mixture such as 2*entities+lm.",
        TRAINING,
    ] = None
    unpretrained: Annotated[
        bool, "Also train the first mechanism without pretraining.", TRAINING, COMMON
    ] = True

    title = "Attention mechanisms compared: knowledge"
    metrics = (Metric("accuracy", "right answers", "higher", percent=True),)
    margin = 0.02
    attention = ("softmax", "synthesizer", "favor")
    seeds = 1

    def __post_init__(self) -> None:
        files = [path is None for path in (self.corpus, self.pairs, self.evaluation_pairs)]
        if any(files) and not all(files):
            raise ValueError(
                "--corpus, --pairs and --evaluation-pairs belong together; give all three or none"
            )

    @classmethod
    def for_overview(cls, quick: bool) -> KnowledgeComparison:
        del quick
        return cls(unpretrained=False)

    def contenders(self, attention: Sequence[str]) -> dict[str, list[str]]:
        extra = [attention[0] + UNPRETRAINED] if self.unpretrained else []
        return {name: [name] for name in (*attention, *extra)}

    def check(self, trials: Sequence[ComparisonTrial]) -> None:
        create_objectives(self.objective or find_preset(self.preset).objective)
        for spec in {_attention(trial) for trial in trials}:
            make_model(self.preset, Bytes(), spec, {})
        self.plan()  # reads all files

    @cached_property
    def _baseline(self) -> tuple[str, Score]:
        return baseline(self.pairs, self.evaluation_pairs)

    @cached_property
    def _digests(self) -> dict[str, str]:
        source, (_, score) = load_data(self.corpus, self.pairs), self._baseline
        return {
            "text": digest(source.documents, *source.pairs),
            "questions": digest(score.questions, score.answers or []),
        }

    def plan(self) -> dict[str, Any]:
        files = ("corpus", "pairs", "evaluation_pairs")
        options = {name: value for name, value in asdict(self).items() if name not in files}
        return {**options, **self._digests}

    def train(
        self,
        trial: ComparisonTrial,
        folder: Path,
        budget: TrainingBudget,
        start: StartMode,
        quiet: bool,
    ) -> None:
        preset = find_preset(self.preset)
        shared: dict[str, Any] = {"corpus": self.corpus, "made_up": 0.0, "quiet": quiet}
        answers: dict[str, Any] = {
            "pairs": self.pairs,
            "out": folder / FINETUNED,
            "held_out": HELD_OUT,
            "start": start.for_part(folder / FINETUNED),
        }
        if _unpretrained(trial):
            changes = _changes(preset.scratch, trial, budget, 1.0)
            finetune(
                SCRATCH, attention=_attention(trial), preset=self.preset, training=changes,
                **answers, **shared,
            )  # fmt: skip
            return
        pretrain(
            out=folder / PRETRAINED,
            attention=_attention(trial),
            objective=self.objective,
            preset=self.preset,
            training=_changes(preset.pretraining, trial, budget, PRETRAINING),
            start=start.for_part(folder / PRETRAINED),
            **shared,
        )
        changes = _changes(preset.finetuning, trial, budget, 1 - PRETRAINING)
        finetune(folder / PRETRAINED, training=changes, **answers, **shared)

    def measure(self, trial: ComparisonTrial, folder: Path) -> TrialResult:
        score = evaluate(folder / FINETUNED, self.evaluation_pairs)
        assert score.right is not None
        assert score.accuracy is not None
        return trial_result(
            folder / FINETUNED,
            {"accuracy": score.accuracy},
            validation=last_validation(folder / FINETUNED, "accuracy"),
            correct={"accuracy": (score.right, len(score.questions))},
            before=None if _unpretrained(trial) else folder / PRETRAINED,
        )

    def baseline(self, place: float | None = None) -> tuple[str, Mapping[str, float]]:
        del place
        answer, score = self._baseline
        assert score.accuracy is not None
        return f'always "{answer}"', {"accuracy": score.accuracy}

    def describe(self) -> str:
        return (
            f"{PRETRAINING:.0%} of it went to the corpus and the rest to training questions; "
            "without pretraining, all of it went to the questions. All contenders answered the "
            f"same {len(self._baseline[1].questions):,} questions, which were not in the training."
        )


def _unpretrained(trial: ComparisonTrial) -> bool:
    return trial.contender.endswith(UNPRETRAINED)


def _attention(trial: ComparisonTrial) -> str:
    return trial.variant.removesuffix(UNPRETRAINED)


def _changes(
    base: Settings, trial: ComparisonTrial, budget: TrainingBudget, fraction: float
) -> dict[str, Any]:
    rates = scale_learning_rates(base, trial.rate)
    return {
        "seed": trial.seed,
        "learning_rate": rates.learning_rate,
        "muon_learning_rate": rates.muon_learning_rate,
        "evaluations": VALIDATIONS,
        **budget.settings(fraction),
    }
