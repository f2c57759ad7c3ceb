"""attnlab compare --ray: two nodes on this machine, one of which is killed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from attnlab._message_frames import pack_frame, read_frame
from attnlab.compare import _ray_runner as ray_runner
from attnlab.compare._engine import compare
from attnlab.compare._jobs import TrialJob, describe_job, read_attempt
from attnlab.compare._runs import Attempt, ComparisonRun, Failure
from attnlab.extensions import load_extension
from attnlab.run_folder import StartMode
from attnlab.tasks._simple_comparison import comparison_class
from attnlab.tasks.comparison import Comparison, ComparisonTrial, TrainingBudget
from attnlab.tasks.registry import TASKS
from tests.support.registries import restored_registries

TINY = Path(__file__).parents[1] / "support" / "tiny_task.py"
LOGGED = """
import os
import time
from dataclasses import dataclass
from pathlib import Path

from attnlab.tasks.registry import TASKS, register_task

Tiny = type(TASKS["tiny-copy"].load_recipe())


@register_task
@dataclass(frozen=True)
class Logged(Tiny):
    "Writes a line when a trial starts, and waits for a file, so that a test can kill it."

    name = "tiny-logged"

    def train(self, out, **options):
        with Path(os.environ["TRIAL_LOG"]).open("a") as log:
            log.write(f"{Path(out).name}\\n")
        while not Path(os.environ["TRIAL_GO"]).exists():
            time.sleep(0.05)
        return super().train(out, **options)
