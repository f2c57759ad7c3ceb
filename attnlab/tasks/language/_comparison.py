"""`attnlab compare language`: which mechanism predicts a text best with the same budget?

The tokenizer, the training text and the held-out rows are the same for all runs. Every second
held-out row is for validation, the others are test data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from attnlab._command_options import options_of
from attnlab._help_groups import COMMON, DATA, MODEL
from attnlab.models import Decoder, Model, StackConfig
from attnlab.run_folder import StartMode
from attnlab.run_folder._config import MAY_CHANGE
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks._equal_sizes import Sizes, state_bytes
from attnlab.tasks._stack_comparison import SET_BY_TASK, StackComparison
from attnlab.tasks.comparison import (
    VALIDATIONS,
    ComparisonTrial,
    Metric,
    OptionGroup,
    TrainingBudget,
    TrialResult,
    last_validation,
    scale_learning_rates,
    trial_result,
)
from attnlab.tasks.language._corpus import Rows
from attnlab.tasks.language._prepare import (
    PreparedText,
    TextFiles,
    TextsInMemory,
    prepare_text,
)
from attnlab.tasks.language._task import VALIDATION_TOKENS, LanguageTask
from attnlab.tasks.language._text_sources import documentation_text
from attnlab.tasks.language._training import load_language
from attnlab.training import Run, Settings, train
from attnlab.training._trained_run import resumed_settings

SET_BY_COMPARISON = (
    *("steps", "minutes", "training_time_only", "seed", "evaluate_every", "evaluations"),
)
TEXT_SEED = 0  # all runs have the same text


@dataclass(frozen=True)
class LanguageComparison(StackComparison):
    """A decoder with each mechanism, trained to predict the next token."""

    files: Annotated[
        tuple[Path, ...],
        "Text files. Without them, use the documentation of installed packages.",
        DATA,
        COMMON,
    ] = ()
    tokenizer: Annotated[str, "Tokenizer: characters, bytes or bpe.", DATA] = "characters"
    tokenizer_size: Annotated[int, "Number of token ids of the byte-pair tokenizer.", DATA] = 4096
    characters: Annotated[
        int, "Number of characters of documentation to read, if you give no files.", DATA
    ] = 4_000_000
    context: Annotated[int, "Longest text in training, in tokens.", MODEL, COMMON] = 256

    title = "Attention mechanisms compared: language"
    metrics = (
        Metric("bits", "bits per character"),
        Metric("accuracy", "right tokens", "higher", percent=True),
    )
    margin = 0.02

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        return {
            "model": OptionGroup(
                options_of(StackConfig, without=SET_BY_TASK, optional=True, common=())
            ),
            "training": OptionGroup(
                options_of(Settings, without=SET_BY_COMPARISON, optional=True, common=())
            ),
        }

    @classmethod
    def for_overview(cls, quick: bool) -> LanguageComparison:
        """With --quick, a small model on a part of the text."""
        if not quick:
            return cls()
        small = {"width": 64, "layers": 2, "heads": 2}
        return cls(characters=400_000, context=128, model=small)

    @cached_property
    def _text(self) -> PreparedText:
        source = (
            TextFiles(self.files, quiet=True)
            if self.files
            else TextsInMemory(documentation_text(self.characters, TEXT_SEED))
        )
        return prepare_text(source, self.tokenizer, self.tokenizer_size, TEXT_SEED)

    @cached_property
    def _held_out(self) -> list[Rows]:
        """The validation rows and the test rows."""
        text = self._text
        rows = text.validation.rows(self.context, 1)
        if len(rows) < 2:
            raise ValueError(
                f"the text has {len(rows)} held-out row of {self.context} tokens; give a longer "
                "text or a smaller --context"
            )
        rows = rows.sample(2 * VALIDATION_TOKENS, TEXT_SEED, text.tokenizer)
        halves = (np.arange(first, len(rows), 2) for first in (0, 1))
        return [rows.choose(half, text.tokenizer) for half in halves]

    def _task(self, seed: int) -> LanguageTask:
        text = self._text
        task = LanguageTask(
            text.train, text.validation, text.tokenizer,
            objective="causal", context=self.context, seed=seed,
        )  # fmt: skip
        task.validation = self._held_out[0]
        return task

    def test_length(self, place: float | None) -> int:
        del place
        return self.context

    def build(self, variant: str, sizes: Sizes, place: float | None) -> Model:
        return self._model(variant, {**self.sizes_at(place), **sizes}, 0)

    def _model(self, variant: str, sizes: Mapping[str, Any], seed: int) -> Decoder:
        torch.manual_seed(seed)
        vocabulary = self._text.tokenizer.vocabulary
        return Decoder(
            StackConfig(vocabulary=vocabulary, context=self.context, attention=variant, **sizes)
        )

    @property
    def _settings(self) -> Settings:
        return replace(Settings(), **self.training)

    def check(self, trials: Sequence[ComparisonTrial]) -> None:
        _ = self._settings, self._held_out
        for variant, place in dict.fromkeys((trial.variant, trial.place) for trial in trials):
            self.build(variant, {}, place)

    def plan(self) -> dict[str, Any]:
        training = {name: value for name, value in self.training.items() if name not in MAY_CHANGE}
        return {
            "tokenizer": self.tokenizer,
            "tokenizer_size": self.tokenizer_size,
            "context": self.context,
            "text": self._task(0).train.digest,
            "test": self._held_out[1].digest,
            **self.sweep_plan(),
            **self.model,
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
        task = self._task(trial.seed)
        sizes = {**self.sizes_at(trial.place), **dict(trial.model)}
        settings = replace(
            scale_learning_rates(self._settings, trial.rate),
            seed=trial.seed,
            evaluations=VALIDATIONS,
            **budget.settings(),
        )
        start = start.for_part(folder)
        if start is StartMode.RESUME:
            settings = resumed_settings(settings, folder, self.training)
        train(
            task, self._model(trial.variant, sizes, trial.seed), settings, Run(folder),
            start=start, quiet=quiet, files={TOKENIZER: self._text.tokenizer.save},
        )  # fmt: skip

    def measure(self, trial: ComparisonTrial, folder: Path) -> TrialResult:
        model, _, _ = load_language(folder)
        with torch.no_grad():
            metrics = self._task(trial.seed).measure(model, self._held_out[1])
        return trial_result(
            folder,
            {metric.name: metrics[metric.name] for metric in self.metrics},
            validation=last_validation(folder, "bits"),
            state_bytes=state_bytes(model, self.context),
        )

    def describe(self) -> str:
        train, test = self._text.train, self._held_out[1]
        return (
            f"All learned from {int(train.characters.sum()):,} characters and were measured on "
            f"{test.characters:,} others."
        )
