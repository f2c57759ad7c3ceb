"""`attnlab compare summary`: compare attention mechanisms on summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from attnlab._command_options import options_of
from attnlab._create_mechanism import create_attention, mechanism_options
from attnlab._help_groups import HelpGroup
from attnlab.run_folder import StartMode
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
from attnlab.tasks.summary._baselines import first_words
from attnlab.tasks.summary._generation import GREEDY
from attnlab.tasks.summary._pairs import DEFAULT_COLUMNS, Columns, Pair
from attnlab.tasks.summary._presets import ATTENTION, MODEL, SummaryModel
from attnlab.tasks.summary._rouge import score
from attnlab.tasks.summary._scoring import score_model
from attnlab.tasks.summary._task import make_rows
from attnlab.tasks.summary._token_ids import SummaryTextEncoding
from attnlab.tasks.summary._training import (
    HELD_OUT_FRACTION,
    SummaryData,
    load_summary,
    load_summary_data,
    resolve_settings,
    train_on,
    train_tokenizer,
)
from attnlab.tokenizer import Tokenizer

TEST_TEXTS = 300


@dataclass(frozen=True)
class SummaryComparison(Comparison):
    """Encoder-decoders with the mechanism in the encoder or in all layers."""

    data: Annotated[
        str,
        "Texts with summaries: docstrings, debian, or a .jsonl, .csv or .tsv file.",
        HelpGroup.DATA,
        HelpGroup.COMMON,
    ] = "docstrings"
    text_column: Annotated[str, "Column of the file that holds the text.", HelpGroup.DATA] = (
        DEFAULT_COLUMNS.text
    )
    summary_column: Annotated[str, "Column of the file that holds the summary.", HelpGroup.DATA] = (
        DEFAULT_COLUMNS.summary
    )
    group_column: Annotated[
        str | None,
        "Column to group by. Rows with the same value stay in the same split.",
        HelpGroup.DATA,
    ] = DEFAULT_COLUMNS.group
    where: Annotated[
        str, "Layers that use the mechanism: encoder or all.", HelpGroup.MODEL, HelpGroup.COMMON
    ] = "encoder"
    features: Annotated[
        tuple[int, ...],
        "Numbers of features to try, for mechanisms that have them.",
        HelpGroup.MODEL,
    ] = (64, 256)
    limit: Annotated[
        int | None, "Number of pairs to use. Without it, use all.", HelpGroup.DATA, HelpGroup.COMMON
    ] = None
    model: SummaryModel = MODEL

    title = "Attention mechanisms compared: summaries"
    metrics = (
        Metric("loss", "loss in nats per token"),
        Metric("rougeL", "ROUGE-L", "higher"),
        Metric("accuracy", "right tokens", "higher", percent=True),
    )
    margin = 0.1
    learning_rate_factors = (1.0, 0.5)

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        return {
            "model": OptionGroup(
                options_of(SummaryModel, without=ATTENTION, common=()), SummaryModel
            )
        }

    def contenders(self, attention: Sequence[str]) -> dict[str, list[str]]:
        if any(count < 1 for count in self.features):
            raise ValueError(f"features has {min(self.features)}; give 1 or more")
        variants = {}
        for name in attention:
            # raises an error if the mechanism is not valid
            create_attention(name, head_dim=16, heads=4, max_length=64)
            plain = name.isidentifier() and self.features
            takes_features = plain and any(
                option.name == "features" for option in mechanism_options(name)
            )
            variants[name] = (
                [f"{name}:features={n}" for n in self.features] if takes_features else [name]
            )
        return variants

    def check(self, trials: Sequence[ComparisonTrial]) -> None:
        for spec in {trial.variant for trial in trials}:
            self.model.with_attention(spec, self.where).build(self.model.vocabulary, 0)
        encoding = SummaryTextEncoding(
            self._tokens, self.model.text_tokens, self.model.summary_tokens
        )
        parts = {"validation": self._data.split.validation, "test": self._test}
        for name, pairs in parts.items():
            if not make_rows(pairs, encoding)[0]:
                raise ValueError(
                    f"none of the {len(pairs)} {name} texts has a summary of at most "
                    f"{encoding.longest_summary} tokens; give more pairs or a larger "
                    "--summary-tokens"
                )

    @cached_property
    def _data(self) -> SummaryData:
        columns = Columns(self.text_column, self.summary_column, self.group_column)
        return load_summary_data(self.data, columns, held_out=HELD_OUT_FRACTION, limit=self.limit)

    @cached_property
    def _tokens(self) -> Tokenizer:
        return train_tokenizer(self._data.split.train, self.model.vocabulary)

    @property
    def _test(self) -> Sequence[Pair]:
        return self._data.split.test[:TEST_TEXTS]

    def plan(self) -> dict[str, Any]:
        """Without `features`, because more of them only add settings."""
        options = {name: value for name, value in asdict(self).items() if name != "features"}
        model = options.pop("model")
        return {**options, **model, **self._data.about}

    def train(
        self,
        trial: ComparisonTrial,
        folder: Path,
        budget: TrainingBudget,
        start: StartMode,
        quiet: bool,
    ) -> None:
        settings = resolve_settings(
            {"seed": trial.seed, "evaluations": VALIDATIONS, **budget.settings()}
        )
        train_on(
            self._data, out=folder, model=self.model.with_attention(trial.variant, self.where),
            settings=scale_learning_rates(settings, trial.rate), tokens=self._tokens,
            start=start.for_part(folder), quiet=quiet,
        )  # fmt: skip

    def measure(self, trial: ComparisonTrial, folder: Path) -> TrialResult:
        del trial
        model, encoding, _ = load_summary(folder)
        scores = score_model(model, encoding, self._test, GREEDY)
        assert scores.loss is not None
        assert scores.accuracy is not None
        metrics = {
            "loss": scores.loss,
            "rougeL": scores.scores.mean["rougeL"],
            "accuracy": scores.accuracy,
        }
        return trial_result(folder, metrics, validation=last_validation(folder, "loss"))

    @cached_property
    def _first_words(self) -> float:
        texts = [first_words(pair.text, self._data.about["first_words"]) for pair in self._test]
        return score(texts, [pair.summary for pair in self._test]).mean["rougeL"]

    def baseline(self, place: float | None = None) -> tuple[str, Mapping[str, float]]:
        del place
        return "first words", {"rougeL": self._first_words}

    def describe(self) -> str:
        where = "all layers" if self.where == "all" else "the encoder"
        return (
            f"It learned from {len(self._data.split.train):,} texts of "
            f"{self._data.about['data']}, with the mechanism in {where}. Settings were chosen on "
            f"validation texts. The metrics are measured on {len(self._test)} test texts."
        )
