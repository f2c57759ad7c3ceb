"""A run does at least one step, however short its budget is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.run_folder._checkpoints import list_checkpoints
from attnlab.tasks.knowledge._presets import PRESETS
from attnlab.training import Run
from tests.support.command_line import run
from tests.support.image_files import write_npz
from tests.support.killed_commands import tiny_preset
from tests.support.knowledge_runs import SIZES
from tests.support.small_training import run_tiny

WORLD = "--corpus world/corpus.txt --pairs world/train.tsv"


@pytest.mark.parametrize("training_time_only", [False, True])
def test_one_step_at_least(training_time_only: bool, tmp_path: Path) -> None:
    metrics = run_tiny(tmp_path, minutes=1e-9, training_time_only=training_time_only)
    (row,) = Run(tmp_path).metrics()
    assert row["step"] == 1
    assert row["validation"] == metrics
    first, last = list_checkpoints(tmp_path / "checkpoints")
    weights = [(path / "model.safetensors").read_bytes() for path in (first, last)]
    assert weights[0] != weights[1]  # not the random weights
    assert weights[1] == (tmp_path / "model.safetensors").read_bytes()


def test_a_resumed_run_does_not_get_another_step(tmp_path: Path) -> None:
    run_tiny(tmp_path, minutes=1e-9)
    before = (tmp_path / "model.safetensors").read_bytes()
    run_tiny(tmp_path, minutes=1e-9, start="resume")
    assert len(Run(tmp_path).metrics()) == 1
    assert (tmp_path / "model.safetensors").read_bytes() == before


def test_comparisons_and_commands(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PRESETS, "small", tiny_preset())
    write_npz(here / "set.npz", 30)
    for command in (
        f"compare knowledge {WORLD} --evaluation-pairs world/dev.tsv --attention softmax --seeds 1",
        f"compare vision --data set.npz {SIZES} --fractions 1 --seeds 1 --no-convnet "
        "--attention softmax elu",
        f"language train text.txt {SIZES} --context 16",
    ):
        code, _, err = run(f"{command} --minutes 0.0000001 --out short --overwrite", capsys)
        assert code == 0, err
        if command.startswith("compare"):
            results = json.loads((here / "short" / "compare.json").read_text())["runs"]
            stages = [2, 1] if "knowledge" in command else [1, 1]  # pretraining and finetuning
            assert [each["outcome"]["steps"] for each in results] == stages
