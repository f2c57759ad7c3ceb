"""Which mechanism learns most in the same time? Each gets the same minutes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from attnlab.intervals import wilson
from attnlab.report import Figure, Lines, Mark, Report, Section, Series, render_page
from attnlab.report import Table as ReportTable
from attnlab.run_folder import StartMode, check_folder
from attnlab.tasks.knowledge.material import make_model, material, preset_named
from attnlab.tasks.knowledge.objectives import create_objectives
from attnlab.tasks.knowledge.recipe import SCRATCH, finetune, pretrain
from attnlab.tasks.knowledge.scoring import baseline, evaluate
from attnlab.tokens import Bytes
from attnlab.training import Run, speaks

PRETRAINING = 0.75  # of the minutes
STOPS = 6  # measurements on the way
HELD_OUT = 0.1  # of the training pairs: what the curve is measured on


@dataclass(frozen=True)
class Contestant:
    """One row of the comparison."""

    name: str
    parameters: int
    minutes: float
    """Of training, as it was."""
    right: int
    total: int
    curve: list[tuple[float, float]]
    """Minutes, and the share of held-out training pairs that are right."""


def compare(
    attention: Sequence[str],
    *,
    minutes: float,
    out: str | Path,
    corpus: str | Path | None = None,
    pairs: str | Path | None = None,
    measured: str | Path | None = None,
    preset: str = "small",
    objective: str | None = None,
    training: dict[str, Any] | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train each for `minutes`, and one without pretraining; measure all on the same questions."""
    if not attention or len(set(attention)) < len(attention):
        raise ValueError("give the mechanisms to compare, each once")
    if not minutes > 0:
        raise ValueError(f"minutes is {minutes}; give a number above 0")
    given = [corpus is None, pairs is None, measured is None]
    if any(given) and not all(given):
        raise ValueError("give all three files: --corpus, --pairs and --measured; or none")
    out = Path(out)
    folders = {name: out / _folder(name) for name in attention}
    if len(set(folders.values())) < len(folders):
        raise ValueError("two mechanisms would write into one folder; compare them apart")
    start = StartMode.OVERWRITE if overwrite else StartMode.NEW
    for folder in (*folders.values(), out / "no-pretraining"):
        for part in ("pretrained", "finetuned"):
            check_folder(folder / part, start)
    # Everything that can be wrong, before the first minute is spent.
    said, score = baseline(pairs, measured)
    material(corpus, pairs)
    create_objectives(objective or preset_named(preset).objective)
    for name in attention:
        make_model(preset, Bytes(), name, {})
    shared: dict[str, Any] = {"start": start, "quiet": quiet}
    rate = 100.0  # steps per minute, until one was measured
    found: list[Contestant] = []
    for name, folder in folders.items():
        _say(f"{name}: {minutes:g} minutes", quiet)
        pretrain(
            corpus,
            out=folder / "pretrained",
            attention=name,
            objective=objective,
            preset=preset,
            training={**(training or {}), "minutes": PRETRAINING * minutes},
            **shared,
        )
        steps, spent = _spent(folder / "pretrained")
        rate = steps / max(spent, 1e-3)
        left = (1 - PRETRAINING) * minutes
        finetune(
            folder / "pretrained",
            pairs=pairs,
            corpus=corpus,
            out=folder / "finetuned",
            held_out=HELD_OUT,
            training={**(training or {}), "minutes": left, **_stops(rate * left)},
            **shared,
        )
        found.append(_contestant(name, folder / "finetuned", spent, measured))
    _say(f"no pretraining: {minutes:g} minutes", quiet)
    finetune(
        SCRATCH,
        pairs=pairs,
        corpus=corpus,
        out=out / "no-pretraining" / "finetuned",
        attention=attention[0],
        preset=preset,
        held_out=HELD_OUT,
        training={**(training or {}), "minutes": minutes, **_stops(rate * minutes)},
        **shared,
    )
    label = f"{attention[0]}, no pretraining"
    found.append(_contestant(label, out / "no-pretraining" / "finetuned", 0.0, measured))
    return {
        "minutes": minutes,
        "preset": preset,
        "questions": len(score.questions),
        "baseline": {"answer": said, "right": score.right, "accuracy": score.accuracy},
        "contestants": [_row(each) for each in found],
    }


