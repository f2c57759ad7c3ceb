"""Charts and pages: well formed, readable at the extremes, and inert whatever a text holds."""

from __future__ import annotations

import base64
import hashlib
import itertools
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnlab.charts import (
    Bar,
    Chart,
    Mark,
    Series,
    bar_chart,
    clean,
    escape,
    line_chart,
    matrix_chart,
    number,
    reliability_chart,
)
from attnlab.charts.scales import Axis, extent, fitted, log_ticks, tick_texts, ticks, width_of
from attnlab.page import STYLE, Figure, Section, Table, Tile, page, picture, write_page

NAMESPACE = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"' onload='alert(1)' x=\"",
    "</title></desc></svg></style><iframe src=https://evil.example>",
    "&lt;b&gt; &amp; <!-- ]]> -->",
    "nul\x00 escape\x1b[31m bell\x07 \x85 delete\x7f",
    "\u202egnp.exe\u202c \u2066x\u2069 \u200f \u061c \ufeff",
    "half \ud800 of a pair \udfff \ufffe",
    "two\nlines\r\n\ttab",
]
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "main", "section", "div", "p"),
    *("dl", "dt", "dd", "figure", "figcaption", "strong", "span", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li", "img"),
    *("svg", "desc", "text", "line", "rect", "path", "circle"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "scope", "tabindex", "role"),
    *("aria-label", "xmlns", "viewbox", "x", "y", "x1", "x2", "y1", "y2", "width", "height"),
    *("cx", "cy", "r", "d", "text-anchor", "transform", "fill-opacity", "src", "alt"),
}


class Reader(HTMLParser):
    """Tags, attributes and text; every tag must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "img"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check_inert(text: str) -> Reader:
    """Only the page's own tags and attributes, and nothing that is fetched or run."""
    read = Reader(text)
    assert set(read.tags) <= ALLOWED
    assert {name for name, _ in read.attributes} <= ATTRIBUTES
    for name, value in read.attributes:
        assert "//" not in (value or "") or name in ("xmlns", "aria-label", "src")
        assert name != "src" or (value or "").startswith("data:image/png;base64,")
    assert all(c.isprintable() or c in "\n\u200c\u200d" for c in text)
    text.encode("utf-8")
    return read


def check_page(text: str) -> Reader:
    read = check_inert(text)
    assert set(re.findall(r"https?://[^\s\"'<]*", text)) <= {"http://www.w3.org/2000/svg"}
    for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        check_svg(svg)
    return read


def check_svg(svg: str) -> ElementTree.Element:
    """Well formed, named, and all of it inside the drawing."""
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert root.attrib["role"] == "img"
    assert [each.tag for each in root][:2] == [f"{NAMESPACE}title", f"{NAMESPACE}desc"]
    for element in root.iter():
        for name, value in element.attrib.items():
            if name in ("x", "x1", "x2", "cx", "width"):
                assert -0.1 <= float(value) <= width + 0.1, (element.tag, name, value)
            if name in ("y", "y1", "y2", "cy", "height"):
                assert -0.1 <= float(value) <= height + 0.1, (element.tag, name, value)
            if name == "d":
                places = re.findall(r"[ML]([\d.]+) ([\d.]+)", value)
                assert len(places) == len(re.findall("[ML]", value))  # no nan, no inf
                assert all(float(x) <= width and float(y) <= height for x, y in places)
        if element.tag == f"{NAMESPACE}text":
            check_text_fits(element, width)
    return root


def check_text_fits(element: ElementTree.Element, width: float) -> None:
    wide = width_of(element.text or "")
    left = float(element.attrib["x"])
    left -= {"start": 0, "middle": wide / 2, "end": wide}[element.attrib["text-anchor"]]
    assert left > -4, element.text  # widths of letters are estimates
    assert left + wide <= width + 4, element.text


def texts_of(chart: Chart) -> list[str]:
    root = check_svg(chart.svg)
    return [each.text or "" for each in root.iter(f"{NAMESPACE}text")]


def lines(*series: Series, **changes: Any) -> Chart:
    return line_chart(series, **{"title": "t", "x_label": "step", "y_label": "loss", **changes})


def bars(*each: Bar, **changes: Any) -> Chart:
    return bar_chart(each, **{"title": "t", "label": "place", "value": "answers", **changes})


BIN = {"low": 0.75, "high": 1.0, "count": 41, "confidence": 0.875, "accuracy": 0.5}

# Text and numbers


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_is_one_harmless_text(text: str) -> None:
    root = ElementTree.fromstring(f'<a b="{escape(text)}">{escape(text)}</a>')
    assert len(root) == 0
    assert root.text == root.attrib["b"] == clean(text)
    assert all(c.isprintable() for c in clean(text))
    assert len(clean(text)) == len(text)  # what was there leaves a mark


def test_names_of_all_scripts_stay() -> None:
    for name in ("Dávid Kovács", "東京", "שלום", "नरेन्द्र", "می\u200cخواهم", "O'Brien"):
        assert clean(name) == name


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0, "0"),
        (-0.0, "0"),
        (1234567, "1,234,567"),
        (1234.5, "1,234"),
        (0.5, "0.5"),
        (100.0, "100"),
        (2.34567, "2.346"),
        (-0.00123, "−0.00123"),
        (1e6, "1e6"),
        (-1.5e-7, "−1.5e−7"),
        (1e300, "1e300"),
        (None, "–"),
        (math.nan, "–"),
        (-math.inf, "−∞"),
    ],
)
def test_number(value: float | None, wanted: str) -> None:
    assert number(value) == wanted


