"""Charts: well formed and readable at the extremes."""

from __future__ import annotations

import itertools
import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnlab.charts import Bar, Mark, Series, matrix_chart, number, reliability_chart
from attnlab.page import Section, Table, page
from tests.support.chart_checks import (
    HOSTILE,
    NAMESPACE,
    bars,
    check_inert,
    check_svg,
    lines,
    texts_of,
)

BIN = {"low": 0.75, "high": 1.0, "count": 41, "confidence": 0.875, "accuracy": 0.5}
ANYTHING = st.floats(allow_nan=False, allow_infinity=False)
DEGENERATE: list[list[tuple[float, float]]] = [
    [],
    [(3, 0.5)],
    [(3, 0.5), (3, 0.5)],
    [(1, 7), (2, 7), (3, 7)],
    [(1, 1e300), (2, -1e300)],
    [(1, 1.7e308), (2, -1.7e308)],
    [(1, 5e-324), (2, 0)],
    [(1e-320, 1e-12), (1e300, 2e-12)],
    [(1, 1e9), (2, 1e9 + 1)],
    [(1, 1.0), (2, 1.0 + 2e-16)],
    [(1, math.nan), (2, math.inf), (math.nan, 3)],
    [(1, 2), (2, math.nan), (3, 2), (4, 5)],
]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("points", DEGENERATE)
def test_lines_of_degenerate_points(points: list[tuple[float, float]], log: bool) -> None:
    shown = texts_of(lines(Series("a", points), x_log=log))
    finite = [point for point in points if all(map(math.isfinite, point))]
    assert ("no values" in shown) == (not finite)


@given(st.lists(st.tuples(ANYTHING, st.floats()), max_size=5), st.booleans())
@example([(9.998443192078962e299, 13.0)], False)  # a long text under the first tick
def test_lines_of_anything(points: list[tuple[float, float]], log: bool) -> None:
    points = [(abs(x) or 1.0, y) for x, y in points] if log else points
    assert len(lines(Series("a", points), x_log=log).rows) == len(points)
    check_svg(lines(Series("a", points), x_log=log).svg)


def test_a_gap_is_not_bridged() -> None:
    chart = lines(Series("a", [(1, 2), (2, 3), (3, math.nan), (4, 5), (5, 4)]))
    paths = check_svg(chart.svg).findall(f"{NAMESPACE}path")
    assert [path.attrib["d"].count("L") for path in paths] == [1, 1]
    assert chart.rows[2] == ("a", "3", "–")


def test_few_short_names_stand_at_the_lines_and_many_in_a_legend() -> None:
    points = [(0.0, 1.0), (10.0, 1.01)]
    few = lines(*(Series(name, points) for name in ("one", "two", "three")))
    heights = [
        float(each.attrib["y"])
        for each in check_svg(few.svg).iter(f"{NAMESPACE}text")
        if each.text in ("one", "two", "three")
    ]
    assert sorted(heights) == heights  # equal ends, yet one below the other
    assert min(b - a for a, b in itertools.pairwise(heights)) >= 13
    names = [f"a rather long name {i}" for i in range(8)]
    many = lines(*(Series(name, points) for name in names))
    assert set(names) <= set(texts_of(many))
    assert few.svg.count('class="line') == 3
    assert many.svg.count("<path") == 8


def test_bands_and_marks() -> None:
    series = Series("a", [(1, 2), (2, 3)], [(1.5, 2.5), (2, 9)])
    marks = [Mark("here", 1.5, 2.5), Mark("level", y=2.2), Mark("then", x=1.9)]
    chart = lines(series, marks=marks)
    assert chart.svg.count('class="band s0"') == 1
    assert {"here", "level", "then"} <= set(texts_of(chart))
    assert chart.rows == [("a", "1", "2 (1.5 to 2.5)"), ("a", "2", "3 (2 to 9)")]
    assert "8" in texts_of(chart)  # the band is within the axis


def test_percents_and_ranges() -> None:
    chart = lines(Series("a", [(0.25, 0.5), (1, 3)]), percent=True, y_range=(0, 1), x_range=(0, 1))
    assert {"0%", "100%", "0.0", "1.0"} <= set(texts_of(chart))
    assert "300%" not in texts_of(chart)
    assert lines(Series("a", [(1, 1)]), y_range=(2, 2)).rows == [("a", "1", "1")]


def test_refused() -> None:
    with pytest.raises(ValueError, match="logarithmic"):
        lines(Series("a", [(0, 1)]), x_log=True)
    with pytest.raises(ValueError, match="1 bands for 2 points"):
        lines(Series("a", [(0, 1), (1, 1)], [(0, 1)]))
    with pytest.raises(ValueError, match="not finite"):
        lines(Series("a", [(0, 1)]), marks=[Mark("m", x=math.nan)])
    with pytest.raises(ValueError, match="y of zero or less"):
        lines(Series("a", [(1, 0)]), y_log=True)
    with pytest.raises(ValueError, match="header's 2 cells"):
        page("t", [Section("s", tables=[Table(("a", "b"), [("c",)])])])


