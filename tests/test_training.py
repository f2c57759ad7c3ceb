"""The training engine: targets reached, work never lost, one process equals two."""

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
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from attnlab import MECHANISMS
from attnlab.training import (
    InterruptedTraining,
    Loader,
    Run,
    Settings,
    TrainingStoppedError,
    bucket,
    pad_rows,
    train,
)
from attnlab.training import checkpoint as checkpoints
from attnlab.training import loop as loop_module
from attnlab.training.machine import choose_device, matmul_peak
from attnlab.training.optimisers import make_optimisers, rate_at
from tests import tiny

BASE: dict[str, Any] = {"steps": 100, "batch_rows": 32, "warmup": 10, "rate": 1e-2, "device": "cpu"}


def run_tiny(folder: Path, kind: str = "decoder", name: str = "softmax", **changes: Any) -> Any:
    options = {key: changes.pop(key) for key in ("resume", "overwrite") if key in changes}
    model_changes = changes.pop("model", {})
    task, model = tiny.make(kind, name, **model_changes)
    return train(task, model, Settings(**{**BASE, **changes}), Run(folder), quiet=True, **options)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_equal_weights(one: Path, other: Path) -> None:
    mine, theirs = weights(one), weights(other)
    assert list(mine) == list(theirs)
    for name in mine:
        assert torch.equal(mine[name], theirs[name]), name


# Targets


def kinds_and_names() -> list[tuple[str, str]]:
    found = [("reverse", "softmax"), ("convnet", "softmax")]
    for name, kind in MECHANISMS.items():
        found += [("encoder", name), ("vit", name)]
        found += [("decoder", name)] if kind.card.causal else []
        found += [("seq2seq", name)] if kind.card.cross else []
    return sorted(found)


# fourier's denominators can be tiny or negative: its training is unstable, which a claim measures
UNSTABLE = {("decoder", "fourier"), ("vit", "fourier"), ("encoder", "fourier")}


@pytest.mark.parametrize(("kind", "name"), kinds_and_names())
def test_every_model_learns_with_every_mechanism(kind: str, name: str, tmp_path: Path) -> None:
    steps = {"reverse": 300, "vit": 200}.get(kind, 100)
    metrics = run_tiny(tmp_path, kind, name, steps=steps)
    losses = [row["loss"] for row in Run(tmp_path).metrics()]
    assert all(loss < 100 for loss in losses)
    if (kind, name) in UNSTABLE:
        assert min(losses) < 0.95 * losses[0]
    elif (kind, name) == ("vit", "hard"):  # a straight-through gradient is only roughly right
        assert metrics["accuracy"] > 0.5
    else:
        assert metrics["accuracy"] > 0.98


# the loss of the tenth step, as first measured; a change means that training changed
GOLDEN = {
    "decoder": 1.40775,
    "encoder": 1.23154,
    "seq2seq": 1.10864,
    "vit": 1.01298,
    "convnet": 0.91610,
}


@pytest.mark.parametrize("kind", ["decoder", "encoder", "seq2seq", "vit", "convnet"])
def test_ten_steps_give_the_known_loss(kind: str, tmp_path: Path) -> None:
    run_tiny(tmp_path, kind, steps=10)
    rows = Run(tmp_path).metrics()
    assert len(rows) == 10
    assert rows[-1]["loss"] == pytest.approx(GOLDEN[kind], rel=2e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"optimiser": "muon", "muon_rate": 0.02},
        {"ema": 0.9},
        {"accumulate": 3},
        {"schedule": "wsd"},
        {"clip": None, "schedule": "constant"},
        {"batch_rows": None, "batch_tokens": 300},
    ],
)
def test_other_settings_learn_too(changes: dict[str, Any], tmp_path: Path) -> None:
    assert run_tiny(tmp_path, **changes)["accuracy"] > 0.98


