"""Score the summaries of a run, next to two baselines that need no training."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from attnlab._safe_files import write_text
from attnlab.models import Seq2Seq
from attnlab.tasks.summary._baselines import best_words, first_words
from attnlab.tasks.summary._data_sources import load_pairs_with_bad_rows
from attnlab.tasks.summary._generation import (
    SEARCH,
    GeneratedSummary,
    GenerationMethod,
    is_looping,
    write_summaries,
)
from attnlab.tasks.summary._pairs import DEFAULT_COLUMNS, Columns, Pair
from attnlab.tasks.summary._rouge import KINDS, Scores, score, words_of
from attnlab.tasks.summary._task import make_rows, measure
from attnlab.tasks.summary._token_ids import SummaryTextEncoding
from attnlab.tasks.summary._training import SummaryData, load_summary, load_summary_data
from attnlab.training import is_main_process

EXAMPLES = 10


@dataclass(frozen=True)
class Evaluation:
    """All measurements on one set of pairs."""

    pairs: list[Pair]
    written: list[GeneratedSummary]
    scores: dict[str, Scores]
    """Scores of the model and of both baselines."""
    loss: float | None
    accuracy: float | None
    too_long: int
    """Number of reference summaries that are too long for loss and accuracy."""
    first_words: int
    unfinished: int
    looping: int
    cut: int
    measured_on: str
    skipped_rows: int
    """Number of rows of the file without a pair."""
    skip_reasons: str
    """The reasons for skipped rows, with line numbers."""

    @property
    def ratio(self) -> float | None:
        """ROUGE-L divided by that of the first words; None if the first words score 0."""
        baseline = self.scores["first words"].mean["rougeL"]
        return self.scores["model"].mean["rougeL"] / baseline if baseline else None

    @property
    def without_words(self) -> int:
        """Number of reference summaries in which ROUGE sees no word."""
        return sum(not words_of(pair.summary) for pair in self.pairs)

    def examples(self, count: int = EXAMPLES, seed: int = 0) -> list[dict[str, str]]:
        """Randomly sampled examples, not selected ones."""
        indices = random.Random(seed).sample(range(len(self.pairs)), min(count, len(self.pairs)))
        return [
            {
                "text": self.pairs[i].text,
                "right": self.pairs[i].summary,
                "written": self.written[i].text,
            }
            for i in indices
        ]

    def as_dict(self) -> dict[str, Any]:
        return {
            "measured_on": self.measured_on,
            "texts": len(self.pairs),
            "scores": {name: scores.as_dict() for name, scores in self.scores.items()},
            "ratio_to_first_words": self.ratio,
            "first_words": self.first_words,
            "loss": self.loss,
            "accuracy": self.accuracy,
            "unfinished": self.unfinished,
            "looping": self.looping,
            "cut": self.cut,
            "left_out": {
                "rows": self.skipped_rows,
                "why": self.skip_reasons,
                "too_long_for_loss": self.too_long,
                "without_words_for_rouge": self.without_words,
            },
            "examples": self.examples(),
        }


@dataclass(frozen=True)
class ModelScores:
    """The summaries of a model and their scores."""

    written: list[GeneratedSummary]
    scores: Scores
    loss: float | None
    accuracy: float | None
    """None if no reference summary is short enough for the model."""
    too_long: int


def score_model(
    model: Seq2Seq, encoding: SummaryTextEncoding, pairs: Sequence[Pair], method: GenerationMethod
) -> ModelScores:
    """Write summaries and compute their ROUGE, and the loss of the reference summaries."""
    written = [
        rows[0] for rows in write_summaries(model, encoding, [p.text for p in pairs], method)
    ]
    rows, too_long = make_rows(pairs, encoding)
    metrics = measure(model, rows, encoding)
    scores = score([summary.text for summary in written], [pair.summary for pair in pairs])
    return ModelScores(written, scores, metrics.get("loss"), metrics.get("accuracy"), too_long)


def evaluate(
    folder: str | Path,
    data: str | Path | None = None,
    columns: Columns = DEFAULT_COLUMNS,
    *,
    part: str = "test",
    limit: int | None = None,
    method: GenerationMethod = SEARCH,
    quiet: bool = False,
) -> Evaluation:
    """Score a run on its own held-out pairs (`part`), or on all pairs of another file.

    >>> from attnlab.tasks.summary import SummaryModel, evaluate, train
    >>> small = SummaryModel(vocabulary=300, width=16, encoder_layers=1, decoder_layers=1, heads=2)
    >>> options = {"model": small, "limit": 60, "training": {"steps": 2}, "quiet": True}
    >>> metrics = train("docstrings", out="run", **options)
    >>> evaluation = evaluate("run", limit=2, quiet=True)
    >>> len(evaluation.pairs)
    2
    """
    if part not in ("test", "validation"):
        raise ValueError(f"part is {part!r}; choose test or validation")
    model, encoding, config = load_summary(folder)
    task = config["task"]
    if data is None:
        source = load_run_data(folder, task, quiet)
        pairs, loaded = select_part(source, part), source.loaded
        name = f"{part} pairs of {task['data']}"
    else:
        loaded = load_pairs_with_bad_rows(data, columns, quiet=quiet)
        pairs, name = loaded.pairs, str(data)
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; give 1 or more")
    pairs = pairs[:limit]
    if is_main_process() and not quiet:
        print(f"writing {len(pairs):,} summaries", file=sys.stderr)
    model_scores = score_model(model, encoding, pairs, method)
    references, count = [pair.summary for pair in pairs], int(task["first_words"])
    baselines = {
        "first words": [first_words(pair.text, count) for pair in pairs],
        "best words in order": [best_words(pair.text, pair.summary) for pair in pairs],
    }
    return Evaluation(
        pairs,
        model_scores.written,
        {"model": model_scores.scores}
        | {name: score(texts, references) for name, texts in baselines.items()},
        model_scores.loss,
        model_scores.accuracy,
        model_scores.too_long,
        count,
        sum(not summary.finished for summary in model_scores.written),
        sum(is_looping(summary.text) for summary in model_scores.written),
        sum(encoding.encode_source(pair.text)[1] > 0 for pair in pairs),
        name,
        len(loaded.bad_rows),
        loaded.reasons,
    )


def load_held_out_pairs(
    folder: str | Path, task: dict[str, Any], part: str, quiet: bool
) -> list[Pair]:
    """Load the pairs that a run held out."""
    return select_part(load_run_data(folder, task, quiet), part)


def select_part(source: SummaryData, part: str) -> list[Pair]:
    return source.split.test if part == "test" else source.split.validation


def load_run_data(folder: str | Path, task: dict[str, Any], quiet: bool) -> SummaryData:
    """Load the data of a run again: what it was trained on and what it held out."""
    columns = Columns(**task["columns"])
    source = load_summary_data(
        task["data"],
        columns,
        held_out=task["held_out"],
        seed=task["split_seed"],
        limit=task["limit"],
        expected_digest=task["pairs"],
        quiet=quiet,
    )
    if source.about["pairs"] != task["pairs"]:
        raise ValueError(
            f"{folder}: was trained on another version of {task['data']}, so its held-out texts "
            "are unknown; give --data with texts that it has not seen"
        )
    return source


HEADER = ("", "ROUGE-1", "ROUGE-2", "ROUGE-L", "95% interval")


def print_evaluation(evaluation: Evaluation, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for heading in HEADER:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for name, scores in evaluation.scores.items():
        label = f"first {evaluation.first_words} words" if name == "first words" else name
        low, high = scores.interval["rougeL"]
        figures = [f"{scores.mean[kind]:.1f}" for kind in KINDS]
        table.add_row(label, *figures, f"{low:.1f} to {high:.1f}")
    console.print(table)
    ratio = "–" if evaluation.ratio is None else f"{evaluation.ratio:.2f}"
    loss = "–" if evaluation.loss is None else f"{evaluation.loss:.3f}"
    accuracy = "–" if evaluation.accuracy is None else f"{evaluation.accuracy:.1%}"
    too_long = (
        f" ({evaluation.too_long:,} summaries too long for it)" if evaluation.too_long else ""
    )
    console.print(
        f"{len(evaluation.pairs):,} texts ({evaluation.measured_on}, {evaluation.cut:,} cut); "
        f"ROUGE-L is {ratio} times that of the first words; loss {loss}{too_long}, next-token "
        f"accuracy {accuracy}; {evaluation.unfinished} summaries did not end, "
        f"{evaluation.looping} repeat themselves",
        highlight=False,
        soft_wrap=True,
    )
    if evaluation.without_words:
        console.print(
            f"ROUGE, as Google computes it, only sees Latin letters and digits: "
            f"{evaluation.without_words:,} reference summaries have none and count as 0",
            highlight=False,
            soft_wrap=True,
        )


def write_predictions(path: Path, written: Sequence[GeneratedSummary]) -> None:
    """One summary per line."""
    write_text(path, "".join(f"{summary.text}\n" for summary in written))
