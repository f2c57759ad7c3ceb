"""The claims page in a real browser, offline: filters, figures, keyboard, widths, hostile texts."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.claims._ledger_page import claims_page
from tests.support.browser import Watched
from tests.support.claim_ledgers import (
    HOSTILE,
    STATEMENTS,
    made_up_ledger,
    make_ledger,
    make_row,
    write_pages,
)
from tests.support.command_line import run
from tests.support.page_widths import check_width, every_width
from tests.support.saved_figures import save_figure


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_pages(tmp_path_factory.mktemp("pages"))


def visible_ids(page: Any) -> list[str]:
    return page.locator(".claims .id").all_inner_texts()


def test_claims_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "claims.html"
    code, output, _ = run(f"claims copy --html {path}", capsys)
    assert code == 0
    assert str(path) in output.replace("\n", "")
    text = path.read_text()
    assert "if k_j.q is far above every other" in text
    assert not re.search(r"(?:src|href)=[\"']?https?:", text)
    code, output, error = run(f"claims copy --html {path}", capsys)
    assert (code, output) == (2, "")  # before anything ran
    assert error == f"attnlab: {path}: already exists; give --overwrite or another name\n"
    path.write_text("old")
    assert run(f"claims copy --html {path} --overwrite", capsys)[0] == 0
    assert path.read_text() != "old"


@pytest.mark.parametrize(
    ("out", "words"),
    [("no/a.html", "there is no folder"), ("a.txt", "NAME.html"), (".", "is a folder")],
)
def test_invalid_page_paths(
    out: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("claims copy --html", "claims playground --out"):
        code, output, error = run(f"{command} {tmp_path / out}", capsys)
        assert (code, output) == (2, "")
        assert words in error
        assert error.count("\n") == 1


def test_filters_by_verdict_topic_and_text(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["made-up"])
    everything = [name for name, _, _ in STATEMENTS]
    assert visible_ids(page) == everything
    rows = made_up_ledger()["claims"]
    for outcome in {row["outcome"] for row in rows}:
        expected = [row["id"] for row in rows if row["outcome"] == outcome]
        button = page.locator(f".count[data-outcome='{outcome}']").first
        assert button.inner_text().startswith(str(len(expected)))
        button.click()
        assert visible_ids(page) == expected
        assert (
            f"{len(expected)} of {len(rows)} claims" in page.locator("[role=status]").inner_text()
        )
        button.click()
    page.get_by_role("button", name=re.compile("control agrees")).click()
    assert visible_ids(page) == ["features-more"]
    assert "should disagree" in page.locator("td.control").inner_text()
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("button", name=re.compile("Positions")).click()
    assert visible_ids(page) == ["shift-matrix"]
    page.get_by_role("button", name=re.compile("Positions")).click()
    page.get_by_role("searchbox").fill("TEMPERATURE one-hot")
    assert visible_ids(page) == ["beta-hard"]
    page.get_by_role("searchbox").fill("nothing like it")
    assert "No claim matches the filters" in page.locator(".attnlab").inner_text()
    watched.check()


def test_keyboard_controls(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["made-up"])
    page.keyboard.press("/")
    page.keyboard.type("e^-t")
    assert page.get_by_role("searchbox").input_value() == "e^-t"
    page.locator("button.statement").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.locator("tr.body").count() == 1
    figure = page.locator("figure").first
    figure.locator("[role=application]").focus()
    page.keyboard.press("Home")
    assert "number of keys: 2" in figure.inner_text()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    values = [point[1] for point in make_row(0, *STATEMENTS[0])["plot"]["series"][0]["points"]]
    assert f"{values[2]:.6f}".rstrip("0") in figure.inner_text()
    assert "number of keys: 64" in figure.locator("[aria-live]").inner_text()
    page.keyboard.press("Escape")
    assert "number of keys: 64" not in figure.inner_text()
    for name in ("log x", "log y", "0.1% error", "table"):
        button = figure.get_by_role("button", name=name)
        before = button.get_attribute("aria-pressed")
        button.focus()
        page.keyboard.press("Space")
        assert button.get_attribute("aria-pressed") != before
        if name == "0.1% error":
            assert figure.locator("path.line").count() == 2
    assert figure.locator("tbody tr").count() == 18
    watched.check()


def test_bars_and_points_that_cannot_be_drawn(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["made-up"], "#open=average-two.identity-outer-product")
    bars = page.locator("figure").first
    assert bars.locator(".bar-row").count() == 4
    bars.locator("[role=application]").focus()
    page.keyboard.press("ArrowDown")
    assert "one head: 0.412 (0.39 to 0.43)" in bars.inner_text()
    assert "2 points are not drawn" in page.locator("figure").nth(1).inner_text()
    watched.check()


def test_address_keeps_the_state(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["made-up"])
    page.get_by_role("button", name="Open all").click()
    page.get_by_role("button", name="Close all").click()
    page.locator("button.statement").first.click()
    page.locator("figure").first.get_by_role("button", name="1.0% error").click()
    page.locator(".count[data-outcome='holds']").click()
    page.wait_for_function("() => /verdict=holds&.*figure=copy:h0/.test(location.hash)")
    address = page.evaluate("() => location.hash")
    page.goto("about:blank")
    watched.open(pages["made-up"], address)
    assert page.locator("tr.body").count() == 1
    assert page.locator("figure").first.locator("path.line").count() == 2
    assert page.locator(".count[data-outcome='holds']").get_attribute("aria-pressed") == "true"
    page.evaluate("() => { location.hash = '#topic=positions' }")
    page.wait_for_function("() => document.querySelectorAll('.claims .id').length === 1")
    watched.open(pages["made-up"], "#open=__proto__&figure=constructor:xl&verdict=%ff&topic=,")
    assert len(visible_ids(page)) == len(STATEMENTS)
    watched.check()


def test_bars_can_be_switched_off(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["made-up"], "#average-two")
    bars = page.locator("figure").first
    assert bars.locator(".fill").count() == 4

    def width(row: int) -> float:
        return float(bars.locator(".bar-row").nth(row).locator(".fill").bounding_box()["width"])

    before = width(2)
    for name in ("one head", "two heads with one and the same query"):
        button = bars.get_by_role("button", name=name, exact=True)
        button.focus()
        page.keyboard.press("Space")
        assert button.get_attribute("aria-pressed") == "false"
    assert bars.locator(".fill").count() == 2
    assert width(2) <= before + 1  # the scale still includes the marked level
    page.wait_for_function("() => location.hash.includes('figure=average-two:h0-1')")
    watched.check()


def download(page: Any, button: Any, folder: Path) -> tuple[str, str]:
    with page.expect_download() as started:
        button.click()
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    return path.name, path.read_text("utf-8")


def test_downloads_of_figures_and_ledger(
    pages: dict[str, Path], watched: Watched, tmp_path: Path
) -> None:
    page = watched.open(pages["made-up"], "#copy")
    figure = page.locator("figure").first
    figure.get_by_role("button", name="ln(100 n)").click()
    saved = save_figure(page, tmp_path, "SVG", figure, width="2")
    assert saved.name == "copy-experiment.svg"
    root = ElementTree.fromstring(saved.read_text("utf-8"))
    words = ["".join(row.itertext()) for row in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"copy: experiment", "number of keys", "margin that is needed", "1.0% error"} < set(
        words
    )
    assert "ln(100 n)" not in words  # it is switched off
    saved = save_figure(page, tmp_path, "CSV", figure)
    rows = list(csv.reader(io.StringIO(saved.read_text("utf-8"))))
    assert (saved.name, rows[0][:3]) == (
        "copy-experiment.csv", ["series", "number of keys", "margin that is needed"],
    )  # fmt: skip
    assert len(rows) == 1 + 18
    control = page.locator("figure").nth(1)
    assert save_figure(page, tmp_path, "CSV", control).name == "copy-control.csv"
    whole = page.locator(".filters").get_by_role("button", name="CSV")
    _, text = download(page, whole, tmp_path)
    ledger_rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["claim"] for row in ledger_rows] == [row for row, _, _ in STATEMENTS]
    assert ledger_rows[0]["figure"] == "0.0042"
    page.locator(".count[data-outcome='refuted']").click()
    text = download(page, whole, tmp_path)[1]
    assert {row["verdict"] for row in csv.DictReader(io.StringIO(text))} == {"refuted"}
    watched.check()


def test_link_to_one_claim(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["made-up"], "#first-token-sink")
    assert page.locator("tr.body").count() == 1
    is_visible = """id => { const at = document.getElementById(`row-${id}`).getBoundingClientRect();
        return at.top >= 0 && at.bottom <= innerHeight }"""
    assert page.evaluate(is_visible, "first-token-sink")
    page.get_by_role("link", name="beta-hard").click()
    page.wait_for_selector("#row-beta-hard.open")
    assert page.locator("tr.body").count() == 1
    assert page.evaluate(is_visible, "beta-hard")
    watched.check()


def test_try_a_claim_in_the_plane(pages: dict[str, Path], watched: Watched) -> None:
    """Only for claims that the plane can show. It uses the playground's mathematics."""
    page = watched.open(pages["made-up"], "#open=copy.shift-matrix")
    attempt = page.get_by_role("button", name="Try it in the plane")
    assert attempt.count() == 1
    attempt.click()
    tried = page.locator(".tried")
    assert float(tried.locator(".weights .cell .text").first.inner_text()) > 0.99
    tried.locator("[data-point=query-0]").focus()
    for _ in range(8):
        page.keyboard.press("Shift+ArrowLeft")
    assert float(tried.locator(".weights .cell .text").first.inner_text()) < 0.1
    page.wait_for_function("() => location.hash.includes('try=copy')")
    tried.get_by_role("button", name="Reset").click()
    assert float(tried.locator(".weights .cell .text").first.inner_text()) > 0.99
    page.get_by_role("button", name="Close the plane").click()
    assert tried.count() == 0
    watched.check()


