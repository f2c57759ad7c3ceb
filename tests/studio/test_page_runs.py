"""The page of runs in a real browser: selected, compared, and live during training."""

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
from tests.support.studio_servers import (
    StudioProcess,
    append_text,
    make_run,
    metric_rows,
    start_studio,
)
from tests.support.studio_window import HOSTILE, Window, hostile_run
from tests.support.training_process import training

STEPS = 40


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studio") / "runs"
    make_run(folder / "one", metric_rows(*range(1, 21)))
    make_run(
        folder / "deep" / "two",
        metric_rows(*range(1, 11)),
        training={"steps": 10, "learning_rate": 0.1},
    )
    hostile_run(folder)
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{")
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[StudioProcess]:
    with start_studio(runs) as started:
        yield started


def listed_names(page: Any) -> list[str]:
    return page.locator(".run .name").all_inner_texts()


def count_lines(page: Any) -> int:
    return page.locator("figure").first.locator("path.line:not(.ghost)").count()


def table_rows(page: Any, figure: int = 0) -> list[list[str]]:
    """All values of a figure, from its table view."""
    element = page.locator("figure").nth(figure)
    if element.get_by_role("button", name="table").get_attribute("aria-pressed") != "true":
        element.get_by_role("button", name="table").click()
    return [each.inner_text().split("\t") for each in element.locator("tbody tr").all()]


def test_without_the_token_a_message_is_shown(browser: Any, server: StudioProcess) -> None:
    context = browser.new_context()
    page = context.new_page()
    response = page.goto(server.origin)
    assert response.status == 403
    assert "terminal" in page.locator("body").inner_text()
    context.close()


def test_runs_are_listed_searched_and_sorted(window: Window) -> None:
    page = window.go("/runs?order=name", ".run")
    assert page.title() == "Runs · attnlab studio"
    names = listed_names(page)
    assert names == ["<b>bold", "broken", "deep/two", "one"]
    page.get_by_role("searchbox").fill("deep FINISH")
    page.wait_for_function("() => document.querySelectorAll('.run').length === 0")
    page.get_by_role("searchbox").fill("deep")
    page.wait_for_function("() => document.querySelectorAll('.run').length === 1")
    assert "1 of 4 runs" in page.locator(".runs").inner_text()
    page.get_by_role("searchbox").fill("nothing like it")
    assert "No run matches the search" in page.locator(".runs").inner_text()
    page.get_by_role("searchbox").fill("")
    page.keyboard.press("Tab")
    page.keyboard.press("/")  # in a select box, it does not start a search
    page.locator("main").focus()
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.type") == "search"
    window.check_console()


def test_curves_of_several_runs_are_compared(window: Window) -> None:
    page = window.go("/runs?run=one", "figure path.line")
    assert page.locator(".chosen h2").inner_text() == "one"
    assert count_lines(page) == 1
    page.get_by_role("checkbox", name="Compare two").check()
    page.wait_for_function(
        "() => document.querySelector('figure')?.querySelectorAll('path.line').length === 2"
    )
    assert "2 compared" in page.locator(".runs").inner_text()
    assert table_rows(page)[0] == ["one", "1", "1"]
    assert len(table_rows(page)) == 30
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
    assert count_lines(page) == 1
    window.check_console()


def test_an_address_that_changes_during_loading_is_kept(window: Window) -> None:
    """The page selects the newest run only if the address names none."""
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
    window.check_console()


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
    window.check_console()


def test_hostile_texts_are_only_text(window: Window) -> None:
    page = window.go("/runs?run=%3Cb%3Ebold&show=settings", "table.diff")
    text = page.locator("main").inner_text()
    plain = HOSTILE.replace("\u202e", "‹RLO›")
    assert text.count(plain) >= 3
    assert "\u202e" not in text
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
    window.check_console("404")


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
    expected = [json.loads(line) for line in written.splitlines()]
    rows = table_rows(page)
    assert [int(step) for _, step, _ in rows] == list(range(1, STEPS + 1))
    assert [float(loss) for *_, loss in rows] == [row["loss"] for row in expected]
    window.check_console()


def test_a_lost_connection_is_shown_and_loses_no_rows(window: Window, runs: Path) -> None:
    run = make_run(runs / "cut", metric_rows(1, 2, 3))
    page = window.go("/runs?run=cut", "figure path.line")
    window.context.set_offline(True)
    page.evaluate("() => window.dispatchEvent(new Event('online'))")  # drops the open connection
    page.wait_for_selector(".lost p")
    assert "The connection is lost" in page.locator(".lost").inner_text()
    page.get_by_role("button", name="Try now").click()  # fails
    append_text(
        run / "metrics.jsonl", "".join(json.dumps(each) + "\n" for each in metric_rows(4, 5))
    )
    window.context.set_offline(False)
    page.wait_for_selector("[data-link=live]")
    page.wait_for_function(
        "() => document.querySelector('figure path.line').getAttribute('d').split('L').length === 5"
    )
    assert page.locator(".lost p").count() == 0
    append_text(run / "metrics.jsonl", json.dumps(metric_rows(6)[0]) + "\n")
    page.wait_for_function(
        "() => document.querySelector('figure path.line').getAttribute('d').split('L').length === 6"
    )
    assert [step for _, step, _ in table_rows(page)] == list("123456")
    window.check_console("ERR_INTERNET_DISCONNECTED")


def test_a_run_that_resumes_from_a_checkpoint(window: Window, runs: Path) -> None:
    run = make_run(runs / "back", metric_rows(*range(1, 9)))
    page = window.go("/runs?run=back", "figure path.line")
    fresh = [{**row, "loss": 7.0} for row in metric_rows(5, 6, 7)]
    text = "".join(json.dumps(row) + "\n" for row in [*metric_rows(1, 2, 3, 4), *fresh])
    (run / "metrics.new").write_text(text)
    (run / "metrics.new").replace(run / "metrics.jsonl")
    page.wait_for_function(
        "() => document.querySelector('figure path.line').getAttribute('d').split('L').length === 7"
    )
    assert [float(loss) for *_, loss in table_rows(page)][3:] == [0.25, 7.0, 7.0, 7.0]
    window.check_console()


def example_command(kind: TaskKind) -> str:
    assert kind.example is not None
    return f"{kind.example.command} {{}}/{kind.example.folder}"


def test_an_empty_studio_shows_commands(browser: Any, tmp_path: Path) -> None:
    """The commands train runs for the page, and quote the folder's name for the shell."""
    folder = tmp_path / "it's $(folder)"
    folder.mkdir()
    with start_studio(folder) as server:
        window = Window(browser, server)
        capabilities = {"ask": {"ask"}, "write": {"write", "generate"}, "see": {"classify"}}
        expected = {
            "runs": [example_command(kind) for kind in TASKS.values() if kind.example],
            "nothing": [
                example_command(kind) for kind in TASKS.values() if kind.example
            ],  # a page that does not exist
            **{
                page: [
                    example_command(kind)
                    for kind in TASKS.values()
                    if kind.example and names & set(kind.capabilities)
                ]
                for page, names in capabilities.items()
            },
            "look": ["attnlab studio --model FOLDER --runs {}"],
            "bench": ["attnlab bench all --json {}/bench.json"],
        }
        for page, commands in expected.items():
            texts = window.go(f"/{page}", ".command code").locator(".command code")
            shown_commands = [shlex.split(each) for each in texts.all_inner_texts()]
            assert shown_commands == [[w.format(folder) for w in c.split()] for c in commands], page
        window.check_console()
        server.process.kill()
        server.process.wait()
        window.page.wait_for_selector(".lost p")
        assert re.search("does not answer|closed", window.page.locator(".lost").inner_text())
        window.close()


def test_a_deleted_run_does_not_disturb_others(window: Window, runs: Path) -> None:
    make_run(runs / "doomed", metric_rows(1, 2))
    make_run(runs / "kept", metric_rows(1, 2, 3))
    page = window.go("/runs?run=doomed&run=kept", "figure path.line")
    shutil.rmtree(runs / "doomed")
    page.wait_for_selector("[data-run=doomed]:has-text('no longer exists')")
    page.reload()
    page.wait_for_selector(".link[data-link=live]")
    append_text(runs / "kept" / "metrics.jsonl", json.dumps(metric_rows(4)[0]) + "\n")
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
    window.check_console()


def test_settings_are_reloaded_and_broken_runs_are_named(window: Window, runs: Path) -> None:
    run = make_run(runs / "changed", metric_rows(1, 2))
    page = window.go("/runs?run=one&run=broken&run=changed&show=settings", ".chosen .lead")
    before = page.locator(".chosen .lead").inner_text()
    assert (
        "broken: the settings cannot be read" in page.locator(".chosen [role=alert]").inner_text()
    )
    config = json.loads((run / "config.json").read_text())
    config["training"]["learning_rate"] = 0.5
    (run / "config.json").write_text(json.dumps(config))
    page.wait_for_selector("table.diff td:has-text('0.5')")
    assert page.locator(".chosen .lead").inner_text() != before
    shutil.rmtree(run)
    window.check_console()


def test_time_limits_and_nan_losses(window: Window, runs: Path) -> None:
    """The progress of a run with a time limit follows its time; NaN is shown as a value."""
    last = {"step": 4, "seconds": 30, "loss": float("nan"), "validation": {"bits": 2.0}}
    task = {"name": "language", "headline": "bits"}
    settings = {"steps": 2, "minutes": 1, "learning_rate": 0.1}
    make_run(runs / "timed", [*metric_rows(1, 2, 3), last], training=settings, task=task)
    page = window.go("/runs?run=timed", "[data-run=timed] progress")
    row = page.locator("[data-run=timed]").inner_text()
    assert "4 steps" in row
    assert "of 2" not in row
    assert "loss NaN" in row
    assert page.locator("[data-run=timed] progress").get_attribute("value") == "0.5"
    page.wait_for_selector("figure path.line")
    assert table_rows(page)[-1][-1] == "NaN"
    shutil.rmtree(runs / "timed")
    window.check_console()