def test_bars() -> None:
    chart = bars(
        Bar("London", 0.5, (0.25, 0.75), beside=0.125),
        Bar("Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch", 0.25, beside=0),
        Bar("nowhere", math.nan),
        beside="right",
        percent=True,
        mark=("all", 0.4),
    )
    root = check_svg(chart.svg)
    wide = [float(each.attrib["width"]) for each in root.iter(f"{NAMESPACE}rect")]
    assert wide[0] == pytest.approx(2 * wide[2], abs=0.2)
    assert wide[0] == pytest.approx(4 * wide[1], abs=0.2)
    assert len(wide) == 4
    assert {"London", "50%", "25%", "all", "answers", "right"} <= set(texts_of(chart))
    assert chart.rows[0] == ("London", "50% (25% to 75%)", "12.5%")
    assert str(chart.rows[1][0]).endswith("gogoch")  # whole in the table


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e-9, 7, 1e308])
def test_bars_of_any_size(value: float) -> None:
    assert number(value) in texts_of(bars(Bar("a", value), Bar("b", value)))


def test_no_bars() -> None:
    assert bars().rows == []
    check_svg(bars().svg)


def test_reliability() -> None:
    other = {"low": 0.0, "high": 0.25, "count": 12345, "confidence": 0.125, "accuracy": 0.25}
    chart = reliability_chart([other, BIN], title="t")
    heights = [
        float(each.attrib["height"]) for each in check_svg(chart.svg).iter(f"{NAMESPACE}rect")
    ]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert {"41", "12k"} <= set(texts_of(chart))
    assert chart.rows[1] == ("75% to 100%", 41, "87.5%", "50%")
    assert chart.svg.count('class="mark"') == 1
    check_svg(reliability_chart([], title="t").svg)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_charts_is_inert(text: str) -> None:
    for chart in (
        lines(Series(text, [(1, 2)]), Series("b", []), title=text, x_label=text, y_label=text),
        lines(Series("a", [(1, 2), (3, 4)]), marks=[Mark(text, 1, 2), Mark(text, x=3)]),
        bars(Bar(text, 1, beside=2), title=text, label=text, value=text, beside=text),
        bars(Bar("a", 1), mark=(text[:20], 1)),
        reliability_chart([BIN], title=text),
    ):
        check_svg(chart.svg)
        check_inert(chart.svg)


def test_bars_below_zero() -> None:
    chart = bars(Bar("up", 3.0), Bar("down", -1.0, (-2.0, 0.5)))
    root = ElementTree.fromstring(chart.svg)
    drawn = root.iter(f"{NAMESPACE}rect")
    up, down = ([float(each.attrib[name]) for name in ("x", "width")] for each in drawn)
    assert down[0] + down[1] == pytest.approx(up[0], abs=0.2)  # both begin at zero
    assert up[1] == pytest.approx(3 * down[1], rel=0.01)


def test_a_logarithmic_height() -> None:
    chart = lines(
        Series("a", [(1, 1), (2, 10), (3, 100)], [(0, 2), (5, 20), (50, 200)]), y_log=True
    )
    dots = ElementTree.fromstring(chart.svg).iter(f"{NAMESPACE}circle")
    one, ten, hundred = (float(dot.attrib["cy"]) for dot in dots)
    assert one - ten == pytest.approx(ten - hundred, abs=0.2)
    assert {"1", "10", "100"} <= set(texts_of(chart))


# The matrix


def test_a_matrix_says_every_count() -> None:
    chart = matrix_chart(
        ["cat", "dog", "a very long name of a bird"],
        [[5, 2, 0], [0, 7, 1], [3, 0, 0]],
        title="t",
        rows="is",
        columns="said",
    )
    assert [text for text in texts_of(chart) if text.isdigit()] == ["5", "2", "7", "1", "3"]
    assert ("cat", "dog", 2) in chart.rows
    assert len(chart.rows) == 5
    strengths = re.findall(r'bar (s\d)" [^>]*fill-opacity="([\d.]+)"', chart.svg)
    assert len(strengths) == 9
    kinds = [kind for kind, _ in strengths]
    assert kinds == ["s0", "s1", "s1", "s1", "s0", "s1", "s1", "s1", "s0"]
    assert float(strengths[6][1]) == pytest.approx(0.6)  # all three birds were called cats
    assert float(strengths[2][1]) == 0
    many = matrix_chart(
        [str(k) for k in range(20)], [[1] * 20] * 20, title="t", rows="is", columns="said"
    )
    assert not [text for text in texts_of(many) if text == "1"][2:]  # only the names
    with pytest.raises(ValueError, match="2 names for a table of 1 rows"):
        matrix_chart(["a", "b"], [[1, 2]], title="t", rows="", columns="")


def test_error_bars() -> None:
    points, band = [(1.0, 0.4), (2.0, 0.6)], [(0.3, 0.5), (0.5, 0.7)]
    chart = lines(Series("a", points, band, bars=True), Series("b", points, band))
    check_svg(chart.svg)
    assert chart.svg.count('class="error s0"') == 6  # a line and two ends each
    assert chart.svg.count('class="band s1"') == 1
    assert 'class="band s0"' not in chart.svg
