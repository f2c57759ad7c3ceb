"""Resume with odd files: one line about each problem, and nothing else is lost."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._checkpoints import list_checkpoints, newest_intact_checkpoint
from attnlab.training import Run, Settings, train
from tests.support import small_training as tiny
from tests.support.command_line import call
from tests.support.killed_commands import COMMANDS, prepare
from tests.support.small_training import BASE, run_tiny

SAVED: dict[str, Any] = {"steps": 6, "save_every": 3}


def resume_loudly(folder: Path, **changes: Any) -> None:
    """`run_tiny` is quiet."""
    task, model = tiny.make("decoder")
    train(
        task, model, Settings(**{**BASE, **SAVED, **changes}), Run(folder), start=StartMode.RESUME
    )


def insert_line(path: Path, content: bytes) -> None:
    """After the second row."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], content + b"\n", *lines[2:]]))


# metrics.jsonl


@pytest.mark.parametrize(
    "content",
    [b"{not JSON", b"[1, 2]", b"3", b'{"loss": 1.0}', b'{"step": "two"}', b'{"step": -1}', b"",
     b"\xff\xfe\x00\x01", b"[" * 50_000, b"x" * 300_000, b'{"step": true}'],
)  # fmt: skip
def test_a_bad_line_costs_only_itself(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_tiny(tmp_path, **SAVED)
    rows = Run(tmp_path).metrics()
    insert_line(tmp_path / "metrics.jsonl", content)
    assert Run(tmp_path).metrics() == rows
    resume_loudly(tmp_path)
    assert [row["loss"] for row in Run(tmp_path).metrics()] == [row["loss"] for row in rows]
    message = "metrics.jsonl: left out 1 damaged line, the first is line 3"
    assert capsys.readouterr().err.count(message) == 1
    resume_loudly(tmp_path)
    assert "damaged" not in capsys.readouterr().err


def test_a_last_line_that_was_cut_short_is_no_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_tiny(tmp_path, **SAVED)
    path = tmp_path / "metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"step": 7, "lo')
    resume_loudly(tmp_path)
    assert path.read_bytes() == whole
    path.write_bytes(whole.rstrip(b"\n"))  # an editor left out the last line break
    resume_loudly(tmp_path, steps=7)
    assert [row["step"] for row in Run(tmp_path).metrics()] == [1, 2, 3, 4, 5, 6, 7]
    assert "damaged" not in capsys.readouterr().err


def make_folder(path: Path) -> None:
    path.mkdir()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [make_folder, make_pipe])
def test_metrics_that_are_no_file(make: Callable[[Path], None], tmp_path: Path) -> None:
    run_tiny(tmp_path, **SAVED)
    path = tmp_path / "metrics.jsonl"
    path.unlink()
    make(path)
    with pytest.raises(ValueError, match=r"metrics\.jsonl: cannot be read \(.*not a file.*move it"):
        run_tiny(tmp_path, **SAVED, start="resume")
    path.rmdir() if path.is_dir() else path.unlink()
    run_tiny(tmp_path, **SAVED, start="resume")


def test_metrics_that_are_a_link(tmp_path: Path) -> None:
    """The rows are kept, and the file that the link names is not changed."""
    run_tiny(tmp_path / "run", **SAVED)
    path, target = tmp_path / "run" / "metrics.jsonl", tmp_path / "elsewhere.jsonl"
    path.rename(target)
    path.symlink_to(target)
    before = target.read_bytes()
    run_tiny(tmp_path / "run", **{**SAVED, "steps": 7}, start="resume")
    assert len(Run(tmp_path / "run").metrics()) == 7
    assert target.read_bytes() == before
    assert not path.is_symlink()


# state.json


def change_state(name: str, value: Any) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        state = json.loads(path.read_text())
        path.write_text(json.dumps({**state, name: value}))

    return change


