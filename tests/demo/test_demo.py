"""The demo with settings of seconds: all parts, failures, interruptions, the page."""

from __future__ import annotations

import io
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from attnlab.claims import _run_claims as claims_running
from attnlab.claims import chosen
from attnlab.demo import _progress_line as progress
from attnlab.demo import _report as report
from attnlab.demo import _run_demo as running
from attnlab.demo._parts import PARTS
from attnlab.demo._settings import CLAIMS, Demo
from attnlab.report import Command, Strip, Table
from attnlab.training import InterruptedTraining, use_progress_listener
from attnlab.training._progress import Reporter
from tests.support.command_line import run
from tests.support.demo_runs import QUICK, run_quick


def test_the_whole_demo(made: tuple[Path, Demo, str]) -> None:
    out, demo, text = made
    assert demo.problems == {}
    assert demo.finished
    assert set(demo.seconds) == {part.name for part in PARTS}
    names = [score.name for score in demo.scores]
    assert names[1:] == ["No reading", "Reading, then questions", "Read and remember"]
    assert (demo.scores[0].right, demo.scores[0].total) == (16, 300)
    assert f"{out / 'index.html'}" in text.replace("\n", "")
    assert list(demo.sections) == [
        "text", "methods", "answers", "calibration", "attention", "claims",
    ]  # fmt: skip
    (claims,) = [b for b in demo.sections["claims"].blocks if isinstance(b, Table)]
    assert len(claims.rows) == len(QUICK.claims)
    for name in ("attention.html", "reading.html", "claims.html"):
        assert (out / name).stat().st_size > 10_000
    assert (out / "claims.json").exists()
    assert (out / "learned" / "audit.html").exists()


def test_the_terminal_prints_the_sections_of_the_page(made: tuple[Path, Demo, str]) -> None:
    _, demo, text = made
    flat = " ".join(text.split())
    for part in PARTS:
        assert part.title in text
        assert part.about in flat
    for section in report.demo_report(demo).sections:
        assert section.title in text
        for block in section.blocks:
            if isinstance(block, Command):
                assert block.why in flat
    (answers,) = demo.sections["answers"].blocks
    assert isinstance(answers, Table)
    assert sum("no such person" in str(row[4]) for row in answers.rows) == 2


def test_words_share_the_weight(made: tuple[Path, Demo, str]) -> None:
    _, demo, _ = made
    assert demo.reading is not None
    document, question = demo.reading
    reading, memory = (b for b in demo.sections["attention"].blocks if isinstance(b, Strip))
    for strip, text in ((reading, f"{document} ▢ {question} ▢"), (memory, f"{question} ▢")):
        assert " ".join(strip.tokens).split() == text.split()
        assert sum(strip.weights) == pytest.approx(1, abs=0.02)


def test_links_lead_somewhere(made: tuple[Path, Demo, str]) -> None:
    out = made[0]
    page = (out / "index.html").read_text()
    links = re.findall(r'"href":"([^"]*)"', page)
    assert len(set(links)) == 4
    for link in links:
        assert (out / link).exists(), link
    assert not re.search(r"(?:src|href)=[\"']?https?:", page)


def test_a_folder_that_is_taken(
    made: tuple[Path, Demo, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = made[0]
    before = (out / "index.html").stat().st_mtime_ns
    code, text, wrong = run(f"demo --out {out}", capsys)
    assert (code, text) == (2, "")
    assert wrong == (
        f"attnlab: {out}: holds a demo already (index.html); "
        "give --overwrite to replace it, or another folder\n"
    )
    assert (out / "index.html").stat().st_mtime_ns == before
    (tmp_path / "file").write_text("mine")
    code, _, wrong = run(f"demo --out {tmp_path / 'file'} --overwrite", capsys)
    assert code == 2
    assert "is a file" in wrong
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "runs" / "learned").mkdir(parents=True)
    (tmp_path / "runs" / "learned" / "config.json").write_text("{}")
    code, _, wrong = run(f"demo --out {tmp_path / 'runs'}", capsys)
    assert code == 2
    assert "holds a run already" in wrong


# Parts that fail, and interruptions: with parts that do nothing


def pretend(monkeypatch: pytest.MonkeyPatch, **works: Any) -> None:
    parts = [replace(part, run=works.get(part.name, lambda *_: [])) for part in PARTS]
    monkeypatch.setattr(running, "PARTS", parts)


def broken(*_: object) -> None:
    raise ZeroDivisionError("no luck")


def test_a_part_that_fails_takes_only_those_that_need_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, learned=broken)
    demo, text = run_quick(tmp_path)
    assert set(demo.problems) == {"learned", "audit", "attention"}
    assert re.match(r"ZeroDivisionError at test_demo.py:\d+: no luck", demo.problems["learned"])
    assert demo.problems["audit"] == "skipped: it needs “Read and remember”, which failed"
    assert set(demo.seconds) == {"none", "pretrained", "claims"}
    page = (tmp_path / "index.html").read_text()
    assert "“Read and remember” failed. ZeroDivisionError" in page
    assert "3 parts failed" in text
    assert "attnlab knowledge ask" not in page  # there is no run to ask
    assert "attnlab claims --html" in page


