"""Files that a task adds to its run, at the start and at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnlab.run_folder import StartMode
from attnlab.training import Run, Settings, train
from tests.support import small_training as tiny
from tests.support.small_training import BASE


def train_with(folder: Path, start: str = "new", steps: int = 2, **files: Any) -> None:
    task, model = tiny.make("decoder")
    settings = Settings(**{**BASE, "steps": steps, "schedule": "constant"})
    train(task, model, settings, Run(folder), start=StartMode(start), quiet=True, **files)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_a_file_that_fails_leaves_no_run(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("a part")
        raise OSError(28, "No space left on device")

    files = {"first.txt": lambda path: path.write_text("first"), "second.txt": fail}
    with pytest.raises(OSError, match=r"second\.txt: could not be written \(No space left"):
        train_with(tmp_path, files=files)
    assert names(tmp_path) == {"first.txt"}
    with pytest.raises(ValueError, match=r"config\.json is missing; start without --resume"):
        train_with(tmp_path, "resume", files=files)
    train_with(tmp_path, files={**files, "second.txt": None})
    assert "config.json" in names(tmp_path)


def test_files_of_a_new_run_and_of_a_resumed_one(tmp_path: Path) -> None:
    train_with(tmp_path, files={"a.txt": lambda path: path.write_text("a"), "b.txt": None})
    changed = {
        "a.txt": lambda path: path.write_text("changed"),
        "c.txt": lambda path: path.write_text("c"),
    }
    train_with(tmp_path, "resume", files=changed)
    assert (tmp_path / "a.txt").read_text() == "a"  # the run began with it
    assert (tmp_path / "c.txt").read_text() == "c"  # it was missing
    train_with(tmp_path, "overwrite", files={**changed, "c.txt": None})
    assert (tmp_path / "a.txt").read_text() == "changed"
    assert not (tmp_path / "c.txt").exists()


def test_results_are_there_before_the_weights(tmp_path: Path) -> None:
    def compute() -> dict[str, int]:
        assert not Run(tmp_path).finished
        assert not (tmp_path / "known.json").exists()
        return {"rows": len(Run(tmp_path).metrics())}

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train_with(tmp_path, results={"known.json": fail})
    assert not Run(tmp_path).finished
    train_with(tmp_path, "resume", results={"known.json": compute})
    assert json.loads((tmp_path / "known.json").read_text()) == {"rows": 2}
    # with more steps, the old result would be wrong until the end
    train_with(tmp_path, "resume", steps=5, results={"known.json": compute})
    assert json.loads((tmp_path / "known.json").read_text()) == {"rows": 5}