def test_percent() -> None:
    assert number(0.8725, percent=True) == "87.2%"
    assert number(1, percent=True) == "100%"
    assert number(0.004, percent=True) == "0.4%"


def test_fitted() -> None:
    assert fitted("Bonn", 40) == "Bonn"
    assert fitted("Llanfairpwllgwyngyll", 60) == "Llanfa…"
    assert width_of(fitted("東京都" * 9, 60)) <= 60


# Axes

anything = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0, 10, ["0", "2", "4", "6", "8", "10"]),
        (0.93, 1.02, ["0.94", "0.96", "0.98", "1.00", "1.02"]),
        (-1, 1, ["−1.0", "−0.5", "0.0", "0.5", "1.0"]),
        (0, 12_000, ["0", "2,500", "5,000", "7,500", "10,000"]),
        (0, 5e9, ["0e0", "1e9", "2e9", "3e9", "4e9", "5e9"]),
    ],
)
def test_ticks_by_eye(low: float, high: float, wanted: list[str]) -> None:
    assert tick_texts(ticks(low, high)) == wanted


@given(st.lists(anything, max_size=4), st.booleans())
def test_ticks_of_anything(values: list[float], log: bool) -> None:
    values = [abs(value) or 1.0 for value in values] if log else values
    low, high = extent(values, log)
    assert low < high
    found = log_ticks(low, high) if log else ticks(low, high)
    assert 1 <= len(found) <= 9
    assert found == sorted(set(found))
    slack = 1e-6 * max(abs(low), abs(high))
    assert low - slack <= found[0]
    assert found[-1] <= high + slack
    axis = Axis(low, high, 7, 311, log)
    assert axis.ticks() == found
    assert len(set(axis.texts())) == len(found)
    assert all(7 <= axis(value) <= 311 for value in [*values, *found])
    assert axis(low) == pytest.approx(7)
    assert axis(high) == pytest.approx(311)


def test_log_ticks_by_eye() -> None:
    assert log_ticks(1, 1000) == [1, 10, 100, 1000]
    assert log_ticks(3, 80) == [5, 10, 20, 50]
    assert len(log_ticks(1e-9, 1e12)) <= 8


# Charts

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


@given(st.lists(st.tuples(anything, st.floats()), max_size=5), st.booleans())
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


# Pages


def whole_page(text: str = "plain") -> str:
    figure = Figure(bars(Bar(text, 1), title=text), text)
    table = Table((text, "n"), [(text, 3), ("b", None)], text, text)
    wide = Table(tuple("abcde"), [(text, 1, 2.5, "7%", "x")])
    tile = Tile(text, text, text)
    return page(text, [Section(text, [text], [tile], [figure], [table, wide])])


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_a_page_is_inert(text: str) -> None:
    read = check_inert(whole_page(text))
    assert read.tags.count("style") == 1
    assert read.tags.count("svg") == 1
    assert "script" not in read.tags


def test_a_page_asks_for_nothing() -> None:
    text = whole_page()
    read = check_page(text)
    policy = next(value or "" for name, value in read.attributes if name == "content")
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert STYLE in text
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_numbers_stand_to_the_right() -> None:
    rows = [("Bonn", 3, "7%", "1,200 (1 to 2)"), ("7", None, "−1.5%", "∞")]
    text = page("t", [Section("s", tables=[Table(("place", "n", "share", "x"), rows)])])
    cells = re.findall(r"<td( class=\"number\")?>(.*?)</td>", text)
    assert [bool(kind) for kind, _ in cells] == [False, True, True, True] * 2
    assert [cell for _, cell in cells][4:6] == ["7", "–"]


def test_long_tables_of_values_are_thinned() -> None:
    figure = Figure(lines(Series("a", [(i, i) for i in range(1001)])))
    text = page("t", [Section("s", figures=[figure])])
    assert text.count("<tr>") == 1 + 167
    assert "one of every 6 values" in text


def test_tables_may_be_empty() -> None:
    read = check_page(page("t", [Section("s", tables=[Table(("a", "b"), [])])]))
    assert read.tags.count("th") == 2
    assert check_page(page("t", [])).tags.count("h1") == 1


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1])
def test_contrast(theme: int) -> None:
    """WCAG: 4.5 for text, 3 for what is drawn."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, flags=re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", blocks[theme]))
    for name, wanted in {"ink": 7, "dim": 4.5, **{f"s{i}": 3 for i in range(6)}}.items():
        for ground in ("page", "card"):
            pair = sorted((luminance(colours[name]), luminance(colours[ground])))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= wanted, (name, ground)


def test_write_page(tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    write_page(path, whole_page("é"))
    assert path.read_text(encoding="utf-8") == whole_page("é")
    with pytest.raises(ValueError, match="is there already"):
        write_page(path, "new")
    write_page(path, "new", overwrite=True)
    assert path.read_text() == "new"
    with pytest.raises(ValueError, match="there is no folder"):
        write_page(tmp_path / "no" / "audit.html", "new")


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


def test_a_picture_stands_by_itself() -> None:
    chart = lines(Series("a", [(1, 1), (2, 2)]))
    text = picture(chart)
    root = ElementTree.fromstring(text)
    assert root.tag == f"{NAMESPACE}svg"
    inner = ElementTree.fromstring(chart.svg).attrib["viewBox"].split()
    outer = root.attrib["viewBox"].split()  # an edge of 8 on every side, in the drawing's own units
    assert [float(x) for x in outer] == [-8, -8, float(inner[2]) + 16, float(inner[3]) + 16]
    assert "padding: 8px" not in text
    assert "--s0" in (root[0].text or "")
    assert "http" not in text.replace(NAMESPACE.strip("{}"), "")


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
