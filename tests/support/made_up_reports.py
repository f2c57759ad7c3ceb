"""Reports with invented numbers, for tests of all renderers.

python -m tests.support.made_up_reports FOLDER writes a page of each, for you to look at.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from attnlab._confidence_intervals import Estimate
from attnlab.report import (
    Bars,
    Block,
    Command,
    Figure,
    Gallery,
    Heatmap,
    Lines,
    Link,
    Mark,
    Picture,
    Quote,
    Report,
    Section,
    Series,
    Strip,
    Table,
    Tile,
    save_page,
)
from tests.support.claim_ledgers import HOSTILE

DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c6360000000020001e221bc330000000049454e44ae426082"
)  # a PNG of one pixel


def ratio_map() -> Heatmap:
    values = [[0.01 * (i + 1) * 4**j for j in range(5)] for i in range(3)]
    return Heatmap(
        "norm |q| = |k|", "features", "error over that of uniform weights",
        ["0.5", "1", "2", "4", "8"], ["16", "64", "256"],
        [values[0], [*values[1][:4], None], [*values[2][:4], math.inf]],
        log=True, center=1.0, texts=[[f"error {i}.{j}" for j in range(5)] for i in range(3)],
    )  # fmt: skip


def head_map() -> Heatmap:
    return Heatmap(
        "head", "layer", "mechanism", [str(i) for i in range(32)], [str(i) for i in range(6)],
        [[float((i * j) % 4) for j in range(32)] for i in range(6)],
        names=["window:window=64", "favor:features=256", "elu", "softmax"],
    )  # fmt: skip


def times() -> Lines:
    lengths = (512.0, 1024.0, 2048.0, 4096.0)
    series = [
        Series(
            name,
            [(n, factor * n**power) for n in lengths],
            [(0.9 * factor * n**power, 1.2 * factor * n**power) for n in lengths],
            error_bars=name == "window",
        )
        for name, factor, power in (("softmax", 1e-3, 2), ("favor", 0.5, 1), ("window", 0.2, 1))
    ]
    marks = [Mark("context", x=2048.0)]
    return Lines("tokens", "milliseconds", series, x_log=True, y_log=True, marks=marks)


def accuracy_bars() -> Bars:
    values = {
        "London": Estimate(0.5, 0.25, 0.75), "1": Estimate(0.25), "nowhere": Estimate(math.nan)
    }  # fmt: skip
    return Bars("share right", values, [Mark("all", y=0.4)], True, {"London": 0.125}, "asked")


def full_report() -> Report:
    """A report with every kind of block."""
    tables: list[Block] = [
        Table(
            "Causal: milliseconds by tokens",
            ["mechanism", "512", "4,096", "exponent", "faster from"],
            [
                ["softmax", 3.5, 155.25, Estimate(1.86, 1.8, 1.92), ""],
                ["favor", 5.25, 40.0, Estimate(0.97, 0.9, 1.04), "1,500"],
                ["window", 3.125, None, Estimate(math.inf), "all"],
            ],
            "faster from: tokens from which it is faster than exact softmax",
        ),
        Figure("Time by length", times(), in_table=True),
    ]
    figures: list[Block] = [
        Figure("Where features beat uniform weights", ratio_map(), "Below 1: better."),
        Figure("Best mechanism of each head", head_map()),
        Figure("Time by tokens", times()),
        Figure("By place", accuracy_bars()),
        Figure("Nothing yet", Lines("x", "y", [])),
    ]
    others: list[Block] = [
        Gallery("Mistakes", [Picture(DOT, "3, said 8", "99% sure")], "the surest first"),
        Quote("The article", "The cat sat on the mat.", "cat"),
        Strip("Attention of the last token", ["the", "cat", "sat"], [0.1, 0.7, 0.2]),
        Command("attnlab look runs/a", "opens its attention"),
        Link("audit.html", "The audit"),
    ]
    return Report(
        "bench",
        "Attention mechanisms, measured",
        [
            Section("speed", "Time by length", ["window is faster."], [], [], tables,
                    {"threads": 1, "head_dims": [16, 64]}, [{"mechanism": "favor", "ms": 1.5}]),
            Section("figures", "Figures", [], ["From norm 4 on use softmax."],
                    [Tile("Right", "83%", "81% to 85%")], figures),
            Section("others", "The rest", blocks=others),
        ],
        {"processor": "a fast one", "cores": 2, "gpu": None},
        {"attnlab": "0.1.0"},
        12.5,
    )  # fmt: skip


def hostile_report() -> Report:
    """A report whose texts try to break out of the page."""
    sections = []
    for index, bad in enumerate([*HOSTILE, "$\\frac", "_x $a$ {b}", "| `a` **b** [c](d)\n# e"]):
        names = Heatmap(bad, bad, bad, [bad, bad + "2"], [bad], [[0.0, 1.0]], names=[bad, bad],
                        texts=[[bad, bad]], written=True)  # fmt: skip
        lines = Lines(bad, bad, [Series(bad, [(1.0, 2.0), (2.0, 3.0)]), Series(bad, [])],
                      marks=[Mark(bad, y=2.5), Mark(bad, 1, 2), Mark(bad, x=1)])  # fmt: skip
        bars = Bars(bad, {bad: Estimate(1.0)}, [Mark(bad, y=1.0)], False, {bad: 2.0}, bad)
        blocks: list[Block] = [
            Figure(bad, names, bad),
            Figure(bad, lines, bad),
            Figure(bad, bars, bad),
            Table(bad, [bad, "b"], [[bad, 1.0], ["=cmd", Estimate(1, 0, 2)]], bad),
            Gallery(bad, [Picture(DOT, bad, bad)], bad),
            Quote(bad, bad, bad[:3]),
            Strip(bad, [bad], [1.0], bad),
            Command(bad, bad),
            Link("a.html", bad),
        ]
        tile = Tile(bad, bad, bad)
        sections.append(Section(f"bad-{index}", bad, [bad], [bad], [tile], blocks, {bad: bad}))
    return Report("bench", HOSTILE[0], sections, {HOSTILE[0]: HOSTILE[1]}, {HOSTILE[1]: HOSTILE[0]})


def write_pages(folder: Path) -> dict[str, Path]:
    reports = {
        "whole": full_report(), "hostile": hostile_report(), "empty": Report("bench", "Empty", [])
    }  # fmt: skip
    for name, report in reports.items():
        save_page(folder / f"{name}.html", report, overwrite=True)
    return {name: folder / f"{name}.html" for name in reports}


if __name__ == "__main__":
    print(*write_pages(Path(sys.argv[1])).values(), sep="\n")
