"""Work is never lost: runs killed, stopped, damaged, out of disk, and resumed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from attnlab.run_folder import StartMode
from attnlab.run_folder import _checkpoints as checkpoints
from attnlab.training import (
    InterruptedTraining,
    Run,
    Settings,
    TrainingStoppedError,
    train,
)
from attnlab.training import (
    _checkpoint as checkpoint,
)
from attnlab.training import _loop as loop_module
from tests.support import small_training as tiny
from tests.support.small_training import BASE, run_tiny


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_equal_weights(one: Path, other: Path) -> None:
    left, right = weights(one), weights(other)
    assert list(left) == list(right)
    for name in left:
        assert torch.equal(left[name], right[name]), name


def fork_training(folder: Path, **changes: Any) -> int:
    """Train in a child process that already has torch."""
    child = os.fork()
    if child == 0:
        try:
            run_tiny(folder, **changes)
        except InterruptedTraining as error:
            os._exit(128 + error.signal_number)
        except BaseException:
            os._exit(99)
        os._exit(0)
    return child


HARD: dict[str, Any] = {
    "steps": 40,
    "save_every": 3,
    "ema_decay": 0.9,
    "optimizer": "muon",
    "model": {"dropout": 0.1},
}


def test_killed_at_any_moment_and_resumed_bit_for_bit(tmp_path: Path) -> None:
    begin = time.perf_counter()
    run_tiny(tmp_path / "whole", **HARD)
    whole = time.perf_counter() - begin
    generator = random.Random(0)
    killed = 0
    while killed < 8:
        folder = tmp_path / f"killed-{killed}"
        child = fork_training(folder, **HARD)
        time.sleep(generator.random() * 0.8 * whole)
        os.kill(child, signal.SIGKILL)
        if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):  # it was done before
            shutil.rmtree(folder)
            continue
        killed += 1
        run_tiny(folder, **HARD, start="resume" if Run(folder).began else "new")
        assert_equal_weights(tmp_path / "whole", folder)
        left, right = (Run(f).metrics() for f in (folder, tmp_path / "whole"))
        assert [r["loss"] for r in left] == [r["loss"] for r in right]
        assert not list(folder.rglob("*.part"))
        shutil.rmtree(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_stops(number: signal.Signals, tmp_path: Path) -> None:
    long = {**HARD, "steps": 4000, "save_every": 4000}
    child = fork_training(tmp_path / "run", **long)
    while not len(Run(tmp_path / "run").metrics()) > 3:
        time.sleep(0.02)
    os.kill(child, number)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + number
    newest, _ = checkpoints.newest_intact_checkpoint(tmp_path / "run" / "checkpoints")
    assert newest is not None
    saved = json.loads((newest / "state.json").read_text())["step"]
    assert saved == Run(tmp_path / "run").metrics()[-1]["step"] > 3
    short = {**HARD, "save_every": 4000}
    short["steps"] = saved + 5
    run_tiny(tmp_path / "run", **short, start="resume")
    assert len(Run(tmp_path / "run").metrics()) == saved + 5


@pytest.mark.parametrize("damage", ["weights", "state", "missing"])
def test_a_damaged_checkpoint_is_named_and_the_previous_one_used(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_tiny(tmp_path / "whole", **HARD)
    run_tiny(tmp_path / "run", **{**HARD, "steps": 40})
    (tmp_path / "run" / "model.safetensors").unlink()
    newest = checkpoints.list_checkpoints(tmp_path / "run" / "checkpoints")[-1]
    if damage == "weights":
        content = bytearray((newest / "model.safetensors").read_bytes())
        content[-7] ^= 1
        (newest / "model.safetensors").write_bytes(content)
    elif damage == "state":
        (newest / "state.json").write_text("{")
    else:
        (newest / "optimizer.safetensors").unlink()
    task, model = tiny.make("decoder", dropout=0.1)
    plain = {key: value for key, value in HARD.items() if key != "model"}
    train(task, model, Settings(**{**BASE, **plain}), Run(tmp_path / "run"), start=StartMode.RESUME)
    message = capsys.readouterr().err
    assert f"{newest}: damaged" in message
    assert_equal_weights(tmp_path / "whole", tmp_path / "run")


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    task, model = tiny.make("decoder")
    good = task.loss

    def loss(forward: Any, batch: Any) -> Any:
        value = good(forward, batch)
        return value * float("nan") if len(Run(tmp_path).metrics()) == 7 else value

    task.loss = loss  # type: ignore[method-assign]
    with pytest.raises(TrainingStoppedError, match="nan at step 8; the last checkpoint is step 6"):
        train(task, model, Settings(**{**BASE, "save_every": 3}), Run(tmp_path), quiet=True)
    assert not (tmp_path / "model.safetensors").exists()


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(tmp_path: Path) -> None:
    task, model = tiny.make("decoder")
    good = task.loss

    def loss(forward: Any, batch: Any) -> Any:
        value = good(forward, batch)  # the square root has no slope at 0
        late = len(Run(tmp_path).metrics()) == 4
        return value + (value * 0).sqrt() if late else value

    task.loss = loss  # type: ignore[method-assign]
    with pytest.raises(TrainingStoppedError, match="gradient became nan at step 5"):
        train(task, model, Settings(**{**BASE, "save_every": 1}), Run(tmp_path), quiet=True)
    newest, _ = checkpoints.newest_intact_checkpoint(tmp_path / "checkpoints")
    assert newest is not None
    assert newest.name == "step-000000004"
    for tensor in load_file(newest / "model.safetensors").values():
        assert bool(tensor.isfinite().all())


def test_pruning_keeps_intact_checkpoints(tmp_path: Path) -> None:
    run_tiny(tmp_path, steps=8, save_every=2, keep_checkpoints=3, schedule="constant")
    newest = checkpoints.list_checkpoints(tmp_path / "checkpoints")[-1]
    with (newest / "model.safetensors").open("ab") as file:
        file.write(b"x")
    run_tiny(
        tmp_path,
        steps=7,
        save_every=2,
        keep_checkpoints=1,
        schedule="constant",
        start=StartMode.RESUME,
    )
    left = [path.name for path in checkpoints.list_checkpoints(tmp_path / "checkpoints")]
    assert left == ["step-000000007"]
    # what a killed process left, and a run that was killed before its first checkpoint
    (tmp_path / "checkpoints" / f".step-000000009.{os.getpid()}.part").mkdir()
    shutil.rmtree(tmp_path / "checkpoints" / "step-000000007")
    run_tiny(tmp_path, steps=9, schedule="constant", start=StartMode.RESUME)
    assert [row["step"] for row in Run(tmp_path).metrics()] == list(range(1, 10))
    assert not list(tmp_path.rglob("*.part"))


def test_a_full_disk_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    saves: list[int] = []
    original: Any = checkpoint.save_tensors  # type: ignore[attr-defined]

    def sometimes(tensors: Any, path: Any) -> None:
        saves.append(1)
        if len(saves) > 4:
            full()
        original(tensors, path)

    monkeypatch.setattr(checkpoint, "save_tensors", sometimes)
    with pytest.raises(OSError, match=r"No space left.*the old file is unchanged"):
        run_tiny(tmp_path, save_every=3)
    monkeypatch.undo()
    assert not list(tmp_path.rglob("*.part"))
    newest, problems = checkpoints.newest_intact_checkpoint(tmp_path / "checkpoints")
    assert newest is not None
    assert newest.name == "step-000000003"
    assert problems == []
    assert run_tiny(tmp_path, save_every=3, start=StartMode.RESUME)["accuracy"] > 0.98


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="cannot write there"):
        run_tiny(tmp_path / "file" / "run", steps=2)
    run_tiny(tmp_path / "run", steps=2)
    with pytest.raises(ValueError, match=r"already holds a run.*--resume.*--overwrite"):
        run_tiny(tmp_path / "run", steps=2)
    with pytest.raises(ValueError, match=r"the run has learning_rate 0.01, not 0.5"):
        run_tiny(tmp_path / "run", steps=4, learning_rate=0.5, start=StartMode.RESUME)
    with pytest.raises(ValueError, match="the run has width 32, not 16"):
        run_tiny(tmp_path / "run", steps=4, model={"width": 16}, start=StartMode.RESUME)
    with pytest.raises(ValueError, match=r"config\.json is missing"):
        run_tiny(tmp_path / "nothing", start=StartMode.RESUME)
    run_tiny(tmp_path / "run", steps=3, start=StartMode.OVERWRITE)
    assert len(Run(tmp_path / "run").metrics()) == 3
    with (
        Run(tmp_path / "run").locked(),
        pytest.raises(ValueError, match="another process is training"),
    ):
        run_tiny(tmp_path / "run", steps=3, start=StartMode.OVERWRITE)


def test_the_files_of_a_run_folder(tmp_path: Path) -> None:
    metrics = run_tiny(tmp_path, steps=12, evaluate_every=5, save_every=4, keep_checkpoints=2)
    config = Run(tmp_path).config()
    assert config["task"]["name"] == "copy"
    assert config["model"]["model"] == "decoder"
    assert config["training"]["steps"] == 12
    assert config["versions"]["torch"] == torch.__version__
    rows = Run(tmp_path).metrics()
    assert [row["step"] for row in rows if "validation" in row] == [5, 10, 12]
    assert rows[-1]["validation"] == metrics
    assert all(0 <= row["padding"] < 0.5 for row in rows)
    assert [p.name for p in sorted((tmp_path / "checkpoints").iterdir())] == [
        "step-000000008",
        "step-000000012",
    ]
    model = Run(tmp_path).model()
    (tmp_path / "model.safetensors").unlink()
    for one, other in zip(model.parameters(), Run(tmp_path).model().parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_loop_does_not_swallow_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> float:
        raise ZeroDivisionError

    monkeypatch.setattr(loop_module, "clip_gradients", broken)
    with pytest.raises(ZeroDivisionError):
        run_tiny(tmp_path)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_overwriting_a_run_removes_its_reports(tmp_path: Path) -> None:
    """An audit of the old weights would be mistaken for one of the new weights."""
    run_tiny(tmp_path, steps=1)
    for name in ("audit.html", "audit.json", "known.json", "notes.txt"):
        (tmp_path / name).write_text("{}")
    run_tiny(tmp_path, steps=1, start=StartMode.RESUME)
    assert (tmp_path / "audit.html").exists()
    run_tiny(tmp_path, steps=1, start=StartMode.OVERWRITE)
    assert not list(tmp_path.glob("audit.*"))
    assert not (tmp_path / "known.json").exists()
    assert (tmp_path / "notes.txt").exists()