"""


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    log = tmp_path / "log.txt"
    monkeypatch.setenv("TRIAL_LOG", str(log))
    monkeypatch.setenv("TRIAL_GO", str(tmp_path))  # trials do not wait
    (tmp_path / "logged_task.py").write_text(LOGGED)
    with restored_registries():
        load_extension(TINY)
        load_extension(tmp_path / "logged_task.py")
        yield log


def create_comparison() -> Comparison:
    return comparison_class(TASKS["tiny-logged"])()


def metrics(attempts: list[Attempt]) -> list[Any]:
    return [
        (attempt.trial, dict(attempt.outcome.metrics), attempt.outcome.validation)
        for attempt in attempts
        if isinstance(attempt, ComparisonRun)
    ]


def test_ray_is_asked_for_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ValueError, match=r"--ray needs Ray; install it with pip install 'attnlab"):
        ray_runner.RayRunner("auto")
    assert not any(tmp_path.iterdir())


def test_a_folder_is_packed_and_unpacked(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "checkpoints" / "5").mkdir(parents=True)
    (source / "config.json").write_text("{}")
    (source / "checkpoints" / "5" / "weights").write_bytes(bytes(range(256)))
    (source / "link").symlink_to("/etc/passwd")
    content = ray_runner.pack_folder(source)
    for _ in range(2):  # the second time it replaces the folder
        ray_runner.unpack_folder(content, tmp_path / "target")
        files = {path for path in (tmp_path / "target").rglob("*") if path.is_file()}
        assert {str(path.relative_to(tmp_path / "target")) for path in files} == {
            "config.json", "checkpoints/5/weights",
        }  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} == {"source", "target"}


def test_a_trial_sends_its_run_folder(tmp_path: Path, logged: Path) -> None:
    """What a machine of the cluster does, here."""
    job = create_job(tmp_path / "out" / "run")
    frame = read_frame(BytesIO(ray_runner.run_trial(json.dumps(describe_job(job)))))
    assert frame is not None
    assert not (tmp_path / "out").exists()
    assert read_attempt(frame[0]["attempt"]).kind == "run"
    (tmp_path / "out").mkdir()
    ray_runner.unpack_folder(frame[1], job.folder)
    assert (job.folder / "model.safetensors").exists()
    assert logged.read_text() == "run\n"


def create_job(folder: Path) -> TrialJob:
    trial, budget = ComparisonTrial("elu", "elu", 1.0, 0), TrainingBudget(steps=2)
    return TrialJob(create_comparison(), trial, budget, folder, StartMode.NEW)


def test_another_version_is_refused(
    tmp_path: Path, logged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr("attnlab.__version__", "0.0.7")
        text = json.dumps(describe_job(create_job(tmp_path / "run")))
    frame = read_frame(BytesIO(ray_runner.run_trial(text)))
    assert frame is not None
    assert frame[0]["error"].startswith("attnlab 0.0.7 sent a trial to attnlab ")
    assert not logged.exists()


class FakeRay:
    """A cluster whose tasks end one by one, the last first, each with the next of `answers`."""

    class exceptions:  # noqa: N801
        class RayError(Exception):
            pass

        class RayTaskError(RayError):
            pass

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers, self.tasks, self.canceled = list(answers), list[int](), list[int]()

    def remote(self, *_: str, **options: int) -> Any:
        if options:
            return lambda _: self
        self.tasks.append(len(self.tasks))
        return self.tasks[-1]

    def wait(self, references: list[int], timeout: float) -> tuple[list[int], list[int]]:
        del timeout
        return references[-1:], references[:-1]

    def get(self, _: int) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cancel(self, reference: int, force: bool) -> None:
        assert force
        self.canceled.append(reference)


def create_runner(ray: FakeRay, slots: int) -> ray_runner.RayRunner:
    runner = object.__new__(ray_runner.RayRunner)
    runner.ray, runner.address, runner.slots = ray, "auto", slots
    return runner


def test_only_as_many_jobs_as_cores_are_shown_as_running(tmp_path: Path, logged: Path) -> None:
    jobs = [create_job(tmp_path / name) for name in "abcde"]
    problem = pack_frame({"problem": "was killed"})
    events = create_runner(FakeRay(*[problem] * 5), 2).run(jobs)
    running, most, ended = set(), 0, 0
    for job, attempt in events:
        if attempt is None:
            assert job not in running
            running.add(job)
        else:
            assert attempt == Failure(job.trial, "was killed", retry=True)
            running.remove(job)
            ended += 1
        most = max(most, len(running))
    assert (most, ended, len(running)) == (3, 5, 0)  # one that ended early was not shown before
    assert not logged.exists()


def test_a_lost_task_is_tried_again_and_an_error_is_raised(tmp_path: Path, logged: Path) -> None:
    jobs = [create_job(tmp_path / name) for name in "abc"]
    lost = FakeRay.exceptions.RayError("the node died")
    wrong = FakeRay.exceptions.RayTaskError("trace\nModuleNotFoundError: no module attnlab")
    ray = FakeRay(lost, wrong)
    attempts: list[Attempt] = []
    message = r"--ray auto: a machine cannot run trials \(ModuleNotFoundError: no module attnlab\)"
    with pytest.raises(ValueError, match=message):
        attempts.extend(each for _, each in create_runner(ray, 2).run(jobs) if each)
    assert not logged.exists()
    assert ray.canceled == [0]
    _, (_, first) = create_runner(FakeRay(lost), 1).run(jobs[:1])
    assert first == Failure(
        jobs[0].trial, "was lost 4 times on the cluster (the node died)", retry=True
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_killed_node_loses_nothing(
    tmp_path: Path, logged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("TRIAL_GO", str(tmp_path / "go"))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        second = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()

        def kill_second_node() -> None:
            """While a trial waits on each node."""
            while not logged.exists() or len(logged.read_text().splitlines()) < 2:
                time.sleep(0.1)
            cluster.remove_node(second, allow_graceful=False)
            (tmp_path / "go").touch()

        killer = Thread(target=kill_second_node, daemon=True)
        killer.start()
        options: dict[str, Any] = {"steps": 2, "seeds": 2, "quiet": True}
        attention = ["softmax", "gla"]
        result = compare(
            create_comparison(), attention, out=tmp_path / "ray", ray=cluster.address, **options
        )
        killer.join()
    finally:
        ray.shutdown()
        cluster.shutdown()
    started = logged.read_text().splitlines()
    assert len(started) > 4  # a trial of the killed node ran again
    assert len(set(started)) == len(result.trials) == 4
    here = compare(create_comparison(), attention, out=tmp_path / "here", **options)
    assert metrics(result.attempts) == metrics(here.attempts)
    assert len(metrics(result.attempts)) == 4
    for trial in result.trials:
        names = {path.name for path in (tmp_path / "ray" / trial.folder).iterdir()}
        assert {"config.json", "metrics.jsonl", "model.safetensors"} <= names
    assert os.environ["TRIAL_LOG"]
