"""What reading a large text shows."""

from __future__ import annotations

import pytest
from rich.console import Console

from attnlab.tasks.language import _reading_progress as progress
from attnlab.tasks.language._reading_progress import reading_progress
from attnlab.training import use_progress_listener


def read(quiet: bool = False) -> None:
    with reading_progress("tokenizing", 10**9, quiet=quiet) as advance:
        for _ in range(3):
            advance(250 * 10**6)


def test_lines_outside_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read()
    assert capsys.readouterr() == ("", "")  # nothing to report within a few seconds
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    read()
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split("  ")[0] for line in err.splitlines()] == [
        f"tokenizing: {done} of 1,000 MB" for done in (250, 500, 750)
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_silence(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    monkeypatch.setattr(Console, "is_terminal", terminal)
    read(quiet=True)
    with use_progress_listener(lambda *_: None):  # it shows a bar of its own
        read()
    monkeypatch.setenv("RANK", "1")
    read()
    assert capsys.readouterr() == ("", "")


def test_a_bar_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("TERM", "xterm")
    read()
    out, err = capsys.readouterr()
    assert out == ""
    assert "tokenizing" in err
