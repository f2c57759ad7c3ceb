"""Training: models learn, batches and learning rates are correct, and runs end by time."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab import MECHANISMS
from attnlab.run_folder import StartMode
from attnlab.run_folder import _checkpoints as checkpoints
from attnlab.training import BatchLoader, Run, Settings, bucket_by_length, pad_rows, train
from attnlab.training import _loop as loop_module
from attnlab.training._machine import choose_device, matmul_peak
from attnlab.training._optimizers import learning_rate_factor, make_optimizers
from attnlab.training._progress import Reporter
from tests.support import small_training as tiny
from tests.support.examples import examples
from tests.support.small_training import BASE, SteppingClock, run_tiny
from tests.support.whole_texts import bucket_in_lists

# Targets


def kinds_and_names() -> list[tuple[str, str]]:
    result = [("reverse", "softmax"), ("convnet", "softmax")]
    for name, kind in MECHANISMS.items():
        result += [("encoder", name), ("vit", name)] if kind.card.bidirectional else []
        result += [("decoder", name)] if kind.card.causal else []
        result += [("seq2seq", name)] if kind.card.cross else []
    return sorted(result)


# fourier's denominators can be tiny or negative: its training is unstable, which a claim measures
UNSTABLE = {("decoder", "fourier"), ("vit", "fourier"), ("encoder", "fourier")}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=[] if name == "softmax" else [pytest.mark.slow])
        for kind, name in kinds_and_names()
    ],
)
def test_every_model_learns_with_every_mechanism(kind: str, name: str, tmp_path: Path) -> None:
    steps = {"reverse": 300, "vit": 200}.get(kind, 100)
    # weights that sparsemax once sets to 0 have no gradient, so that large steps end its learning
    rate = {"learning_rate": 0.003} if name == "sparsemax" else {}
    metrics = run_tiny(tmp_path, kind, name, steps=steps, **rate)
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
    "vit": 1.21471,
    "convnet": 0.91610,
}


@pytest.mark.parametrize("kind", ["decoder", "encoder", "seq2seq", "vit", "convnet"])
def test_ten_steps_give_the_expected_loss(kind: str, tmp_path: Path) -> None:
    run_tiny(tmp_path, kind, steps=10)
    rows = Run(tmp_path).metrics()
    assert len(rows) == 10
    assert rows[-1]["loss"] == pytest.approx(GOLDEN[kind], rel=2e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "muon", "muon_learning_rate": 0.02},
        {"ema_decay": 0.9},
        {"accumulation_steps": 3},
        {"schedule": "wsd"},
        {"max_gradient_norm": None, "schedule": "constant"},
        {"batch_size": None, "batch_tokens": 300},
    ],
)
def test_other_settings_learn_too(changes: dict[str, Any], tmp_path: Path) -> None:
    assert run_tiny(tmp_path, **changes)["accuracy"] > 0.98


def test_accumulation_changes_nothing(tmp_path: Path) -> None:
    for parts in (1, 4):
        run_tiny(tmp_path / str(parts), steps=10, accumulation_steps=parts)
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


@examples(100)
@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=200),
    tokens=st.integers(1, 300),
    rows=st.one_of(st.none(), st.integers(1, 20)),
    seed=st.integers(0, 5),
)
def test_buckets(lengths: list[int], tokens: int, rows: int | None, seed: int) -> None:
    first, again = (torch.Generator().manual_seed(seed) for _ in range(2))
    batches = list(bucket_by_length(lengths, tokens=tokens, rows=rows, generator=first))
    assert batches == bucket_in_lists(lengths, tokens=tokens, rows=rows, generator=again)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[row] for row in batch)
        assert len(batch) <= rows if rows else (padded <= tokens or len(batch) == 1)


def test_buckets_leave_almost_no_padding() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(4, 113, (20_000,), generator=generator).tolist()
    batches = bucket_by_length(lengths, tokens=8192, rows=None, generator=generator)
    padded = sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)
    assert sum(lengths) / padded > 0.97


def test_the_loader_resumes_at_its_position() -> None:
    task, _ = tiny.make("decoder")
    plain = Settings(**BASE)
    whole = BatchLoader(task, plain)
    batches = [whole.next()[0]["ids"] for _ in range(20)]
    part = BatchLoader(task, plain)
    for _ in range(9):
        part.next()
    again = BatchLoader(task, plain, part.epoch, part.position)
    for expected in batches[9:]:
        assert torch.equal(again.next()[0]["ids"], expected)


def test_pad_rows_by_hand() -> None:
    ids, keys = pad_rows([torch.tensor([5, 6, 7]), torch.tensor([8])], 0)
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert keys.tolist() == [[True, True, True], [True, False, False]]


# Schedules and optimizers


def test_schedules_by_hand() -> None:
    cosine = Settings(steps=110, warmup_steps=10)
    assert [learning_rate_factor(s, cosine) for s in (0, 4, 9, 10, 60)] == pytest.approx(
        [0.1, 0.5, 1, 1, 0.5]
    )
    assert learning_rate_factor(109, cosine) < 0.001
    wsd = Settings(
        steps=100, warmup_steps=10, schedule="wsd", decay_fraction=0.2, final_rate_fraction=0.1
    )
    assert [learning_rate_factor(s, wsd) for s in (9, 50, 80, 90)] == pytest.approx([1, 1, 1, 0.55])
    assert learning_rate_factor(99, wsd) == pytest.approx(0.1 + 0.9 / 20)
    assert learning_rate_factor(5000, Settings(schedule="constant")) == 1


def test_muon_optimizes_only_inner_matrices() -> None:
    _, model = tiny.make("decoder", tie=True)
    muon, adamw = make_optimizers(model, Settings(optimizer="muon"))
    names = {id(p): name for name, p in model.named_parameters()}
    muon_names = [names[id(p)] for group in muon.param_groups for p in group["params"]]
    assert len(muon_names) == 2 * 4
    assert all(name.startswith("stack.blocks") and name.endswith("weight") for name in muon_names)
    groups = adamw.param_groups
    assert [names[id(p)] for p in groups[0]["params"]] == [
        "stack.embedding.weight",
        "stack.position.table",
    ]
    assert groups[1]["weight_decay"] == 0


def test_wrong_settings() -> None:
    for wrong, words in (
        ({"optimizer": "sgd"}, "choose from adamw, muon"),
        ({"schedule": "linear"}, "choose from cosine"),
        ({"steps": 0}, "steps is 0"),
        ({"decay_fraction": 0}, "decay_fraction is 0"),
        ({"ema_decay": 1.0}, "ema_decay is 1.0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"evaluate_every": 0}, "evaluate_every is 0"),
    ):
        with pytest.raises(ValueError, match=words):
            Settings(**wrong)
    with pytest.raises(ValueError, match=r"'tpu'"):
        Settings(device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="not on this machine"):
            choose_device("cuda")
    assert matmul_peak(torch.device("cpu")) > 1e8


def test_the_fraction_of_the_peak_is_at_most_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A peak that was measured too low on a busy machine is raised by faster steps."""
    for peak, percentages in ((100.0, (50, 100, 50)), (0.0, (0, 0, 0))):
        reporter = Reporter(steps=1, done=0, peak=peak)
        for flops, percentage in zip((50.0, 400.0, 200.0), percentages, strict=True):
            reporter.update(1, 2.0, 3.0, flops)
            assert f"  {percentage}% of peak" in capsys.readouterr().err


