"""A comparison of mechanisms as a table and as a page with curves over time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from attnlab.report import Figure, Lines, Mark, Section, Series, render_page
from attnlab.report import Report as PageReport
from attnlab.report import Table as PageTable
from attnlab.tasks.summary.verdicts import Report

WORDS = {
    "matches": "{attention} matches {against}",
    "worse": "{attention} is worse than {against}",
    "better": "{attention} is better than {against}",
    "undecided": "Whether {attention} matches {against} is undecided",
    "unlearned": "Whether {attention} matches {against} is undecided, since {against} has not "
    "learned enough yet",
}
HEADER = ("mechanism", "rate", "seeds", "steps", "test loss", "token right",
          "ROUGE-L")  # fmt: skip


def cells(report: Report) -> list[list[str]]:
    """Each mechanism at its best setting, then the first words."""
    rows = [
        [
            each["spec"],
            f"{each['rate']:g}",
            str(each["seeds"]),
            f"{each['steps']:.0f}",
            f"{each['loss']:.3f}",
            f"{each['accuracy']:.1%}",
            f"{each['rougeL']:.1f}",
        ]
        for each in report["best"]
    ]
    return [*rows, ["first words", *[""] * 5, f"{report['first_words']:.1f}"]]


def sentences(report: Report) -> list[str]:
    """One for each comparison: does it match? Then what a match is, and what is still to come."""
    found = [
        f"{WORDS[each['verdict']].format(**each)}: test loss "
        f"{_difference(each['loss'], 3)} nats per token, ROUGE-L "
        f"{_difference(each['rougeL'], 1)}, over {each['seeds']} seeds."
        for each in report["comparisons"]
    ]
    rule = (
        f"A match: the interval of the difference in loss lies within {report['margin']:g} nats, "
        "and what is compared with has learned enough for its summaries to have a higher ROUGE-L "
        f"than the first words of the texts ({report['first_words']:.1f})."
    )
    done = len(report["runs"])
    rest = [f"{done} of {report['planned']} runs are done; --resume goes on."]
    return [*found, rule, *(rest if done < report["planned"] else [])]


def _difference(figure: Report, digits: int) -> str:
    text = f"{figure['mean']:+.{digits}f}"
    if figure["interval"] is None:
        return text
    low, high = figure["interval"]
    return f"{text} (95% interval {low:+.{digits}f} to {high:+.{digits}f})"


def print_comparison(report: Report, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for heading in HEADER:
        table.add_column(heading, justify="left" if heading == "mechanism" else "right")
    for row in cells(report):
        table.add_row(*row)
    console.print(table)
    for line in sentences(report):
        console.print(line, highlight=False, soft_wrap=True)


def figures(report: Report) -> tuple[Figure, Figure, Figure]:
    """Training loss, loss and ROUGE-L of validation summaries, over minutes of training."""
    loss = Lines("minutes", "loss, smoothed targets", _series(report, "loss_curve"))
    checked = Lines("minutes", "loss, nats per token", _series(report, "validation_curve"))
    marks = [Mark("first words", y=report["first_words"])]
    quality = Lines("minutes", "ROUGE-L", _series(report, "rouge_curve"), marks=marks)
    return (
        Figure("Training loss over minutes of training", loss),
        Figure("Loss of validation summaries over minutes of training", checked),
        Figure("ROUGE-L of validation summaries over minutes of training", quality),
    )


def comparison_page(report: Report) -> str:
    """One offline page: verdicts, table, loss and ROUGE over minutes."""
    all_runs = PageTable(
        "All runs",
        ("mechanism", "rate", "seed", "steps", "validation loss", "test loss", "ROUGE-L"),
        [
            [
                row["spec"],
                f"{row['rate']:g}",
                str(row["seed"]),
                str(row["steps"]),
                f"{row['validation_loss']:.3f}",
                f"{row['loss']:.3f}",
                f"{row['rougeL']:.1f}",
            ]
            for row in report["runs"]
        ],
    )
    words = (
        f"Each run had {report['budget']:g} minutes of training, validations aside, on "
        f"{report['texts']:,} texts of "
        f"{report['data']}; the mechanism stood in "
        f"{'all layers' if report['where'] == 'all' else 'the encoder'}. The setting of each was "
        f"chosen on validation texts, the figures are of {report['test_texts']} others."
    )
    best = PageTable("", HEADER, cells(report))
    sections = [
        Section("comparison", "Does it match?", [*sentences(report), words], blocks=[best]),
        Section("curves", "On the way", blocks=figures(report)),
        Section("runs", "Runs", blocks=[all_runs]),
    ]
    title = "Attention mechanisms compared: summaries"
    return render_page(PageReport("comparison", title, sections))


def _series(report: Report, curve: str) -> list[Series]:
    """Of each mechanism's best setting the mean over seeds, between its extremes."""
    found = []
    for best in report["best"]:
        curves = [
            row[curve]
            for row in report["runs"]
            if (row["attention"], row["spec"], row["rate"])
            == (best["attention"], best["spec"], best["rate"])
        ]
        points, band = _joined(curves)
        found.append(Series(best["spec"], points, band if len(curves) > 1 else ()))
    return found


def _joined(
    curves: Sequence[Sequence[Sequence[float]]],
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Seeds took their steps at other times, so each is read off its line at those of the first,
    as far as all lines go."""
    low, high = max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves)
    inner = [x for x, _ in curves[0] if low < x < high]
    points, band = [], []
    for time in sorted({low, *inner, max(low, high)}):
        ys = [float(np.interp(time, *np.transpose(curve))) for curve in curves]
        points.append((time, statistics.fmean(ys)))
        band.append((min(ys), max(ys)))
    return points, band
