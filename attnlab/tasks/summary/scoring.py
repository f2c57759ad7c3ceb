"""How good a run's summaries are, beside two lines that need no training."""

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

from attnlab.files import write_text
from attnlab.models import Seq2Seq
from attnlab.tasks.summary.baselines import best_words, first_words
from attnlab.tasks.summary.pairs import USUAL, Columns, Pair
from attnlab.tasks.summary.recipe import load_summary, material
from attnlab.tasks.summary.rouge import KINDS, Scores, score
from attnlab.tasks.summary.sources import load_pairs
from attnlab.tasks.summary.task import measure, rows_of
from attnlab.tasks.summary.wording import Wording
from attnlab.tasks.summary.writing import SEARCH, Way, Written, loops, write_all
from attnlab.training import speaks

EXAMPLES = 10


@dataclass(frozen=True)
class Evaluation:
    """All that was measured on one set of pairs."""

    pairs: list[Pair]
    written: list[Written]
    scores: dict[str, Scores]
    """Of the model and of both baselines."""
    loss: float | None
    accuracy: float | None
    too_long: int
    """Summaries that loss and accuracy leave out."""
    first_words: int
    unfinished: int
    looping: int
    cut: int
    measured_on: str

    @property
    def ratio(self) -> float:
        """ROUGE-L over that of the first words."""
        below = self.scores["first words"].mean["rougeL"]
        return self.scores["model"].mean["rougeL"] / below if below else float("inf")

    def examples(self, count: int = EXAMPLES, seed: int = 0) -> list[dict[str, str]]:
        """Fair ones: drawn, not chosen."""
        places = random.Random(seed).sample(range(len(self.pairs)), min(count, len(self.pairs)))
        return [
            {
                "text": self.pairs[i].text,
                "right": self.pairs[i].summary,
                "written": self.written[i].text,
            }
            for i in places
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
            "examples": self.examples(),
        }


@dataclass(frozen=True)
class Measured:
    """What a model makes of pairs."""

    written: list[Written]
    scores: Scores
    loss: float | None
    accuracy: float | None
    """None where no summary is short enough for the model."""
    too_long: int


def measured(model: Seq2Seq, wording: Wording, pairs: Sequence[Pair], way: Way) -> Measured:
    """Summaries with their ROUGE, and the loss of the right ones."""
    written = [rows[0] for rows in write_all(model, wording, [p.text for p in pairs], way)]
    rows, too_long = rows_of(pairs, wording)
    found = measure(model, rows, wording)
    scores = score([each.text for each in written], [pair.summary for pair in pairs])
    return Measured(written, scores, found.get("loss"), found.get("accuracy"), too_long)


def evaluate(
    folder: str | Path,
    data: str | Path | None = None,
    columns: Columns = USUAL,
    *,
    part: str = "test",
    limit: int | None = None,
    way: Way = SEARCH,
    quiet: bool = False,
) -> Evaluation:
    """On the run's own held-out pairs, `part` of them, or on all pairs of another file."""
    model, wording, config = load_summary(folder)
    about = config["task"]
    if data is None:
        pairs, name = own_pairs(folder, about, part, quiet), f"{part} pairs of {about['data']}"
    else:
        pairs, name = load_pairs(data, columns, quiet=quiet), str(data)
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; give 1 or more")
    pairs = pairs[:limit]
    if speaks() and not quiet:
        print(f"writing {len(pairs):,} summaries", file=sys.stderr)
    found = measured(model, wording, pairs, way)
    right, count = [pair.summary for pair in pairs], int(about["first_words"])
    baselines = {
        "first words": [first_words(pair.text, count) for pair in pairs],
        "best words in order": [best_words(pair.text, pair.summary) for pair in pairs],
    }
    return Evaluation(
        pairs,
        found.written,
        {"model": found.scores} | {name: score(each, right) for name, each in baselines.items()},
        found.loss,
        found.accuracy,
        found.too_long,
        count,
        sum(not each.finished for each in found.written),
        sum(loops(each.text) for each in found.written),
        sum(wording.source(pair.text)[1] > 0 for pair in pairs),
        name,
    )


def own_pairs(folder: str | Path, about: dict[str, Any], part: str, quiet: bool) -> list[Pair]:
    """The pairs that a run held out, found again."""
    if part not in ("test", "validation"):
        raise ValueError(f"part {part!r}; there are test and validation")
    columns = Columns(**about["columns"])
    source = material(
        about["data"],
        columns,
        held_out=about["held_out"],
        seed=about["split_seed"],
        limit=about["limit"],
        quiet=quiet,
    )
    if source.about["pairs"] != about["pairs"]:
        raise ValueError(
            f"{folder}: learned from another version of {about['data']}, so what it held out "
            "cannot be told; give --data with texts that it has not seen"
        )
    return source.split.test if part == "test" else source.split.validation


HEADER = ("", "ROUGE-1", "ROUGE-2", "ROUGE-L", "95% interval")


def print_evaluation(found: Evaluation, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for heading in HEADER:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for name, scores in found.scores.items():
        shown = f"first {found.first_words} words" if name == "first words" else name
        low, high = scores.interval["rougeL"]
        figures = [f"{scores.mean[kind]:.1f}" for kind in KINDS]
        table.add_row(shown, *figures, f"{low:.1f} to {high:.1f}")
    console.print(table)
    console.print(
        f"{len(found.pairs):,} texts ({found.measured_on}, {found.cut:,} cut); ROUGE-L "
        f"{found.ratio:.2f} times the first words'; loss {found.loss:.3f}, next token right "
        f"{found.accuracy:.1%}; {found.unfinished} unfinished, {found.looping} looping",
        highlight=False,
        soft_wrap=True,
    )


def write_predictions(path: Path, written: Sequence[Written]) -> None:
    """One summary per line."""
    write_text(path, "".join(f"{each.text}\n" for each in written))
