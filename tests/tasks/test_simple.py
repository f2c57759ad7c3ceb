"""A task of one's own, in one class."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from attnlab.extensions import VARIABLE
from attnlab.run_folder import StartMode
from attnlab.tasks._simple_training import SimpleGenerationService, digest, make_rows
from attnlab.tasks.registry import TASKS, register_task
from attnlab.tasks.simple import IGNORE, Row, SimpleTask, answer_row
from attnlab.training import Run
from tests.support.command_line import run
from tests.support.registries import restored_registries
from tests.support.studio_servers import studio_client


class Backwards(SimpleTask):
    """Write three letters backwards."""

    name, alphabet = "backwards", "abcd>"
    model: ClassVar[dict[str, Any]] = {"width": 32, "layers": 2, "heads": 2}
    training: ClassVar[dict[str, Any]] = {"steps": 3, "batch_size": 16}

    def rows(self, part: str, random: Random) -> Sequence[Row]:
        count = 70 if part == "train" else 11
        words = ["".join(random.choices("abcd", k=3)) for _ in range(count)]
        return [self.text_row(f"{word}>", word[::-1]) for word in words]


class SameBit(SimpleTask):
    """Is each bit the same as the first?"""

    name, vocabulary, causal, headline = "same-bit", 2, False, "bits"

    def rows(self, part: str, random: Random) -> Sequence[Row]:
        del part
        bits = [random.choices((0, 1), k=random.choice((3, 5))) for _ in range(30)]
        return [Row(each, [IGNORE, *(int(b == each[0]) for b in each[1:])]) for each in bits]

    def measure(
        self, rows: Sequence[Row], predictions: Sequence[Sequence[int]]
    ) -> dict[str, float]:
        right = [
            predicted == target
            for row, each in zip(rows, predictions, strict=True)
            for predicted, target in zip(each, row.targets, strict=True)
            if target != IGNORE
        ]
        return {"bits": sum(right) / len(right)}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with restored_registries():
        for task in (Backwards, SameBit):
            register_task(task)
        yield


def test_train_list_and_evaluate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run("backwards train --attention favor --seed 3", capsys)
    assert (code, out.split(":")[0]) == (0, "runs/backwards"), err
    config = Run("runs/backwards").config()
    assert config["task"]["headline"] == "accuracy"
    assert (config["model"]["width"], config["model"]["attention"]) == (32, "favor")
    assert (config["training"]["steps"], config["training"]["seed"]) == (3, 3)
    (row,) = json.loads(run("runs --json", capsys)[1])
    assert (row["task"], row["mechanism"], row["step"]) == ("backwards", "favor", 3)
    code, out, _ = run("backwards evaluate runs/backwards --json", capsys)
    metrics = json.loads(out)
    assert code == 0
    assert set(metrics) == {"run", "accuracy", "loss"}
    assert "Write three letters backwards." in run("--help", capsys)[1]
    code, _, err = run("backwards train", capsys)
    assert (code, "already holds a run" in err) == (2, True)
    assert run("backwards train --steps 4 --seed 3 --attention favor --resume", capsys)[0] == 0
    assert Run("runs/backwards").metrics()[-1]["step"] == 4


def test_the_studio_lists_the_run(tmp_path: Path) -> None:
    Backwards().train(tmp_path / "mine", quiet=True)
    with studio_client(tmp_path) as client:
        (entry,) = client.get("/api/runs").json()["runs"]
        tasks = {each["name"]: each for each in client.get("/api/info").json()["tasks"]}
    assert entry["can"] == ["generate", "look"]
    assert tasks["backwards"]["can"] == ["generate"]
    assert tasks["backwards"]["example"]["command"] == "attnlab backwards train --out"
    assert tasks["same-bit"]["can"] == []


def test_it_learns_and_generates(tmp_path: Path) -> None:
    training = {"steps": 150, "learning_rate": 0.01, "batch_size": 64}
    metrics = Backwards().train(tmp_path / "run", training=training, quiet=True)
    assert metrics["accuracy"] > 0.7
    events: list[tuple[str, Any]] = []
    way = {"count": 1, "temperature": 0.0, "top_k": None, "top_p": None, "beams": None, "seed": 0}
    for beams in (None, 2):
        request = {**way, "text": "abc>", "beams": beams, "block": None, "tokens": 9}
        SimpleGenerationService.open(tmp_path / "run")(request, lambda *event: events.append(event))
        assert events[-1][0] == "generation"
        assert events[-1][1]["text"].rstrip("\u25a1") == "cba"


def test_an_encoder_with_a_metric_of_its_own(tmp_path: Path) -> None:
    metrics = SameBit().train(
        tmp_path / "run", training={"steps": 150, "learning_rate": 0.01}, quiet=True
    )
    assert Run(tmp_path / "run").config()["model"]["model"] == "encoder"
    assert metrics["bits"] == pytest.approx(1.0)
    assert SameBit().evaluate(tmp_path / "run")["bits"] == pytest.approx(1.0)
    with pytest.raises(
        ValueError, match="is a run of task 'same-bit'; give a run of task 'backwards'"
    ):
        Backwards().evaluate(tmp_path / "run")


def test_rows_depend_on_part_and_seed() -> None:
    task = Backwards()
    assert digest(make_rows(task, "train", 1)) == digest(make_rows(task, "train", 1))
    drawn = [make_rows(task, "train", 0), make_rows(task, "train", 1), make_rows(task, "test")]
    assert len(set(map(digest, drawn))) == 3


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (Row([1, 2], [1]), "row 1 of test has 2 ids and 1 targets"),
        (Row([], []), "0 ids"),
        (Row([1], [IGNORE]), "no target"),
        (Row([2], [1]), "has the id 2; ids run from 0 to 1"),
        (answer_row([0], [7]), "has the id 7"),
        (None, "no rows for test"),
    ],
)
def test_an_error_names_the_row(
    row: Row | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SameBit, "rows", lambda *_: [] if row is None else [row])
    with pytest.raises(ValueError, match=words):
        make_rows(SameBit(), "test")


FILE = """
from attnlab.tasks.simple import SimpleTask

