"""The vision task: odd names, and run folders that others changed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command_line import call, run
from tests.support.image_files import labels, pixels, write_npz
from tests.support.vision_runs import QUICK, trained

ODD = ["\x1b[31mred\nline", "[b]日本"]


def test_class_names_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_npz(tmp_path / "set.npz", 60, classes=np.array(ODD))
    trained(tmp_path, training={**QUICK, "steps": 2})
    for command in (f"classify {tmp_path / 'vit'} --test 0 1", f"evaluate {tmp_path / 'vit'}"):
        code, out, error = run(f"vision {command}", capsys)
        assert code == 0, error
        assert "\x1b" not in out
        assert "[b]日本" in out
        if command.startswith("classify"):
            assert [line[:12] for line in out.splitlines()] == ["test image 0", "test image 1"]
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", narrow)
    assert call(f"vision classify {tmp_path / 'vit'} --test 0") == 0
    narrow.seek(0)
    assert "[b]?? " in narrow.read()


def without(name: str) -> Any:
    return lambda task: {key: value for key, value in task.items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("classes"), "has no valid classes of the task; train the run again"),
        (without("content"), "has no valid content of the task; train the run again"),
        (without("data"), "has no valid data of the task; train the run again"),
        (
            lambda task: {**task, "image_size": "6"},
            "has no valid image_size of the task; train the run again",
        ),
        (lambda task: {**task, "classes": ["0"]}, "its classes or images do not match its model"),
        (lambda task: {**task, "classes": [0, 1]}, "its classes or images do not match its model"),
        (lambda _: [], "does not describe a run"),
        (lambda _: None, "does not describe a run"),
    ],
)
def test_incomplete_configuration(
    change: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path, training={**QUICK, "steps": 1})
    folder = tmp_path / "vit"
    config = json.loads((folder / "config.json").read_text())
    config["task"] = change(config["task"])
    (folder / "config.json").write_text(json.dumps(config))
    other = tmp_path / "other.npz"
    np.savez(other, images=pixels(20, 1, 6, 4)[:, 0].numpy(), labels=np.array(labels(20)))
    commands = (f"evaluate {folder}", f"evaluate {folder} --data {other}")
    for command in (*commands, f"classify {folder} --test 0"):
        code, _, error = run(f"vision {command}", capsys)
        assert code == 2
        assert error.startswith(f"attnlab: {folder}")
        assert message in error
        assert error.count("\n") == 1
