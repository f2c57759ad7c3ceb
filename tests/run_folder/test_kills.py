"""A run folder is complete or absent at every instant: commands killed at each file operation."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from attnlab.run_folder._run_list import find_runs
from attnlab.tasks.knowledge._presets import PRESETS
from tests.support.command_line import call
from tests.support.killed_commands import (
    COMMANDS,
    TrainingCommand,
    check_complete,
    prepare,
    read_tree,
    tiny_preset,
)

KILLS = int(os.environ.get("ATTNLAB_KILLS", "60"))  # at random moments
STAGES = {  # commands that start and end in different ways, with options of an older run
    "language": "--seed 1",
    "finetune": "--seed 1",
    "learn": "--seed 1 --readers 2",
    "compare vision": "--seed 1",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("kills")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "small", tiny_preset())
        patch.setattr(Figure, "savefig", save_no_figure)  # to draw one takes longer than to train
        patch.chdir(folder)
        prepare(folder)
        yield folder


def save_no_figure(figure: Figure, path: Path, **_: Any) -> None:
    path.write_text(str(figure.get_axes()[0].get_ylabel()))


def run_whole(command: TrainingCommand, folder: Path, options: str = "") -> Path:
    """The folder of an undisturbed run, made once."""
    whole = folder / ("whole " + command.line.split(" -")[0] + options).replace(" ", "-")
    if not whole.exists():
        shutil.rmtree(folder / "out", ignore_errors=True)
        assert call(f"{command.line} {options} --out out") == 0  # config.json may name the folder
        (folder / "out").rename(whole)
    return whole


def assert_same_files(out: Path, whole: Path) -> None:
    left, right = read_tree(out), read_tree(whole)
    assert left.keys() == right.keys()
    assert left == right


def kill_everywhere(
    command: TrainingCommand, out: Path, option: str, source: Path | None
) -> Iterator[int]:
    """Kill the command at each operation and yield its number, if that left new files.

    `source` is what `out` holds before the command.
    """
    seen: list[Any] = []
    number, killed = 0, True
    while killed:
        shutil.rmtree(out, ignore_errors=True)
        if source is not None:
            shutil.copytree(source, out)
        outcome = command.run(out, option, kill_at=number)
        killed = outcome.killed
        tree = read_tree(out)
        if killed and tree not in seen:
            seen.append(tree)
            yield number
        number += 1
    assert outcome.code == 0, outcome.errors
    assert number > 20
    shutil.rmtree(out)


def finish(command: TrainingCommand, out: Path, option: str, whole: Path, number: int) -> None:
    outcome = command.run(out, option)
    assert outcome.code == 0, (number, option, outcome.errors)
    assert_same_files(out, whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_every_file_operation(name: str, data: Path) -> None:
    command, out = COMMANDS[name], data / "out"
    whole = run_whole(command, data)
    for number in kill_everywhere(command, out, "", None):
        check_complete(out, whole)
        option = "--resume" if command.can_resume(out) else ""
        finish(command, out, option, whole, number)


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGES)
def test_overwriting_killed_at_every_file_operation(name: str, data: Path) -> None:
    """The old run is whole, or there is no run, or it is the new one. They never mix."""
    command, out = COMMANDS[name], data / "out"
    whole, old = run_whole(command, data), run_whole(command, data, STAGES[name])
    for run in find_runs(old):
        (run / "audit.json").write_text("{}")  # a report on the old weights
    holds, old_tree = command.holds, read_tree(old)
    for number in kill_everywhere(command, out, "--overwrite", old):
        if not (out / holds).exists():
            option = "--resume" if command.can_resume(out) else ("--overwrite", "")[number % 2]
        elif (out / holds).read_bytes() == (old / holds).read_bytes():
            assert visible(read_tree(out)) == visible(old_tree)
            option = "--overwrite"
        else:
            check_complete(out, whole)
            option = "--resume"
        finish(command, out, option, whole, number)


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGES)
def test_resuming_killed_at_every_file_operation(name: str, data: Path) -> None:
    command, out, partial = COMMANDS[name], data / "out", data / f"partial {name}"
    whole = run_whole(command, data)
    total = command.run(out).operations
    shutil.rmtree(out)
    command.run(out, kill_at=total * 3 // 4)
    out.rename(partial)
    for number in kill_everywhere(command, out, "--resume", partial):
        check_complete(out, whole)
        assert command.can_resume(out)
        finish(command, out, "--resume", whole, number)


@pytest.mark.slow
def test_killed_at_random_moments(data: Path) -> None:
    """Each run is killed one to three times, then it may end."""
    generator, out, kills = random.Random(KILLS), data / "out", 0
    durations: dict[str, float] = {}
    while kills < KILLS:
        name = generator.choice(list(COMMANDS))
        command, whole = COMMANDS[name], run_whole(COMMANDS[name], data)
        if name not in durations:
            begin = time.perf_counter()
            assert command.run(out).code == 0
            durations[name] = time.perf_counter() - begin
            shutil.rmtree(out)
        for _ in range(generator.randint(1, 3)):
            option = "--resume" if out.exists() and command.can_resume(out) else ""
            outcome = command.run(out, option, kill_after=generator.random() * durations[name])
            kills += outcome.killed
            if not outcome.killed:
                assert outcome.code == 0, (name, option, outcome.errors)
                break
            check_complete(out, whole)
        outcome = command.run(out, "--resume" if command.can_resume(out) else "")
        assert outcome.code == 0, (name, outcome.errors)
        assert_same_files(out, whole)
        shutil.rmtree(out)


def visible(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: content for name, content in tree.items() if not name.startswith(".")}