def test_accumulation_changes_nothing(tmp_path: Path) -> None:
    for parts in (1, 4):
        run_tiny(tmp_path / str(parts), steps=10, accumulate=parts)
    one, other = (Run(tmp_path / str(parts)).metrics() for parts in (1, 4))
    assert [r["loss"] for r in one] == pytest.approx([r["loss"] for r in other], rel=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, from torch.jit
def test_compiled_training_gives_the_same_losses(tmp_path: Path) -> None:
    if shutil.which("g++") is None and shutil.which("c++") is None:
        pytest.skip("torch.compile needs a C++ compiler, and this machine has none")
    losses = []
    for compiled in (False, True):
        folder = tmp_path / str(compiled)
        run_tiny(folder, steps=4, compile=compiled)
        losses.append([row["loss"] for row in Run(folder).metrics()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


# Data


@settings(max_examples=100)
@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=200),
    tokens=st.integers(1, 300),
    rows=st.one_of(st.none(), st.integers(1, 20)),
    seed=st.integers(0, 5),
)
def test_buckets(lengths: list[int], tokens: int, rows: int | None, seed: int) -> None:
    def make() -> list[list[int]]:
        generator = torch.Generator().manual_seed(seed)
        return bucket(lengths, tokens=tokens, rows=rows, generator=generator)

    batches = make()
    assert batches == make()
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[row] for row in batch)
        assert len(batch) <= rows if rows else (padded <= tokens or len(batch) == 1)


def test_buckets_leave_almost_no_padding() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(4, 113, (20_000,), generator=generator).tolist()
    batches = bucket(lengths, tokens=8192, rows=None, generator=generator)
    padded = sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)
    assert sum(lengths) / padded > 0.97


def test_the_loader_goes_on_where_it_stood() -> None:
    task, _ = tiny.make("decoder")
    plain = Settings(**BASE)
    whole = Loader(task, plain)
    seen = [whole.next()[0]["ids"] for _ in range(20)]
    part = Loader(task, plain)
    for _ in range(9):
        part.next()
    again = Loader(task, plain, part.epoch, part.position)
    for wanted in seen[9:]:
        assert torch.equal(again.next()[0]["ids"], wanted)


def test_pad_rows_by_hand() -> None:
    ids, keys = pad_rows([torch.tensor([5, 6, 7]), torch.tensor([8])], 0)
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert keys.tolist() == [[True, True, True], [True, False, False]]


# Schedules and optimisers


def test_schedules_by_hand() -> None:
    cosine = Settings(steps=110, warmup=10)
    assert [rate_at(s, cosine) for s in (0, 4, 9, 10, 60)] == pytest.approx([0.1, 0.5, 1, 1, 0.5])
    assert rate_at(109, cosine) < 0.001
    wsd = Settings(steps=100, warmup=10, schedule="wsd", decay=0.2, floor=0.1)
    assert [rate_at(s, wsd) for s in (9, 50, 80, 90)] == pytest.approx([1, 1, 1, 0.55])
    assert rate_at(99, wsd) == pytest.approx(0.1 + 0.9 / 20)
    assert rate_at(5000, Settings(schedule="constant")) == 1


def test_muon_takes_the_matrices_inside_alone() -> None:
    _, model = tiny.make("decoder", tie=True)
    muon, adamw = make_optimisers(model, Settings(optimiser="muon"))
    names = {id(p): name for name, p in model.named_parameters()}
    mine = [names[id(p)] for group in muon.param_groups for p in group["params"]]
    assert len(mine) == 2 * 4
    assert all(name.startswith("stack.blocks") and name.endswith("weight") for name in mine)
    groups = adamw.param_groups
    assert [names[id(p)] for p in groups[0]["params"]] == [
        "stack.embedding.weight",
        "stack.position.table",
    ]
    assert groups[1]["weight_decay"] == 0


def test_wrong_settings() -> None:
    for wrong, words in (
        ({"optimiser": "sgd"}, "there are adamw, muon"),
        ({"schedule": "linear"}, "there are cosine"),
        ({"steps": 0}, "steps is 0"),
        ({"decay": 0}, "decay is 0"),
        ({"ema": 1.0}, "ema is 1.0"),
        ({"batch_rows": 0}, "batch_rows is 0"),
        ({"evaluate_every": 0}, "evaluate_every is 0"),
    ):
        with pytest.raises(ValueError, match=words):
            Settings(**wrong)
    with pytest.raises(ValueError, match=r"'tpu'|there are auto"):
        Settings(device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="not on this machine"):
            choose_device("cuda")
    assert matmul_peak(torch.device("cpu")) > 1e8


# Work is never lost


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
    "ema": 0.9,
    "optimiser": "muon",
    "model": {"dropout": 0.1},
}


