"""Walkthrough, presentation and neurons in a real browser, offline: one page of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attnlab.interpret._look import look
from tests.support.browser import Watched
from tests.support.hostile_capture import HOSTILE, hostile
from tests.support.text_models import TOKENS, both_stacks, decoder

STAGES = (
    "embedding", "vectors", "scores", "mask", "softmax", "values", "heads", "feed", "logits",
)  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    quick: dict[str, Any] = {"tokenizer": TOKENS, "control": False, "gradients": False}
    results = {
        "decoder": look(
            decoder(), "the dog ran", compare_text="the dog in the park", neurons=True,
            walkthrough="1.2.6", **quick,
        ),
        "favor": look(decoder("favor"), "the dog", walkthrough="0.1.3", **quick),
        "both": look(both_stacks(), "the dog", pair="I am", walkthrough="3.1.1", **quick),
        "hostile": hostile(),
    }  # fmt: skip
    return {name: result.save(folder / f"{name}.html") for name, result in results.items()}


def stage_of(page: Any) -> str:
    return page.locator(".walk").get_attribute("data-stage")


@pytest.mark.parametrize("kind", ["decoder", "favor", "both"])
def test_every_step_of_the_walkthrough(kind: str, pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages[kind])  # `walkthrough` opens it there
    titles = set()
    for number, stage in enumerate(STAGES):
        assert stage_of(page) == stage
        assert page.locator(".walk-text > p").count() == 2
        assert page.locator(".walk .formula math").count() == 1
        assert page.locator(".walk-missing").count() == 0
        assert page.locator(".walk-picture canvas, .key-row, .predictions td").count() > 0
        titles.add(page.locator(".walk h2").inner_text())
        if number < 4:
            page.keyboard.press("ArrowRight")
        elif number < 8:
            page.get_by_role("button", name="Next →").click()
    assert len(titles) == 9
    assert page.get_by_role("button", name="Next →").is_disabled()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => location.hash.includes('stage=7')")
    assert stage_of(page) == "feed"
    watched.check()


def weights_of(page: Any) -> list[float]:
    numbers = page.locator(".key-row .key-number").all_inner_texts()
    return [float(each.replace("≈", "")) for each in numbers]


def test_temperature_and_other_tokens(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["decoder"], "#view=walkthrough&layer=1&stage=4")
    own = weights_of(page)
    slider = page.get_by_role("slider", name="Temperature")
    slider.focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")  # of the slider, not a step back
    page.wait_for_function("() => location.hash.includes('temperature=0.5')")
    assert stage_of(page) == "softmax"
    sharp = weights_of(page)
    assert max(sharp) > max(own)
    assert sum(sharp) == pytest.approx(1, abs=0.05)
    page.get_by_role("button", name="Reset").click()
    assert weights_of(page) == own
    page.locator(".walk-tokens button").nth(2).click()
    watched.painted()
    page.locator(".walk-path button").first.click()
    assert "--walkthrough 1.2.2" in page.locator(".walk-missing code").inner_text()
    page.locator(".walk-missing button").click()
    assert page.locator(".walk-missing").count() == 0
    watched.check()


def test_presentation(pages: dict[str, Path], watched: Watched, tmp_path: Path) -> None:
    page = watched.open(pages["decoder"], "#view=matrix&layer=1&heads=2")
    page.keyboard.press("v")
    watched.press("e", "v", "l")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("v")
    names = page.locator(".slide-name")
    assert [name.split(":")[0] for name in names.all_inner_texts()] == [
        "Matrix", "Heads", "Walkthrough 2, Query, key, value",
    ]  # fmt: skip
    page.get_by_role("button", name="Move up: Heads").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save page").click()
    copy = tmp_path / "copy.html"
    download.value.save_as(copy)
    page.keyboard.press("p")
    shown = ["Heads: Layer 1, head 2", "Matrix: Layer 1, head 2", "Walkthrough 2, Query, key"]
    for number, title in enumerate(shown):
        page.wait_for_function(f"() => location.hash.includes('present={number + 1}')")
        assert page.locator(".present-title").inner_text().startswith(title)
        for control in ("[role=tab]", ".controls", ".downloads", "h1", ".slides"):
            assert not page.locator(control).first.is_visible(), control
        if number == 0:
            page.locator(".area").focus()  # also from inside the drawing
        page.keyboard.press("ArrowRight" if number else "PageDown")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => location.hash.includes('present=2')")
    link = page.evaluate("() => location.href")
    page.keyboard.press("Escape")
    assert page.locator(".present-bar").count() == 0
    page.goto("about:blank")
    page.goto(link)  # a link shows the same again
    watched.painted()
    assert page.locator(".present-title").inner_text().startswith("Matrix: Layer 1, head 2")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Present").click()
    page.get_by_role("button", name="Remove: Matrix").click()
    assert names.count() == 2
    page.goto("about:blank")
    watched.open(copy)
    page.get_by_role("button", name="Present").click()
    assert names.all_inner_texts()[0].startswith("Heads")
    page.keyboard.press("p")
    page.wait_for_function("() => location.hash.includes('present=1')")
    watched.check()


def test_neurons_of_all_keys_and_of_two_texts(pages: dict[str, Path], watched: Watched) -> None:
    page = watched.open(pages["decoder"], "#view=neurons&layer=1&heads=0&queries=6")
    area = page.locator(".area")
    page.get_by_label("Show").select_option("keys")
    page.wait_for_function("() => location.hash.includes('vectors=keys')")
    assert "adds most to their product" in area.get_attribute("aria-label")
    page.get_by_label("Show").select_option("texts")
    page.wait_for_function("() => location.hash.includes('vectors=texts')")
    assert "in both texts have cosine similarity" in area.get_attribute("aria-label")
    watched.press("t")
    assert page.locator("tbody tr").count() > 3
    watched.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_tokens_on_a_phone(scheme: str, pages: dict[str, Path], browser: Any) -> None:
    watched = Watched(
        browser, viewport={"width": 390, "height": 700}, color_scheme=scheme,
        reduced_motion="reduce",
    )  # fmt: skip
    page = watched.open(pages["hostile"], "#view=walkthrough")

    def check(what: object) -> None:
        assert page.evaluate("() => window.harmed") is None, what
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, what
        assert page.locator("img").count() == 0, what

    page.locator(".walk-path button").last.click()
    for query in range(len(HOSTILE)):
        page.locator(".walk-tokens button").nth(query).click()
        page.wait_for_selector(f".walk-tokens button:nth-of-type({query + 1})[aria-pressed=true]")
        check(query)
    page.locator(".walk-path button").first.click()
    for stage in STAGES:
        page.wait_for_selector(f".walk[data-stage={stage}]")
        check(stage)
        page.keyboard.press("v")
        page.keyboard.press("ArrowRight")
    duration = page.evaluate(
        "() => getComputedStyle(document.querySelector('.traveler')).transition"
    )
    assert "left" not in duration  # no motion where none is wanted
    watched.press("n")
    for mode in ("keys", "texts"):
        page.get_by_label("Show").select_option(mode)
        watched.painted()
        check(mode)
    page.keyboard.press("v")
    page.keyboard.press("p")
    page.wait_for_selector(".present-bar")
    check("presentation")
    watched.check()
    watched.close()
