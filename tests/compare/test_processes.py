"""Trials in processes of their own: the same results, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnlab._cores import available_cores
from attnlab.compare import _process_runner as runner
from attnlab.compare._engine import compare, create_runner
from attnlab.compare._jobs import TrialJob, describe_job, read_job, run_job, task_name
from attnlab.compare._runs import Attempt, ComparisonRun, Failure
from attnlab.extensions import load_extension
from attnlab.run_folder import StartMode
from attnlab.tasks._simple_comparison import comparison_class
from attnlab.tasks.comparison import Comparison, ComparisonTrial, TrainingBudget
from attnlab.tasks.language import LanguageComparison
from attnlab.tasks.registry import TASKS
from attnlab.tasks.vision import VisionComparison
from tests.support.fake_comparison import FakeComparison
from tests.support.processes import HANG, children_of, wait_until_ended
from tests.support.registries import restored_registries

TINY = Path(__file__).parents[1] / "support" / "tiny_task.py"
STEP = TrainingBudget(steps=2)


@pytest.fixture(autouse=True)
def tiny() -> Iterator[None]:
    with restored_registries():
        load_extension(TINY)
        yield


def create_comparison(**options: Any) -> Comparison:
    return comparison_class(TASKS["tiny-copy"])(**options)


def create_job(folder: Path, attention: str = "elu", **options: Any) -> TrialJob:
    trial = ComparisonTrial(attention, attention, 1.0, 0)
    return TrialJob(create_comparison(**options), trial, STEP, folder, StartMode.NEW)


def metrics(attempts: list[Attempt]) -> list[Any]:
    return [
        (attempt.trial, dict(attempt.outcome.metrics), attempt.outcome.validation)
        for attempt in attempts
        if isinstance(attempt, ComparisonRun)
    ]


def test_a_job_is_plain_data(tmp_path: Path) -> None:
    job = create_job(tmp_path / "run", sweep=("letters", "2", "3"), training={"beta1": 0.8})
    again = read_job(json.loads(json.dumps(describe_job(job))))
    assert (again.trial, again.budget, again.start) == (job.trial, job.budget, job.start)
    assert vars(again.comparison)["training"] == {"beta1": 0.8}
    assert again.comparison.sweep_values() == (2.0, 3.0)
    assert task_name(VisionComparison()) == "vision"
    images = TrialJob(VisionComparison(fractions=(0.5,)), job.trial, STEP, tmp_path, job.start)
    assert read_job(json.loads(json.dumps(describe_job(images)))).comparison == images.comparison
    texts = LanguageComparison(files=(Path("a.txt"), Path("/b.txt")))
    content = json.loads(json.dumps(describe_job(replace(images, comparison=texts))))
    assert content["options"]["files"] == [str(Path.cwd() / "a.txt"), "/b.txt"]
    with pytest.raises(ValueError, match="FakeComparison: is not the comparison of a registered"):
        describe_job(TrialJob(FakeComparison(), job.trial, STEP, tmp_path, job.start))


def test_processes_give_the_same_results(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {"attention": ["softmax", "gla", "elu"], "steps": 2, "seeds": 1}
    two = compare(create_comparison(), out=tmp_path / "two", processes=2, **options)
    err = capfd.readouterr().err
    assert "3 runs of 2 steps" in err
    assert re.search("1 of 3: .*-rate1-seed0: accuracy 0%; 2 steps, 0 s; about [0-9]+ s left", err)
    assert re.search("3 of 3: .*-rate1-seed0: accuracy 0%; 2 steps, 0 s\n", err)
    one = compare(create_comparison(), out=tmp_path / "one", processes=1, quiet=True, **options)
    here = compare(create_comparison(), out=tmp_path / "here", quiet=True, **options)
    assert capfd.readouterr().err == ""
    assert metrics(one.attempts) == metrics(two.attempts) == metrics(here.attempts)
    assert len(metrics(one.attempts)) == 3
    assert (tmp_path / "two" / "gla-rate1-seed0" / "model.safetensors").exists()


def test_cores_without_an_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert available_cores() == 7
    assert create_runner(None, None, [STEP], quiet=True).slots == 7


def test_errors_and_failures_of_a_process(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")  # the trial cannot be trained there
    with pytest.raises(ValueError, match="run: is a file; give a folder"):
        list(runner.ProcessRunner(1).run([create_job(tmp_path / "run")]))
    with pytest.raises(ValueError, match="--processes is -1; give 0 or more"):
        compare(create_comparison(), ["elu"], out=tmp_path / "out", processes=-1)


def test_a_killed_process_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[runner.TrialProcess] = []
    create = runner.TrialProcess.__init__

    def kill_first(self: runner.TrialProcess, job: dict[str, Any]) -> None:
        create(self, job)
        started.append(self)
        if len(started) in kills:
            os.killpg(self.process.pid, signal.SIGKILL)

    monkeypatch.setattr(runner.TrialProcess, "__init__", kill_first)
    kills = {1}
    job = create_job(tmp_path / "run")
    (_, nothing), (_, attempt) = runner.ProcessRunner(1).run([job])
    assert nothing is None
    assert metrics([attempt]) == metrics([run_job(create_job(tmp_path / "here"), True)])  # type: ignore[list-item]
    assert len(started) == 2
    kills = {3, 4}
    options: dict[str, Any] = {"out": tmp_path / "out", "steps": 2, "seeds": 1, "quiet": True}
    (failed,) = compare(create_comparison(), ["elu"], processes=1, **options).attempts
    assert isinstance(failed, Failure)
    assert failed.problem.startswith("its process ended by signal 9, 2 times; there may be")
    assert all(process.process.returncode is not None for process in started)
    again = compare(create_comparison(), ["elu"], start=StartMode.RESUME, **options)
    assert [each.kind for each in again.attempts] == ["run"]


def test_an_unexpected_error_is_named_and_tried_again_by_resume(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job = create_job(tmp_path / "run")
    process = runner.TrialProcess({**describe_job(job), "task": "no-such-task"})
    try:
        answer = process.answer()
    finally:
        process.close()
    assert answer is not None
    failed = runner.read_answer(job, answer)
    assert failed == Failure(job.trial, answer["problem"], retry=True)
    assert answer["problem"].startswith("KeyError: 'no-such-task'")
    assert "Traceback" in capfd.readouterr().err
    assert runner.describe_end(3) == "its process ended with exit code 3, 2 times"
    assert runner.describe_end(-15) == "its process ended by signal 15, 2 times"


COMPARE = f"--extension {TINY} compare tiny-copy --attention softmax elu --seeds 1 --steps 100000"


def start_comparison(out: Path, processes: int = 2) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "attnlab", *COMPARE.split(), "--out", str(out)]
    return subprocess.Popen(
        [*command, "--processes", str(processes)],
        text=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_comparison_leaves_no_process(how: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start_comparison(out)
    for name in ("softmax", "elu"):
        wait_for(out / f"{name}-rate1-seed0" / "metrics.jsonl", process)
    children = children_of(process.pid)
    assert len(children) == 2
    process.send_signal(how)
    _, err = process.communicate(timeout=HANG)
    if how == signal.SIGKILL:
        assert process.returncode == -how
    else:
        assert process.returncode == 128 + how
        assert err.splitlines()[-1].endswith("stopped; 2 runs remain; continue with --resume")
        for name in ("softmax", "elu"):  # they saved a checkpoint
            assert len(list((out / f"{name}-rate1-seed0" / "checkpoints").iterdir())) >= 1
    wait_until_ended(children)
    assert json.loads((out / "compare.json").read_text())["runs"] == []