# Runs that end by time


@pytest.mark.parametrize("schedule", ["cosine", "wsd"])
def test_a_run_ends_by_time(schedule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "time", SteppingClock())
    options: dict[str, Any] = {
        "steps": 1,
        "warmup_steps": 3,
        "schedule": schedule,
        "save_every": 20,
    }
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
    newest, _ = checkpoints.newest_intact_checkpoint(tmp_path / "checkpoints")
    assert newest is not None
    assert json.loads((newest / "state.json").read_text())["step"] == len(rows)
    # with more minutes it continues, and the rate is high again before it falls
    metrics = run_tiny(tmp_path, minutes=0.05, start=StartMode.RESUME, **options)
    longer = Run(tmp_path).metrics()
    assert longer[: len(rows)] == rows
    assert [row["step"] for row in longer] == list(range(1, len(longer) + 1))
    assert longer[len(rows)]["rate"] > 0.5
    assert longer[-1]["rate"] < 0.1
    assert longer[-1]["validation"] == metrics
    assert longer[-1]["tokens"] > rows[-1]["tokens"]
    assert Run(tmp_path).config()["training"]["minutes"] == 0.05


def test_minutes_are_measured_in_real_time(tmp_path: Path) -> None:
    begin = time.perf_counter()
    run_tiny(tmp_path, steps=1, minutes=0.01)
    assert time.perf_counter() - begin > 0.6
    rows = Run(tmp_path).metrics()
    assert rows[-1]["seconds"] > 0


