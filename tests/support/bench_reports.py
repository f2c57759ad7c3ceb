"""Bench reports with invented numbers, for tests of the page.

python -m tests.support.bench_reports FOLDER writes a page of each, for you to look at.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from attnlab._confidence_intervals import Estimate
from attnlab.report import (
    Bars,
    Block,
    Figure,
    Heatmap,
    Lines,
    Mark,
    Report,
    Section,
    Series,
    Table,
    Value,
    save_page,
)
from tests.support.claim_ledgers import HOSTILE

TITLE = "Attention mechanisms, measured"
NORMS = ["0.5", "1", "2", "4", "8"]
SPEEDS = {"softmax": (1e-3, 2.0), "favor": (0.5, 1.0), "window": (0.2, 1.0)}


def ratio_map() -> Heatmap:
    values = [[0.01 * (i + 1) * 4**j for j in range(5)] for i in range(3)]
    return Heatmap(
        "norm |q| = |k|", "features", "error over that of uniform weights", NORMS,
        ["16", "64", "256"], [values[0], [*values[1][:4], None], [*values[2][:4], math.inf]],
        log=True, center=1.0, texts=[[f"error {i}.{j}" for j in range(5)] for i in range(3)],
    )  # fmt: skip


def head_map() -> Heatmap:
    """The best mechanism for each of 32 heads in 6 layers."""
    return Heatmap(
        "head", "layer", "mechanism", [str(i) for i in range(32)], [str(i) for i in range(6)],
        [[float((i * j) % 4) for j in range(32)] for i in range(6)],
        names=["window:window=64", "favor:features=256", "elu", "softmax"],
    )  # fmt: skip


def times(scale: float = 1.0) -> Lines:
    lengths = (512, 1024, 2048, 4096, 8192)
    lines = [
        Series(
            name,
            [(float(n), scale * factor * n**power) for n in lengths],
            [(0.9 * scale * factor * n**power, 1.2 * scale * factor * n**power) for n in lengths],
        )
        for name, (factor, power) in SPEEDS.items()
    ]
    marks = [Mark("context", x=2048.0)]
    return Lines("tokens", "milliseconds, 2 heads of 64", lines, True, True, marks)


def speed_table() -> Table:
    return Table(
        "Causal, forward: milliseconds by tokens",
        ["mechanism", "512", "8,192", "exponent", "faster from", "of peak"],
        [
            ["softmax", 3.5, 155.25, Estimate(1.86, 1.8, 1.92), "", "51%"],
            ["favor", 5.25, 40.0, Estimate(0.97, 0.9, 1.04), "1,500", "8%"],
            ["window", 3.125, 24.5, Estimate(0.94), "all", None],
            ["hard", 10.5, None, Estimate(2.61, 2.5, 2.7), "never", "4%"],
        ],
        "faster from: tokens from which it is faster than exact softmax",
    )


def invented_report() -> Report:
    """A report with every kind of block."""
    error = Section(
        "error",
        "Error against exact softmax attention",
        ["favor, 256 features: beats uniform weights at norms 1 to 2.", "1/sqrt(features) holds."],
        ["From norm 4 on use softmax."],
        blocks=[
            Figure("Where features beat doing nothing", ratio_map(), "Below 1: better."),
            Figure("Error by features", times(1e-3)),
            Figure("Nothing yet", Lines("x", "y", [])),
            Figure(
                "Errors", Bars("error", {"favor": Estimate(0.4, 0.3, 0.5), "elu": Estimate(0.2)})
            ),
        ],
        settings={"tokens": 256, "head_dims": [16, 64], "causal": False},
        measurements=[
            {"mechanism": "favor", "norm": 1.0, "output": 0.4, "seed": 0, "orthogonal": None}
        ],
    )
    speed = Section(
        "speed", "Time by length", ["window is faster."],
        blocks=[Figure("Time by length: causal, forward", times(), in_table=True), speed_table()],
        settings={"threads": 1},
    )  # fmt: skip
    model = Section(
        "model", "A model's heads", [], ["heads 3, 7: window:window=64; head 5 needs softmax"],
        blocks=[Figure("Best mechanism of each head", head_map())],
    )  # fmt: skip
    machine: dict[str, Value] = {"processor": "a fast one", "cores": 2, "threads": 1, "gpu": None}
    return Report(
        "bench",
        TITLE,
        [error, speed, model],
        machine,
        {"attnlab": "0.1.0", "torch": "2.13.0"},
        12.5,
    )


def hostile_report() -> Report:
    """A report whose texts try to break out of the page."""
    sections = []
    for index, bad in enumerate(HOSTILE):
        grid = Heatmap(bad, bad, bad, [bad, bad + "2"], [bad], [[0.0, 1.0]], names=[bad, bad],
                       texts=[[bad, bad]])  # fmt: skip
        lines = Lines(bad, bad, [Series(bad, [(1.0, 2.0), (2.0, 3.0)])], marks=[Mark(bad, y=2.5)])
        blocks: list[Block] = [
            Figure(bad, grid, bad),
            Figure(bad, lines, bad),
            Figure(bad, Bars(bad, {bad: Estimate(1.0)})),
            Table(bad, [bad, "b"], [[bad, 1.0], ["=cmd", Estimate(1, 0, 2)]], bad),
        ]
        sections.append(
            Section(f"bad-{index}", bad, [bad], [bad], blocks=blocks, settings={bad: bad})
        )
    return Report("bench", HOSTILE[0], sections, {HOSTILE[0]: HOSTILE[1]}, {HOSTILE[1]: HOSTILE[0]})


def write_pages(folder: Path) -> dict[str, Path]:
    reports = {
        "made-up": invented_report(),
        "hostile": hostile_report(),
        "empty": Report("bench", TITLE, []),
    }
    for name, report in reports.items():
        save_page(folder / f"{name}.html", report, overwrite=True)
    return {name: folder / f"{name}.html" for name in reports}


if __name__ == "__main__":
    print(*write_pages(Path(sys.argv[1])).values(), sep="\n")
