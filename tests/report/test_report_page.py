"""The page of a report in a real browser: tabs, heatmaps, keys, any width, hostile texts."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab._confidence_intervals import Estimate
from attnlab._image_files import encode_png
from attnlab.report import render_page
from attnlab.report._content import (
    Bars,
    Block,
    Command,
    Figure,
    Gallery,
    Lines,
    Link,
    Picture,
    Quote,
    Report,
    Section,
    Series,
    Strip,
    Table,
    Tile,
)
from tests.support.bench_reports import invented_report, speed_table, write_pages
from tests.support.browser import Watched
from tests.support.page_widths import check_width, every_width
from tests.support.saved_figures import png_size, save_figure

SVG = "{http://www.w3.org/2000/svg}"
PIXELS = torch.arange(3 * 16 * 16).mul(37).remainder(251).to(torch.uint8).reshape(3, 16, 16)
SECTIONS = ("error", "speed", "model")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_pages(tmp_path_factory.mktemp("pages"))


def test_sections_are_tabs(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["made-up"])
    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == list(SECTIONS)
    text = page.locator("main").inner_text()
    assert "beats uniform weights at norms 1 to 2" in text
    assert "From norm 4 on use softmax" in text
    tabs.nth(0).focus()
    page.keyboard.press("ArrowRight")
    assert "window is faster" in page.locator("main").inner_text()
    page.wait_for_function("() => location.hash.includes('show=speed')")
    page.reload()
    watched.painted()
    assert tabs.nth(1).get_attribute("aria-selected") == "true"
    assert "a fast one" in page.locator("footer").inner_text()
    watched.check()


FILL = "document.elementFromPoint(x, y).getAttribute('fill')"


def point_at(page: Any, fraction_x: float, fraction_y: float) -> list[float]:
    """The point of the first heatmap at a relative position."""
    box = page.locator("figure.map [role=application]").first.bounding_box()
    return [box["x"] + fraction_x * box["width"], box["y"] + fraction_y * box["height"]]


def color_at(page: Any, fraction_x: float, fraction_y: float) -> tuple[int, int, int]:
    fill = page.evaluate(f"([x, y]) => {FILL}", point_at(page, fraction_x, fraction_y))
    red, green, blue = (int(fill[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def test_heatmap_colors_and_values(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["made-up"])
    figure = page.locator("figure.map").first
    better, worse = color_at(page, 0.01, 0.05), color_at(page, 0.99, 0.05)
    assert better[2] > better[0] + 40  # blue: below 1
    assert worse[0] > worse[2] + 40  # orange: above
    area = figure.locator("[role=application]")
    area.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    readout = figure.locator(".map-read")
    assert readout.inner_text() == "features 64, norm |q| = |k| 8: –; error 1.4"
    page.keyboard.press("ArrowLeft")
    assert "features 64, norm |q| = |k| 4: 1.28; error 1.3" in readout.inner_text()
    assert figure.locator("[aria-live]").inner_text() == readout.inner_text()
    page.keyboard.press("Escape")
    assert readout.inner_text().strip() == ""
    box = area.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.9 * box["height"])
    assert "features 256, norm |q| = |k| 2: 0.48; error 2.2" in readout.inner_text()
    figure.get_by_role("button", name="table").click()
    row = figure.locator("tbody tr").nth(1)
    assert row.locator("th").inner_text() == "64"
    assert row.locator("td").all_inner_texts() == ["0.02", "0.08", "0.32", "1.28", ""]
    page.wait_for_function("() => location.hash.includes('figure=error.0:t')")
    watched.check()


def test_heatmap_follows_dark_mode(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["made-up"])
    light, point = color_at(page, 0.7, 0.05), point_at(page, 0.7, 0.05)
    fill = page.evaluate(f"([x, y]) => {FILL}", point)
    button = page.get_by_role("button", name=re.compile("^Colors"))
    button.click()
    button.click()  # dark
    page.wait_for_selector(".attnlab[data-theme=dark]")
    page.wait_for_function(f"([x, y, light]) => {FILL} !== light", arg=[*point, fill])
    assert sum(color_at(page, 0.7, 0.05)) < sum(light)
    watched.check()


def test_names_as_colors(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["made-up"], "#show=model")
    figure = page.locator("figure.map")
    names = figure.locator(".map-names > span").all_inner_texts()
    assert names == ["window:window=64", "favor:features=256", "elu", "softmax"]
    figure.locator("[role=application]").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert figure.locator(".map-read").inner_text() == "layer 1, head 2: elu"
    watched.check()


def test_a_line_hidden_in_one_figure_is_hidden_in_all(
    pages: dict[str, Path], watched: Watched
) -> None:
    page = watched.open(pages["made-up"])
    figure = page.locator("figure:has(path.line)").first
    assert figure.locator("path.line").count() == 3
    figure.get_by_role("button", name="favor").click()
    assert figure.locator("path.line").count() == 2
    page.get_by_role("tab", name="speed").click()
    other = page.locator("figure:has(path.line)").first
    assert other.locator("path.line").count() == 2
    page.wait_for_function("() => location.hash.includes('hide=favor')")
    other.get_by_role("button", name="favor").click()
    assert other.locator("path.line").count() == 3
    watched.check()


def test_a_table_can_be_sorted(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["made-up"], "#show=speed")
    table = page.locator(".part.wide table")

    def order() -> list[str]:
        return table.locator("tbody td:first-child").all_inner_texts()

    original = [str(row[0]) for row in speed_table().rows]
    assert order() == original
    button = table.get_by_role("button", name="8,192")
    button.focus()
    page.keyboard.press("Enter")
    assert order() == ["window", "favor", "softmax", "hard"]  # hard was not measured: last
    assert table.locator("th").nth(2).get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")
    assert order() == ["softmax", "favor", "window", "hard"]
    page.keyboard.press("Enter")
    assert order() == original
    table.get_by_role("button", name="faster from").click()
    assert order() == ["window", "favor", "hard", "softmax"]  # all, 1,500, never, itself
    assert "0.97 (0.90 to 1.04)" in table.inner_text()
    watched.check()


@every_width
def test_every_width_in_light_and_dark(
    width: int, scheme: str, pages: dict[str, Path], browser: Any
) -> None:
    def views(watched: Watched) -> Iterator[str]:
        for name in SECTIONS:
            watched.page.goto("about:blank")
            watched.open(pages["made-up"], f"#show={name}")
            yield name

    check_width(browser, width, scheme, views)


def test_hostile_texts_stay_texts(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["hostile"])
    for tab in page.get_by_role("tab").all():
        tab.click()
        for button in page.locator("figure .tools button").all():
            button.click()
        assert page.locator("main img").count() == 0
        width = page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= 1100
    assert page.evaluate("() => window.harmed") is None
    watched.check()


def test_an_empty_report(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["empty"])
    assert "Nothing was measured" in page.locator(".attnlab").inner_text()
    watched.check()


def test_printing_shows_heatmaps(pages: dict[str, Path], browser: Any) -> None:
    watched = Watched(browser, color_scheme="dark")
    page = watched.open(pages["made-up"])
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("path.cells").first.is_visible()
    cell = page.locator("path.cells").last  # infinite: as strong as can be
    page.wait_for_function(
        "() => [...document.querySelectorAll('path.cells')].at(-1).getAttribute('fill') < '#9'"
    )
    assert cell.get_attribute("fill") == "#7a2b00"  # dark on white paper
    assert not page.get_by_role("tablist").is_visible()
    watched.check()
    watched.close()


def create_report_with_every_block() -> Report:
    """One section with the blocks that the other reports lack."""
    accuracy_bars = Bars(
        "share that is right", {"2": Estimate(0.5, 0.4, 0.6), "1": Estimate(0.25)},
        percent=True, beside={"2": 0.125}, beside_name="before",
    )  # fmt: skip
    curve = Series("answers", [(0.0, 0.5), (1.0, 0.75)], [(0.4, 0.6), (0.7, 0.8)], error_bars=True)
    blocks: list[Block] = [
        Figure("Shares", accuracy_bars),
        Figure(
            "Calibration", Lines("confidence", "right", [curve], x_percent=True, y_percent=True)
        ),
        Gallery("Images", [Picture(encode_png(PIXELS), "a seven", "seen as 1")]),
        Quote("It wrote", "a cat and a cat", "cat"),
        Strip("Weights", ["the", " cat"], [0.25, -1.0]),
        Command("attnlab claims", "Run the claims:"),
        Link("other file.html", "Another page"),
        Table("Cells", ["a", "b"], [[True, float("inf")], [None, float("nan")]]),
    ]
    tiles = [Tile("Right", "50%", "of 200")]
    return Report("audit", "An audit", [Section("all", "An audit", tiles=tiles, blocks=blocks)])


def test_every_kind_of_block(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(render_page(create_report_with_every_block()))
    page = watched.open(tmp_path / "a.html")
    assert page.get_by_role("tab").count() == 0  # one section
    assert page.locator("h1, h2").all_inner_texts() == ["An audit"]
    assert "50%" in page.locator(".tiles").inner_text()
    bars = page.locator("figure").first
    assert bars.locator(".bar-row button").all_inner_texts() == ["2", "1"]  # in their order
    bars.locator("[role=application]").focus()
    page.keyboard.press("ArrowDown")
    assert "2: 50% (40% to 60%); before 12.5%" in bars.inner_text()
    lines = page.locator("figure").nth(1)
    lines.locator("[role=application]").focus()
    page.keyboard.press("End")
    assert "confidence: 100%" in lines.inner_text()
    assert "75% (70% to 80%)" in lines.inner_text()
    loaded = "() => document.querySelector('.pictures img').naturalWidth"
    assert page.evaluate(loaded) == 16
    assert page.locator("blockquote mark").all_inner_texts() == ["cat", "cat"]
    shades = page.locator(".strip mark").evaluate_all(
        "all => all.map(each => getComputedStyle(each).backgroundColor)"
    )
    assert shades[0] != shades[1]
    watched.keep_messages()
    page.get_by_role("button", name="Copy").click()
    page.get_by_text(re.compile("^(Copied|Selected)$")).wait_for()
    assert page.get_by_role("link", name="Another page").get_attribute("href") == "other file.html"
    assert page.locator(".scroll td").all_inner_texts() == ["yes", "∞", "–", "–"]
    watched.check()


def test_short_sections_are_below_each_other(watched: Watched, tmp_path: Path) -> None:
    quotes = [Section(name, name.title(), blocks=[Quote("said", name)]) for name in ("one", "two")]
    (tmp_path / "a.html").write_text(render_page(Report("demo", "A demo", quotes)))
    page = watched.open(tmp_path / "a.html")
    assert page.get_by_role("tab").count() == 0
    assert page.locator("main h2").all_inner_texts() == ["One", "Two"]
    watched.check()


@pytest.mark.parametrize("name", ["made-up", "hostile"])
def test_every_figure_can_be_downloaded(
    name: str, pages: dict[str, Path], watched: Watched, tmp_path: Path
) -> None:
    page = watched.open(pages[name])
    figures = page.locator("figure").all()
    assert len(figures) >= 3
    for figure in figures:
        saved = save_figure(page, tmp_path, "SVG", figure, width="2").read_text("utf-8")
        root = ElementTree.fromstring(saved)
        texts = ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]
        assert texts[0][:20] == figure.locator("figcaption strong").inner_text()[:20]
        shapes = [node for kind in ("path", "rect") for node in root.iter(f"{SVG}{kind}")]
        colors = {node.get(name) for node in shapes for name in ("fill", "stroke")}
        assert all(color_at in (None, "none") or color_at.startswith("#") for color_at in colors)
        text = save_figure(page, tmp_path, "CSV", figure).read_text("utf-8")
        assert len({len(row) for row in csv.reader(io.StringIO(text))}) == 1
        rows = json.loads(save_figure(page, tmp_path, "JSON", figure).read_text("utf-8"))["rows"]
        assert len(rows) == len(list(csv.DictReader(io.StringIO(text))))
    watched.check()


def test_a_figure_is_saved_for_a_column_of_a_paper(
    pages: dict[str, Path], watched: Watched, tmp_path: Path
) -> None:
    """One or two columns at 300 dots per inch, light or dark, with or without its title."""
    page = watched.open(pages["made-up"])
    figure = page.locator("figure").first
    title = figure.locator("figcaption strong").inner_text()
    sizes = {}
    for columns, millimeters in (("1", 85), ("2", 178)):
        path = save_figure(page, tmp_path, "PNG", figure, width=columns)
        sizes[columns] = png_size(path)
        assert sizes[columns][0] == pytest.approx(millimeters / 25.4 * 300, rel=0.01)
    light, dark = (
        save_figure(page, tmp_path, "SVG", figure, colors=colors, width="1").read_text("utf-8")
        for colors in ("light", "dark")
    )
    assert light != dark
    assert 'fill="#fcfcfa"' in light
    assert 'fill="#15171a"' in dark
    plain = save_figure(page, tmp_path, "SVG", figure, caption=False).read_text("utf-8")
    words = [text for text in ElementTree.fromstring(plain).itertext() if text.strip()]
    assert title not in words
    heights = [float(ElementTree.fromstring(each).attrib["height"]) for each in (dark, plain)]
    assert heights[1] < heights[0]
    watched.check()


BROKEN: dict[str, Callable[[str], str]] = {
    "no data": lambda page: page.replace('id="attnlab-report"', 'id="other"'),
    "bad JSON": lambda page: page.replace('{"format"', '{format"', 1),
    "another format": lambda page: page.replace('"attnlab-report"', '"something-else"', 1),
    "another version": lambda page: page.replace('"version":1', '"version":2', 1),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_broken_page_shows_an_error(name: str, watched: Watched, tmp_path: Path) -> None:
    page = render_page(invented_report())
    text = BROKEN[name](page)
    assert text != page
    (tmp_path / "a.html").write_text(text)
    watched.page.goto((tmp_path / "a.html").as_uri())
    watched.page.wait_for_selector("[role=alert]")
    assert "cannot be shown" in watched.page.locator("[role=alert]").inner_text()
    assert watched.complaints == []


def test_the_page_is_offline_and_small() -> None:
    text = render_page(invented_report())
    assert not re.search(r"(?:src|href)=[\"']?https?:", text)
    assert '"measurements"' not in text