def test_killed_at_any_moment_and_resumed_bit_for_bit(tmp_path: Path) -> None:
    begin = time.perf_counter()
    run_tiny(tmp_path / "whole", **HARD)
    whole = time.perf_counter() - begin
    generator = random.Random(0)
    killed = 0
    while killed < 20:
        folder = tmp_path / f"killed-{killed}"
        child = fork_training(folder, **HARD)
        time.sleep(generator.random() * 0.8 * whole)
        os.kill(child, signal.SIGKILL)
        if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):  # it was done before
            shutil.rmtree(folder)
            continue
        killed += 1
        ready = checkpoints.newest_good(folder / "checkpoints")[0] is not None
        run_tiny(folder, **{**HARD, ("resume" if ready else "overwrite"): True})
        assert_equal_weights(tmp_path / "whole", folder)
        mine, theirs = (Run(f).metrics() for f in (folder, tmp_path / "whole"))
        assert [r["loss"] for r in mine] == [r["loss"] for r in theirs]
        assert not list(folder.rglob("*.part"))[1:]  # at most what the kill left behind
        shutil.rmtree(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_saves_and_leaves(number: signal.Signals, tmp_path: Path) -> None:
    long = {**HARD, "steps": 4000, "save_every": 4000}
    child = fork_training(tmp_path / "run", **long)
    while not len(Run(tmp_path / "run").metrics()) > 3:
        time.sleep(0.02)
    os.kill(child, number)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + number
    newest, _ = checkpoints.newest_good(tmp_path / "run" / "checkpoints")
    assert newest is not None
    saved = json.loads((newest / "state.json").read_text())["step"]
    assert saved == Run(tmp_path / "run").metrics()[-1]["step"] > 3
    short = {**HARD, "save_every": 4000}
    short["steps"] = saved + 5
    run_tiny(tmp_path / "run", **{**short, "resume": True})
    assert len(Run(tmp_path / "run").metrics()) == saved + 5


@pytest.mark.parametrize("damage", ["weights", "state", "missing"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(
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
        (newest / "optimiser.safetensors").unlink()
    task, model = tiny.make("decoder", dropout=0.1)
    plain = {key: value for key, value in HARD.items() if key != "model"}
    train(task, model, Settings(**{**BASE, **plain}), Run(tmp_path / "run"), resume=True)
    said = capsys.readouterr().err
    assert f"{newest}: damaged" in said
    assert_equal_weights(tmp_path / "whole", tmp_path / "run")


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    task, model = tiny.make("decoder")
    good = task.loss

    def loss(forward: Any, batch: Any) -> Any:
        value = good(forward, batch)
        return value * float("nan") if len(Run(tmp_path).metrics()) == 7 else value

    task.loss = loss  # type: ignore[method-assign]
    with pytest.raises(TrainingStoppedError, match="nan at step 8; the last good one is step 6"):
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
    newest, _ = checkpoints.newest_good(tmp_path / "checkpoints")
    assert newest is not None
    assert newest.name == "step-000000004"
    for tensor in load_file(newest / "model.safetensors").values():
        assert bool(tensor.isfinite().all())


def test_pruning_never_takes_the_good_for_the_damaged(tmp_path: Path) -> None:
    run_tiny(tmp_path, steps=8, save_every=2, keep=3, schedule="constant")
    newest = checkpoints.list_checkpoints(tmp_path / "checkpoints")[-1]
    with (newest / "model.safetensors").open("ab") as file:
        file.write(b"x")
    run_tiny(tmp_path, steps=7, save_every=2, keep=1, schedule="constant", resume=True)
    left = [path.name for path in checkpoints.list_checkpoints(tmp_path / "checkpoints")]
    assert left == ["step-000000007"]
    # what a killed process left, and a run that was killed before its first checkpoint
    (tmp_path / "checkpoints" / f".step-000000009.{os.getpid()}.part").mkdir()
    shutil.rmtree(tmp_path / "checkpoints" / "step-000000007")
    run_tiny(tmp_path, steps=9, schedule="constant", resume=True)
    assert [row["step"] for row in Run(tmp_path).metrics()] == list(range(1, 10))
    assert not list(tmp_path.rglob("*.part"))


def test_a_full_disk_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    saves: list[int] = []
    original: Any = checkpoints.save_file  # type: ignore[attr-defined]

    def sometimes(tensors: Any, path: Any) -> None:
        saves.append(1)
        if len(saves) > 4:
            full()
        original(tensors, path)

    monkeypatch.setattr(checkpoints, "save_file", sometimes)
    with pytest.raises(OSError, match=r"No space left.*untouched"):
        run_tiny(tmp_path, save_every=3)
    monkeypatch.undo()
    assert not list(tmp_path.rglob("*.part"))
    newest, problems = checkpoints.newest_good(tmp_path / "checkpoints")
    assert newest is not None
    assert newest.name == "step-000000003"
    assert problems == []
    assert run_tiny(tmp_path, save_every=3, resume=True)["accuracy"] > 0.98


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="cannot write there"):
        run_tiny(tmp_path / "file" / "run", steps=2)
    run_tiny(tmp_path / "run", steps=2)
    with pytest.raises(ValueError, match=r"holds a run already.*--resume.*--overwrite"):
        run_tiny(tmp_path / "run", steps=2)
    with pytest.raises(ValueError, match=r"the run has rate 0.01, not 0.5"):
        run_tiny(tmp_path / "run", steps=4, rate=0.5, resume=True)
    with pytest.raises(ValueError, match="the run has width 32, not 16"):
        run_tiny(tmp_path / "run", steps=4, model={"width": 16}, resume=True)
    with pytest.raises(ValueError, match=r"config\.json is missing"):
        run_tiny(tmp_path / "nothing", resume=True)
    run_tiny(tmp_path / "run", steps=3, overwrite=True)
    assert len(Run(tmp_path / "run").metrics()) == 3
    with Run(tmp_path / "run").locked(), pytest.raises(ValueError, match="another run is writing"):
        run_tiny(tmp_path / "run", steps=3, overwrite=True)


def test_the_run_folder_explains_itself(tmp_path: Path) -> None:
    metrics = run_tiny(tmp_path, steps=12, evaluate_every=5, save_every=4, keep=2)
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

    monkeypatch.setattr(loop_module, "clip", broken)
    with pytest.raises(ZeroDivisionError):
        run_tiny(tmp_path)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


# Runs that the clock ends


class Ticking:
    """A clock that goes on when it is looked at, so that a busy machine changes nothing."""

    now = 0.0

    def perf_counter(self) -> float:
        self.now += 0.01
        return self.now


@pytest.mark.parametrize("schedule", ["cosine", "wsd"])
def test_a_run_ends_by_the_clock(
    schedule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "time", Ticking())
    options: dict[str, Any] = {"steps": 1, "warmup": 3, "schedule": schedule, "save_every": 20}
    metrics = run_tiny(tmp_path, minutes=0.02, **options)
    rows = Run(tmp_path).metrics()
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) > 20  # `steps` does not count
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)
    assert seconds[-1] < 60 * 0.02
    rates = [row["rate"] for row in rows]
    assert rates[:3] == pytest.approx([1 / 3, 2 / 3, 1])
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert rates[-1] < 0.1
    assert [row["step"] for row in rows if "validation" in row] == [len(rows)]
    assert rows[-1]["validation"] == metrics
    assert Run(tmp_path).config()["training"]["minutes"] == 0.02
    newest, _ = checkpoints.newest_good(tmp_path / "checkpoints")
    assert newest is not None
    assert json.loads((newest / "state.json").read_text())["step"] == len(rows)
    # more minutes: it goes on, and the rate is high again before it falls
    metrics = run_tiny(tmp_path, minutes=0.05, resume=True, **options)
    longer = Run(tmp_path).metrics()
    assert longer[: len(rows)] == rows
    assert [row["step"] for row in longer] == list(range(1, len(longer) + 1))
    assert longer[len(rows)]["rate"] > 0.5
    assert longer[-1]["rate"] < 0.1
    assert longer[-1]["validation"] == metrics
    assert longer[-1]["tokens"] > rows[-1]["tokens"]
    assert Run(tmp_path).config()["training"]["minutes"] == 0.05


def test_the_clock_is_the_real_one(tmp_path: Path) -> None:
    begin = time.perf_counter()
    run_tiny(tmp_path, steps=1, minutes=0.01)
    assert time.perf_counter() - begin > 0.6
    rows = Run(tmp_path).metrics()
    assert len(rows) > 1
    assert rows[-1]["seconds"] > 0


def test_minutes_that_make_no_sense() -> None:
    for minutes in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="minutes is"):
            Settings(minutes=minutes)
