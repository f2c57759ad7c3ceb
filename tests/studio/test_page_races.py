"""Pages whose runs, selections or responses change while they are in use."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab._image_files import encode_png
from tests.support import summary_runs as summaries
from tests.support.image_files import pixels
from tests.support.studio_servers import StudioProcess, start_isolated_studio
from tests.support.studio_window import VIEWER, DelayedRequest, Window, fill_runs_folder


@pytest.fixture(scope="module")
def runs(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = fill_runs_folder(tmp_path_factory.mktemp("studio") / "runs", made)
    shutil.copytree(folder / "vit", folder / "other-vit")
    return folder


@pytest.fixture(scope="module")
def server(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioProcess]:
    with start_isolated_studio(runs, tmp_path_factory.mktemp("cache")) as started:
        yield started


def select_box(page: Any, label: str = "Run") -> Any:
    return page.locator(f"label:has(span:text-is('{label}')) select")


def selected(page: Any, label: str = "Run") -> str:
    return str(select_box(page, label).input_value())


def touch(run: Path) -> None:
    later = time.time() + 100
    os.utime(run / "metrics.jsonl", (later, later))


@pytest.mark.parametrize(("name", "label"), [("write", "Run"), ("look", "Model")])
def test_a_run_in_training_does_not_replace_the_selected_run(
    window: Window, runs: Path, name: str, label: str
) -> None:
    page = window.go(f"/{name}", "textarea")
    first = selected(page, label)
    other = next(each for each in ("language", "again") if each not in first)
    touch(runs / other)
    page.wait_for_function(
        "([label, other]) => [...document.querySelectorAll('label select')]"
        ".some((each) => each.options[0].value.endsWith(other))",
        arg=[label, other],
    )
    assert selected(page, label) == first
    page.get_by_role("link", name="Runs").first.click()
    page.wait_for_selector(".run")
    page.get_by_role("link", name=name.title(), exact=True).click()
    page.wait_for_selector("textarea")
    assert selected(page, label) == first  # as before
    window.check_console()


def test_unsuitable_and_deleted_runs_are_reported(window: Window) -> None:
    page = window.go("/ask?run=vit", "[role=alert]")
    assert "vit: this run cannot do this" in page.locator("[role=alert]").inner_text()
    assert page.locator("textarea").count() == 0
    page = window.go("/write?run=nobody", "[role=alert]:has-text('nobody')")
    assert "no longer exists" in page.locator("[role=alert]").inner_text()
    window.check_console()


def test_an_image_is_classified_by_the_run_selected_meanwhile(
    window: Window, tmp_path: Path
) -> None:
    (tmp_path / "light.png").write_bytes(encode_png(pixels(2, 1, 6)[1]))
    page = window.go("/see?run=vit", ".drop")
    delayed = DelayedRequest(page, "/api/see")
    page.locator("input[type=file]").set_input_files(tmp_path / "light.png")
    delayed.wait()
    select_box(page).select_option("other-vit")
    page.wait_for_selector(".saying")
    assert "run=other-vit" in delayed.routes[1].request.url
    page.unroute_all()
    delayed = DelayedRequest(page, "/api/see")
    select_box(page).select_option("vit")
    delayed.wait()
    page.get_by_role("link", name="Claims").click()  # before the response
    page.wait_for_selector("table.claims")
    page.go_back()
    page.wait_for_selector(".saying")
    assert selected(page) == "vit"
    window.check_console()


def test_the_shown_text_is_generated_again(window: Window) -> None:
    page = window.go("/write?run=deep%2Fsummary", "textarea")
    page.get_by_label("Text").fill(summaries.TEXT)
    page.get_by_role("button", name="Write", exact=True).click()
    page.wait_for_selector(".generations[aria-busy=false] .word")
    select_box(page).select_option("language")
    page.get_by_label("Text").fill("something else")
    select_box(page).select_option("deep/summary")
    delayed = DelayedRequest(page, "/api/write")  # else a fast response ends before it is seen
    page.get_by_role("button", name="Write again").click()
    page.wait_for_selector(".generations[aria-busy=true]")
    delayed.wait()
    delayed.release()
    page.wait_for_selector(".generations[aria-busy=false] .word")
    assert "".join(page.locator(".source").all_text_contents()) == summaries.TEXT
    window.check_console()


def test_a_late_result_of_another_model_is_not_shown(window: Window) -> None:
    page = window.go("/look?subject=run%3Alanguage", "textarea")
    page.get_by_label("Text", exact=True).fill("to be")
    delayed = DelayedRequest(page, "/api/look")
    page.get_by_role("button", name="Look", exact=True).click()
    delayed.wait()
    select_box(page, "Model").select_option("run:again")
    page.wait_for_selector(".busy", state="detached")
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_selector(VIEWER)
    assert delayed.routes[1].request.post_data_json["target"] == "run:again"
    assert "subject=run%3Aagain&capture=" in page.evaluate("() => location.hash")
    select_box(page, "Model").select_option("run:language")
    page.wait_for_selector(".attention", state="detached")
    assert "capture" not in page.evaluate("() => location.hash")
    window.check_console()


def test_a_question_is_not_dropped_for_the_next(window: Window) -> None:
    page = window.go("/ask?run=learned", ".chips button")
    delayed = DelayedRequest(page, "/api/ask")
    for text in ("Where was the first born?", "Where was the second born?"):
        page.get_by_role("textbox").first.fill(text)
        page.keyboard.press("Enter")
        delayed.wait()
    delayed.release()
    page.wait_for_selector(".answer")
    assert "the first" in page.locator(".answer .question").inner_text()
    assert "the second" in page.get_by_role("textbox").first.input_value()
    assert len(delayed.routes) == 1
    window.check_console("404")
