"""Reports as JSON: read back unchanged, and validated."""

from __future__ import annotations

import copy
import io
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from attnlab._confidence_intervals import Estimate
from attnlab.report import (
    Bars,
    Figure,
    Heatmap,
    Lines,
    Mark,
    Report,
    Section,
    Series,
    Table,
    parse_report,
    print_report,
    read_report,
    to_json,
    to_markdown,
)
from tests.support.made_up_reports import full_report, hostile_report

# Round trips

TEXT = st.text(max_size=20)
NUMBER = st.floats()
ESTIMATE = st.builds(Estimate, NUMBER, st.none() | NUMBER, st.none() | NUMBER)
POINTS = st.lists(st.tuples(NUMBER, NUMBER), max_size=3)
PLOT = (
    st.builds(
        Lines, TEXT, TEXT, st.lists(st.builds(Series, TEXT, POINTS), max_size=2), st.booleans()
    )
    | st.builds(
        Bars, TEXT, st.dictionaries(TEXT, ESTIMATE, max_size=3), st.lists(st.builds(Mark, TEXT))
    )
    | st.builds(
        lambda values, names: Heatmap("x", "y", "z", ["a", "b"], ["c"], [values], texts=[names]),
        st.lists(st.none() | NUMBER, min_size=2, max_size=2),
        st.lists(TEXT, min_size=2, max_size=2),
    )
)
CELL = st.none() | st.booleans() | st.integers() | NUMBER | TEXT | ESTIMATE
BLOCK = st.builds(Figure, TEXT, PLOT, TEXT) | st.builds(
    Table, TEXT, st.just(["a", "b"]), st.lists(st.lists(CELL, min_size=2, max_size=2), max_size=3)
)
REPORT = st.builds(
    lambda title, findings, blocks, settings: Report(
        "audit", title, [Section("one", title, findings, blocks=blocks, settings=settings)]
    ),
    TEXT,
    st.lists(TEXT, max_size=2),
    st.lists(BLOCK, max_size=3),
    st.dictionaries(TEXT, CELL.filter(lambda cell: not isinstance(cell, Estimate)), max_size=3),
)


@given(REPORT)
def test_round_trip(report: Report) -> None:
    text = to_json(report)
    assert to_json(parse_report(json.loads(text, parse_constant=lambda _: 1 / 0))) == text