def test_equal_plots_are_shown_once(watched: Watched, tmp_path: Path) -> None:
    rows = [make_row(0, *STATEMENTS[0]), make_row(1, *STATEMENTS[1])]
    rows[0]["control"]["plot"] = rows[0]["plot"]
    rows[1]["control"]["plot"] = None
    (tmp_path / "a.html").write_text(claims_page(make_ledger(rows)))
    page = watched.open(tmp_path / "a.html", "#open=copy.average-two")
    assert page.locator("figcaption strong").all_inner_texts() == [
        "Experiment and control", "Experiment",
    ]  # fmt: skip
    watched.check()


def test_hostile_texts_are_escaped(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["hostile"])
    page.get_by_role("button", name="Open all").click()
    assert page.locator("tr.body").count() == len(HOSTILE)
    text = page.locator(".attnlab").inner_text()
    for bad in HOSTILE[:3]:
        assert text.count(bad) > 6, bad  # single letters are typeset
    assert "\u202e" not in text
    assert "‹RLO›" in text
    for button in page.get_by_role("button", name="table").all():
        button.click()
    assert page.evaluate("() => window.harmed") is None
    assert page.locator(".attnlab img, .attnlab script").count() == 0
    watched.check()


@every_width
def test_every_width_in_light_and_dark(
    width: int, scheme: str, pages: dict[str, Path], browser: Any
) -> None:
    opened = {
        "made-up": "#open=copy.average-two&try=copy",
        "hostile": "#open=bad-0.bad-5",
    }

    def views(watched: Watched) -> Iterator[str]:
        for name, fragment in opened.items():
            watched.open(pages[name], fragment)
            yield name

    check_width(browser, width, scheme, views)


