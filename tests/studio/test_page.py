"""The studio's runs in a real browser: chosen, compared, and live while one trains."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.tasks.kind import TaskKind
from attnlab.tasks.registry import TASKS
from tests.support.studio_servers import Served, append, make_run, rows, served
from tests.support.studio_window import HOSTILE, Window, hostile_run
from tests.support.training_process import training

STEPS = 40


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studio") / "runs"
    make_run(folder / "one", rows(*range(1, 21)))
    make_run(
        folder / "deep" / "two", rows(*range(1, 11)), training={"steps": 10, "learning_rate": 0.1}
    )
    hostile_run(folder)
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{")
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Served]:
    with served(runs) as started:
        yield started


def listed(page: Any) -> list[str]:
    return page.locator(".run .name").all_inner_texts()


def lines(page: Any) -> int:
    return page.locator("figure").first.locator("path.line:not(.ghost)").count()


def drawn(page: Any, figure: int = 0) -> list[list[str]]:
    """All values of a figure, from its table."""
    found = page.locator("figure").nth(figure)
    if found.get_by_role("button", name="table").get_attribute("aria-pressed") != "true":
        found.get_by_role("button", name="table").click()
    return [each.inner_text().split("\t") for each in found.locator("tbody tr").all()]


def test_without_the_token_there_is_a_sentence(browser: Any, server: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(server.origin)
    assert answer.status == 403
    assert "terminal" in page.locator("body").inner_text()
    context.close()


def test_runs_are_listed_searched_and_put_in_order(window: Window) -> None:
    page = window.go("/runs?order=name", ".run")
    assert page.title() == "Runs · attnlab studio"
    names = listed(page)
    assert names == ["<b>bold", "broken", "deep/two", "one"]
    page.get_by_role("searchbox").fill("deep FINISH")
    page.wait_for_function("() => document.querySelectorAll('.run').length === 0")
    page.get_by_role("searchbox").fill("deep")
    page.wait_for_function("() => document.querySelectorAll('.run').length === 1")
    assert "1 of 4 runs" in page.locator(".runs").inner_text()
    page.get_by_role("searchbox").fill("nothing like it")
    assert "No run is like that" in page.locator(".runs").inner_text()
    page.get_by_role("searchbox").fill("")
    page.keyboard.press("Tab")
    page.keyboard.press("/")  # in a list that is chosen from it is no letter of the search
    page.locator("main").focus()
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.type") == "search"
    window.told()


def test_curves_of_several_are_compared(window: Window) -> None:
    page = window.go("/runs?run=one", "figure path.line")
    assert page.locator(".chosen h2").inner_text() == "one"
    assert lines(page) == 1
    page.get_by_role("checkbox", name="Compare two").check()
    page.wait_for_function(
        "() => document.querySelector('figure')?.querySelectorAll('path.line').length === 2"
    )
    assert "2 compared" in page.locator(".runs").inner_text()
    assert drawn(page)[0] == ["one", "1", "1"]
    assert len(drawn(page)) == 30
    page.locator("figure").first.get_by_role("button", name="table").click()
    page.get_by_role("slider", name="Smoothing").focus()
    for _ in range(5):
        page.keyboard.press("PageUp")
    page.wait_for_selector("figure path.line.ghost")
    page.locator("figure").first.get_by_role("button", name="log y").click()
    page.get_by_label("Over").select_option("seconds")
    page.wait_for_function("() => location.hash.includes('axis=seconds')")
    page.reload()
    page.wait_for_selector("figure path.line.ghost")
    figure = page.locator("figure").first
    assert figure.get_by_role("button", name="log y").get_attribute("aria-pressed") == "true"
    assert "seconds of training" in figure.inner_text()
    figure.locator("[role=application]").focus()
    page.keyboard.press("Home")
    assert "seconds of training: 0.5" in figure.inner_text()
    figure.get_by_role("button", name="deep/two").click()
    page.wait_for_function("() => location.hash.includes('hide=')")
    assert lines(page) == 1
    window.told()


def test_an_address_that_changes_while_the_list_is_drawn_is_kept(window: Window) -> None:
    """The newest run is shown where none was asked for, and only there."""
    page = window.page
    page.goto("about:blank")
    page.add_init_script(
        """new MutationObserver((_, watching) => {
        if (!document.querySelector('.run')) return;
        watching.disconnect();
        location.hash = '#/runs?run=one' }).observe(document, { childList: true, subtree: true })"""
    )
    page = window.go("/runs", "figure path.line")
    page.wait_for_function("() => document.querySelector('.chosen h2').innerText === 'one'")
    assert page.evaluate("() => location.hash") == "#/runs?run=one"
    window.told()


def test_settings_and_files(window: Window) -> None:
    page = window.go("/runs?run=one&run=deep%2Ftwo&show=settings", "table.diff")
    text = page.locator(".chosen").inner_text()
    assert "2 settings differ" in text
    cells = page.locator("table.diff tr", has_text="learning_rate").locator("td")
    assert cells.all_inner_texts() == ["0.003", "0.1"]
    assert cells.nth(1).get_attribute("class") == "other"
    page.get_by_role("tab", name="Settings").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".file-lists table")
    assert page.get_by_role("tab", selected=True).inner_text() == "Checkpoints and files"
    assert "metrics.jsonl" in page.locator(".file-lists").inner_text()
    page.get_by_role("link", name="one", exact=True).click()
    page.wait_for_function("() => document.querySelector('.chosen h2').innerText === 'one'")
    page.go_back()
    page.wait_for_function("() => document.querySelector('.chosen h2').innerText === '2 runs'")
    window.told()


def test_what_strangers_wrote_is_only_text(window: Window) -> None:
    page = window.go("/runs?run=%3Cb%3Ebold&show=settings", "table.diff")
    shown = page.locator("main").inner_text()
    plain = HOSTILE.replace("\u202e", "‹RLO›")
    assert shown.count(plain) >= 3
    assert "\u202e" not in shown
    page.get_by_role("tab", name="Curves").click()
    page.wait_for_selector("figure path.line")
    assert f"validation {plain}" in page.locator("main").inner_text()
    assert "2 points are not drawn" in page.locator("main").inner_text()
    assert page.evaluate("() => window.harmed") is None
    assert page.locator("main img, main script").count() == 0
    page = window.go("/runs?run=broken", ".run-head")
    assert (
        "cannot be read as a run: config.json is not JSON" in page.locator(".run-head").inner_text()
    )
    page = window.go("/runs?run=nobody&show=files", ".file-lists .message.warn")
    assert "There is no run nobody" in page.locator(".file-lists").inner_text()
    window.told("404")


def test_a_run_that_trains_while_the_page_is_open(window: Window, runs: Path) -> None:
    page = window.go("/runs?order=name", ".run")
    with training(runs / "fresh", steps=STEPS) as process:
        page.wait_for_selector("[data-run=fresh]")
        page.get_by_role("link", name="fresh", exact=True).click()
        page.wait_for_selector("figure path.line")
        page.wait_for_selector("[data-run=fresh] [data-state=finished]")
        assert process.wait(300) == 0
    text = page.locator("[data-run=fresh]").inner_text()
    assert f"{STEPS} steps" in text
    page.wait_for_function(
        f"""() => {{ const d = document.querySelector('figure path.line')?.getAttribute('d');
            return d && d.split('L').length === {STEPS} }}"""
    )
    written = (runs / "fresh" / "metrics.jsonl").read_text()
    wanted = [json.loads(line) for line in written.splitlines()]
    found = drawn(page)
    assert [int(step) for _, step, _ in found] == list(range(1, STEPS + 1))
    assert [float(loss) for *_, loss in found] == [row["loss"] for row in wanted]
    window.told()


def test_a_lost_connection_is_told_and_nothing_is_lost_by_it(window: Window, runs: Path) -> None:
    run = make_run(runs / "cut", rows(1, 2, 3))
    page = window.go("/runs?run=cut", "figure path.line")
    window.context.set_offline(True)
    page.evaluate("() => window.dispatchEvent(new Event('online'))")  # what holds is let go
    page.wait_for_selector(".lost p")
    assert "The connection is lost" in page.locator(".lost").inner_text()
    page.get_by_role("button", name="Try now").click()  # in vain
    append(run / "metrics.jsonl", "".join(json.dumps(each) + "\n" for each in rows(4, 5)))
    window.context.set_offline(False)
    page.wait_for_selector("[data-link=live]")
    page.wait_for_function(
        "() => document.querySelector('figure path.line').getAttribute('d').split('L').length === 5"
    )
    assert page.locator(".lost p").count() == 0
    append(run / "metrics.jsonl", json.dumps(rows(6)[0]) + "\n")
    page.wait_for_function(
        "() => document.querySelector('figure path.line').getAttribute('d').split('L').length === 6"
    )
    assert [step for _, step, _ in drawn(page)] == list("123456")
    window.told("ERR_INTERNET_DISCONNECTED")


def test_a_run_that_goes_back_to_a_checkpoint(window: Window, runs: Path) -> None:
    run = make_run(runs / "back", rows(*range(1, 9)))
    page = window.go("/runs?run=back", "figure path.line")
    fresh = [{**row, "loss": 7.0} for row in rows(5, 6, 7)]
    kept = "".join(json.dumps(row) + "\n" for row in [*rows(1, 2, 3, 4), *fresh])
    (run / "metrics.new").write_text(kept)
    (run / "metrics.new").replace(run / "metrics.jsonl")
    page.wait_for_function(
        "() => document.querySelector('figure path.line').getAttribute('d').split('L').length === 7"
    )
    assert [float(loss) for *_, loss in drawn(page)][3:] == [0.25, 7.0, 7.0, 7.0]
    window.told()


def train(kind: TaskKind) -> str:
    assert kind.example is not None
    return f"{kind.example.command} {{}}/{kind.example.folder}"


def test_an_empty_studio_says_what_to_type(browser: Any, tmp_path: Path) -> None:
    """Commands whose runs it shows, and of which no folder's name makes others."""
    folder = tmp_path / "it's $(mine)"
    folder.mkdir()
    with served(folder) as server:
        window = Window(browser, server)
        able = {"ask": {"ask"}, "write": {"write", "generate"}, "see": {"classify"}}
        wanted = {
            "runs": [train(kind) for kind in TASKS.values()],
            "nothing": [train(kind) for kind in TASKS.values()],  # a page that there is not
            **{
                page: [train(kind) for kind in TASKS.values() if can & set(kind.can)]
                for page, can in able.items()
            },
            "look": ["attnlab studio --model FOLDER --runs {}"],
            "bench": ["attnlab bench all --json {}/bench.json"],
        }
        for page, commands in wanted.items():
            texts = window.go(f"/{page}", ".command code").locator(".command code")
            found = [shlex.split(each) for each in texts.all_inner_texts()]
            assert found == [[w.format(folder) for w in c.split()] for c in commands], page
        window.told()
        server.process.kill()
        server.process.wait()
        window.page.wait_for_selector(".lost p")
        assert re.search("does not answer|closed", window.page.locator(".lost").inner_text())
        window.close()


