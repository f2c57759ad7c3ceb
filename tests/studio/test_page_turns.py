"""The studio's pages when things change while somebody uses them: runs, choices and answers that
come late."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab._image_files import png
from tests.support import summary_runs as summaries
from tests.support.image_files import pixels
from tests.support.studio_servers import Served, served_alone
from tests.support.studio_window import VIEWER, Window, fill


@pytest.fixture(scope="module")
def runs(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = fill(tmp_path_factory.mktemp("studio") / "runs", made)
    shutil.copytree(folder / "vit", folder / "other-vit")
    return folder


@pytest.fixture(scope="module")
def server(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_alone(runs, tmp_path_factory.mktemp("cache")) as started:
        yield started


class Late:
    """The first request for a path waits until it is let go; those after it do not."""

    def __init__(self, page: Any, path: str) -> None:
        self.asked: list[Any] = []
        page.route(f"**{path}*", self._take)
        self.page = page

    def _take(self, route: Any) -> None:
        self.asked.append(route)
        if len(self.asked) > 1:
            route.continue_()

    def wait(self) -> None:
        while not self.asked:
            self.page.wait_for_timeout(20)

    def let_go(self) -> None:
        self.asked[0].continue_()


def picker(page: Any, label: str = "Run") -> Any:
    return page.locator(f"label:has(span:text-is('{label}')) select")


def chosen(page: Any, label: str = "Run") -> str:
    return str(picker(page, label).input_value())


def touch(run: Path) -> None:
    later = time.time() + 100
    os.utime(run / "metrics.jsonl", (later, later))


@pytest.mark.parametrize(("name", "label"), [("write", "Run"), ("look", "Model")])
def test_a_run_that_trains_does_not_take_the_place_of_the_chosen(
    window: Window, runs: Path, name: str, label: str
) -> None:
    page = window.go(f"/{name}", "textarea")
    first = chosen(page, label)
    other = next(each for each in ("language", "again") if each not in first)
    touch(runs / other)
    page.wait_for_function(
        "([label, other]) => [...document.querySelectorAll('label select')]"
        ".some((each) => each.options[0].value.endsWith(other))",
        arg=[label, other],
    )
    assert chosen(page, label) == first
    page.get_by_role("link", name="Runs").first.click()
    page.wait_for_selector(".run")
    page.get_by_role("link", name=name.title(), exact=True).click()
    page.wait_for_selector("textarea")
    assert chosen(page, label) == first  # as it was left
    window.told()


def test_one_that_cannot_or_is_gone_is_said_to(window: Window) -> None:
    page = window.go("/ask?run=vit", "[role=alert]")
    assert "vit: it cannot do this" in page.locator("[role=alert]").inner_text()
    assert page.locator("textarea").count() == 0
    page = window.go("/write?run=nobody", "[role=alert]:has-text('nobody')")
    assert "it is gone" in page.locator("[role=alert]").inner_text()
    window.told()


def test_an_image_is_seen_by_the_run_that_is_chosen_meanwhile(
    window: Window, tmp_path: Path
) -> None:
    (tmp_path / "light.png").write_bytes(png(pixels(2, 1, 6)[1]))
    page = window.go("/see?run=vit", ".drop")
    late = Late(page, "/api/see")
    page.locator("input[type=file]").set_input_files(tmp_path / "light.png")
    late.wait()
    picker(page).select_option("other-vit")
    page.wait_for_selector(".saying")
    assert "run=other-vit" in late.asked[1].request.url
    page.unroute_all()
    late = Late(page, "/api/see")
    picker(page).select_option("vit")
    late.wait()
    page.get_by_role("link", name="Claims").click()  # before there is an answer
    page.wait_for_selector("table.claims")
    page.go_back()
    page.wait_for_selector(".saying")
    assert chosen(page) == "vit"
    window.told()


def test_what_is_shown_is_written_again(window: Window) -> None:
    page = window.go("/write?run=deep%2Fsummary", "textarea")
    page.get_by_label("Text").fill(summaries.TEXT)
    page.get_by_role("button", name="Write", exact=True).click()
    page.wait_for_selector(".summaries[aria-busy=false] .word")
    picker(page).select_option("language")
    page.get_by_label("Text").fill("something else")
    picker(page).select_option("deep/summary")
    page.get_by_role("button", name="Write again").click()
    page.wait_for_selector(".summaries[aria-busy=true]")
    page.wait_for_selector(".summaries[aria-busy=false] .word")
    assert "".join(page.locator(".source").all_text_contents()) == summaries.TEXT
    window.told()


def test_an_answer_of_another_model_is_not_shown_as_this_ones(window: Window) -> None:
    page = window.go("/look?subject=run%3Alanguage", "textarea")
    page.get_by_label("Text", exact=True).fill("to be")
    late = Late(page, "/api/look")
    page.get_by_role("button", name="Look", exact=True).click()
    late.wait()
    picker(page, "Model").select_option("run:again")
    page.wait_for_selector(".busy", state="detached")
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_selector(VIEWER)
    assert late.asked[1].request.post_data_json["subject"] == "again"
    assert "subject=run%3Aagain&capture=" in page.evaluate("() => location.hash")
    picker(page, "Model").select_option("run:language")
    page.wait_for_selector(".attention", state="detached")
    assert "capture" not in page.evaluate("() => location.hash")
    window.told()


def test_a_question_is_not_thrown_away_for_the_next(window: Window) -> None:
    page = window.go("/ask?run=learned", ".chips button")
    late = Late(page, "/api/ask")
    for text in ("Where was the first born?", "Where was the second born?"):
        page.get_by_role("textbox").first.fill(text)
        page.keyboard.press("Enter")
        late.wait()
    late.let_go()
    page.wait_for_selector(".answer")
    assert "the first" in page.locator(".answer .question").inner_text()
    assert "the second" in page.get_by_role("textbox").first.input_value()
    assert len(late.asked) == 1
    window.told("404")