def test_printing_uses_white_background(pages: dict[str, Path], browser: Any) -> None:
    watched = Watched(browser, color_scheme="dark")
    page = watched.open(pages["made-up"], "#open=copy")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("figure path.line").first.is_visible()
    assert not page.locator(".filters").is_visible()
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(255, 255, 255)"
    ink = page.evaluate("() => getComputedStyle(document.querySelector('.attnlab')).color")
    assert ink == "rgb(0, 0, 0)"
    stroke = "getComputedStyle(document.querySelector('path.line')).stroke"
    printed = page.evaluate(f"() => {stroke}")
    page.emulate_media(media="screen", color_scheme="dark")
    page.wait_for_function(f"was => {stroke} !== was", arg=printed)
    page.emulate_media(media="screen", color_scheme="light")
    page.wait_for_function(
        f"was => {stroke} === was", arg=printed
    )  # the color for a white background
    watched.check()
    watched.close()


BROKEN = {
    "no data": lambda page: page.replace('id="attnlab-data"', 'id="other"'),
    "bad JSON": lambda page: page.replace('{"format"', '{format"', 1),
    "another format": lambda page: page.replace('"attnlab-claims"', '"something-else"', 1),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_broken_page_shows_an_error(name: str, watched: Watched, tmp_path: Path) -> None:
    whole = claims_page(made_up_ledger())
    text = BROKEN[name](whole)
    assert text != whole
    (tmp_path / "a.html").write_text(text)
    watched.page.goto((tmp_path / "a.html").as_uri())
    watched.page.wait_for_selector("[role=alert]")
    assert "cannot be shown" in watched.page.locator("[role=alert]").inner_text()
    assert json.dumps(watched.complaints) == "[]"


def test_empty_ledger(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(claims_page(make_ledger([])))
    page = watched.open(tmp_path / "a.html")
    assert "No claim matches the filters" in page.locator(".attnlab").inner_text()
    watched.check()