def test_a_run_that_goes_leaves_the_others_alone(window: Window, runs: Path) -> None:
    make_run(runs / "doomed", rows(1, 2))
    make_run(runs / "kept", rows(1, 2, 3))
    page = window.go("/runs?run=doomed&run=kept", "figure path.line")
    shutil.rmtree(runs / "doomed")
    page.wait_for_selector("[data-run=doomed]:has-text('no such run')")
    page.reload()
    page.wait_for_selector(".link[data-link=live]")
    append(runs / "kept" / "metrics.jsonl", json.dumps(rows(4)[0]) + "\n")
    page.wait_for_function(
        "() => document.querySelector('figure path.line')?.getAttribute('d').match(/L/g)?.length"
        " === 3"
    )
    assert page.locator(".lost p").count() == 0
    page.get_by_role("checkbox", name="Compare doomed").click()
    page.wait_for_function("() => location.hash === '#/runs?run=kept'")
    page = window.go("/runs?run=doomed", ".run-head [role=alert]")
    assert "deleted or renamed" in page.locator(".run-head").inner_text()
    shutil.rmtree(runs / "kept")
    window.told()


def test_settings_are_read_anew_and_of_those_that_have_some(window: Window, runs: Path) -> None:
    run = make_run(runs / "changed", rows(1, 2))
    page = window.go("/runs?run=one&run=broken&run=changed&show=settings", ".chosen .lead")
    before = page.locator(".chosen .lead").inner_text()
    assert "broken: without settings" in page.locator(".chosen [role=alert]").inner_text()
    config = json.loads((run / "config.json").read_text())
    config["training"]["learning_rate"] = 0.5
    (run / "config.json").write_text(json.dumps(config))
    page.wait_for_selector("table.diff td:has-text('0.5')")
    assert page.locator(".chosen .lead").inner_text() != before
    shutil.rmtree(run)
    window.told()


def test_minutes_and_losses_that_are_no_numbers(window: Window, runs: Path) -> None:
    """A run of minutes is not as far as its steps say; NaN is not what is missing."""
    last = {"step": 4, "seconds": 30, "loss": float("nan"), "validation": {"bits": 2.0}}
    task = {"name": "language", "headline": "bits"}
    settings = {"steps": 2, "minutes": 1, "learning_rate": 0.1}
    make_run(runs / "timed", [*rows(1, 2, 3), last], training=settings, task=task)
    page = window.go("/runs?run=timed", "[data-run=timed] progress")
    row = page.locator("[data-run=timed]").inner_text()
    assert "4 steps" in row
    assert "of 2" not in row
    assert "loss NaN" in row
    assert page.locator("[data-run=timed] progress").get_attribute("value") == "0.5"
    page.wait_for_selector("figure path.line")
    assert drawn(page)[-1][-1] == "NaN"
    shutil.rmtree(runs / "timed")
    window.told()
