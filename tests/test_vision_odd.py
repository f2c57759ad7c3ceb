"""The vision task: odd names, and run folders that others changed."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from tests.commands import call, run
from tests.vision_files import write_npz
from tests.vision_runs import QUICK, trained

ODD = ["\x1b[31mred\nline", "[b]日本"]


def test_names_of_classes_cannot_steer_a_terminal(
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
