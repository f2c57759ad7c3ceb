"""The studio's other pages in a real browser: ask, write, see, look, claims, playground, bench."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from attnlab._image_files import encode_png
from attnlab.interpret._capture_file import read as read_capture
from tests.support import summary_runs as summaries
from tests.support.claim_ledgers import STATEMENTS, made_up_ledger
from tests.support.image_files import pixels
from tests.support.page_widths import SCHEMES
from tests.support.studio_servers import StudioProcess, start_isolated_studio
from tests.support.studio_window import (
    PAGES,
    SETTLED,
    VIEWER,
    DelayedRequest,
    Window,
    fill_runs_folder,
)


@pytest.fixture(scope="module")
def runs(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_runs_folder(tmp_path_factory.mktemp("studio") / "runs", made)


@pytest.fixture(scope="module")
def server(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioProcess]:
    with start_isolated_studio(runs, tmp_path_factory.mktemp("cache")) as started:
        yield started


def submit_question(page: Any, text: str) -> None:
    page.get_by_role("textbox").fill(text)
    page.keyboard.press("Enter")


def test_questions_are_answered_and_attention_is_shown(window: Window) -> None:
    page = window.go("/ask?run=learned", ".chips button")
    page.locator(".chips button").first.click()
    page.wait_for_selector(".answer")
    question = page.locator(".chips button").first.inner_text()
    assert page.locator(".answer .question").inner_text() == question
    kinds = page.locator(".examples .chips > .dim").all_inner_texts()
    assert kinds == ["trained on", "made up", "off-topic"]
    assert page.locator(".answer .verdict").inner_text() in ("known", "unsure", "guess")
    text = page.locator(".answer").inner_text()
    assert "Other candidate answers" in text
    name = page.locator(".answer .others").last.locator("li").first.inner_text()
    assert name.split("\n")[0] in question
    assert "100%" in name
    submit_question(page, f"{question}\n{question.replace('?', '')}")
    page.wait_for_function("() => document.querySelectorAll('.answer').length === 3")
    assert page.locator(".stranger:has-text('No training question')").count() == 0
    unknown = question.replace(name.split("\n")[0], "Nobody Atall")
    submit_question(page, unknown)
    page.wait_for_function("() => document.querySelectorAll('.answer').length === 4")
    assert "Too few questions were held out" in page.locator(".stranger").first.inner_text()
    assert "known" not in page.locator(".answer .verdict").all_inner_texts()
    page.get_by_role("button", name="Attention of this answer").first.click()
    page.wait_for_selector(VIEWER)
    assert page.locator(".attention [role=tab][aria-selected=true]").inner_text() == "Generation"
    page.keyboard.press("x")
    page.wait_for_selector(".attention .attnlab[data-painted=matrix]")
    page.wait_for_function("() => location.hash.includes('!view=matrix')")
    page.get_by_role("link", name="Runs").first.click()
    page.wait_for_selector(".run")
    page.go_back()
    page.wait_for_selector(".answer")  # the answers are still there
    window.check_console("404")  # there is no audit yet


def test_errors_of_the_model_are_shown(window: Window) -> None:
    page = window.go("/ask?run=learned", ".chips button")
    submit_question(page, "x" * 450)
    page.wait_for_selector(".message.warn")
    assert "tokens" in page.locator("[role=alert]").inner_text()
    submit_question(page, "y" * 600)
    page.wait_for_selector("[role=alert]:has-text('500')")
    window.check_console("404", "422", "400")


def test_the_audit_is_shown_or_started(window: Window, runs: Path) -> None:
    page = window.go("/ask?run=learned", ".audit .command")
    page.get_by_role("button", name="Audit it now").click()
    page.wait_for_selector(".audit .message.warn")  # it needs questions
    message = page.locator(".audit [role=alert]").inner_text()
    assert "give questions and answers" in message
    assert "--" not in message
    question = page.locator(".chips button").first.inner_text()
    page.get_by_label("One question per line").fill(f"{question} Paris\n{question} Rome")
    page.get_by_role("button", name="Audit with these").click()
    page.wait_for_selector(".audit .tiles")
    assert "your questions" in page.locator(".audit .tiles").inner_text()
    (runs / "learned" / "audit.html").unlink()
    window.check_console("404", "409")
    audit = {
        "pairs": 50, "accuracy": 0.9, "interval": [0.8, 0.95], "roc_area": 0.7, "ece": 0.04,
        "reliability": [{"confidence": 0.3, "accuracy": 0.2, "count": 4}],
        "risk_coverage": [[0.9, 0.5, 1.0], [0.1, 1.0, 0.9]],
        "verdicts": {"known": {"count": 30, "accuracy": 0.97}},
        "histogram": [["Paris_1", 12]],
        "answers": [
            {"question": "q", "answer": "<b>", "gold": "b", "confidence": 0.8, "correct": False,
             "verdict": "known"}
        ],
    }  # fmt: skip
    (runs / "learned" / "audit.json").write_text(json.dumps(audit))
    page.reload()
    page.wait_for_selector(".audit figure")
    text = page.locator(".audit").inner_text()
    assert "90%" in text
    assert "80% to 95%" in text
    assert "Paris_1" in text
    assert page.locator(".audit figure").count() == 4
    assert "<b>" in page.locator(".audit table").inner_text()
    (runs / "learned" / "audit.json").unlink()
    window.check_console()


def submit_text(page: Any, text: str) -> None:
    page.get_by_label("Text").fill(text)
    page.get_by_role("button", name="Write", exact=True).click()


def test_summaries_and_where_each_word_came_from(window: Window) -> None:
    page = window.go("/write?run=deep%2Fsummary", "textarea")
    page.locator(".examples button").first.click()
    assert page.get_by_label("Text").input_value().startswith("The package reads tables")
    submit_text(page, summaries.TEXT)
    page.wait_for_selector(".generations[aria-busy=false] .word")
    text = "".join(page.locator(".generation p").first.locator(".word").all_text_contents())
    (expected, *_) = summaries.written([summaries.TEXT], count=3, beams=6)[0]
    assert text == expected.text
    assert page.locator(".generation").count() == 3
    words = page.locator(".generation").first.locator(".word")
    marked = set()
    for i in range(words.count()):
        words.nth(i).hover()
        assert words.nth(i).get_attribute("class") == "word on"
        marked |= set(page.locator(".source mark").all_inner_texts())
    assert marked & {"tool", "maps"}
    assert "".join(page.locator(".source").all_text_contents()) == summaries.TEXT
    page.locator(".generation p").first.focus()
    page.keyboard.press("Home")
    first = page.locator(".traced").first.inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator(".traced").first.inner_text() != first
    page.keyboard.press("Escape")
    page.mouse.move(0, 0)
    assert "log-probability" in page.locator(".traced").first.inner_text()
    page.get_by_role("button", name="Sampling").click()
    page.get_by_label("Temperature").fill("0")
    assert page.get_by_role("button", name="Write again").is_disabled()
    page.get_by_label("Temperature").fill("1")
    page.get_by_role("spinbutton", name="Summaries").fill("2")
    page.get_by_role("button", name="Write again").click()
    page.wait_for_selector(".generations[aria-busy=false] .word")
    assert page.locator(".generation").count() == 2
    page.get_by_role("button", name="Edit").click()
    submit_text(page, " ".join(f"word{i}" for i in range(60)))
    page.wait_for_selector(".generations[aria-busy=false] .word")
    assert "were not read" in page.locator(".generations").inner_text()
    assert "word59" in page.locator(".source del").inner_text()
    window.check_console()


def test_see_shows_the_label_that_the_model_missed(window: Window, tmp_path: Path) -> None:
    (tmp_path / "light.png").write_bytes(encode_png(pixels(2, 1, 6)[1]))
    page = window.go("/see?run=vit", ".drop")
    known = ["1", "5"]

    def answer(route: Any) -> None:
        response = route.fetch()
        route.fulfill(response=response, json={**response.json(), "known_label": known[0]})

    page.route("**/api/see*", answer)
    for mark, label in (("✓ as its label says", "1"), ("✗ its label is 5", "5")):
        known[0] = label
        page.locator("input[type=file]").set_input_files(tmp_path / "light.png")
        page.wait_for_selector(f".saying:has-text('{mark}')")
    page.unroute("**/api/see*")
    window.check_console()


def test_an_image_is_classified(window: Window, tmp_path: Path) -> None:
    (tmp_path / "light.png").write_bytes(encode_png(pixels(2, 1, 6)[1]))
    (tmp_path / "bad.png").write_bytes(b"no image")
    (tmp_path / "text.txt").write_text("no image")
    page = window.go("/see?run=vit", ".drop")
    page.locator(".example-images button").nth(1).click()  # a test image with its label
    page.wait_for_selector(".attention .attnlab[data-painted=image]")
    label = page.locator(".example-images img").nth(1).get_attribute("alt").split()[-1]
    assert f"its label is {label}" in page.locator(".attention h1").inner_text()
    page.reload()
    page.wait_for_selector(".drop")
    chooser = page.locator("input[type=file]")
    chooser.set_input_files(tmp_path / "text.txt")
    page.wait_for_selector("[role=alert]")
    assert "not an image" in page.locator("[role=alert]").inner_text()
    chooser.set_input_files(tmp_path / "bad.png")
    page.wait_for_selector("[role=alert]:has-text('be read')")
    window.check_console("422")
    chooser.set_input_files(tmp_path / "light.png")
    page.wait_for_selector(".attention .attnlab[data-painted=image]")
    assert page.locator(".prediction .bar-row").count() == 2
    assert page.locator(".saying").inner_text().startswith("1")
    assert page.locator("[role=alert]").count() == 0
    data = list((tmp_path / "light.png").read_bytes())
    delayed = DelayedRequest(page, "/api/see")  # else a fast response ends before it is seen
    page.evaluate(
        """bytes => { const files = new DataTransfer();
        files.items.add(new File([new Uint8Array(bytes)], 'a.png', { type: 'image/png' }));
        document.querySelector('.drop').dispatchEvent(
          new DragEvent('drop', { dataTransfer: files, bubbles: true, cancelable: true })) }""",
        data,
    )
    page.wait_for_selector(".busy", state="attached")
    delayed.wait()
    delayed.release()
    page.wait_for_selector(".attention .attnlab[data-painted=image]")
    window.check_console()


def test_a_text_is_inspected_in_every_view_and_compared(window: Window) -> None:
    page = window.go("/look?subject=run%3Alanguage", "textarea")
    page.locator(".examples button").first.click()
    assert "because it was too tired" in page.get_by_label("Text", exact=True).input_value()
    page.get_by_label("Text", exact=True).fill("to be or not")
    page.get_by_label("Tokens to write on").fill("3")
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_selector(VIEWER)
    tabs = page.locator(".attention [role=tab]")
    for tab in tabs.all():
        tab.click()
        page.wait_for_selector(VIEWER)
    assert page.locator(".attention [role=alert]").count() == 0
    page.wait_for_function("() => /capture=.+!view=mask/.test(location.hash)")
    page.reload()
    page.wait_for_selector(VIEWER)
    assert page.locator(".attention [role=tab][aria-selected=true]").inner_text() == "Mask"
    assert compared_labels(page, "run:again", "to be") == ["language", "again"]
    assert compared_labels(page, "untrained", "to be") == ["language", "language, untrained"]
    page.get_by_label("Compare with").select_option("text")
    assert page.get_by_role("button", name="Look", exact=True).is_disabled()
    page.get_by_label("The other text").fill("or not")
    assert compared_labels(page, "text", "to be") == [
        "language, first text",
        "language, second text",
    ]
    page.get_by_label("Compare with").select_option("")
    window.check_console()
    page = window.go("/look?capture=gone", "[role=alert]")
    assert "no longer kept" in page.locator("[role=alert]").inner_text()
    window.check_console("404")


CAPTURE = "() => location.hash.match(/capture=([^&!]+)/)?.[1]"


def compared_labels(page: Any, other: str, text: str) -> list[str]:
    """The labels of the two compared captures, once they are drawn."""
    before = page.evaluate(CAPTURE)
    page.get_by_label("Compare with").select_option(other)
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_function(f"was => ({CAPTURE})() !== was", arg=before)
    page.wait_for_selector(".attention .attnlab[data-painted=compare]")
    assert page.locator("[role=alert]").count() == 0
    origin = page.url.split("#")[0]
    capture = page.request.get(f"{origin}api/captures/{page.evaluate(CAPTURE)}").body()
    with TemporaryDirectory() as folder:
        (Path(folder) / "capture.attnlab").write_bytes(capture)
        return [side.label for side in read_capture(Path(folder) / "capture.attnlab").panels]


def test_neurons_are_optional_and_errors_name_no_flag(window: Window) -> None:
    page = window.go("/look?subject=run%3Alanguage", "textarea")
    page.get_by_label("Queries, keys and values too").uncheck()
    page.get_by_label("Text", exact=True).fill("to be")
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_selector(VIEWER)
    assert page.get_by_role("tab", name="Matrix").count() == 1
    assert page.get_by_role("tab", name="Neurons").count() == 0  # there is nothing to show
    page.get_by_label("Second text").fill("or not")
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_selector("[role=alert]")
    assert "omit “Second text”" in page.locator("[role=alert]").inner_text()
    window.check_console("422")


def test_heads_are_switched_off_by_a_click(window: Window) -> None:
    page = window.go("/look?subject=run%3Alanguage", "textarea")
    page.get_by_label("Text", exact=True).fill("to be")
    page.get_by_label("Effects of heads").check()
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_selector(VIEWER)
    page.get_by_role("tab", name="Effect").click()
    page.wait_for_selector(".attention .prediction tbody tr")
    assert page.locator(".prediction .after").count() == 0  # all heads are on
    area = page.locator(".attention .area")
    area.focus()
    ring = page.locator(".attention .ring")
    for _ in range(40):  # the tokens, then the grid
        page.keyboard.press("ArrowDown")
        if "head 0" in (ring.get_attribute("aria-label") or ""):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".prediction .after")
    assert page.locator(".switches .chip").inner_text().startswith(("0.0", "1.0"))
    page.wait_for_function("() => /!.*off=/.test(location.hash)")
    page.get_by_role("button", name="All on").click()
    page.wait_for_selector(".prediction .after", state="detached")
    window.check_console()


def test_an_image_is_inspected(window: Window, tmp_path: Path) -> None:
    (tmp_path / "light.png").write_bytes(encode_png(pixels(2, 1, 6)[1]))
    page = window.go("/look?subject=run%3Avit", ".drop")
    page.locator("input[type=file]").set_input_files(tmp_path / "light.png")
    page.wait_for_selector(".attention .attnlab[data-painted=image]")
    page.get_by_label("Compare with").select_option("untrained")
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_selector(".attention .attnlab[data-painted=compare]")
    page.get_by_role("button", name="A text").click()
    page.get_by_label("Text", exact=True).fill("to be")
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_selector("[role=alert]")
    assert "reads an image: give an image" in page.locator("[role=alert]").inner_text()
    window.check_console("422")


def test_claims_are_shown_filtered_and_run(window: Window) -> None:
    page = window.go("/claims", "table.claims")
    rows = page.locator(".claims .id").all_inner_texts()
    assert {name for name, _, _ in STATEMENTS} <= set(rows)
    assert len(rows) > 50  # also claims that were not run
    page.get_by_role("searchbox").fill("zzz")
    assert page.get_by_role("button", name="Run these 0").is_disabled()
    window.go("/claims!copy", "tr.body figure")
    page.get_by_role("searchbox").fill("copy far above every other")
    page.wait_for_selector("button:text('Run this claim')")
    before = page.locator("tr.claim .measured").inner_text()
    assert page.locator("tr.claim .ran").inner_text() == "small, seed 0"
    page.get_by_role("button", name="Run this claim").click()
    page.wait_for_function(
        """was => { const host = document.querySelector('.isolated');
        return host.shadowRoot.querySelector('tr.claim .measured').innerText !== was }""",
        arg=before,
    )
    assert "holds" in page.locator("tr.claim .verdict").inner_text()
    assert page.evaluate("() => location.hash").startswith("#/claims!")
    page.get_by_role("searchbox").fill("")
    names = {name for name, _, _ in STATEMENTS}
    shown_outcomes = {
        row.locator(".id").inner_text(): row.locator(".verdict").first.inner_text()
        for row in page.locator("tr.claim").all()
    }
    outcomes = {row["id"]: row["outcome"] for row in made_up_ledger()["claims"]}
    lost = {name for name in names - {"copy"} if outcomes[name] not in shown_outcomes[name]}
    assert lost == set()  # one was run, and all others are unchanged
    window.check_console()


def test_each_claim_is_run_and_results_appear_while_others_run(window: Window) -> None:
    page = window.go("/claims!copy", "tr.body figure")
    states = [
        {"id": "job", "kind": "claims", "run": "", "state": "running", "done": done, "total": 2,
         "message": "copy, average-two"} for done in (0, 1)
    ]  # fmt: skip
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/api/")[2]))
    events = "".join(f"event: job\ndata: {json.dumps(state)}\n\n" for state in states)
    page.route("**/api/claims", lambda route: route.fulfill(status=202, json={"job": "job"})
               if route.request.method == "POST" else route.continue_())  # fmt: skip
    stream = {"content_type": "text/event-stream", "body": events}
    page.route("**/api/jobs/job/events", lambda route: route.fulfill(**stream))
    page.route("**/api/jobs/job", lambda route: route.fulfill(json=states[-1]))
    with page.expect_request("**/api/claims") as started:
        page.get_by_role("button", name="Run copy").click()
    assert started.value.post_data_json["ids"] == ["copy"]
    page.wait_for_selector("button:text('running …')")
    page.wait_for_function("() => document.querySelector('progress')?.value === 0.5")
    page.evaluate(SETTLED)
    assert "claims" in asked[asked.index("claims") + 1 :]  # one of two is done: its result is read
    page.get_by_role("link", name="Open its scene in the playground").click()
    page.wait_for_selector(".board svg")
    assert page.locator("#preset").input_value() == "copy"
    page.unroute_all()
    page.reload()
    page.wait_for_selector(".board svg")
    window.check_console()


def test_the_playground_works(window: Window) -> None:
    page = window.go("/playground", ".board svg")
    weight = page.locator(".weights .cell .text").first
    assert float(weight.inner_text()) > 0.99
    page.locator("[data-point=query-0]").focus()
    for _ in range(8):
        page.keyboard.press("Shift+ArrowLeft")
    assert float(weight.inner_text()) < 0.1
    page.wait_for_function("() => location.hash.startsWith('#/playground!')")
    page.get_by_role("tab", name="Positions").click()
    page.wait_for_selector(".clocks")
    window.check_console()


def test_an_address_that_changes_before_the_page_is_ready_is_followed(window: Window) -> None:
    window.page.add_init_script(
        """new MutationObserver((_, observer) => {
          if (!document.querySelector('main')) return;
          observer.disconnect();  // after the first rendering, before its effects
          history.replaceState(null, '', '#/playground');  // as if its event was missed
        }).observe(document, { childList: true, subtree: true })"""
    )
    for before in ("bench", "runs"):  # the second selects a run once it knows any
        window.page.goto(f"{window.server.origin}/?from={before}#/{before}")
        window.page.wait_for_selector(".board svg")
        assert window.page.evaluate("() => location.hash") == "#/playground"
    window.check_console()


def test_bench_reports_have_their_figures(window: Window) -> None:
    page = window.go("/bench", "figure")
    assert page.get_by_label("Report").locator("option").count() == 1
    tabs = page.locator(".isolated [role=tab]")
    tabs.nth(0).focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('!show=speed')")
    assert "window is faster" in page.locator(".section").inner_text()
    page.reload()
    page.wait_for_selector("figure")
    assert tabs.nth(1).get_attribute("aria-selected") == "true"
    assert page.locator("figure path.line").count() > 0
    window.check_console()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_by_keyboard_in_any_width(
    scheme: str, browser: Any, server: StudioProcess
) -> None:
    """Tab reaches every link of the frame, and nothing is wider than the window."""
    for width in (320, 360, 1024, 2400):
        window = Window(
            browser, server, viewport={"width": width, "height": 800}, color_scheme=scheme
        )
        page = window.page
        for name, selector in PAGES.items():
            window.go(f"/{name}", selector)
            page_width = page.evaluate("() => document.documentElement.scrollWidth")
            assert page_width <= width, (name, width)
            assert page.locator("h1").count() == 1
        page.locator("main").focus()
        page.keyboard.press("Shift+Tab")
        assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == (
            "Colors: auto"
        )
        background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(252, 252, 250)" if scheme == "light" else "rgb(21, 23, 26)")
        window.check_console("404")
        window.close()
