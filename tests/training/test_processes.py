"""Two processes train as one does, with copies and with shards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attnlab.run_folder import _checkpoints as checkpoints
from attnlab.training import (
    Run,
)


def command(processes: int, *arguments: object) -> None:
    program = [sys.executable]
    if processes > 1:
        program += ["-m", "torch.distributed.run", "--standalone"]
        program += ["--nproc-per-node", str(processes)]
    program += ["-m", "attnlab", "language", "train", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def small_training(folder: Path) -> list[object]:
    """The arguments of a short training."""
    text = folder / "text.txt"
    text.write_text("\n".join(f"{i} and {i + 1} make {2 * i + 1}." for i in range(400)))
    return [
        text, "--steps", 12, "--width", 24, "--layers", 2, "--heads", 2, "--context", 32,
        "--batch-tokens", 512, "--warmup-steps", 4, "--save-every", 6,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["shards", pytest.param("copies", marks=pytest.mark.slow)])
def test_two_processes_equal_one(kind: str, tmp_path: Path) -> None:
    """The same loss curve with shards and with copies; checkpoints fit any number of processes."""
    common = small_training(tmp_path)
    command(1, *common, "--out", tmp_path / "one")
    command(2, *common, "--out", tmp_path / "two", *(["--shard"] if kind == "shards" else []))
    expected = [row["loss"] for row in Run(tmp_path / "one").metrics()]
    assert len(expected) == 12
    rows = Run(tmp_path / "two").metrics()
    assert [row["loss"] for row in rows] == pytest.approx(expected, abs=1e-4)
    bits = [row["validation"]["bits"] for row in rows if "validation" in row]
    assert len(bits) == 1
    # from two with shards to one, or from one to two with copies
    source, processes = ("two", 1) if kind == "shards" else ("one", 2)
    folder = tmp_path / "moved"
    shutil.copytree(tmp_path / source, folder)
    shutil.rmtree(checkpoints.list_checkpoints(folder / "checkpoints")[-1])
    (folder / "model.safetensors").unlink()
    command(processes, *common, "--out", folder, "--resume")
    losses = [row["loss"] for row in Run(folder).metrics()]
    assert losses == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("both", "two"),
    [
        # an encoder whose pooler takes no part, rows that do not divide, parts of one row
        (["--objective", "masked", "--batch-size", 3, "--accumulation-steps", 2], []),
        (["--optimizer", "muon"], ["--shard"]),
    ],
)
def test_two_processes_equal_one_in_unusual_trainings(
    both: list[object], two: list[object], tmp_path: Path
) -> None:
    common = [*small_training(tmp_path), *both]
    command(1, *common, "--out", tmp_path / "one")
    command(2, *common, *two, "--out", tmp_path / "two")
    one, other = (Run(tmp_path / name).metrics() for name in ("one", "two"))
    assert [r["loss"] for r in one] == pytest.approx([r["loss"] for r in other], abs=1e-4)
