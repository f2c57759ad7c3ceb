"""A full disk costs one line and no work that was saved."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest

from attnlab._safe_files import write_atomically
from attnlab.run_folder import StartMode
from attnlab.run_folder._checkpoints import newest_intact_checkpoint
from attnlab.training import Run
from tests.support.command_line import call
from tests.support.small_training import run_tiny

TRAIN = (
    "language train text.txt --width 16 --layers 1 --heads 2 --context 8 --batch-tokens 64 "
    "--steps 4 --save-every 2 --device cpu --out run"
)


def call_with_limit(command: str, limit: int) -> tuple[int, list[str]]:
    """The exit code and the lines of a command whose files may have this many bytes at most."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            with redirect_stderr(os.fdopen(writer, "w", buffering=1)):
                code = call(command)
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as file:
        lines = file.read().splitlines()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), lines


def test_a_checkpoint_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """safetensors has errors of its own. The optimizer's file grows after the first step."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("to be or not to be. " * 40)
    assert call(f"{TRAIN.removesuffix('run')}whole") == 0
    sizes = [path.stat().st_size for path in Path("whole/checkpoints").rglob("*.safetensors")]
    code, lines = call_with_limit(TRAIN, (min(sizes) + max(sizes)) // 2)
    assert (code, [line for line in lines if "Traceback" in line]) == (2, [])
    assert lines[-1] == (
        "attnlab: run/checkpoints/step-000000002: could not be written (File too large); free "
        "some space or choose another folder; the old file is unchanged"
    )
    newest, problems = newest_intact_checkpoint(Path("run/checkpoints"))
    assert newest is not None
    assert (newest.name, problems) == ("step-000000000", [])
    assert not list(Path("run").rglob("*.part"))
    assert call(f"{TRAIN} --resume") == 0
    weights = [Path(name, "model.safetensors").read_bytes() for name in ("run", "whole")]
    assert weights[0] == weights[1]


def test_the_first_file_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no run then, and the same command starts it."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("to be or not to be. " * 40)
    code, lines = call_with_limit(TRAIN, 10)
    assert code == 2
    assert lines[-1] == (
        "attnlab: run/tokenizer.json: could not be written (File too large); free some space or "
        "choose another folder; the old file is unchanged"
    )
    assert [path.name for path in Path("run").rglob("*")] == [".lock"]
    assert call(TRAIN) == 0


def test_metrics_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is cut short, as a full disk cuts it, and is written again when training resumes."""
    run_tiny(tmp_path / "whole", steps=8, save_every=3)
    file_class: Any = type(Path("x"))
    original = file_class.open

    class FullFile:
        def __init__(self, file: Any) -> None:
            self.file, self.rows = file, 0

        def write(self, line: bytes) -> int:
            self.rows += 1
            return int(self.file.write(line[: len(line) // 2] if self.rows == 5 else line))

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    def open_full(path: Path, mode: str = "r", **options: Any) -> Any:
        file = original(path, mode, **options)
        return FullFile(file) if mode == "ab" else file

    monkeypatch.setattr(file_class, "open", open_full)
    with pytest.raises(
        OSError, match=r"metrics\.jsonl: could not be written \(No space left.*-res"
    ):
        run_tiny(tmp_path / "run", steps=8, save_every=3)
    monkeypatch.undo()
    assert [row["step"] for row in Run(tmp_path / "run").metrics()] == [1, 2, 3, 4]
    run_tiny(tmp_path / "run", steps=8, save_every=3, start=StartMode.RESUME)
    rows = [[row["loss"] for row in Run(tmp_path / name).metrics()] for name in ("run", "whole")]
    assert rows[0] == rows[1]


def test_a_write_that_fails_keeps_the_old_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old").write_text("old")

    def write(part: Path) -> None:
        part.mkdir()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"folder: could not be written \(No space left"):
        write_atomically(folder, write)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "old"]
