"""The demo with quick settings: all parts, failures, interruptions, the page."""

from __future__ import annotations

import io
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from attnlab.claims import _run_claims as run_claims_module
from attnlab.claims import select_claims
from attnlab.demo import _progress_line as progress
from attnlab.demo import _report as report_module
from attnlab.demo import _run_demo as run_demo_module
from attnlab.demo._parts import PARTS, count_decoys
from attnlab.demo._settings import CLAIMS, Demo, DemoSettings, MethodScore
from attnlab.report import Command, Strip, Table
from attnlab.tasks.knowledge._scoring import Score
from attnlab.tasks.knowledge._world import WorldConfig, make_world
from attnlab.training import InterruptedTraining, use_progress_listener
from attnlab.training._progress import Reporter
from tests.support.command_line import run
from tests.support.demo_runs import QUICK, run_quick


def test_complete_demo(quick_demo: tuple[Path, Demo, str]) -> None:
    out, demo, text = quick_demo
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


def test_terminal_prints_the_sections_of_the_page(quick_demo: tuple[Path, Demo, str]) -> None:
    _, demo, text = quick_demo
    flat = " ".join(text.split())
    for part in PARTS:
        assert part.title in text
        assert part.about in flat
    for section in report_module.demo_report(demo).sections:
        assert section.title in text
        for block in section.blocks:
            if isinstance(block, Command):
                assert block.why in flat
    (answers,) = demo.sections["answers"].blocks
    assert isinstance(answers, Table)
    assert sum("no such person" in str(row[4]) for row in answers.rows) == 2


def test_word_weights_sum_to_one(quick_demo: tuple[Path, Demo, str]) -> None:
    _, demo, _ = quick_demo
    assert demo.reading is not None
    document, question = demo.reading
    reading, memory = (b for b in demo.sections["attention"].blocks if isinstance(b, Strip))
    for strip, text in ((reading, f"{document} ▢ {question} ▢"), (memory, f"{question} ▢")):
        assert " ".join(strip.tokens).split() == text.split()
        assert sum(strip.weights) == pytest.approx(1, abs=0.02)


def test_links_exist(quick_demo: tuple[Path, Demo, str]) -> None:
    out = quick_demo[0]
    page = (out / "index.html").read_text()
    links = re.findall(r'"href":"([^"]*)"', page)
    assert len(set(links)) == 4
    for link in links:
        assert (out / link).exists(), link
    assert not re.search(r"(?:src|href)=[\"']?https?:", page)


