"""ViT and ConvNet of equal size on growing parts of a training set, with equal budgets.

Every run sees the same number of images, in the same number of steps: few images are seen
often. The last weights are taken: choosing by the validation images would give a run on a few
images many more labels than it may have. Each run is measured on the test images once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from attnlab.intervals import over, wilson
from attnlab.report import Block, Figure, Lines, Section, Series, Table, render_page
from attnlab.report import Report as PageReport
from attnlab.run_folder import StartMode, check_folder
from attnlab.tasks.vision.compare_folder import (
    check_out,
    kept,
    remove,
    run_folder,
)
from attnlab.tasks.vision.images import Dataset, Images, Parts, divided, fraction
from attnlab.tasks.vision.kind import SKIPPED, TESTED
from attnlab.tasks.vision.meeting import in_words, meeting
from attnlab.tasks.vision.notes import softmax_notes
from attnlab.tasks.vision.opening import open_data, source_of
from attnlab.tasks.vision.recipe import (
    MODELS,
    VisionSettings,
    keep_beside,
    make_model,
    prepared,
    settled,
    tell_skipped,
)
from attnlab.tasks.vision.score_report import NAMES
from attnlab.tasks.vision.task import logits_of
from attnlab.training import Run, speaks, train
from attnlab.training.run import as_begun

Report = dict[str, Any]
FRACTIONS = (0.01, 0.03, 0.1, 0.3, 1.0)
CONVNET = ("width", "stages", "blocks")


def compare(
    data: str | Path | None = None,
    *,
    out: str | Path,
    fractions: Sequence[float] = FRACTIONS,
    seeds: int = 3,
    attention: str | list[str] = "softmax",
    vision: VisionSettings | None = None,
    epochs: float | None = None,
    sizes: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> Report:
    """Train both on each part with each seed; `epochs` are passes over the whole training set."""
    vision, training = vision or VisionSettings(), dict(training or {})
    first = int(training.pop("seed", 0))
    plan = planned(fractions, range(first, first + seeds))
    if vision.fraction != 1:
        raise ValueError("--fraction is for one run; give --fractions")
    folders = [Path(out) / run_folder(*each) for each in plan]
    others = check_out(Path(out), folders, StartMode(start))
    starts = [StartMode(start).for_part(folder) for folder in folders]
    for folder, each_start in zip(folders, starts, strict=True):
        check_folder(folder, each_start)
    contest = _Contest.of(data, attention, vision, epochs, sizes or {}, training)
    check_parts(contest.parts.train, fractions)
    if speaks() and not quiet:
        read = contest.dataset
        notes = [*read.notes, *contest.notes]
        tell_skipped(read.skipped, notes, f"; all in {SKIPPED} of each run")
    if start == StartMode.OVERWRITE:
        remove(Path(out), others)
    rows: list[Report] = []
    # those that are there come first: if they have other settings, nothing new is trained
    todo = sorted(
        zip(plan, folders, starts, strict=True), key=lambda each: each[2] is not StartMode.RESUME
    )
    for each, folder, each_start in todo:
        _say(f"{len(rows) + 1} of {len(plan)}: {folder.name}", quiet)
        rows.append(contest.run(*each, folder, each_start))
        last = rows[-1]
        right = last["right"] / len(contest.parts.test)
        _say(f"    {last['images']:,} images: {right:.1%} right, {last['seconds']:.0f} s", quiet)
    return report_of(
        rows,
        contest.source,
        contest.parameters,
        len(contest.parts.test),
        contest.budget["batch_rows"],
    )


def planned(fractions: Sequence[float], seeds: Sequence[int]) -> list[tuple[str, float, int]]:
    """Model, share and seed of each run, the small ones first."""
    shares = sorted(set(fractions))
    if not shares or not all(0 < share <= 1 for share in shares):  # of NaN neither holds
        given = " ".join(f"{share:g}" for share in shares)
        raise ValueError(
            f"--fractions {given}; give shares of the training images, above 0, at most 1"
        )
    if not len(seeds):
        raise ValueError("--seeds: give 1 or more")
    return [(model, share, seed) for share in shares for seed in seeds for model in MODELS]


def check_parts(images: Images, shares: Sequence[float]) -> None:
    """Two shares of the same images would be the same runs, counted as more seeds."""
    first: dict[int, float] = {}
    for share in sorted(set(shares)):
        first.setdefault(len(fraction(images, share, 0)), share)
    if len(first) < len(set(shares)):
        each = ", ".join(f"{share:g} ({count:,})" for count, share in first.items())
        raise ValueError(
            f"--fractions {' '.join(f'{share:g}' for share in sorted(set(shares)))}: some are of "
            f"the same images; of {len(images):,} these differ: {each}"
        )


@dataclass(frozen=True)
class _Contest:
    """What all runs of a comparison share."""

    dataset: Dataset
    parts: Parts
    source: str
    vision: VisionSettings
    attention: dict[str, str | list[str]]
    sizes: dict[str, dict[str, Any]]
    parameters: dict[str, int]
    """Of each model; of the ConvNet as many as of the ViT."""
    budget: dict[str, Any]
    """The same for all: what the whole training set would usually have."""
    notes: list[str]
    """About the models."""

    @staticmethod
    def of(
        data: str | Path | None,
        attention: str | list[str],
        vision: VisionSettings,
        epochs: float | None,
        sizes: dict[str, Any],
        training: dict[str, Any],
    ) -> _Contest:
        dataset = open_data(data, vision.image_size)
        parts = divided(dataset)
        usual = settled("vit", len(parts.train), epochs, training)
        length = {} if usual.minutes else {"steps": usual.steps}
        saving = {"best": False, "evaluate_every": 10**9, "save_every": 10**9, "keep": 1}
        vit = make_model("vit", dataset, parts.train, attention, sizes)
        net = make_model("convnet", dataset, parts.train, "softmax", {}, vit.parameter_count())
        return _Contest(
            dataset,
            parts,
            source_of(data),
            vision,
            {"vit": attention, "convnet": "softmax"},
            {"vit": sizes, "convnet": {name: getattr(net.config, name) for name in CONVNET}},
            {"vit": vit.parameter_count(), "convnet": net.parameter_count()},
            {**saving, "batch_rows": usual.batch_rows, **length, **training},
            softmax_notes(vit),
        )

    def run(self, model: str, share: float, seed: int, folder: Path, start: StartMode) -> Report:
        """Train one, and measure it on the test images; one that is finished and was measured is
        not measured again."""
        task, made, settings = prepared(
            self.dataset, self.parts, self.source, model, self.attention[model],
            replace(self.vision, fraction=share), None, self.sizes[model],
            {**self.budget, "seed": seed},
        )  # fmt: skip
        if start is StartMode.RESUME:
            settings = as_begun(settings, folder, self.budget)
        train(
            task, made, settings, Run(folder), start=start, quiet=True,
            on_begin=lambda: keep_beside(self.dataset, task, folder),
        )  # fmt: skip
        last = Run(folder).metrics()[-1]
        before = kept(folder / TESTED) if start is StartMode.RESUME else {}
        if before.get("steps") == last["step"]:
            return before
        said = logits_of(made.eval(), self.parts.test.pixels).argmax(-1)
        row = {
            "model": model,
            "fraction": share,
            "images": len(task.train),
            "seed": seed,
            "right": int((said == self.parts.test.labels).sum()),
            "steps": int(last["step"]),
            "seconds": float(last["seconds"]),
        }
        Run(folder).write_json(TESTED, row)
        return row


def _say(text: str, quiet: bool) -> None:
    if speaks() and not quiet:
        print(text, file=sys.stderr)


def report_of(
    rows: Sequence[Report],
    source: str,
    counts: dict[str, int],
    tested: int,
    batch: int,
) -> Report:
    """What was measured, the mean at each size, and what it says."""
    sizes = sorted({row["images"] for row in rows})
    accuracy = {
        model: [
            [
                row["right"] / tested
                for row in sorted(rows, key=lambda row: row["seed"])
                if row["model"] == model and row["images"] == size
            ]
            for size in sizes
        ]
        for model in counts
    }
    one, other = "convnet", "vit"
    differences = [
        [a - b for a, b in zip(*both, strict=True)]
        for both in zip(accuracy[one], accuracy[other], strict=True)
    ]
    found = meeting(sizes, differences)
    curves = {}
    for model, values in accuracy.items():
        curves[model] = [
            {"images": size, "accuracy": mean.value, "interval": _ends(each, *mean.ends, tested)}
            for size, each in zip(sizes, values, strict=True)
            for mean in [over(each)]
        ]
    steps = sorted({row["steps"] for row in rows})
    return {
        "data": source,
        "seeds": sorted({row["seed"] for row in rows}),
        "tested": tested,
        "steps": steps,
        "batch": batch,
        "parameters": counts,
        "seconds": {m: sum(r["seconds"] for r in rows if r["model"] == m) for m in counts},
        "curves": curves,
        "meeting": {
            "images": found.at, "all": found.places, "low": found.low, "high": found.high,
            "share": found.share,
        },
        "words": in_words(sizes, differences, (NAMES[one], NAMES[other])),
        "runs": list(rows),
    }  # fmt: skip


def _ends(values: Sequence[float], low: float, high: float, tested: int) -> list[float]:
    """Of one seed the interval of the share itself, since there is no spread."""
    if len(values) < 2:
        return list(wilson(round(values[0] * tested), tested))
    return [max(0.0, low), min(1.0, high)]


HEADER = ("images", "ViT", "95% interval", "ConvNet", "95% interval")


def _cells(report: Report) -> list[list[str]]:
    rows = []
    for vit, net in zip(report["curves"]["vit"], report["curves"]["convnet"], strict=True):
        cells = [f"{vit['images']:,}"]
        for each in (vit, net):
            ends = "{:.1%} to {:.1%}".format(*each["interval"])
            cells += [f"{each['accuracy']:.1%}", ends]
        rows.append(cells)
    return rows


def comparison_figure(report: Report) -> Figure:
    series = [
        Series(
            NAMES[model],
            [(float(each["images"]), each["accuracy"]) for each in report["curves"][model]],
            [tuple(each["interval"]) for each in report["curves"][model]],
            error_bars=True,
        )
        for model in MODELS
    ]
    log = len(report["curves"]["vit"]) > 1
    plot = Lines("training images", "test images named rightly", series, log, y_percent=True)
    return Figure("Test accuracy against training images", plot)


def budget_words(report: Report) -> str:
    steps, seeds = report["steps"], len(report["seeds"])
    seen = (
        f"{steps[0]:,} steps of {report['batch']} images"
        if len(steps) == 1
        else f"the same minutes ({steps[0]:,} to {steps[-1]:,} steps)"
    )
    sizes = ", ".join(f"{NAMES[m]} {n:,}" for m, n in report["parameters"].items())
    minutes = ", ".join(f"{NAMES[m]} {s / 60:.1f}" for m, s in report["seconds"].items())
    return (
        f"Each run had {seen}, whatever the size of its training set; parameters: {sizes}; "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}; minutes of training in all: {minutes}. "
        f"Measured once on the {report['tested']:,} test images."
    )


def comparison_page(report: Report) -> str:
    spread = (
        "The bars are 95% intervals over the seeds (Student's t): the training images, the weights "
        "and their order differ, the test images do not."
        if len(report["seeds"]) > 1
        else "The bars are 95% intervals of the test images alone: with one seed nothing is known "
        "of the rest."
    )
    blocks: list[Block] = [comparison_figure(report), Table("", HEADER, _cells(report))]
    sections = [
        Section("summary", "In short", [*report["words"], budget_words(report)]),
        Section("accuracy", "Accuracy by training-set size", [spread], blocks=blocks),
    ]
    return render_page(PageReport("comparison", f"ViT and ConvNet on {report['data']}", sections))


def print_comparison(report: Report, console: Console) -> None:
    table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for heading in HEADER:
        table.add_column(heading, justify="right")
    for row in _cells(report):
        table.add_row(*row)
    console.print(table)
    for sentence in (*report["words"], budget_words(report)):
        console.print(sentence, markup=False, highlight=False)
