"""Run folders of other versions: 0.1 still works, a newer one is refused in one clear line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.models import load
from attnlab.run_folder import RunFolder, StartMode, read_config
from attnlab.run_folder._config import UPGRADES, parse_config, upgrade
from attnlab.run_folder._file_names import FORMAT, VERSION
from attnlab.run_folder._run_list import summarize
from attnlab.training import Run
from tests.support.command_line import run as command
from tests.support.small_training import run_tiny
from tests.support.studio_servers import studio_client

OLD = Path(__file__).parent / "version_1"  # as attnlab 0.1 wrote it
SETTINGS: dict[str, Any] = {
    "save_every": 2, "evaluate_every": 2, "batch_size": 8, "schedule": "constant",
    "model": {"width": 8, "layers": 1},
}  # fmt: skip
NEWER = "config.json has version 4 of the run format, but this attnlab reads 1 to 3; update attnlab"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return shutil.copytree(OLD, tmp_path / "runs" / "old")


@pytest.fixture
def newer(old: Path) -> Path:
    config = json.loads((old / "config.json").read_text())
    newer = old.rename(old.with_name("newer"))
    (newer / "config.json").write_text(json.dumps({"format": FORMAT, "version": 4, **config}))
    return newer


def test_a_new_run_has_the_format_and_its_version(tmp_path: Path) -> None:
    run_tiny(tmp_path, steps=1)
    config = json.loads((tmp_path / "config.json").read_text())
    assert list(config)[:2] == ["format", "version"]
    assert (config["format"], config["version"]) == (FORMAT, VERSION)


def test_an_old_run_opens(old: Path) -> None:
    assert "format" not in json.loads((old / "config.json").read_text())
    config = Run(old).config()
    assert (config["format"], config["version"]) == (FORMAT, VERSION)
    assert config["training"]["steps"] == 4
    assert torch.equal(
        Run(old).model().state_dict()["head.weight"], load(old).state_dict()["head.weight"]
    )
    (old / "model.safetensors").unlink()  # from its checkpoint
    assert Run(old).model().parameter_count() == 1128


def test_an_old_run_is_listed_and_described(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = summarize(old, old.parent)
    assert (summary.problem, summary.task, summary.step, summary.done) == (None, "copy", 4, True)
    assert (summary.headline, summary.best_step) == ("accuracy", 4)
    code, out, _ = command(f"runs show {old}", capsys)
    assert code == 0
    assert "step-000000004" in out
    assert "lacks" not in out
    with studio_client(old.parent) as client:
        (entry,) = client.get("/api/runs").json()["runs"]
    assert (entry["task"], entry["state"], entry["parameters"]) == ("copy", "finished", 1128)


def test_an_old_run_resumes_and_becomes_a_new_one(old: Path, tmp_path: Path) -> None:
    run_tiny(old, steps=6, start=StartMode.RESUME, **SETTINGS)
    rows, config = Run(old).metrics(), json.loads((old / "config.json").read_text())
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert (config["format"], config["version"]) == (FORMAT, VERSION)
    run_tiny(tmp_path / "whole", steps=6, **SETTINGS)
    losses = [row["loss"] for row in Run(tmp_path / "whole").metrics()]
    assert [row["loss"] for row in rows] == pytest.approx(losses, rel=1e-4)
    with pytest.raises(ValueError, match=r"the run has learning_rate 0.01, not 0.5"):
        run_tiny(old, steps=8, learning_rate=0.5, start=StartMode.RESUME, **SETTINGS)


def test_a_newer_version_is_one_clear_line(newer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command(f"runs {newer.parent}", capsys)
    assert code == 0
    assert out == f"newer: {NEWER}\n"
    for words in (f"runs show {newer}", f"language write {newer}", f"look {newer} --text a"):
        code, _, err = command(words, capsys)
        assert code == 2, words
        assert err.startswith(f"attnlab: {newer}: {NEWER}"), words
        assert err.count("\n") == 1
    for open_it in (Run(newer).config, Run(newer).model, lambda: load(newer)):
        with pytest.raises(ValueError, match="update attnlab"):
            open_it()
    with pytest.raises(ValueError, match="update attnlab"):
        run_tiny(newer, steps=6, start=StartMode.RESUME, **SETTINGS)
    with studio_client(newer.parent) as client:
        (entry,) = client.get("/api/runs").json()["runs"]
        assert client.get("/api/run?run=newer").status_code == 200
    assert (entry["state"], entry["problem"]) == ("broken", NEWER)


@pytest.mark.parametrize("version", [0, 4, -1, 1.5, True, None, "2", [2], {"a": 1}, 10**400])
def test_any_version_is_refused_or_read(version: Any, tmp_path: Path) -> None:
    content = {"format": FORMAT, "version": version, "task": {}, "model": {}, "training": {}}
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"version .* of the run format.*update attnlab") as caught:
        read_config(tmp_path)
    assert len(str(caught.value)) < 150


def test_another_format_is_not_a_run() -> None:
    parts: dict[str, Any] = {"task": {}, "model": {}, "training": {}}
    with pytest.raises(ValueError, match="does not describe a run"):
        parse_config({"format": "attnlab-bench", "version": 2, **parts})
    assert parse_config({"extra": 1, **parts}).content["extra"] == 1


def test_every_older_version_has_an_upgrade() -> None:
    assert set(UPGRADES) == set(range(1, VERSION))
    content = json.loads((OLD / "config.json").read_text())
    upgraded = upgrade(content)
    assert upgrade(upgraded) == upgraded
    assert "version" not in content  # what was read stays as it is


# The mode


def test_start_modes(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    run_tiny(one, steps=1, start="new")
    run_tiny(one, steps=2, start="resume")
    assert [row["step"] for row in Run(one).metrics()] == [1, 2]
    run_tiny(one, steps=1, start="overwrite")
    assert len(Run(one).metrics()) == 1
    with pytest.raises(ValueError, match="start is 'again'; choose from new, resume, overwrite"):
        run_tiny(other, start="again")
    assert not other.exists()
    assert StartMode.RESUME.for_part(one) is StartMode.RESUME
    assert StartMode.RESUME.for_part(other) is StartMode.NEW
    assert StartMode.OVERWRITE.for_part(other) is StartMode.OVERWRITE


def test_delete_removes_reports_and_keeps_other_files(tmp_path: Path) -> None:
    run = RunFolder(tmp_path, ("audit.json", "test-*.json"))
    texts = {
        "audit.json": "{}", "test-a.json": '{"run": "x"}', "test-a.html": "", "notes.txt": "",
        "test-mine.json": "[1]", "test-mine.html": "", "config.json": "{}",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    run.delete()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"notes.txt", "test-mine.json", "test-mine.html"}
    assert not run.began


def test_no_module_imports_torch_or_numpy() -> None:
    program = (
        "import importlib, pkgutil, sys, attnlab.run_folder as package\n"
        "names = [each.name for each in pkgutil.iter_modules(package.__path__)]\n"
        "for name in names: importlib.import_module(f'attnlab.run_folder.{name}')\n"
        "assert len(names) > 5 and not {'torch', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
