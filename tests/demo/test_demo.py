"""The demo, told with settings of seconds: all parts, failures, interruptions, the page."""

from __future__ import annotations

import io
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from attnlab.claims import chosen, running
from attnlab.demo import progress
from attnlab.demo.commands import commands
from attnlab.demo.found import Found
from attnlab.demo.parts import Story
from attnlab.demo.settings import CLAIMS, PARTS, DemoSettings
from attnlab.demo.telling import demo
from attnlab.demo.terminal import Teller
from attnlab.training import InterruptedTraining, heard_by
from attnlab.training.progress import Reporter
from tests.support.command_line import run
from tests.support.demo_settings import QUICK


def told(out: Path, settings: DemoSettings = QUICK, **options: Any) -> tuple[Found, str]:
    file = io.StringIO()
    console = Console(file=file, width=100)
    return demo(out, settings=settings, console=console, **options), file.getvalue()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Found, str]:
    out = tmp_path_factory.mktemp("demo") / "out"
    return (out, *told(out))


def test_the_whole_story(made: tuple[Path, Found, str]) -> None:
    out, found, text = made
    assert found.problems == {}
    assert found.finished
    assert set(found.seconds) == {part.name for part in PARTS}
    names = [way.name for way in found.ways]
    assert names[1:] == ["no reading", "reading, then questions", "read and remember"]
    assert (found.ways[0].right, found.ways[0].total) == (16, 300)
    for name in names:
        assert name in text
    assert "There is no such person".lower() in text
    assert [each.name for each in found.claims] == list(QUICK.claims)
    assert f"{out / 'index.html'}" in text.replace("\n", "")
    for each in commands(found, out):
        assert each.why in text
    assert found.seen is not None
    assert found.seen.people == 2
    for strip, text in (
        (found.seen.reading, f"{found.seen.document} ▢ {found.seen.question} ▢"),
        (found.seen.remembering, f"{found.seen.question} ▢"),
    ):
        assert " ".join(word for word, _ in strip.words).split() == text.split()
        assert sum(weight for _, weight in strip.words) == pytest.approx(1, abs=0.02)
    for name in ("attention.html", "reading.html", "claims.html", "claims.json"):
        assert (out / name).stat().st_size > 10_000 or name == "claims.json"
    assert (out / "learned" / "audit.html").exists()


def test_links_lead_somewhere(made: tuple[Path, Found, str]) -> None:
    out = made[0]
    page = (out / "index.html").read_text()
    links = re.findall(r'"href":"([^"]*)"', page)
    assert len(set(links)) == 4
    for link in links:
        assert (out / link).exists(), link
    assert not re.search(r"(?:src|href)=[\"']?https?:", page)


def test_a_folder_that_is_taken(
    made: tuple[Path, Found, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = made[0]
    before = (out / "index.html").stat().st_mtime_ns
    code, text, wrong = run(f"demo --out {out}", capsys)
    assert (code, text) == (2, "")
    assert wrong == (
        f"attnlab: {out}: holds a demo already (index.html); "
        "give --overwrite to begin anew, or another folder\n"
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
    for part in PARTS:
        work = works.get(part.name, lambda *_: None)
        monkeypatch.setattr(Story, f"_{part.name}", work)
    monkeypatch.setattr(Teller, "result", lambda *_: None)


def broken(*_: object) -> None:
    raise ZeroDivisionError("no luck")


def test_a_part_that_fails_takes_only_those_that_need_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, learned=broken)
    found, text = told(tmp_path)
    assert set(found.problems) == {"learned", "audit", "attention"}
    assert re.match(r"ZeroDivisionError at test_demo.py:\d+: no luck", found.problems["learned"])
    assert found.problems["audit"] == "left out: it needs “Read and remember”, which failed"
    assert set(found.seconds) == {"none", "pretrained", "claims"}
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
        f"attnlab: stopped at “Read and remember”; what was finished stands in "
        f"{tmp_path / 'index.html'}; attnlab demo --out {tmp_path} --overwrite begins anew\n"
    )
    page = (tmp_path / "index.html").read_text()
    assert "It was stopped at “Read and remember”. Not done yet: “Read and remember”, " in page


def test_pages_of_an_earlier_story_are_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch)
    (tmp_path / "attention.html").write_text("old")
    (tmp_path / "mine.txt").write_text("kept")
    told(tmp_path, overwrite=True)
    assert not (tmp_path / "attention.html").exists()
    assert (tmp_path / "mine.txt").read_text() == "kept"


# Progress


def test_bars_move_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=100, legacy_windows=False)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    bars = progress.Bars(whole=10)
    with bars.part("first", 4, (0.5, 0.5)) as tick:
        tick(3, 4, "loss 1.234")
        tick(1, 4, "again")
        tick(4, 4, "the end")
    assert bars.done == 4
    shown = file.getvalue()
    assert "the whole story" in shown
    assert "first" in shown


def test_elsewhere_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    bars = progress.Bars(whole=10)
    with bars.part("first", 4) as tick:
        tick(1, 2, "half")
    assert not bars.shown
    assert capsys.readouterr() == ("", "")


def test_an_interrupted_claim_says_nothing() -> None:
    """Ctrl-C goes to the claims' processes too; a traceback of each would bury what is told."""
    with running._pool(1) as pool:
        assert pool.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_DFL


def test_training_tells_who_listens(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[tuple[int, int, str]] = []
    with heard_by(lambda *told: heard.append(told)):
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