class Echo(SimpleTask):
    "Say it again."

    name, alphabet = "echo", "ab>"

    def rows(self, part, random):
        return [self.text_row(f"{each}>", each) for each in random.choices("ab", k=9)]
"""


def test_a_file_outside_the_package_is_a_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "")
    (tmp_path / "echo.py").write_text(FILE)
    command = f"--extension {tmp_path / 'echo.py'} echo train --steps 1 --out {tmp_path / 'run'}"
    code, out, err = run(command, capsys)
    assert (code, "trained" in out) == (0, True), err
    assert Run(tmp_path / "run").config()["task"]["name"] == "echo"


def test_the_name_of_a_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    class Runs(Backwards):
        name = "runs"

    register_task(Runs)
    code, _, err = run("--help", capsys)
    del TASKS["runs"]
    assert (code, "is already a command" in err) == (2, True)


def test_a_task_without_an_alphabet_refuses_text() -> None:
    with pytest.raises(ValueError, match="has no alphabet"):
        SameBit().text_row("a", "b")


def test_a_resumed_run_keeps_its_seed(tmp_path: Path) -> None:
    """The rows follow the seed, so a run that was started with one goes on without naming it."""
    task = Backwards()
    task.train(tmp_path / "run", training={"steps": 2, "seed": 3}, quiet=True)
    task.train(tmp_path / "run", training={"steps": 4}, start=StartMode.RESUME, quiet=True)
    assert [row["step"] for row in Run(tmp_path / "run").metrics()] == [1, 2, 3, 4]


@pytest.mark.parametrize(("what", "near"), [("training", "steps"), ("model", "layers")])
def test_an_unknown_setting_is_named(what: str, near: str, tmp_path: Path) -> None:
    wrong = type("Wrong", (Backwards,), {what: {f"{near}z": 2}})
    with pytest.raises(ValueError, match=f"{what} has no setting '{near}z'; did you mean '{near}'"):
        wrong().train(tmp_path / "run", quiet=True)