def _folder(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_=." else "-" for letter in name)


def _say(text: str, quiet: bool) -> None:
    if speaks() and not quiet:
        print(text, file=sys.stderr)


def _stops(steps: float) -> dict[str, int]:
    return {"evaluate_every": max(1, round(steps / STOPS))}


def _spent(folder: Path) -> tuple[int, float]:
    """Steps and minutes of a run."""
    last = Run(folder).metrics()[-1]
    return int(last["step"]), float(last["seconds"]) / 60


def _contestant(name: str, folder: Path, before: float, measured: str | Path | None) -> Contestant:
    score = evaluate(folder, measured)
    assert score.right is not None
    rows = [row for row in Run(folder).metrics() if "validation" in row]
    curve = [(before + row["seconds"] / 60, row["validation"]["accuracy"]) for row in rows]
    return Contestant(
        name=name,
        parameters=int(Run(folder).config()["parameters"]),
        minutes=before + _spent(folder)[1],
        right=score.right,
        total=len(score.questions),
        curve=curve,
    )


def _row(each: Contestant) -> dict[str, Any]:
    return {
        "name": each.name,
        "parameters": each.parameters,
        "minutes": each.minutes,
        "right": each.right,
        "accuracy": each.right / each.total,
        "interval": list(wilson(each.right, each.total)),
        "curve": [list(point) for point in each.curve],
    }


HEADER = ("mechanism", "parameters", "minutes", "right", "accuracy", "95% interval")


def _cells(report: dict[str, Any]) -> list[list[str]]:
    total = report["questions"]
    rows = [
        [
            each["name"],
            f"{each['parameters']:,}",
            f"{each['minutes']:.1f}",
            f"{each['right']} of {total}",
            f"{each['accuracy']:.1%}",
            "{:.1%} to {:.1%}".format(*each["interval"]),
        ]
        for each in sorted(report["contestants"], key=lambda row: -row["accuracy"])
    ]
    known = report["baseline"]
    always = f'always "{known["answer"]}"'
    rows.append([always, "0", "0", f"{known['right']} of {total}", f"{known['accuracy']:.1%}", ""])
    return rows


def print_comparison(report: dict[str, Any], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for heading in HEADER:
        table.add_column(heading, justify="left" if heading == "mechanism" else "right")
    for row in _cells(report):
        table.add_row(*row)
    console.print(table)


def comparison_page(report: dict[str, Any]) -> str:
    """One offline page: the table, and accuracy against time."""
    series = [
        Series(each["name"], [(x, y) for x, y in each["curve"]]) for each in report["contestants"]
    ]
    known = report["baseline"]
    plot = Lines(
        "minutes",
        "right answers",
        series,
        marks=[Mark(f'always "{known["answer"]}"', y=known["accuracy"])],
        y_percent=True,
    )
    figure = Figure(
        "Held-out training questions answered, against minutes of training",
        plot,
        "A curve begins when questions do.",
    )
    best = max(report["contestants"], key=lambda row: row["accuracy"])
    words = (
        f"Each was trained for {report['minutes']:g} minutes with the preset {report['preset']}, "
        f"{PRETRAINING:.0%} of them on the corpus and the rest on questions. "
        f"{best['name']} answered most: {best['accuracy']:.1%} of {report['questions']} questions "
        "about people whom no training question asked about."
    )
    table = ReportTable("", HEADER, _cells(report))
    sections = [
        Section("comparison", "Comparison", [words], blocks=[table]),
        Section("curves", "On the way", blocks=[figure]),
    ]
    title = "Attention mechanisms compared: knowledge access"
    return render_page(Report("comparison", title, sections))