def slow_validations(clock: SteppingClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each validation takes a fifth of the minutes of these tests."""
    usual = loop_module.evaluate

    def slow(*arguments: Any) -> dict[str, float]:
        clock.now += 0.25
        return usual(*arguments)

    monkeypatch.setattr(loop_module, "time", clock)
    monkeypatch.setattr(loop_module, "evaluate", slow)


def test_minutes_of_training_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs train equally long however often they validate, even if one was interrupted."""
    slow_validations(SteppingClock(), monkeypatch)
    options: dict[str, Any] = {"minutes": 0.02, "save_every": 20, "evaluate_every": 20}
    runs: dict[str, dict[str, Any]] = {
        "wall": {},
        "often": {"training_time_only": True},
        "once": {"training_time_only": True, "evaluate_every": None},
        "resumed": {"training_time_only": True, "minutes": 0.01},
    }
    for name, changes in runs.items():
        run_tiny(tmp_path / name, **options | changes)
    run_tiny(tmp_path / "resumed", **options, training_time_only=True, start=StartMode.RESUME)
    steps = {path.name: Run(path).metrics()[-1]["step"] for path in tmp_path.iterdir()}
    assert steps["often"] == steps["once"] == steps["resumed"] == 77
    assert steps["wall"] < 40
    seconds = Run(tmp_path / "often").metrics()[-1]["seconds"]
    assert 60 * 0.02 <= seconds < 60 * 0.02 + SteppingClock.step


@pytest.mark.parametrize("training_time_only", [False, True])
def test_a_run_that_ended_by_time_stays_finished(
    training_time_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time spent on validation and saving counts as well."""
    slow_validations(SteppingClock(), monkeypatch)
    options: dict[str, Any] = {
        "minutes": 0.02, "save_every": 9, "evaluate_every": 9,
        "training_time_only": training_time_only,
    }  # fmt: skip
    run_tiny(tmp_path, **options)
    rows = Run(tmp_path).metrics()
    weights = (tmp_path / "model.safetensors").read_bytes()
    run_tiny(tmp_path, **options, start=StartMode.RESUME)
    assert Run(tmp_path).metrics() == rows
    assert (tmp_path / "model.safetensors").read_bytes() == weights


def test_a_checkpoint_without_elapsed_time_is_still_read(tmp_path: Path) -> None:
    run_tiny(tmp_path, steps=4)
    path = tmp_path / "checkpoints" / "step-000000004" / "state.json"
    state = json.loads(path.read_text())
    assert state.pop("elapsed") >= state["seconds"] > 0
    path.write_text(json.dumps(state))  # as older versions wrote it
    run_tiny(tmp_path, steps=6, start=StartMode.RESUME)
    assert len(Run(tmp_path).metrics()) == 6
    assert json.loads((path.parent.parent / "step-000000006" / "state.json").read_text())["elapsed"]


@pytest.mark.parametrize("length", [{"steps": 24}, {"minutes": 0.02, "training_time_only": True}])
def test_validations_are_spread_evenly(
    length: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_validations(SteppingClock(), monkeypatch)
    run_tiny(tmp_path, **length, evaluations=4)
    rows = Run(tmp_path).metrics()
    result = [row["step"] for row in rows if "validation" in row]
    assert result == [pytest.approx(len(rows) * part / 4, abs=1) for part in (1, 2, 3, 4)]


def test_more_validations_than_steps(tmp_path: Path) -> None:
    run_tiny(tmp_path, steps=3, evaluations=50)
    assert [row["step"] for row in Run(tmp_path).metrics() if "validation" in row] == [1, 2, 3]
    with pytest.raises(ValueError, match="evaluations is 0"):
        Settings(evaluations=0)


def test_a_run_stops_at_a_validation_and_stays_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accuracies = iter([0.2, 0.5, 0.7, 0.9, 0.8, 0.9])
    kind = type(tiny.make("decoder")[0])
    monkeypatch.setattr(kind, "evaluate", lambda *_: {"accuracy": next(accuracies)})
    options: dict[str, Any] = {"steps": 20, "evaluate_every": 2, "stop_at": 0.7}
    assert run_tiny(tmp_path, **options)["accuracy"] == 0.7
    assert [row["step"] for row in Run(tmp_path).metrics()] == [1, 2, 3, 4, 5, 6]
    weights = (tmp_path / "model.safetensors").read_bytes()
    run_tiny(tmp_path, **options, start=StartMode.RESUME)
    assert len(Run(tmp_path).metrics()) == 6
    assert (tmp_path / "model.safetensors").read_bytes() == weights
    with pytest.raises(ValueError, match="stop_at is nan; give a finite number"):
        Settings(stop_at=float("nan"))


def test_a_run_stops_at_a_low_value_where_lower_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([3.0, 1.0, 0.5])
    task, model = tiny.make("decoder")
    monkeypatch.setattr(task, "headline", "loss")
    monkeypatch.setattr(task, "better", "lower")
    monkeypatch.setattr(task, "evaluate", lambda *_: {"loss": next(losses)})
    settings = Settings(steps=9, evaluate_every=2, stop_at=1.5, batch_size=8, device="cpu")
    train(task, model, settings, Run(tmp_path), quiet=True)
    assert len(Run(tmp_path).metrics()) == 4


def test_invalid_minutes_are_refused() -> None:
    for minutes in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="minutes is"):
            Settings(minutes=minutes)
