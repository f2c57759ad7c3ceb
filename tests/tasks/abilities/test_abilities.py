"""Every ability: its rows, its answers, its chance level and its options.

The tests run over the registry, so a new ability needs only a line in `solvers.py`.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any, get_args, get_type_hints

import pytest

from attnlab.run_folder import StartMode
from attnlab.tasks._simple_training import digest, make_rows
from attnlab.tasks._task_options import Bounds, option_names, task_options, with_options
from attnlab.tasks.abilities._spec import ability_names, load_ability
from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.abilities.extrapolate import Extrapolate
from attnlab.tasks.abilities.recall import Recall
from attnlab.tasks.simple import IGNORE, Row
from attnlab.training import Run, Settings
from tests.support.command_line import run
from tests.tasks.abilities.solvers import SOLVERS

NAMES = ability_names()
SMALL_MODEL = {"width": 16, "layers": 1, "heads": 2}


def small(name: str) -> Ability:
    ability = load_ability(name)
    return with_options(ability, ability.example)


def some_rows(ability: Ability, part: str, count: int) -> list[Row]:
    rows = make_rows(ability, part)
    step = max(1, len(rows) // count)  # rows of all lengths
    return [rows[i] for i in range(0, len(rows), step)]


@pytest.mark.parametrize("name", NAMES)
def test_rows_depend_on_part_seed_and_epoch_alone(name: str) -> None:
    ability = load_ability(name)
    drawn = [
        ("train", 0, 0),
        ("train", 1, 0),
        ("train", 0, 1),
        ("validation", 0, 0),
        ("test", 0, 0),
    ]
    digests = [digest(make_rows(ability, *each)) for each in drawn]
    assert digests == [digest(make_rows(load_ability(name), *each)) for each in drawn]
    assert len(set(digests)) == len(drawn)


@pytest.mark.parametrize("name", NAMES)
def test_targets_are_what_a_solver_finds(name: str) -> None:
    solve = SOLVERS[name]
    for ability in (load_ability(name), small(name)):
        for part in ("train", "test"):
            rows = some_rows(ability, part, 12)
            solved = [(row, solve(ability, list(row.ids))) for row in rows]
            decided = [(row, targets) for row, targets in solved if targets is not None]
            assert len(decided) > 0.7 * len(rows)
            for row, targets in decided:
                assert list(row.targets) == list(targets)


@pytest.mark.parametrize("name", NAMES)
def test_chance_is_the_accuracy_of_guessing(name: str) -> None:
    ability, random = load_ability(name), Random(3)
    rows = some_rows(ability, "test", 200)
    answers = list(ability.answers)
    targets = [target for row in rows for target in row.targets if target != IGNORE]
    assert set(targets) <= set(answers)
    guesses = [[random.choice(answers) for _ in row.ids] for row in rows]
    chance, count = ability.chance, len(targets)
    measured = ability.measure(rows, guesses)["accuracy"]
    assert abs(measured - chance) < 4 * math.sqrt(chance * (1 - chance) / count)


@pytest.mark.parametrize("name", NAMES)
def test_the_right_predictions_score_1_and_others_0(name: str) -> None:
    ability = small(name)
    rows = some_rows(ability, "test", 20)
    right = ability.measure(rows, [row.targets for row in rows])
    wrong = ability.measure(rows, [[-1] * len(row.ids) for row in rows])
    assert set(right.values()) == {1.0}
    assert set(wrong.values()) == {0.0}
    counts = ability.count_correct(rows, [row.targets for row in rows])
    assert {hits / total for hits, total in counts.values()} == {1.0}
    lengths = len(getattr(ability, "factors", [1]))
    assert counts["whole_rows"][1] == len(rows) // lengths * lengths


@pytest.mark.parametrize("name", NAMES)
def test_options_have_bounds(name: str) -> None:
    ability = load_ability(name)
    hints = get_type_hints(type(ability), include_extras=True)
    for option in fields(ability):  # type: ignore[arg-type]
        kind, sentence, *notes = get_args(hints[option.name])
        assert sentence.endswith(".")
        wrong: list[Any] = ["three"] if kind is not str else [3]
        for bounds in (note for note in notes if isinstance(note, Bounds)):
            wrong += [kind(bounds.low) - 1, kind(bounds.high) + 1]
        assert len(wrong) == 3 or kind in (bool, str), f"{option.name} has no bounds"
        for value in wrong:
            with pytest.raises(ValueError, match=f"^{name}: {option.name} is .*; give [^\n]*$"):
                replace(ability, **{option.name: value})  # type: ignore[type-var]


@pytest.mark.parametrize("name", NAMES)
def test_the_quick_variant_can_be_trained(name: str) -> None:
    ability, training = load_ability(name).quick_variant()
    assert training, "a quick variant says how long it trains"
    Settings(**{**ability.training, **training})
    assert load_ability(name).quick_variant()[0] == ability


@pytest.mark.parametrize("name", NAMES)
def test_a_run_keeps_its_options(name: str, tmp_path: Path) -> None:
    """Evaluating and resuming with the default task build the task of the run."""
    ability, default = small(name), load_ability(name)
    training = {"steps": 2, "batch_size": 5, "evaluations": 1, "stop_at": None}
    ability.train(tmp_path / "run", model=SMALL_MODEL, training=training, quiet=True)
    section = Run(tmp_path / "run").config()["task"]
    assert {option: section[option] for option in option_names(ability)} == task_options(ability)
    metrics = default.evaluate(tmp_path / "run")
    assert metrics == ability.evaluate(tmp_path / "run")
    assert {"accuracy", "whole_rows", "loss"} <= set(metrics)
    with pytest.raises(ValueError, match="resume with the same settings"):
        default.train(
            tmp_path / "run", model=SMALL_MODEL, training=training, start=StartMode.RESUME,
            quiet=True,
        )  # fmt: skip


def test_commands_pass_options_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = "--width 16 --layers 1 --heads 2 --batch-size 5"
    options = "--pairs 3 --length 17 --vocabulary 22"
    code, _, err = run(f"recall train {options} {sizes} --steps 2", capsys)
    assert code == 0, err
    assert run(f"recall train {sizes} --steps 3 --resume", capsys)[0] == 0
    assert [row["step"] for row in Run("runs/recall").metrics()] == [1, 2, 3]
    code, out, _ = run("recall evaluate runs/recall --json", capsys)
    assert code == 0
    task = Recall(pairs=3, length=17, vocabulary=22)
    assert json.loads(out)["accuracy"] == task.evaluate("runs/recall")["accuracy"]
    code, _, err = run(f"recall train {sizes} --pairs 4 --steps 4 --resume", capsys)
    assert (code, "the run has pairs 3, not 4" in err) == (2, True)
    assert Run("runs/recall").config()["task"]["pairs"] == 3


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("recall train --pairs 0", "recall: pairs is 0; give 1 to 4,096"),
        ("recall train --pairs 20", "20 pairs do not fit into a length of 64; give at most 16"),
        ("recall train --vocabulary 8", "has 4 keys, but there are 8 pairs"),
        ("compare recall --pairs 0", "recall: pairs is 0"),
        ("majority train --length 8", "give an odd number"),
        ("selective_copy train --tokens 30", "30 tokens do not fit into a length of 48"),
        ("induction train --tokens 40", "40 tokens do not fit twice into a length of 64"),
        ("induction train --vocabulary 8", "needs a vocabulary of 9 or more, not 8"),
        ("fuzzy_recall train --vocabulary 5", "a vocabulary of 5 is too small for 5 pairs"),
        ("extrapolate train --ability nothing", "no ability 'nothing'; choose from recall"),
        ("extrapolate train --ability extrapolate", "cannot use itself"),
        ("extrapolate train --ability copy:size=3", "copy: has no option 'size'; there are length"),
        ("extrapolate train --ability copy:length", "write NAME=NUMBER"),
        ("extrapolate train --ability compress", "has other token ids in longer rows"),
        ("extrapolate train --ability listops", "length is only an upper limit, so it has no lon"),
    ],
)
def test_a_mistake_is_one_line(
    command: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(command, capsys)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert words in err
    assert not list(tmp_path.iterdir())


def test_new_rows_in_every_epoch_also_after_resuming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs of three epochs, one of them in two parts, have the same losses."""
    monkeypatch.setattr(Recall, "row_counts", {"train": 15, "validation": 5, "test": 5})
    task = Recall(pairs=2, length=11, vocabulary=14)
    training = {"steps": 9, "batch_size": 5, "schedule": "constant", "evaluations": None}
    options: dict[str, Any] = {"model": SMALL_MODEL, "quiet": True}
    task.train(tmp_path / "whole", training=training, **options)
    task.train(tmp_path / "parts", training={**training, "steps": 4}, **options)
    task.train(tmp_path / "parts", training=training, start=StartMode.RESUME, **options)
    whole, parts = (
        [(row["epoch"], row["loss"]) for row in Run(tmp_path / name).metrics()]
        for name in ("whole", "parts")
    )
    assert [epoch for epoch, _ in whole] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert whole == parts