def test_existing_folders_are_refused(
    quick_demo: tuple[Path, Demo, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = quick_demo[0]
    before = (out / "index.html").stat().st_mtime_ns
    code, text, error = run(f"demo --out {out}", capsys)
    assert (code, text) == (2, "")
    assert error == (
        f"attnlab: {out} already contains a demo (index.html); "
        "give --overwrite to replace it, or another folder\n"
    )
    assert (out / "index.html").stat().st_mtime_ns == before
    (tmp_path / "file").write_text("mine")
    code, _, error = run(f"demo --out {tmp_path / 'file'} --overwrite", capsys)
    assert code == 2
    assert "is a file" in error
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "runs" / "learned").mkdir(parents=True)
    (tmp_path / "runs" / "learned" / "config.json").write_text("{}")
    code, _, error = run(f"demo --out {tmp_path / 'runs'}", capsys)
    assert code == 2
    assert "already holds a run" in error


# What the summary says about which network


def summary_of(*scores: MethodScore) -> str:
    demo = Demo(Path("demo"), DemoSettings(), make_world(WorldConfig(people=40)))
    demo.scores = [MethodScore("always “Rome”", "", 16, 300), *scores]
    return " ".join(report_module.demo_report(demo).sections[0].findings)


def test_summary_names_each_network_and_its_mistakes() -> None:
    """285 and 280 of 300 belong to two networks, and most mistakes are the distractor."""
    text = summary_of(
        MethodScore("Reading, then questions", "", 285, 300, 1.0, decoys=12),
        MethodScore("Read and remember", "", 280, 300, 1.0, decoys=17),
    )
    assert "“Reading, then questions”, answered 285 of 300 correctly" in text
    assert "“Read and remember”, which answered 280 of 300 correctly" in text
    assert "Of its 20 mistakes, 17 (most of them) name the distractor" in text
    assert not re.search(r"\bIt answered", text)
    only = summary_of(MethodScore("Read and remember", "", 297, 300, 1.0, decoys=1))
    assert "Of its 3 mistakes, 1 (some of them)" in only
    assert only.count("297 of 300") == 1


def test_decoys_are_wrong_cities_of_the_line() -> None:
    lines = [
        "Ada Stone. Ada Stone was born in Oslo. She saw York.",
        "Bo Reed. He is from Rome, not New York.",
    ]
    questions = ["Where was Ada Stone born?", "Where was Bo Reed born?"]

    def decoys(*predictions: str) -> int:
        return count_decoys(lines, Score(questions, [*predictions], ["Oslo", "Rome"]))

    assert decoys("Oslo", "Rome") == 0
    assert decoys("York", "New York") == 2
    assert decoys("Lima", "") == 0
    assert decoys("Yor", "ome") == 0


def test_sections_name_their_network(quick_demo: tuple[Path, Demo, str]) -> None:
    _, demo, _ = quick_demo
    for name in ("answers", "calibration", "attention"):
        assert "“Read and remember”" in demo.sections[name].findings[0]
    table = demo.sections["methods"].blocks[1]
    assert isinstance(table, Table)
    assert table.header[-1] == "mistakes that name the distractor"


# Failures and interruptions, with parts that do nothing


def replace_parts(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    parts = [replace(part, run=functions.get(part.name, lambda *_: [])) for part in PARTS]
    monkeypatch.setattr(run_demo_module, "PARTS", parts)


def fail(*_: object) -> None:
    raise ZeroDivisionError("no luck")


def test_failed_part_skips_only_parts_that_need_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replace_parts(monkeypatch, learned=fail)
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


def test_failure_sets_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_parts(monkeypatch, claims=fail)
    code, _, _ = run(f"demo --out {tmp_path}", capsys)
    assert code == 1
    replace_parts(monkeypatch)
    assert run(f"demo --out {tmp_path} --overwrite", capsys)[0] == 0


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def interrupt_training(*_: object) -> None:
    raise InterruptedTraining("learned: stopped and saved at step 3", signal.SIGTERM)


@pytest.mark.parametrize(("stop", "code"), [(interrupt, 130), (interrupt_training, 143)])
def test_interrupted_demo_leaves_a_page(
    stop: Any, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    replace_parts(monkeypatch, learned=stop)
    exit_code, _, error = run(f"demo --out {tmp_path}", capsys)
    assert exit_code == code
    assert error == (
        f"attnlab: stopped at “Read and remember”; finished parts are in "
        f"{tmp_path / 'index.html'}; attnlab demo --out {tmp_path} --overwrite starts again\n"
    )
    page = (tmp_path / "index.html").read_text()
    assert (
        "The demo was stopped at “Read and remember”. Not finished: “Read and remember”, " in page
    )


def test_pages_of_an_earlier_demo_are_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replace_parts(monkeypatch)
    (tmp_path / "attention.html").write_text("old")
    (tmp_path / "mine.txt").write_text("kept")
    run_quick(tmp_path, overwrite=True)
    assert not (tmp_path / "attention.html").exists()
    assert (tmp_path / "mine.txt").read_text() == "kept"


# Progress


def test_progress_line_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=100, legacy_windows=False)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    line, done = progress.ProgressLine(total=10), list[float]()
    for title in ("first", "second"):
        with line.part(title, 4, (0.5, 0.5)) as report:
            for each in (3, 1, 4):  # the second stage counts from 0 again
                report(each, 4, "loss 1.234")
                done.append(line.progress.tasks[0].completed)
    assert done == [1.5, 2.5, 4.0, 5.5, 6.5, 8.0]
    assert "first" in file.getvalue()
    assert "second" in file.getvalue()


def test_no_progress_line_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    line = progress.ProgressLine(total=10)
    with line.part("first", 4) as report:
        report(1, 2, "half")
    assert not line.visible
    assert capsys.readouterr() == ("", "")


def test_claim_processes_end_silently_on_interrupt() -> None:
    """Ctrl-C reaches the claims' processes too. Their tracebacks would hide the message."""
    with run_claims_module._process_pool(1) as pool:
        assert pool.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_DFL


def test_training_reports_to_the_listener(capsys: pytest.CaptureFixture[str]) -> None:
    updates: list[tuple[int, int, str]] = []
    with use_progress_listener(lambda *update: updates.append(update)):
        reporter = Reporter(steps=3, done=0, peak=2.0)
        with reporter:
            reporter.update(3, 0.5, 10.0, 1.0)
    assert updates == [(3, 3, "loss 0.500  10 tok/s  50% of peak")]
    assert capsys.readouterr().err == ""  # no line of its own
    assert Reporter(steps=3, done=0, peak=2.0).listener is None


def test_demo_claims_run_without_extra_packages() -> None:
    claims = select_claims(CLAIMS)
    assert len(claims) == len(set(CLAIMS)) == 10
    for each in claims:
        assert each.measure is not None
        assert each.needs is None
        assert not each.alone
