"""Pages of charts, and pictures of one."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from attnlab.charts import Bar, Series
from attnlab.page import STYLE, Figure, Section, Table, Tile, page, picture, write_page
from tests.support.chart_checks import HOSTILE, NAMESPACE, bars, check_inert, check_page, lines


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