def test_a_failure_is_told_by_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, claims=broken)
    code, _, _ = run(f"demo --out {tmp_path}", capsys)
    assert code == 1
    pretend(monkeypatch)
    assert run(f"demo --out {tmp_path} --overwrite", capsys)[0] == 0


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def saved(*_: object) -> None:
    raise InterruptedTraining("learned: stopped and saved at step 3", signal.SIGTERM)


@pytest.mark.parametrize(("stop", "code"), [(interrupted, 130), (saved, 143)])
def test_stopping_leaves_a_page_of_what_was_done(
    stop: Any, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    pretend(monkeypatch, learned=stop)
    found, _, wrong = run(f"demo --out {tmp_path}", capsys)
    assert found == code
    assert wrong == (
        f"attnlab: stopped at “Read and remember”; finished parts are in "
        f"{tmp_path / 'index.html'}; attnlab demo --out {tmp_path} --overwrite starts again\n"
    )
    page = (tmp_path / "index.html").read_text()
    assert "It was stopped at “Read and remember”. Not done yet: “Read and remember”, " in page


def test_pages_of_an_earlier_story_are_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch)
    (tmp_path / "attention.html").write_text("old")
    (tmp_path / "mine.txt").write_text("kept")
    run_quick(tmp_path, overwrite=True)
    assert not (tmp_path / "attention.html").exists()
    assert (tmp_path / "mine.txt").read_text() == "kept"


# Progress


def test_the_line_moves_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=100, legacy_windows=False)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    line, done = progress.ProgressLine(total=10), list[float]()
    for title in ("first", "second"):
        with line.part(title, 4, (0.5, 0.5)) as tick:
            for each in (3, 1, 4):  # the second counts from the beginning again
                tick(each, 4, "loss 1.234")
                done.append(line.progress.tasks[0].completed)
    assert done == [1.5, 2.5, 4.0, 5.5, 6.5, 8.0]
    assert "first" in file.getvalue()
    assert "second" in file.getvalue()


def test_elsewhere_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    line = progress.ProgressLine(total=10)
    with line.part("first", 4) as tick:
        tick(1, 2, "half")
    assert not line.shown
    assert capsys.readouterr() == ("", "")


def test_an_interrupted_claim_says_nothing() -> None:
    """Ctrl-C goes to the claims' processes too; a traceback of each would bury what is told."""
    with claims_running._pool(1) as pool:
        assert pool.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_DFL


def test_training_tells_who_listens(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[tuple[int, int, str]] = []
    with use_progress_listener(lambda *told: heard.append(told)):
        reporter = Reporter(steps=3, done=0, peak=2.0)
        with reporter:
            reporter.update(3, 0.5, 10.0, 1.0)
    assert heard == [(3, 3, "loss 0.500  10 tok/s  50% of peak")]
    assert capsys.readouterr().err == ""  # no line of its own
    assert Reporter(steps=3, done=0, peak=2.0).listener is None


def test_ten_claims_that_run_anywhere() -> None:
    claims = chosen(CLAIMS)
    assert len(claims) == len(set(CLAIMS)) == 10
    for each in claims:
        assert each.measure is not None
        assert each.needs is None
        assert not each.alone
