"""Jobs that a page starts, follows and cancels; and settings that it remembers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab._image_files import encode_png
from tests.support import vision_runs
from tests.support.command_line import call
from tests.support.image_files import pixels
from tests.support.knowledge_runs import SIZES
from tests.support.small_transformers import small, write_tokenizer
from tests.support.studio_servers import StudioProcess, start_isolated_studio
from tests.support.studio_window import VIEWER, Window


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that answers questions about the built-in world, and a vision run."""
    folder = tmp_path_factory.mktemp("studio") / "runs"
    folder.mkdir()
    options = f"{SIZES} --tokenizer characters --steps 2"
    assert call(f"knowledge finetune scratch {options} --out {folder / 'facts'}") == 0
    vision_runs.trained(folder, "vit")
    return folder


@pytest.fixture(scope="module")
def server(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioProcess]:
    model = tmp_path_factory.mktemp("models") / "bert"
    small("bert").save_pretrained(model)
    write_tokenizer(model)
    cache = tmp_path_factory.mktemp("cache")
    with start_isolated_studio(runs, cache, "--model", str(model)) as started:
        yield started


def test_an_audit_is_started_in_the_page(window: Window, runs: Path) -> None:
    page = window.go("/ask?run=facts", ".audit .command")
    page.get_by_role("button", name="Audit it now").click()
    page.wait_for_selector(".audit progress")
    page.get_by_role("link", name="See").click()  # the job continues
    page.wait_for_selector(".drop")
    page.go_back()
    page.wait_for_selector(".audit .tiles")
    assert page.locator(".audit figure").count() >= 3
    assert page.get_by_role("button", name="Audit it again").is_enabled()
    assert (runs / "facts" / "audit.json").exists()
    window.check_console("404")


def test_a_bench_is_measured_in_the_page(window: Window) -> None:
    page = window.go("/bench", "h2:text('Nothing was measured yet')")
    page.get_by_label("Measure").select_option("decode")
    page.get_by_role("button", name="Measure quickly").click()
    page.wait_for_selector("figure path.line")
    assert "bench-decode-" in page.evaluate("() => decodeURIComponent(location.hash)")
    assert page.get_by_label("Report").locator("option").count() == 1
    window.check_console()


def test_a_running_job_can_be_cancelled(window: Window) -> None:
    page = window.go("/bench", "button:text('Measure quickly')")
    page.get_by_label("Measure").select_option("error")
    page.get_by_label("Sizes").select_option("full")
    page.get_by_role("button", name="Measure in full").click()
    page.wait_for_selector(".job progress")
    page.reload()  # the job continues, and the page follows it again
    page.wait_for_selector(".job progress")
    assert page.locator("button:text('Measure quickly')").count() == 0
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector(".job:has-text('Cancelled.')")
    assert page.get_by_role("button", name="Measure quickly").is_enabled()
    states = {each["state"] for each in window.server.json("/api/jobs")["jobs"]}
    assert "cancelled" in states
    assert not states & {"running", "waiting"}
    window.check_console()


def test_an_image_is_pasted(window: Window) -> None:
    page = window.go("/see?run=vit", ".drop")
    page.evaluate(
        """bytes => { const files = new DataTransfer();
        files.items.add(new File([new Uint8Array(bytes)], 'a.png', { type: 'image/png' }));
        document.dispatchEvent(new ClipboardEvent('paste', { clipboardData: files })) }""",
        list(encode_png(pixels(2, 1, 6)[1])),
    )
    page.wait_for_selector(".attention .attnlab[data-painted=image]")
    assert page.locator(".prediction .bar-row").count() == 2
    window.check_console()


def test_a_hugging_face_model_is_inspected(window: Window) -> None:
    page = window.go("/look?subject=model%3Abert", "textarea")
    page.get_by_label("Text", exact=True).fill("the dog ran")
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_selector(VIEWER)
    assert page.locator(".attention [role=alert]").count() == 0
    page.get_by_role("tab", name="Matrix").click()
    page.wait_for_selector(".attention .attnlab[data-painted=matrix]")
    window.check_console()


def test_the_address_works_as_a_link_of_another_site(browser: Any, server: StudioProcess) -> None:
    """After a link on another site, a browser sends no strict cookie to a redirect."""
    address = f"{server.origin}/?token={server.token}"
    context = browser.new_context()
    page = context.new_page()
    link_page = {"body": f'<a href="{address}">studio</a>', "content_type": "text/html"}
    context.route("http://elsewhere.example/", lambda route: route.fulfill(**link_page))
    page.goto("http://elsewhere.example/")
    page.get_by_role("link").click()
    page.wait_for_selector(".run")
    assert server.token not in page.url
    page.go_back()  # the address with the token is not in the history
    assert page.url == "http://elsewhere.example/"
    context.close()


def test_colors_are_remembered(window: Window) -> None:
    page = window.go("/runs", ".run")
    for expected in ("light", "dark"):
        page.get_by_role("button", name="Colors").click()
        page.wait_for_selector(f"button[aria-label='Colors: {expected}']")
    page.reload()
    page.wait_for_selector("button[aria-label='Colors: dark']")
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(21, 23, 26)"
    window.check_console()
