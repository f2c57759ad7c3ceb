"""`attnlab compare summary`: does another mechanism match softmax on summaries?"""

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
from attnlab.tasks.summary._baselines import first_words
from attnlab.tasks.summary._generation import GREEDY
from attnlab.tasks.summary._pairs import USUAL, Columns, Pair
from attnlab.tasks.summary._presets import ATTENTION, MODEL, SummaryModel
from attnlab.tasks.summary._rouge import score
from attnlab.tasks.summary._scoring import measured
from attnlab.tasks.summary._task import rows_of
from attnlab.tasks.summary._token_ids import Wording
from attnlab.tasks.summary._training import (
    SHARE,
    Material,
    learned,
    load_summary,
    material,
    settled,
    train_on,
)
from attnlab.tokenizer import Tokenizer

TESTED = 300  # test texts


@dataclass(frozen=True)
class SummaryComparison(Comparison):
    """Encoder-decoders whose encoder, or all of it, has the mechanism."""

    data: Annotated[
        str,
        "Texts with summaries: docstrings, debian, or a .jsonl, .csv or .tsv file.",
        HelpGroup.DATA,
        HelpGroup.COMMON,
    ] = "docstrings"
    text_column: Annotated[str, "Column of the file that holds the text.", HelpGroup.DATA] = (
        USUAL.text
    )
    summary_column: Annotated[str, "Column of the file that holds the summary.", HelpGroup.DATA] = (
        USUAL.summary
    )
    group_column: Annotated[
        str | None,
        "Column of the file by which rows stay together when they are split.",
        HelpGroup.DATA,
    ] = USUAL.group
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
    rates = (1.0, 0.5)

    @classmethod
    def option_groups(cls) -> dict[str, OptionGroup]:
        return {
            "model": OptionGroup(
                options_of(SummaryModel, without=ATTENTION, common=()), SummaryModel
            )
        }

    def contenders(self, attention: Sequence[str]) -> dict[str, list[str]]:
        if any(count < 1 for count in self.features):
            raise ValueError(f"features {min(self.features)}; give 1 or more")
        found = {}
        for name in attention:
            create_attention(name, head_dim=16, heads=4, max_length=64)  # raises what is wrong
            plain = name.isidentifier() and self.features
            takes = plain and any(each.name == "features" for each in mechanism_options(name))
            found[name] = [f"{name}:features={n}" for n in self.features] if takes else [name]
        return found

    def check(self, trials: Sequence[Trial]) -> None:
        for spec in {trial.variant for trial in trials}:
            self.model.with_attention(spec, self.where).build(self.model.vocabulary, 0)
        wording = Wording(self._tokens, self.model.text_tokens, self.model.summary_tokens)
        parts = {"validation": self._source.split.validation, "test": self._test}
        for name, pairs in parts.items():
            if not rows_of(pairs, wording)[0]:
                raise ValueError(
                    f"none of {len(pairs)} {name} texts has a summary of at most "
                    f"{wording.longest_summary} tokens; give more pairs or more --summary-tokens"
                )

    @cached_property
    def _source(self) -> Material:
        columns = Columns(self.text_column, self.summary_column, self.group_column)
        return material(self.data, columns, held_out=SHARE, limit=self.limit)

    @cached_property
    def _tokens(self) -> Tokenizer:
        return learned(self._source.split.train, self.model.vocabulary)

    @property
    def _test(self) -> Sequence[Pair]:
        return self._source.split.test[:TESTED]

    def plan(self) -> dict[str, Any]:
        """`features` may change: more of them are more settings."""
        options = {name: value for name, value in asdict(self).items() if name != "features"}
        model = options.pop("model")
        return {**options, **model, **self._source.about}

    def train(
        self, trial: Trial, folder: Path, budget: Budget, start: StartMode, quiet: bool
    ) -> None:
        chosen = settled({"seed": trial.seed, "evaluations": VALIDATIONS, **budget.settings()})
        train_on(
            self._source, out=folder, model=self.model.with_attention(trial.variant, self.where),
            settings=scaled(chosen, trial.rate), tokens=self._tokens,
            start=start.for_part(folder), quiet=quiet,
        )  # fmt: skip

    def measure(self, trial: Trial, folder: Path) -> Outcome:
        del trial
        model, wording, _ = load_summary(folder)
        found = measured(model, wording, self._test, GREEDY)
        assert found.loss is not None
        assert found.accuracy is not None
        metrics = {
            "loss": found.loss,
            "rougeL": found.scores.mean["rougeL"],
            "accuracy": found.accuracy,
        }
        return outcome_of(folder, metrics, validation=last_validation(folder, "loss"))

    @cached_property
    def _first_words(self) -> float:
        texts = [first_words(pair.text, self._source.about["first_words"]) for pair in self._test]
        return score(texts, [pair.summary for pair in self._test]).mean["rougeL"]

    def baseline(self) -> tuple[str, Mapping[str, float]]:
        return "first words", {"rougeL": self._first_words}

    def describe(self) -> str:
        where = "all layers" if self.where == "all" else "the encoder"
        return (
            f"It learned from {len(self._source.split.train):,} texts of "
            f"{self._source.about['data']}, with the mechanism in {where}. Settings were chosen on "
            f"validation texts. The metrics are of {len(self._test)} test texts."
        )
