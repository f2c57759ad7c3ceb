"""The grid, resuming, overwriting and failures, with runs that take no time."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from attnlab.compare._engine import Compared, compare, grid
from attnlab.errors import InterruptedTraining
from attnlab.run_folder import RunFolder, StartMode
from attnlab.tasks.comparison import TRIAL_FOLDER, Budget, Outcome, Trial
from tests.support.fake_comparison import FakeComparison, FakeSweep, made_run

LOSSES = {"softmax": [2.0, 2.1, 2.2], "elu": [2.5, 2.6, 2.7]}


def compared(out: Path, comparison: FakeComparison | None = None, **options: Any) -> Compared:
    given: dict[str, Any] = {"attention": ["softmax", "elu"], "steps": 5, "seeds": 2, "quiet": True}
    return compare(comparison or FakeComparison(LOSSES), out=out, **given | options)


def folders(out: Path) -> set[str]:
    return {path.name for path in out.iterdir() if path.is_dir()}


def content(out: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_the_grid_crosses_all_settings() -> None:
    comparison = FakeComparison({"softmax": [1.0], "favor:features=8": [], "favor:features=16": []})
    contenders, trials = grid(comparison, ["softmax", "favor"], range(3, 5), [1.0, 0.5])
    assert contenders == ["softmax", "favor"]
    assert len(trials) == 2 * (2 + 4)
    assert {each.variant for each in trials} == set(comparison.losses)
    assert {each.seed for each in trials[: len(trials) // 2]} == {3}  # seeds are outermost
    assert len({each.folder for each in trials}) == len(trials)
    assert all(TRIAL_FOLDER.fullmatch(each.folder) for each in trials)
    swept = grid(FakeSweep(LOSSES), ["softmax"], [0], [1e-5])[1]
    assert [each.place for each in swept] == [0.1, 1.0]
    assert all(TRIAL_FOLDER.fullmatch(each.folder) for each in swept)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attention": []}, "each once"),
        ({"attention": ["elu", "elu"]}, "each once"),
        ({"seeds": 0}, "--seeds: give 1 or more"),
        ({"first_seed": -1}, "--seed -1: give 0 or more"),
        ({"rates": []}, "--learning-rate-factors multiply"),
        ({"rates": [0.0]}, "--learning-rate-factors multiply"),
        ({"rates": [math.nan]}, "--learning-rate-factors multiply"),
        ({"steps": 0}, "steps is 0; give 1 or more"),
        ({"minutes": 1.0}, "--minutes and --steps; give one of them"),
        ({"steps": None, "minutes": 0}, "minutes is 0; give a number above 0"),
        ({"steps": None, "minutes": math.inf}, "minutes is inf"),
        ({"comparison": FakeComparison(LOSSES, width=0)}, "width is 0"),
        ({"start": "again"}, "start is 'again'"),
    ],
)
def test_mistakes_leave_nothing(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compared(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_it_trains_all_and_writes_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(tmp_path, quiet=False)
    err = capsys.readouterr().err
    assert "a note about 4 trials\n4 runs of 5 steps\n1 of 4: softmax-rate1-seed0\n" in err
    assert "    loss 2, right tokens 50%; 9 steps, 12 s\n" in err
    assert [each.trial.folder for each in found.attempts] == [
        "softmax-rate1-seed0", "elu-rate1-seed0", "softmax-rate1-seed1", "elu-rate1-seed1",
    ]  # fmt: skip
    stored = json.loads((tmp_path / "compare.json").read_text())
    assert (stored["format"], stored["version"]) == ("attnlab-comparison", 1)
    assert stored["settings"] == {
        "title": "Fakes compared", "minutes": None, "steps": 5, "width": 8,
    }  # fmt: skip
    assert len(stored["runs"]) == len(stored["trials"]) == 4
    assert stored["differences"][0]["verdict"] == "worse"
    assert "elu is worse than softmax" in (tmp_path / "compare.html").read_text()
    for name in ("compare-training-loss.svg", "compare-validation-accuracy.svg"):
        assert "<svg" in (tmp_path / name).read_text()
    with pytest.raises(ValueError, match="holds a comparison already; give --resume"):
        compared(tmp_path)
    (tmp_path / "compare.json").unlink()  # its runs would still pass for ours
    with pytest.raises(ValueError, match="holds a comparison already"):
        compared(tmp_path, first_seed=2, seeds=1)


def test_a_budget_is_the_same_for_all_and_counts_training_alone() -> None:
    assert Budget(minutes=4.0).settings(0.75) == {"minutes": 3.0, "training_time_only": True}
    assert Budget(steps=7).settings() == {"steps": 7, "minutes": None}
    assert Budget(steps=1).settings(0.25)["steps"] == 1
    assert (str(Budget(2.5)), str(Budget(None, 1))) == ("2.5 minutes of training", "1 step")
    assert FakeComparison().budget(None) == Budget(minutes=5.0)


def test_an_interrupted_comparison_resumes(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Interrupted(FakeComparison):
        def train(self, trial: Trial, folder: Path, *rest: Any) -> None:
            super().train(trial, folder, *rest)
            if len(self.trained) == 3:
                raise InterruptedTraining("stopped", signal.SIGINT)

    with pytest.raises(InterruptedTraining):
        compared(tmp_path, Interrupted(LOSSES))
    stored = json.loads((tmp_path / "compare.json").read_text())
    assert (len(stored["runs"]), len(stored["trials"])) == (2, 4)
    assert "2 of 4 runs are done" in (tmp_path / "compare.html").read_text()
    again = FakeComparison(LOSSES)
    whole = compared(tmp_path, again, start=StartMode.RESUME)
    assert again.trained == [
        ("softmax-rate1-seed1", StartMode.RESUME), ("elu-rate1-seed1", StartMode.NEW),
    ]  # fmt: skip
    assert whole.attempts == compared(tmp_path / "at-once").attempts
    more = FakeComparison(LOSSES)
    compared(tmp_path, more, start=StartMode.RESUME, seeds=3, rates=[1.0, 0.5])
    assert len(more.trained) == 8
    assert all(start is StartMode.NEW for _, start in more.trained)
    before = content(tmp_path)
    last = FakeComparison(LOSSES)
    found = compared(tmp_path, last, start=StartMode.RESUME, seeds=3, rates=[0.5, 1.0])
    assert last.trained == []
    assert len(found.attempts) == 12
    assert set(before) == set(content(tmp_path))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 6}, "the comparison has steps 5, not 6; resume with the same settings"),
        ({"steps": None, "minutes": 1.0}, "the comparison has minutes None, not 1.0"),
        ({"comparison": FakeComparison(LOSSES, width=9)}, "the comparison has width 8, not 9"),
        ({"seeds": 1}, "has the run softmax-rate1-seed1, and yours does not"),
        ({"first_seed": 1}, "has the run softmax-rate1-seed0, and yours does not"),
        ({"attention": ["elu"]}, "has the run softmax-rate1-seed0, and yours does not"),
        ({"rates": [0.5]}, "has the run softmax-rate1-seed0, and yours does not"),
        ({"comparison": FakeSweep(LOSSES)}, "has the run softmax-rate1-seed0, and yours does not"),
    ],
)
def test_another_comparison_is_not_resumed(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    compared(tmp_path)
    before = content(tmp_path)
    with pytest.raises(ValueError, match=words):
        compared(tmp_path, **{"start": StartMode.RESUME, **options})
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _: "{", "is not JSON"),
        (lambda _: "[]", "has another format"),
        (lambda old: json.dumps({**old, "version": 99}), "has another format"),
        (lambda old: json.dumps({**old, "settings": 5}), "its runs cannot be read"),
        (lambda old: json.dumps({**old, "runs": [{"trial": 3}]}), "its runs cannot be read"),
        (lambda old: json.dumps({**old, "trials": None}), "its runs cannot be read"),
        (lambda old: json.dumps({k: v for k, v in old.items() if k != "runs"}), "cannot be read"),
        (
            lambda old: json.dumps(old).replace('"loss": 2.0', '"lost": 2.0'),
            "has runs without their metrics",
        ),
    ],
)
def test_a_file_is_not_trusted(tmp_path: Path, change: Any, words: str) -> None:
    compared(tmp_path)
    path = tmp_path / "compare.json"
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(ValueError, match=rf"no comparison to resume \(.*{words}.*--overwrite"):
        compared(tmp_path, start=StartMode.RESUME)
    compared(tmp_path, start=StartMode.OVERWRITE)


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no comparison to resume; compare\.json is miss"):
        compared(tmp_path, start=StartMode.RESUME)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file; name a folder"):
        compared(tmp_path / "file")


def test_overwriting_leaves_nothing_of_the_old_one(tmp_path: Path) -> None:
    compared(tmp_path, seeds=3)
    nested = tmp_path / "elu-rate1-seed2" / "part"  # as a task with several stages has it
    RunFolder(tmp_path / "elu-rate1-seed2").delete()
    nested.mkdir()
    RunFolder(nested).write_json("config.json", {})
    (tmp_path / "softmax-rate1-seed2" / "mine.txt").write_text("mine")
    (tmp_path / "other").mkdir()
    RunFolder(tmp_path / "other").write_json("config.json", {})
    again = FakeComparison({**LOSSES, "favor": [1.0]})
    with pytest.raises(ValueError, match="width is 0"):  # a mistake removes nothing
        compared(tmp_path, FakeComparison(LOSSES, width=0), start=StartMode.OVERWRITE)
    assert len(folders(tmp_path)) == 7
    compared(tmp_path, again, attention=["favor"], seeds=1, start=StartMode.OVERWRITE)
    assert folders(tmp_path) == {"favor-rate1-seed0", "softmax-rate1-seed2", "other"}
    assert [path.name for path in (tmp_path / "softmax-rate1-seed2").iterdir()] == ["mine.txt"]
    assert len(json.loads((tmp_path / "compare.json").read_text())["runs"]) == 1


def test_one_comparison_at_a_time(tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path).locked(),
        pytest.raises(ValueError, match="another run is writing here"),
    ):
        compared(tmp_path)


def test_a_run_that_diverges_is_a_row(tmp_path: Path) -> None:
    comparison = FakeComparison({"softmax": [2.0, 2.1], "elu": [2.5]})
    found = compared(tmp_path, comparison)
    assert [each.kind for each in found.attempts] == ["run", "run", "run", "failure"]
    assert found.conclusions.differences[0].seeds == 1
    page = (tmp_path / "compare.html").read_text()
    assert "1 run failed and could not be measured: elu." in page
    assert "the loss became nan at step 3" in page
    again = FakeComparison(LOSSES)
    assert compared(tmp_path, again, start=StartMode.RESUME).attempts == found.attempts
    assert again.trained == []  # it would diverge again


def test_a_metric_that_is_not_finite_is_a_failure(tmp_path: Path) -> None:
    comparison = FakeComparison({"softmax": [math.nan], "elu": [math.inf]})
    found = compared(tmp_path, comparison, seeds=1)
    problems = [getattr(each, "problem", "") for each in found.attempts]
    assert problems == ["loss is nan", "loss is inf"]
    assert json.loads((tmp_path / "compare.json").read_text())["best"] == []
    assert compared(tmp_path, comparison, seeds=1, start=StartMode.RESUME) == found


def test_an_outcome_survives_the_file(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Shares(FakeComparison):
        def measure(self, trial: Trial, folder: Path) -> Outcome:
            del folder
            run = made_run(trial.variant, 1 / 3, trial.seed)
            return Outcome(**{**vars(run.outcome), "correct": {"accuracy": (3, 7)}})

    found = compared(tmp_path, Shares(LOSSES), seeds=1)
    assert found.conclusions.best[0].metrics["accuracy"].low is not None  # of one seed
    again = compared(tmp_path, Shares(LOSSES), seeds=1, start=StartMode.RESUME)
    assert again.attempts == found.attempts
