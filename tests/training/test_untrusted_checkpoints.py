"""A checkpoint whose checksums are right, but whose tensors are not those of the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from attnlab.run_folder import StartMode
from attnlab.run_folder._checkpoints import TrainingProgress, write_checkpoint
from tests.support.small_training import run_tiny

Change = Callable[[dict[str, Tensor]], object]


def first_with(tensors: dict[str, Tensor], text: str) -> str:
    return next(name for name in tensors if text in name)


@pytest.mark.parametrize(
    ("file", "change", "problem"),
    [
        ("model", lambda t: t.update(other=torch.zeros(2)), "'other' does not fit the model"),
        ("model", lambda t: t.pop(first_with(t, "weight")), "does not fit the model"),
        ("model", lambda t: t.update({first_with(t, "weight"): torch.zeros(3)}), "does not fit"),
        ("optimizer", lambda t: t.update(x=torch.zeros(2)), "'x' does not fit the model"),
        ("optimizer", lambda t: t.update({"exp_avg|x": torch.zeros(2)}), "does not fit the model"),
        ("optimizer", lambda t: t.pop(first_with(t, "exp_avg|")), "lacks a part of the optimizer"),
        ("optimizer", lambda t: t.update({first_with(t, "avg_sq"): torch.zeros(3)}), "not fit"),
    ],
)
def test_tensors_of_another_model(file: str, change: Change, problem: str, tmp_path: Path) -> None:
    run_tiny(tmp_path, steps=4, save_every=2)
    newest = max((tmp_path / "checkpoints").iterdir())
    tensors = {name: load_file(newest / f"{name}.safetensors") for name in ("model", "optimizer")}
    change(tensors[file])

    def save(part: Path) -> None:
        for name, content in tensors.items():
            save_file(content, part / f"{name}.safetensors")

    write_checkpoint(tmp_path / "checkpoints", TrainingProgress(step=4), 2, save)
    with pytest.raises(ValueError, match=problem) as caught:
        run_tiny(tmp_path, steps=6, save_every=2, start=StartMode.RESUME)
    assert "\n" not in str(caught.value)