def without_checksum(name: str, value: Any) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        state = json.loads(path.read_text())
        del state["checksum"]
        path.write_text(json.dumps({**state, name: value}))

    return change


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: path.write_text("{"), "state.json is not JSON"),
        (lambda path: path.write_text("[" * 50_000), "state.json is not JSON"),
        (lambda path: path.write_text("[]"), "state.json is not an object"),
        (lambda path: path.write_text("{}"), "state.json has no step"),
        (lambda path: path.write_bytes(b"\xff" * 9), "state.json is not JSON"),
        (lambda path: path.write_bytes(b" " * 2**21), "state.json is too large"),
        (lambda path: path.unlink(), "state.json is missing"),
        (change_state("position", 2), "the checksum of state.json is wrong"),
        (change_state("checksum", "0"), "the checksum of state.json is wrong"),
        (without_checksum("step", "six"), "state.json has a wrong value of step"),
        (without_checksum("step", 5), "state.json is of step 5"),
        (without_checksum("tokens", -1), "state.json has a wrong value of tokens"),
        (without_checksum("seconds", float("nan")), "state.json has a wrong value of seconds"),
        (without_checksum("sha256", {}), "the checksum of model.safetensors is wrong"),
        (without_checksum("sha256", [1]), "state.json has a wrong value of sha256"),
        (without_checksum("sha256", None), "state.json has a wrong value of sha256"),
    ],
)
def test_a_damaged_state_falls_back_to_the_older_checkpoint(
    damage: Callable[[Path], object],
    problem: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_tiny(tmp_path, **SAVED)
    whole = (tmp_path / "model.safetensors").read_bytes()
    older, newest = list_checkpoints(tmp_path / "checkpoints")
    damage(newest / "state.json")
    assert newest_intact_checkpoint(tmp_path / "checkpoints")[0] == older
    resume_loudly(tmp_path)
    message = f"{newest}: damaged ({problem}); using the previous checkpoint\n"
    assert capsys.readouterr().err.count(message) == 1
    assert (tmp_path / "model.safetensors").read_bytes() == whole


def test_a_checkpoint_without_a_checksum_still_loads(tmp_path: Path) -> None:
    """Older versions wrote none."""
    run_tiny(tmp_path, **SAVED)
    newest = list_checkpoints(tmp_path / "checkpoints")[-1]
    without_checksum("epoch", 0)(newest / "state.json")
    assert newest_intact_checkpoint(tmp_path / "checkpoints") == (newest, [])


def test_a_pipe_in_a_checkpoint_does_not_block(tmp_path: Path) -> None:
    run_tiny(tmp_path, **SAVED)
    older, newest = list_checkpoints(tmp_path / "checkpoints")
    (newest / "model.safetensors").unlink()
    os.mkfifo(newest / "model.safetensors")
    assert newest_intact_checkpoint(tmp_path / "checkpoints")[0] == older


# config.json


@pytest.mark.parametrize("left", ["checkpoints", "model.safetensors", "metrics.jsonl"])
def test_a_run_without_its_config_is_refused(left: str, tmp_path: Path) -> None:
    run_tiny(tmp_path / "run", **SAVED)
    run_tiny(tmp_path / "other", **SAVED, seed=1)
    for path in (tmp_path / "run").iterdir():
        if path.name not in (left, "checkpoints"):
            path.unlink()
    if left != "checkpoints":
        for path in list_checkpoints(tmp_path / "run" / "checkpoints"):
            path.rename(tmp_path / path.name)
    before = sorted((tmp_path / "run").rglob("*"))
    for start in (StartMode.NEW, StartMode.RESUME):
        message = r"run: has checkpoints, weights or .*config\.json is missing; give --overwrite"
        with pytest.raises(ValueError, match=message):
            check_folder(tmp_path / "run", start)
        with pytest.raises(ValueError, match=message):
            run_tiny(tmp_path / "run", **SAVED, seed=1, start=start)
    assert [p for p in sorted((tmp_path / "run").rglob("*")) if p.name != ".lock"] == before
    run_tiny(tmp_path / "run", **SAVED, seed=1, start=StartMode.OVERWRITE)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "other")]
    assert weights[0] == weights[1]
    assert len(Run(tmp_path / "run").metrics()) == 6


def test_your_own_files_do_not_stop_a_new_run(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "notes.txt").write_text("mine")
    (tmp_path / "test.json").write_text('{"run": "mine"}')
    run_tiny(tmp_path, **SAVED)
    assert (tmp_path / "test.json").read_text() == '{"run": "mine"}'
    assert (tmp_path / "checkpoints" / "notes.txt").exists()


def test_another_run_below_keeps_its_partial_files(tmp_path: Path) -> None:
    """It may still be training."""
    part = tmp_path / "below" / ".config.json.1-2.part"
    part.mkdir(parents=True)
    run_tiny(tmp_path, **SAVED)
    assert part.exists()


@pytest.mark.parametrize("command", ["language", "pretrain", "summary"])
def test_resume_writes_a_missing_tokenizer(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 0.1 could be killed between config.json and tokenizer.json."""
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    line = f"{COMMANDS[command].line} --out run"
    assert call(line) == 0
    before = Path("run/tokenizer.json").read_bytes()
    Path("run/tokenizer.json").unlink()
    assert call(f"{line} --resume") == 0
    assert Path("run/tokenizer.json").read_bytes() == before


# Modes


@pytest.mark.parametrize(("umask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_file_modes_follow_the_umask(umask: int, expected: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        run_tiny(tmp_path / "run", **SAVED)
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(files) == 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {expected}