@pytest.mark.parametrize("report", [full_report(), hostile_report(), Report("heads", "", [])])
def test_round_trip_of_every_kind_of_block(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(to_json(report), encoding="utf-8")
    assert to_json(read_report(path)) == to_json(report)


def test_round_trip_keeps_infinity_and_number_types() -> None:
    row: list[Any] = [math.inf, -math.inf, 3, 3.0, True, None, "7"]
    table = Table("t", list("abcdefg"), [row])
    parsed = parse_report(
        json.loads(to_json(Report("bench", "t", [Section("a", "A", blocks=[table])])))
    )
    block = parsed.sections[0].blocks[0]
    assert isinstance(block, Table)
    assert list(block.rows[0]) == row
    assert [type(cell) for cell in block.rows[0]] == [type(cell) for cell in row]


def test_bars_keep_their_order() -> None:
    report = parse_report(json.loads(to_json(full_report())))
    plots = [block.plot for block in report.sections[1].blocks if isinstance(block, Figure)]
    bars = next(plot for plot in plots if isinstance(plot, Bars))
    assert list(bars.values) == ["London", "1", "nowhere"]


def test_long_and_broken_texts_are_repaired() -> None:
    long = Report("bench", "x" * 9999, [Section("a", "half \ud800 of a pair")])
    assert len(long.title) == 4000
    assert long.sections[0].title == "half ? of a pair"
    assert "half" in to_json(long)


def test_measurements_can_be_left_out() -> None:
    raw = json.loads(to_json(full_report(), measurements=False))
    assert "measurements" not in raw["sections"][0]
    assert parse_report(raw).sections[0].measurements == ()


# Validation


def json_paths(raw: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in the JSON."""
    inner = (
        raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    )
    return [path, *(deeper for key, value in inner for deeper in json_paths(value, (*path, key)))]


RAW = json.loads(to_json(full_report()))
PATHS = json_paths(RAW)[1:]
STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 1.5, 10**400, "x", "\ud800", "inf", [], [[]], [None], {}, {"kind": "lines"},
     {"value": []}, "x" * 5000]
)  # fmt: skip


def validation_error(raw: Any) -> str:
    """The error message; empty if it is a valid report."""
    try:
        parse_report(raw)
    except ValueError as error:
        return str(error)
    return ""


@given(st.sampled_from(PATHS), STRANGE)
def test_any_wrong_value_is_refused_in_one_line_or_rendered(
    path: tuple[Any, ...], value: Any
) -> None:
    """It is refused in one line, or every renderer accepts the report."""
    raw = copy.deepcopy(RAW)
    parent = raw
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    if problem := validation_error(raw):
        assert "\n" not in problem
        return
    report = parse_report(raw)
    print_report(report, Console(file=io.StringIO(), width=80))
    assert to_markdown(report)
    json.loads(to_json(report), parse_constant=lambda _: 1 / 0)


def test_validation_errors_name_the_position() -> None:
    raw = copy.deepcopy(RAW)
    raw["sections"][1]["blocks"][2]["plot"]["series"][0]["points"][1] = "x"
    with pytest.raises(ValueError, match="sections 2, blocks 3, figure, plot, lines, series 1"):
        parse_report(raw)


WRONG = {
    "not JSON": ("{", "is not JSON"),
    "no object": ("[]", "is not a report"),
    "another format": ('{"format": "attnlab-claims"}', "is not a report"),
    "another version": ('{"format": "attnlab-report", "version": 2}', "has version 2; this attnl"),
    "NaN": ('{"format": "attnlab-report", "version": NaN}', "is not JSON"),
    "deep": ("[" * 100_000, "is not JSON"),
    "bytes": ("\x00\x01", "is not JSON"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_files_that_are_no_reports(name: str, tmp_path: Path) -> None:
    text, message = WRONG[name]
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as problem:
        read_report(path)
    assert str(problem.value).startswith(f"{path}: ")
    assert "\n" not in str(problem.value)


def test_folders_pipes_and_large_files_are_errors(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(65 * 2**20)
    for name, message in {
        ".": "not a regular file", "pipe": "not a regular file", "no": "does not exist",
        "large": "a report has at most"
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=message):
            read_report(tmp_path / name)


# Version 0.1

OLD = {
    "format": "attnlab-bench", "version": 1, "versions": {"attnlab": "0.1.0"},
    "machine": {"cores": 2, "load": "nan"}, "seconds": 12.5,
    "sections": [{
        "name": "error", "title": "Error", "findings": ["a"], "advice": [],
        "settings": {"norms": [1, "inf"]}, "measurements": [{"output": "inf"}],
        "parts": [
            {"title": "t", "note": "", "header": ["a", "b"], "rows": [["inf", "nan"], ["x", 1]]},
            {"title": "m", "note": "", "tabled": True, "plot": {
                "kind": "heatmap", "x": "x", "y": "y", "z": "z", "columns": ["a"], "rows": ["b"],
                "values": [["inf"]], "log": True, "center": 1.0, "names": [], "texts": []}},
            {"title": "b", "note": "", "tabled": False, "plot": {
                "kind": "bars", "y": "y", "marks": [],
                "values": [{"name": "n", "value": 1.5, "low": None, "high": "inf"}]}},
            {"title": "l", "note": "", "tabled": False, "plot": {
                "kind": "lines", "x": "x", "y": "y", "x_log": True, "y_log": False,
                "marks": [{"label": "m", "x": 1, "y": None}],
                "series": [{"name": "s", "points": [[1, "nan"]], "band": []}]}},
        ],
    }],
}  # fmt: skip


def test_reports_of_version_0_1_are_upgraded() -> None:
    report = parse_report(OLD)
    assert (report.kind, report.seconds) == ("bench", 12.5)
    section = report.sections[0]
    table, heatmap, bars, lines = section.blocks
    assert isinstance(table, Table)
    assert table.rows[0][0] == math.inf
    assert table.rows[1] == ["x", 1]
    assert isinstance(heatmap, Figure)
    assert heatmap.in_table
    assert isinstance(heatmap.plot, Heatmap)
    assert heatmap.plot.center == 1.0
    assert heatmap.plot.values == [[math.inf]]
    assert isinstance(bars, Figure)
    assert isinstance(bars.plot, Bars)
    assert bars.plot.values == {"n": Estimate(1.5, None, math.inf)}
    assert isinstance(lines, Figure)
    assert isinstance(lines.plot, Lines)
    assert math.isnan(lines.plot.series[0].points[0][1])
    assert section.measurements == [{"output": math.inf}]
    assert section.settings == {"norms": [1, math.inf]}


@given(st.sampled_from(json_paths(OLD)[1:]), STRANGE)
def test_wrong_values_in_old_reports_are_refused_in_one_line(
    path: tuple[Any, ...], value: Any
) -> None:
    raw: Any = copy.deepcopy(OLD)
    parent = raw
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    assert "\n" not in validation_error(raw)
