"""The grid, resuming, overwriting and failures, with a comparison that does not train."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from attnlab.compare._engine import compare
from attnlab.compare._plan import ComparisonResult, create_grid
from attnlab.compare._runs import Failure
from attnlab.errors import InterruptedTraining
from attnlab.run_folder import RunFolder, StartMode
from attnlab.tasks.comparison import TRIAL_FOLDER, ComparisonTrial, TrainingBudget, TrialResult
from tests.support.fake_comparison import FakeComparison, FakeSweep, create_run

LOSSES = {"softmax": [2.0, 2.1, 2.2], "elu": [2.5, 2.6, 2.7]}


def run_comparison(
    out: Path, comparison: FakeComparison | None = None, **options: Any
) -> ComparisonResult:
    defaults: dict[str, Any] = {
        "attention": ["softmax", "elu"],
        "steps": 5,
        "seeds": 2,
        "quiet": True,
    }
    return compare(comparison or FakeComparison(LOSSES), out=out, **defaults | options)


def subfolders(out: Path) -> set[str]:
    return {path.name for path in out.iterdir() if path.is_dir()}


def read_files(out: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_grid_has_all_combinations() -> None:
    comparison = FakeComparison({"softmax": [1.0], "favor:features=8": [], "favor:features=16": []})
    contenders, trials = create_grid(comparison, ["softmax", "favor"], range(3, 5), [1.0, 0.5])
    assert contenders == ["softmax", "favor"]
    assert len(trials) == 2 * (2 + 4)
    assert {trial.variant for trial in trials} == set(comparison.losses)
    assert {trial.seed for trial in trials[: len(trials) // 2]} == {3}  # seeds are outermost
    assert len({trial.folder for trial in trials}) == len(trials)
    assert all(TRIAL_FOLDER.fullmatch(trial.folder) for trial in trials)
    swept = create_grid(FakeSweep(LOSSES), ["softmax"], [0], [1e-5])[1]
    assert [trial.place for trial in swept] == [0.1, 1.0]
    assert all(TRIAL_FOLDER.fullmatch(trial.folder) for trial in swept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": []}, "name each mechanism once"),
        ({"attention": ["elu", "elu"]}, "name each mechanism once"),
        ({"seeds": 0}, "--seeds is 0; give 1 or more"),
        ({"first_seed": -1}, "--seed is -1; give 0 or more"),
        ({"learning_rate_factors": []}, "--learning-rate-factors multiply"),
        ({"learning_rate_factors": [0.0]}, "--learning-rate-factors multiply"),
        ({"learning_rate_factors": [math.nan]}, "--learning-rate-factors multiply"),
        ({"steps": 0}, "steps is 0; give 1 or more"),
        ({"minutes": 1.0}, "--minutes and --steps exclude each other; give one of them"),
        ({"steps": None, "minutes": 0}, "minutes is 0; give a number above 0"),
        ({"steps": None, "minutes": math.inf}, "minutes is inf"),
        ({"comparison": FakeComparison(LOSSES, width=0)}, "width is 0"),
        ({"start": "again"}, "start is 'again'"),
    ],
)
def test_mistakes_write_nothing(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_comparison(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_compare_trains_all_runs_and_writes_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_comparison(tmp_path, quiet=False)
    err = capsys.readouterr().err
    assert "a note about 4 trials\n4 runs of 5 steps\n1 of 4: softmax-rate1-seed0\n" in err
    assert "    loss 2, right tokens 50%; 9 steps, 12 s" in err
    assert [attempt.trial.folder for attempt in result.attempts] == [
        "softmax-rate1-seed0", "elu-rate1-seed0", "softmax-rate1-seed1", "elu-rate1-seed1",
    ]  # fmt: skip
    stored = json.loads((tmp_path / "compare.json").read_text())
    assert (stored["format"], stored["version"]) == ("attnlab-comparison", 2)
    assert stored["settings"] == {
        "title": "Fakes compared", "minutes": None, "steps": 5, "width": 8,
    }  # fmt: skip
    assert len(stored["runs"]) == len(stored["trials"]) == 4
    assert stored["differences"][0]["verdict"] == "worse"
    assert "elu is worse than softmax" in (tmp_path / "compare.html").read_text()
    for name in ("compare-training-loss.svg", "compare-validation-accuracy.svg"):
        assert "<svg" in (tmp_path / name).read_text()
    with pytest.raises(ValueError, match="already holds a comparison; give --resume"):
        run_comparison(tmp_path)
    (tmp_path / "compare.json").unlink()  # its runs would look like new ones
    with pytest.raises(ValueError, match=r"compare\.json is missing; give --overwrite"):
        run_comparison(tmp_path, first_seed=2, seeds=1)


def test_budget_settings() -> None:
    assert TrainingBudget(minutes=4.0).settings(0.75) == {
        "minutes": 3.0,
        "training_time_only": True,
    }
    assert TrainingBudget(steps=7).settings() == {"steps": 7, "minutes": None}
    assert TrainingBudget(steps=1).settings(0.25)["steps"] == 1
    assert (str(TrainingBudget(2.5)), str(TrainingBudget(None, 1))) == (
        "2.5 minutes of training",
        "1 step",
    )
    assert FakeComparison().budget(None) == TrainingBudget(minutes=5.0)


def test_an_interrupted_comparison_resumes(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Interrupted(FakeComparison):
        def train(self, trial: ComparisonTrial, folder: Path, *rest: Any) -> None:
            super().train(trial, folder, *rest)
            if len(self.trained) == 3:
                raise InterruptedTraining("stopped", signal.SIGINT)

    with pytest.raises(InterruptedTraining):
        run_comparison(tmp_path, Interrupted(LOSSES))
    stored = json.loads((tmp_path / "compare.json").read_text())
    assert (len(stored["runs"]), len(stored["trials"])) == (2, 4)
    assert "2 of 4 runs are done" in (tmp_path / "compare.html").read_text()
    again = FakeComparison(LOSSES)
    resumed = run_comparison(tmp_path, again, start=StartMode.RESUME)
    assert again.trained == [
        ("softmax-rate1-seed1", StartMode.RESUME), ("elu-rate1-seed1", StartMode.NEW),
    ]  # fmt: skip
    assert resumed.attempts == run_comparison(tmp_path / "at-once").attempts
    more = FakeComparison(LOSSES)
    run_comparison(
        tmp_path, more, start=StartMode.RESUME, seeds=3, learning_rate_factors=[1.0, 0.5]
    )
    assert len(more.trained) == 8
    assert all(start is StartMode.NEW for _, start in more.trained)
    before = read_files(tmp_path)
    last = FakeComparison(LOSSES)
    result = run_comparison(
        tmp_path, last, start=StartMode.RESUME, seeds=3, learning_rate_factors=[0.5, 1.0]
    )
    assert last.trained == []
    assert len(result.attempts) == 12
    assert set(before) == set(read_files(tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 6}, "the comparison has steps 5, not 6; resume with the same settings"),
        ({"steps": None, "minutes": 1.0}, "the comparison has minutes None, not 1.0"),
        ({"comparison": FakeComparison(LOSSES, width=9)}, "the comparison has width 8, not 9"),
        ({"seeds": 1}, "has the run softmax-rate1-seed1, and yours does not"),
        ({"first_seed": 1}, "has the run softmax-rate1-seed0, and yours does not"),
        ({"attention": ["elu"]}, "has the run softmax-rate1-seed0, and yours does not"),
        ({"learning_rate_factors": [0.5]}, "has the run softmax-rate1-seed0, and yours does not"),
        ({"comparison": FakeSweep(LOSSES)}, "has the run softmax-rate1-seed0, and yours does not"),
    ],
)
def test_another_comparison_is_not_resumed(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    run_comparison(tmp_path)
    before = read_files(tmp_path)
    with pytest.raises(ValueError, match=message):
        run_comparison(tmp_path, **{"start": StartMode.RESUME, **options})
    assert read_files(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: "{", "is not JSON"),
        (lambda _: "[]", "has another format"),
        (lambda old: json.dumps({**old, "version": 99}), "has version 99, not 2"),
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
def test_broken_files_are_errors(tmp_path: Path, change: Any, message: str) -> None:
    run_comparison(tmp_path)
    path = tmp_path / "compare.json"
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(ValueError, match=rf"no comparison to resume \(.*{message}.*--overwrite"):
        run_comparison(tmp_path, start=StartMode.RESUME)
    run_comparison(tmp_path, start=StartMode.OVERWRITE)


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no comparison to resume; compare\.json is miss"):
        run_comparison(tmp_path, start=StartMode.RESUME)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file; give a folder"):
        run_comparison(tmp_path / "file")


def test_overwriting_removes_the_old_comparison(tmp_path: Path) -> None:
    run_comparison(tmp_path, seeds=3)
    nested = tmp_path / "elu-rate1-seed2" / "part"  # as a task with several stages has it
    RunFolder(tmp_path / "elu-rate1-seed2").delete()
    nested.mkdir()
    RunFolder(nested).write_json("config.json", {})
    (tmp_path / "softmax-rate1-seed2" / "notes.txt").write_text("notes")
    (tmp_path / "other").mkdir()
    RunFolder(tmp_path / "other").write_json("config.json", {})
    again = FakeComparison({**LOSSES, "favor": [1.0]})
    with pytest.raises(ValueError, match="width is 0"):  # a mistake removes nothing
        run_comparison(tmp_path, FakeComparison(LOSSES, width=0), start=StartMode.OVERWRITE)
    assert len(subfolders(tmp_path)) == 7
    run_comparison(tmp_path, again, attention=["favor"], seeds=1, start=StartMode.OVERWRITE)
    assert subfolders(tmp_path) == {"favor-rate1-seed0", "softmax-rate1-seed2", "other"}
    assert [path.name for path in (tmp_path / "softmax-rate1-seed2").iterdir()] == ["notes.txt"]
    assert len(json.loads((tmp_path / "compare.json").read_text())["runs"]) == 1


def test_one_comparison_at_a_time(tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path).locked(),
        pytest.raises(ValueError, match="another process is training here"),
    ):
        run_comparison(tmp_path)


def test_a_diverged_run_is_reported(tmp_path: Path) -> None:
    comparison = FakeComparison({"softmax": [2.0, 2.1], "elu": [2.5]})
    result = run_comparison(tmp_path, comparison)
    assert [attempt.kind for attempt in result.attempts] == ["run", "run", "run", "failure"]
    assert result.conclusions.differences[0].seeds == 1
    page = (tmp_path / "compare.html").read_text()
    assert "1 run failed and could not be measured: elu." in page
    assert "the loss became nan at step 3" in page
    again = FakeComparison(LOSSES)
    assert run_comparison(tmp_path, again, start=StartMode.RESUME).attempts == result.attempts
    assert again.trained == []  # it would diverge again


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (MemoryError(), "ran out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "ran out of memory: Default"),
        (RuntimeError("shapes\n differ"), "shapes differ"),
        (ValueError("elu: cannot do this task"), "elu: cannot do this task"),
    ],
)
def test_an_error_of_one_contender_is_its_result(
    error: Exception, problem: str, tmp_path: Path
) -> None:
    @dataclass(frozen=True)
    class Failing(FakeComparison):
        def train(self, trial: ComparisonTrial, folder: Path, *rest: Any) -> None:
            super().train(trial, folder, *rest)
            if trial.variant == "elu":
                raise error

    result = run_comparison(tmp_path, Failing(LOSSES), seeds=1)
    run, failure = result.attempts
    assert run.kind == "run"
    assert isinstance(failure, Failure)
    assert failure.problem.startswith(problem)


@pytest.mark.parametrize("error", [OSError("the disk is full"), ValueError("{folder}: is damaged")])
def test_errors_about_files_stop_the_comparison(error: Exception, tmp_path: Path) -> None:
    """They say what to do, and then the trial can run."""

    @dataclass(frozen=True)
    class Failing(FakeComparison):
        def train(self, trial: ComparisonTrial, folder: Path, *rest: Any) -> None:
            super().train(trial, folder, *rest)
            raise type(error)(str(error).format(folder=folder))

    with pytest.raises(type(error), match=r"full|damaged"):
        run_comparison(tmp_path, Failing(LOSSES))
    assert json.loads((tmp_path / "compare.json").read_text())["runs"] == []


def test_comparisons_of_version_1_resume(tmp_path: Path) -> None:
    """They lack the sizes that make contenders equal, and the bytes of the state."""
    result = run_comparison(tmp_path)
    path = tmp_path / "compare.json"
    old = json.loads(path.read_text())
    for trial in (*old["trials"], *(run["trial"] for run in old["runs"])):
        del trial["model"]
    for run in old["runs"]:
        del run["outcome"]["state_bytes"]
    path.write_text(json.dumps({**old, "version": 1}))
    again = FakeComparison(LOSSES)
    assert run_comparison(tmp_path, again, start=StartMode.RESUME).attempts == result.attempts
    assert again.trained == []


def test_a_metric_that_is_not_finite_is_a_failure(tmp_path: Path) -> None:
    comparison = FakeComparison({"softmax": [math.nan], "elu": [math.inf]})
    result = run_comparison(tmp_path, comparison, seeds=1)
    problems = [getattr(attempt, "problem", "") for attempt in result.attempts]
    assert problems == ["loss is nan", "loss is inf"]
    assert json.loads((tmp_path / "compare.json").read_text())["best"] == []
    assert run_comparison(tmp_path, comparison, seeds=1, start=StartMode.RESUME) == result


def test_outcomes_are_read_back_from_the_file(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class WithCounts(FakeComparison):
        def measure(self, trial: ComparisonTrial, folder: Path) -> TrialResult:
            del folder
            run = create_run(trial.variant, 1 / 3, trial.seed)
            return TrialResult(**{**vars(run.outcome), "correct": {"accuracy": (3, 7)}})

    result = run_comparison(tmp_path, WithCounts(LOSSES), seeds=1)
    assert result.conclusions.best[0].metrics["accuracy"].low is not None  # of one seed
    again = run_comparison(tmp_path, WithCounts(LOSSES), seeds=1, start=StartMode.RESUME)
    assert again.attempts == result.attempts
