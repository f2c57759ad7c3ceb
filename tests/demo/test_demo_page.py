"""The demo's page in a real browser, offline: the frame, copying, any width, hostile texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Watched, chromium
from tests.support.claim_ledgers import HOSTILE
from tests.support.demo_results import ASKED, write
from tests.support.page_widths import check_width, every_width

PATIENCE = 120_000  # milliseconds; the machines are shared


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write(tmp_path_factory.mktemp("pages"))


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    made = Watched(browser)
    yield made
    made.close()


def opened(watched: Watched, path: Path, section: str = "") -> Any:
    watched.page.set_default_timeout(PATIENCE)
    watched.page.goto(path.as_uri() + (f"#show={section}" if section else ""))
    watched.page.locator("[data-painted=report]").wait_for()
    return watched.page


SECTIONS = [
    *("summary", "text", "ways", "answers", "calibration", "attention", "claims", "next", "made")
]


def test_the_story_is_read_in_order(pages: dict[str, Path], watched: Watched) -> None:
    page = opened(watched, pages["made-up"])
    assert page.get_by_role("tab").all_inner_texts() == SECTIONS
    assert "It answered 286 of 300 right" in page.locator("main").inner_text()
    page.get_by_role("tab", name="text").click()
    assert page.locator("blockquote mark").all_inner_texts()[:2] == ["Split", "Split"]
    page.get_by_role("tab", name="answers").click()
    rows = page.locator("main tbody tr")
    assert rows.count() == len(ASKED) + 1
    text = rows.nth(1).inner_text()
    for part in ("Oslo", "unsure", "61%", "The line says Bergen.", "Paris"):
        assert part in text
    assert "There is no such person" in rows.nth(2).inner_text()
    page.get_by_role("tab", name="claims").click()
    verdicts = page.locator("main tbody tr td:nth-child(2)").all_inner_texts()
    assert [each.split(":")[0].split(" when")[0] for each in verdicts] == [
        "holds", "refuted", "holds only", "undecided", "failed", "not run"
    ]  # fmt: skip
    watched.check()


def test_attention_is_a_link_away(pages: dict[str, Path], watched: Watched) -> None:
    page = opened(watched, pages["made-up"], "attention")
    links = page.locator("main a").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
    assert {"attention.html", "reading.html"} <= set(links)
    watched.check()


def test_a_command_is_copied(pages: dict[str, Path], watched: Watched) -> None:
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened(watched, pages["made-up"], "next")
    row = page.locator(".part", has_text="attnlab tour")
    row.get_by_role("button").click()
    row.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == "attnlab tour"
    watched.check()


def test_a_story_that_was_stopped(pages: dict[str, Path], watched: Watched) -> None:
    page = opened(watched, pages["stopped"])
    text = page.locator("main").inner_text()
    assert HOSTILE[0] in text
    assert "It was stopped at “Read and remember”. Not done yet: “Read and" in text
    assert page.get_by_role("tab").all_inner_texts() == ["summary", "text", "next", "made"]
    page.get_by_role("tab", name="next").click()
    assert "knowledge ask" not in page.locator("main").inner_text()
    watched.check()


@every_width
def test_every_width_in_light_and_dark(
    width: int, scheme: str, pages: dict[str, Path], browser: Any
) -> None:
    def views(watched: Watched) -> Iterator[str]:
        page = opened(watched, pages["made-up"])
        for name in SECTIONS:
            page.get_by_role("tab", name=name, exact=True).click()
            yield name

    check_width(browser, width, scheme, views)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_texts_stay_texts(number: int, pages: dict[str, Path], watched: Watched) -> None:
    page = opened(watched, pages[f"hostile-{number}"])
    for name in SECTIONS:
        page.get_by_role("tab", name=name, exact=True).click()
        assert page.locator("main img, main script, main iframe").count() == 0
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 1100
    assert page.evaluate("() => window.harmed") is None
    watched.check()
