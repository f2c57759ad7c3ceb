"""Reports and their plots in a terminal."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from attnlab._confidence_intervals import Estimate
from attnlab.report import Bars, Cell, Heatmap, Lines, Report, Section, Series, Table, print_report
from attnlab.report._terminal_heatmap import draw_heatmap
from attnlab.report._terminal_lines import draw_bars, draw_lines
from tests.support.made_up_reports import full_report, hostile_report, ratio_map


def print_to_text(
    report: Report, width: int = 100, charts: bool = True, encoding: str = "utf-8"
) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_report(report, Console(file=file, width=width), charts)
    file.flush()
    return file.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_everything_is_printed_at_any_width(width: int) -> None:
    text = print_to_text(full_report(), width)
    lines = [line for line in text.splitlines() if "look runs" not in line]  # to be copied whole
    assert max(map(len, lines)) <= width
    for word in (
        *("window is faster", "What to use", "Where features beat", "softmax", "processor"),
        *("Right: 83%", "3, said 8: 99% sure", "The cat sat", "attnlab look runs/a", "audit.html"),
    ):
        assert word in text
    assert "gpu" not in text  # not known


def test_a_hostile_report_stays_text() -> None:
    text = print_to_text(hostile_report())
    assert "\x1b" not in text
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "</script>" in text


def test_an_ascii_console_keeps_all_lines() -> None:
    text = print_to_text(full_report(), encoding="ascii")
    assert "window is faster" in text
    assert "favor" in text


def test_charts_can_be_left_out_but_not_heatmaps() -> None:
    text = print_to_text(full_report(), charts=False)
    assert "Where features beat" in text
    assert "Time by tokens" not in text


def test_a_narrow_terminal_leaves_out_columns() -> None:
    row: list[Cell] = ["as it is", "3.6071", "+0.002", "30%", "78%", 1.25]
    header = ["attention", "next-token loss", "more", "replaced", "products", "CPU s"]
    for drop, missing in (
        (["CPU s", "replaced"], ["replaced", "CPU s"]),
        ([], ["next-token loss"]),
    ):
        table = Table("t", header, [row], drop=drop)
        text = print_to_text(Report("bench", "t", [Section("a", "A", blocks=[table])]), 46)
        assert (
            f"Left out, because the terminal is too narrow: {' and '.join(missing)}."
            in " ".join(text.split())
        )
        printed_header = next(line for line in text.splitlines() if line.startswith("attention"))
        assert [name for name in header if name not in printed_header] == missing


# Plots


def test_lines_in_a_terminal_by_hand() -> None:
    up, level = Series("up", [(1, 1), (10, 10), (100, 100)]), Series("level", [(1, 10), (100, 10)])
    plot = Lines("x", "y", [up, level], x_log=True, y_log=True)
    assert [line.plain for line in draw_lines(plot, width=16, height=3, ascii_only=True)] == [
        "100 |        aaa",
        "    |bbbaaaaabbb",
        "  1 |aaa        ",
        "    +-----------",
        "     1       100",
        "     a up",
        "     b level",
    ]


def test_values_without_a_position_are_left_out() -> None:
    assert [line.plain for line in draw_lines(Lines("x", "y", []), width=40, height=5)] == [
        "no values"
    ]
    odd = Series("a", [(0, 1), (1, -1), (math.nan, 1), (2, math.inf)])
    plot = Lines("x", "y", [odd], x_log=True, y_log=True)
    assert draw_lines(plot, width=40, height=5)[0].plain == "no values"
    one = draw_lines(Lines("x", "y", [Series("a", [(3, 3)])]), width=40, height=5)
    assert any("\u2800" < letter < "\u28ff" for line in one for letter in line.plain)


def test_bars_in_a_terminal() -> None:
    bars = Bars("y", {"a": Estimate(2.0), "bc": Estimate(-1.0), "d": Estimate(math.nan)})
    assert [line.plain for line in draw_bars(bars, width=24)] == [" a ████████ 2", "bc ████ −1"]
    percent_bars = Bars("y", {"a": Estimate(0.125)}, percent=True)
    assert draw_bars(percent_bars, width=24, ascii_only=True)[0].plain.endswith("# 12.5%")
    assert draw_bars(Bars("y", {}), width=24)[0].plain == "no values"


def test_heatmap_has_numbers_and_colors() -> None:
    lines = draw_heatmap(ratio_map(), width=80)
    text = [line.plain for line in lines]
    assert text[0].split() == ["features", "0.5", "1", "2", "4", "8"]
    assert text[1].split() == ["16", "0.01", "0.04", "0.16", "0.64", "2.56"]
    assert text[2].split()[-1] == "-"
    assert text[3].split()[-1] == "inf"
    styles = [str(span.style) for span in lines[1].spans]
    blue, orange = (tuple(map(int, style[len("white on rgb("):-1].split(",")))
                    for style in (styles[0], styles[-1]))  # fmt: skip
    assert blue[2] > blue[0]
    assert orange[0] > orange[2]
    cut = [line.plain for line in draw_heatmap(ratio_map(), width=30)]
    assert cut[-1].endswith("norm |q~ (1 more column does not fit)")


def test_names_of_columns_are_cut_if_all_columns_fit_then() -> None:
    names = ["recall", "selective_copy", "noisy_recall", "a", "b", "c"]
    plot = Heatmap("ability", "mechanism", "score", names, ["gla"], [[0.987] * 6])
    lines = [line.plain for line in draw_heatmap(plot, width=60)]
    assert lines[0].split() == ["mechanism", "recall", "select~", "noisy_~", "a", "b", "c"]
    assert lines[1].count("0.987") == 6
    assert max(map(len, lines)) <= 60
