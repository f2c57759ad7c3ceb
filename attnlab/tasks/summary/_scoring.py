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

from attnlab._safe_files import write_text
from attnlab.models import Seq2Seq
from attnlab.tasks.summary._baselines import best_words, first_words
from attnlab.tasks.summary._data_sources import load_found
from attnlab.tasks.summary._generation import SEARCH, Way, Written, loops, write_all
from attnlab.tasks.summary._pairs import USUAL, Columns, Pair
from attnlab.tasks.summary._rouge import KINDS, Scores, score, words_of
from attnlab.tasks.summary._task import measure, rows_of
from attnlab.tasks.summary._token_ids import Wording
from attnlab.tasks.summary._training import Material, load_summary, material
from attnlab.training import is_main_process

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
    left_out: int
    """Rows of the file that hold no pair."""
    why: str
    """Of these, each reason with its lines."""

    @property
    def ratio(self) -> float | None:
        """ROUGE-L over that of the first words; none where these share no word with any."""
        below = self.scores["first words"].mean["rougeL"]
        return self.scores["model"].mean["rougeL"] / below if below else None

    @property
    def unseen(self) -> int:
        """Right summaries in which ROUGE finds no word at all."""
        return sum(not words_of(pair.summary) for pair in self.pairs)

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
            "left_out": {
                "rows": self.left_out,
                "why": self.why,
                "too_long_for_loss": self.too_long,
                "without_words_for_rouge": self.unseen,
            },
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
    if part not in ("test", "validation"):
        raise ValueError(f"part {part!r}; there are test and validation")
    model, wording, config = load_summary(folder)
    about = config["task"]
    if data is None:
        source = own_material(folder, about, quiet)
        pairs, rows = part_of(source, part), source.found
        name = f"{part} pairs of {about['data']}"
    else:
        rows = load_found(data, columns, quiet=quiet)
        pairs, name = rows.pairs, str(data)
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; give 1 or more")
    pairs = pairs[:limit]
    if is_main_process() and not quiet:
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
        len(rows.bad),
        rows.reasons,
    )


def own_pairs(folder: str | Path, about: dict[str, Any], part: str, quiet: bool) -> list[Pair]:
    """The pairs that a run held out, found again."""
    return part_of(own_material(folder, about, quiet), part)


def part_of(source: Material, part: str) -> list[Pair]:
    return source.split.test if part == "test" else source.split.validation


def own_material(folder: str | Path, about: dict[str, Any], quiet: bool) -> Material:
    """What a run learned from and held out."""
    columns = Columns(**about["columns"])
    source = material(
        about["data"],
        columns,
        held_out=about["held_out"],
        seed=about["split_seed"],
        limit=about["limit"],
        wanted=about["pairs"],
        quiet=quiet,
    )
    if source.about["pairs"] != about["pairs"]:
        raise ValueError(
            f"{folder}: learned from another version of {about['data']}, so what it held out "
            "cannot be told; give --data with texts that it has not seen"
        )
    return source


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
    ratio = "–" if found.ratio is None else f"{found.ratio:.2f}"
    loss = "–" if found.loss is None else f"{found.loss:.3f}"
    accuracy = "–" if found.accuracy is None else f"{found.accuracy:.1%}"
    left_out = f" ({found.too_long:,} summaries too long for it)" if found.too_long else ""
    console.print(
        f"{len(found.pairs):,} texts ({found.measured_on}, {found.cut:,} cut); ROUGE-L "
        f"{ratio} times the first words'; loss {loss}{left_out}, next token right {accuracy}; "
        f"{found.unfinished} unfinished, {found.looping} looping",
        highlight=False,
        soft_wrap=True,
    )
    if found.unseen:
        console.print(
            f"ROUGE, here as Google's, sees Latin letters and digits alone: {found.unseen:,} right "
            "summaries have none, and count as 0",
            highlight=False,
            soft_wrap=True,
        )


def write_predictions(path: Path, written: Sequence[Written]) -> None:
    """One summary per line."""
    write_text(path, "".join(f"{each.text}\n" for each in written))
