"""The demo's page in a real browser, offline: order, links, copying, any width."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.demo._report import demo_report
from attnlab.demo._settings import Demo, DemoSettings
from attnlab.report import save_page
from attnlab.tasks.knowledge._world import WorldConfig, make_world
from tests.support.browser import Watched, chromium
from tests.support.claim_ledgers import HOSTILE
from tests.support.page_widths import check_width, every_width


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def page_path(quick_demo: tuple[Path, Demo, str]) -> Path:
    return quick_demo[0] / "index.html"


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    watched_browser = Watched(browser)
    yield watched_browser
    watched_browser.close()


def open_page(watched: Watched, path: Path, section: str = "") -> Any:
    watched.page.goto(path.as_uri() + (f"#show={section}" if section else ""))
    watched.page.locator("[data-painted=report]").wait_for()
    return watched.page


SECTIONS = [
    *("summary", "text", "methods", "answers", "calibration", "attention", "claims", "next", "made")
]


def test_sections_in_order(page_path: Path, watched: Watched) -> None:
    page = open_page(watched, page_path)
    assert page.get_by_role("tab").all_inner_texts() == SECTIONS
    assert " of 300 correctly" in page.locator("main").inner_text()
    page.get_by_role("tab", name="text").click()
    assert len(set(page.locator("blockquote mark").all_inner_texts()[:2])) == 1  # stated twice
    page.get_by_role("tab", name="answers").click()
    rows = page.locator("main tbody tr").all_inner_texts()
    assert ["There is no such person" in row for row in rows[-3:]] == [True, True, False]
    assert "another kind of question" in rows[-1]
    page.get_by_role("tab", name="claims").click()
    verdicts = page.locator("main tbody tr td:nth-child(2)").all_inner_texts()
    assert verdicts == ["refuted", "holds"]
    watched.check()


def test_links_to_attention_pages(page_path: Path, watched: Watched) -> None:
    page = open_page(watched, page_path, "attention")
    links = page.locator("main a").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
    assert {"attention.html", "reading.html"} <= set(links)
    watched.check()


def test_copy_a_command(page_path: Path, watched: Watched) -> None:
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = open_page(watched, page_path, "next")
    row = page.locator(".part", has_text="attnlab tour")
    watched.keep_messages()
    row.get_by_role("button").click()
    row.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == "attnlab tour"
    watched.check()


def test_page_of_an_interrupted_demo(tmp_path: Path, watched: Watched) -> None:
    demo = Demo(Path("demo"), DemoSettings(), make_world(WorldConfig(people=40)))
    demo.stopped, demo.problems = "learned", {"none": HOSTILE[0]}
    demo.seconds = {"pretrained": 51.0}
    save_page(tmp_path / "stopped.html", demo_report(demo))
    page = open_page(watched, tmp_path / "stopped.html")
    text = page.locator("main").inner_text()
    assert HOSTILE[0] in text
    assert "The demo was stopped at “Read and remember”. Not finished: “Read and" in text
    assert page.get_by_role("tab").all_inner_texts() == ["summary", "next", "made"]
    page.get_by_role("tab", name="next").click()
    assert "knowledge ask" not in page.locator("main").inner_text()
    watched.check()


@every_width
def test_every_width_in_light_and_dark(
    width: int, scheme: str, page_path: Path, browser: Any
) -> None:
    def views(watched: Watched) -> Iterator[str]:
        page = open_page(watched, page_path)
        for name in SECTIONS:
            page.get_by_role("tab", name=name, exact=True).click()
            yield name

    check_width(browser, width, scheme, views)
