"""The demo's page in a real browser, offline: the frame, copying, any width, hostile texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Watched, chromium
from tests.support.claim_ledgers import HOSTILE
from tests.support.demo_results import ASKED, LINE, write
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


def opened(watched: Watched, path: Path) -> Any:
    watched.page.set_default_timeout(PATIENCE)
    watched.page.goto(path.as_uri())
    return watched.page


def test_the_story_is_read_in_order(pages: dict[str, Path], watched: Watched) -> None:
    page = opened(watched, pages["made-up"])
    assert page.locator("h2").all_inner_texts() == [
        "What it read",
        "Four ways to answer",
        "A few answers",
        "Does it know when it knows?",
        "Where did it look?",
        "What is said about attention",
        "What to try next",
        "How this was made",
    ]
    cards = page.locator(".cards").first.locator("li")
    assert cards.count() == len(ASKED) + 1
    text = cards.nth(1).inner_text()
    for part in ("Oslo", "unsure", "61% sure", "The line says Bergen.", "never read says Paris."):
        assert part in text
    assert "There is no such person" in cards.nth(2).inner_text()
    assert page.locator("blockquote mark").all_inner_texts()[:2] == ["Split", "Split"]
    verdicts = page.locator(".cards.wide .chip").all_inner_texts()
    assert verdicts == ["holds", "refuted", "holds only when", "undecided", "failed", "not run"]
    watched.check()


def test_the_frame_shows_attention(pages: dict[str, Path], watched: Watched) -> None:
    page = opened(watched, pages["made-up"])
    inside = page.frame_locator("iframe.look")
    inside.locator(".attnlab[data-painted=heads]").wait_for()
    inside.get_by_role("tab", name="Matrix").click()
    inside.locator(".attnlab[data-painted=matrix]").wait_for()
    assert LINE[:60] in inside.locator("h1").inner_text()
    watched.check()


def test_a_command_is_copied(pages: dict[str, Path], watched: Watched) -> None:
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened(watched, pages["made-up"])
    row = page.locator(".commands li", has_text="attnlab tour")
    row.get_by_role("button").click()
    row.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == "attnlab tour"
    watched.check()


def test_words_are_as_strong_as_their_weights(pages: dict[str, Path], watched: Watched) -> None:
    page = opened(watched, pages["made-up"])
    grounds = (
        page.locator(".strip")
        .first.locator("span")
        .evaluate_all("(all) => all.map((each) => getComputedStyle(each).backgroundColor)")
    )
    assert len(set(grounds[:3])) == 3  # weights 0.1, 0.6, 0.3
    assert page.locator(".strip").first.locator("span").nth(1).get_attribute("title") == "60%"


def test_a_story_that_was_stopped(pages: dict[str, Path], watched: Watched) -> None:
    page = opened(watched, pages["stopped"])
    problems = page.locator(".problem").all_inner_texts()
    assert HOSTILE[0] in problems[0]
    assert problems[1].startswith("It was stopped at “Read and remember”. Not done yet: “Read and")
    assert page.locator("h2").all_inner_texts() == [
        "What it read", "What to try next", "How this was made"
    ]  # fmt: skip
    assert "knowledge ask" not in page.locator(".commands").inner_text()
    watched.check()


@every_width
def test_every_width_in_light_and_dark(
    width: int, scheme: str, pages: dict[str, Path], browser: Any
) -> None:
    def views(watched: Watched) -> Iterator[str]:
        opened(watched, pages["made-up"])
        yield "page"

    check_width(browser, width, scheme, views)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_texts_stay_texts(number: int, pages: dict[str, Path], watched: Watched) -> None:
    page = opened(watched, pages[f"hostile-{number}"])
    page.frame_locator("iframe.look").locator(".attnlab[data-painted]").wait_for()
    assert page.locator("body > script, main img, main script").count() == 1  # our own
    for frame in page.frames:
        assert frame.evaluate("() => window.harmed") is None
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1100
    watched.check()