def test_the_list_has_all_abilities(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("abilities", capsys)
    entries = json.loads(run("abilities --json", capsys)[1])
    assert code == 0
    assert [each["name"] for each in entries] == NAMES
    for each in entries:
        assert f"{each['name']}  {each['help']}" in out
        assert " -> " in each["example"]
        assert each["example"] in out
    assert entries[0]["chance"] == pytest.approx(1 / 128)


def test_help_lists_the_command_and_not_every_ability(capsys: pytest.CaptureFixture[str]) -> None:
    first = run("--help", capsys)[1]
    assert "abilities" in first
    assert "noisy_recall" not in first
    assert "noisy_recall" in run("compare --help", capsys)[1]
    assert "--pairs" in run("recall train --help", capsys)[1]


def test_a_comparison_has_chance_as_its_baseline_and_counts_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = f"compare recall --pairs 2 --length 11 --vocabulary 14 --out {out} --seeds 1"
    sizes = "--steps 2 --width 16 --layers 1 --heads 2 --batch-size 5"
    code, text, err = run(f"{command} {sizes} --attention softmax elu", capsys)
    assert code == 0, err
    assert "pairs 2, length 11, vocabulary 14" in " ".join(text.split())
    result = json.loads((out / "compare.json").read_text())
    assert result["baseline"] == ["chance", {"accuracy": pytest.approx(1 / 7)}]
    assert result["settings"]["pairs"] == 2
    for each in result["runs"]:
        hits, total = each["outcome"]["correct"]["accuracy"]
        assert 1024 <= total <= 2048  # rows, and targets
        assert hits / total == pytest.approx(each["outcome"]["metrics"]["accuracy"], abs=1e-3)
    command = command.replace("--pairs 2", "--pairs 1")
    code, _, err = run(f"{command} {sizes} --attention softmax elu --resume", capsys)
    assert (code, "the comparison has pairs 2, not 1" in err) == (2, True)


def test_targets_of_a_row_do_not_count_as_independent() -> None:
    """Rows that are wholly right or wholly wrong have as much information as one target each."""
    task = Recall(pairs=2, length=11, vocabulary=14)
    rows = some_rows(task, "test", 100)
    together = [list(row.targets) if i % 2 else [-1] * 11 for i, row in enumerate(rows)]
    assert task.count_correct(rows, together)["accuracy"] == (len(rows) // 2, len(rows))
    random = Random(0)
    single = [[t if random.random() < 0.5 else -1 for t in row.targets] for row in rows]
    assert task.count_correct(rows, single)["accuracy"][1] > 1.5 * len(rows)


def test_extrapolate_measures_each_length() -> None:
    task = Extrapolate(ability="copy:length=3,symbols=5", times=4)
    rows = make_rows(task, "test")
    assert sorted({len(row.ids) for row in rows}) == [6, 12, 24]
    assert {len(row.ids) for row in some_rows(task, "train", 50)} == {6}
    predictions = [list(row.targets) if len(row.ids) < 24 else [-1] * 24 for row in rows]
    metrics = task.measure(rows, predictions)
    assert [metrics[f"accuracy_{factor}x"] for factor in (1, 2, 4)] == [1, 1, 0]
    assert metrics["accuracy"] == pytest.approx(2 / 3)
