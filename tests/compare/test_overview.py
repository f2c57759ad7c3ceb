"""attnlab compare all: the overview over several abilities, resumed after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab import MECHANISMS
from attnlab._confidence_intervals import Estimate
from attnlab._safe_files import write_json
from attnlab.compare._engine import compare
from attnlab.compare._overview import Overview, OverviewSettings, compare_all, create_comparisons
from attnlab.compare._overview_report import OverviewCell, _scores, _sentence
from attnlab.extensions import load_extension
from attnlab.report import Heatmap
from attnlab.run_folder import RunFolder, StartMode
from attnlab.run_folder._file_names import LOCK, REMOVING
from attnlab.tasks._simple_comparison import comparison_class
from attnlab.tasks.comparison import Metric
from attnlab.tasks.registry import TASKS
from tests.support.command_line import run
from tests.support.processes import children_of, wait_until_ended
from tests.support.registries import restored_registries

SUPPORT = Path(__file__).parents[1] / "support"
TINY = SUPPORT / "tiny_task.py"
OTHER = """
from dataclasses import dataclass
from attnlab.tasks.registry import TASKS, register_task

Tiny = type(TASKS["tiny-copy"].load_recipe())


@register_task
@dataclass(frozen=True)
class Backwards(Tiny):
    "Write a few letters backwards."

    name = "tiny-reverse"
"""
ACCURACY = Metric("accuracy", "accuracy", "higher", percent=True)
BITS = Metric("bits", "bits per character")


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path) -> Iterator[None]:
    with restored_registries():
        load_extension(TINY)
        (tmp_path / "other_task.py").write_text(OTHER)
        load_extension(tmp_path / "other_task.py")
        yield


SETTINGS = OverviewSettings(
    quick=True, attention=("softmax", "gla", "linformer"), abilities=("tiny-copy", "tiny-reverse")
)


def run_overview(out: Path, settings: OverviewSettings = SETTINGS, **options: Any) -> Overview:
    return compare_all(settings, out=out, **{"processes": 0, "quiet": True, **options})


def cells_of(out: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads((out / "overview.json").read_text())["cells"]
    return cells


def test_overview(tmp_path: Path) -> None:
    out = tmp_path / "out"
    overview = run_overview(out)
    cells = cells_of(out)
    assert [(cell["mechanism"], cell["ability"]) for cell in cells] == [
        (name, ability) for name in SETTINGS.attention or () for ability in SETTINGS.abilities or ()
    ]
    for cell in cells:
        assert cell["chance"] == 0.2
        if cell["mechanism"] == "linformer":
            assert "no causal form" in cell["problem"]
            assert cell["estimate"] is None
        else:  # an interval over the test rows
            estimate = cell["estimate"]
            assert estimate["low"] <= estimate["value"] <= estimate["high"]
    text = " ".join(overview.report.sections[0].findings)
    assert "linformer failed on tiny-copy and tiny-reverse." in text
    assert "tiny-copy 2 steps" in text  # of the quick variant
    plot = overview.report.sections[0].blocks[0].plot  # type: ignore[union-attr]
    assert isinstance(plot, Heatmap)
    assert plot.columns == ["tiny-copy", "tiny-reverse"]
    assert plot.values[2:] == [[None, None], [0.2, 0.2]]
    assert plot.rows[3] == "chance"
    assert len((out / "overview.csv").read_text().splitlines()) == 7
    assert "no causal form" in (out / "overview.html").read_text()
    assert (out / "tiny-copy" / "gla-rate1-seed0" / "model.safetensors").exists()
    assert json.loads((out / "tiny-copy" / "compare.json").read_text())["settings"]["letters"] == 2
    assert list(out.glob("overview-*.svg"))
    with pytest.raises(ValueError, match="already holds a comparison; give --resume"):
        run_overview(out)
    with pytest.raises(ValueError, match="the comparison has seeds 1, not 2; resume with the same"):
        run_overview(out, OverviewSettings(**{**vars(SETTINGS), "seeds": 2}), start="resume")
    before = (out / "overview.json").read_text()
    run_overview(out, start=StartMode.RESUME)
    assert (out / "overview.json").read_text() == before
    fewer = OverviewSettings(quick=True, attention=("elu",), abilities=("tiny-copy",))
    run_overview(out, fewer, start=StartMode.OVERWRITE)
    assert [cell["mechanism"] for cell in cells_of(out)] == ["elu"]
    assert not (out / "tiny-reverse" / "compare.json").exists()


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != LOCK
    }


ONE = OverviewSettings(quick=True, attention=("elu",), abilities=("tiny-copy",))


def test_overwrite_removes_only_what_the_overview_made(tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = comparison_class(TASKS["tiny-reverse"])()
    compare(other, ["elu"], out=out / "tiny-reverse", steps=1, seeds=1, quiet=True)
    own_files = files_of(out)
    run_overview(out, ONE, start=StartMode.OVERWRITE)  # there is no overview to replace
    run_overview(out, ONE, start=StartMode.OVERWRITE)
    assert own_files.items() <= files_of(out).items()
    before = files_of(out)
    for start in StartMode.OVERWRITE, StartMode.NEW:
        (out / "overview.json").rename(tmp_path / "kept.json")
        both = OverviewSettings(quick=True, attention=("elu",), abilities=("tiny-reverse",))
        with pytest.raises(ValueError, match=r"tiny-reverse: .*holds a comparison"):
            run_overview(out, both, start=start)
        (tmp_path / "kept.json").rename(out / "overview.json")
        assert files_of(out) == before
    training = "tiny-copy: another process is training here"
    with RunFolder(out / "tiny-copy").locked(), pytest.raises(ValueError, match=training):
        run_overview(out, ONE, start=StartMode.OVERWRITE)
    assert files_of(out) == before
    (out / "overview.json").rename(out / REMOVING)  # as if the removal had been killed
    elsewhere = OverviewSettings(quick=True, attention=("elu",), abilities=("tiny-copy-2",))
    with restored_registries():
        TASKS["tiny-copy-2"] = TASKS["tiny-copy"]
        run_overview(out, elsewhere)
    assert not (out / "tiny-copy" / "compare.json").exists()
    assert own_files.items() <= files_of(out).items()


@pytest.mark.parametrize("options", [{"processes": -1}, {"ray": "10.0.0.5:1"}])
def test_bad_input_leaves_the_old_overview(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(address: str) -> None:
        raise ValueError(f"--ray {address}: no cluster answers there")

    monkeypatch.setattr("attnlab.compare._ray_runner.RayRunner", refuse)
    run_overview(tmp_path, ONE)
    before = files_of(tmp_path)
    with pytest.raises(ValueError, match=r"--processes is -1|no cluster answers"):
        run_overview(tmp_path, ONE, start=StartMode.OVERWRITE, **options)
    assert files_of(tmp_path) == before


def test_a_new_overview_refuses_old_parts_before_it_trains(tmp_path: Path) -> None:
    swept = OverviewSettings(**{**vars(ONE), "learning_rate_factors": (0.5, 2.0)})
    run_overview(tmp_path, ONE)
    (tmp_path / "overview.json").unlink()
    before = files_of(tmp_path)
    for settings in (ONE, swept):
        with pytest.raises(ValueError, match="tiny-copy: already holds a comparison"):
            run_overview(tmp_path, settings)
        assert files_of(tmp_path) == before


def test_learning_rates_are_swept_once_for_each_mechanism(tmp_path: Path) -> None:
    settings = OverviewSettings(
        attention=("softmax", "elu"),
        abilities=("tiny-copy", "tiny-reverse"),
        seeds=2,
        learning_rate_factors=(0.5, 2.0),
    )
    overview = run_overview(tmp_path / "out", settings)
    sweep = json.loads((tmp_path / "out" / "learning-rates" / "compare.json").read_text())
    assert len(sweep["runs"]) == 4
    best = {each["contender"]: each["rate"] for each in sweep["best"]}
    for result in overview.results.values():
        assert len(result.attempts) == 4
        assert {trial.contender: trial.rate for trial in result.trials} == best
    for each in sweep["runs"]:  # as if their processes had been killed
        each |= {"kind": "failure", "problem": "was lost", "retry": True}
        each.pop("outcome")
    write_json(tmp_path / "out" / "learning-rates" / "compare.json", sweep)
    assert json.loads((tmp_path / "out" / "overview.json").read_text())["best_factors"] == {
        name: [rate] for name, rate in best.items()
    }
    again = run_overview(tmp_path / "out", settings, start=StartMode.RESUME)
    assert again.cells == overview.cells
    kept = json.loads((tmp_path / "out" / "learning-rates" / "compare.json").read_text())
    assert kept == sweep  # the rates stay


def test_settings_of_a_night_and_of_a_quick_overview() -> None:
    night, quick = OverviewSettings().resolved(), OverviewSettings(quick=True).resolved()
    assert (len(night.attention or ()), len(night.abilities or ()), night.seeds) == (12, 8, 3)
    assert (len(quick.attention or ()), len(quick.abilities or ()), quick.seeds) == (8, 4, 1)
    assert len(night.learning_rate_factors or ()) > len(quick.learning_rate_factors or ()) == 1
    for name in (*(night.abilities or ()), "language", "knowledge", "summary", "vision"):
        assert TASKS[name].can_compare
    night_task = create_comparisons(OverviewSettings(abilities=("tiny-copy",)))["tiny-copy"]
    assert vars(night_task)["training"]["stop_at"] == 0.99
    for names, message in (
        (("tiny-copy", "tiny-copy"), "names an ability twice"),
        (("reccall",), "--abilities 'reccall': no such task; there are "),
    ):
        with pytest.raises(ValueError, match=message):
            create_comparisons(OverviewSettings(abilities=names))


def create_cell(value: float | None, metric: Metric = ACCURACY, **options: Any) -> OverviewCell:
    estimate = None if value is None else Estimate(value, value - 0.04, value + 0.03)
    ability = options.pop("ability", "recall")
    return OverviewCell("gla", ability, metric, options.pop("chance", 0.1), estimate, **options)


def test_sentences_follow_from_the_numbers() -> None:
    cells = [
        create_cell(0.99, ability="copy"),
        create_cell(0.5, ability="sort"),
        create_cell(0.13, ability="parity"),  # the interval includes chance
        create_cell(None, ability="needle", problem="too long"),
        create_cell(2.5, BITS, ability="language", chance=None),
        create_cell(None, ability="recall", waiting=True),
    ]
    assert _sentence(cells) == (
        "gla solves copy, learns a part of sort (50%), does not beat guessing on parity, reaches "
        "2.5 (bits per character) on language, failed on needle and is not trained on recall yet."
    )


def test_a_wide_interval_that_includes_chance_is_undecided() -> None:
    """Two of three seeds solve the task: not the same as guessing."""
    cells = [
        OverviewCell("gla", "recall", ACCURACY, 0.1, Estimate(0.68, -0.62, 1.98), seeds=3),
        OverviewCell("gla", "parity", ACCURACY, 0.5, Estimate(0.52, 0.46, 0.59), seeds=3),
        OverviewCell("gla", "sort", ACCURACY, 0.1, Estimate(0.2, 0.1, 0.5)),
    ]
    assert [cell.verdict for cell in cells] == ["undecided", "chance", "undecided"]
    assert _sentence(cells) == (
        "gla is undecided on recall (68%, seeds differ) and sort (20%, few test rows) and does not "
        "beat guessing on parity."
    )


def test_scores_of_metrics_that_are_no_fractions() -> None:
    assert _scores([create_cell(0.5), create_cell(None)]) == [0.5, None]
    assert _scores([create_cell(2.0, BITS), create_cell(4.0, BITS)]) == [1.0, 0.5]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = "--attention softmax --abilities tiny-copy tiny-reverse"
    command = f"compare all --quick {names} --out {tmp_path}/out"
    code, out, err = run(f"{command} --processes 0", capsys)
    assert code == 0, err
    assert "tiny-copy: 1 run of 2 steps" in err
    assert "tiny-reverse: 1 run of 2 steps" in err
    assert "softmax" in out
    assert out.splitlines()[-1] == f"{tmp_path}/out/overview.html"
    code, _, err = run(f"{command} --resume --steps 3", capsys)
    assert (code, err.count("\n")) == (2, 1)
    assert "the comparison has steps None, not 3" in err


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed(tmp_path: Path) -> None:
    """The same table as without a kill. The processes of the trials are killed with it."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    names = "--quick --attention softmax gla --abilities tiny-copy tiny-reverse --steps 4"
    program = [sys.executable, "-m", "attnlab", "--extension", str(TINY)]
    program += ["--extension", str(tmp_path / "other_task.py"), "compare", "all", *names.split()]
    kept = run_overview(
        whole,
        OverviewSettings(
            quick=True, attention=("softmax", "gla"), abilities=("tiny-copy", "tiny-reverse")
        ),
        budget=_four_steps(),
        processes=2,
    )
    process = subprocess.Popen(
        [*program, "--out", str(out), "--processes", "2"], stderr=subprocess.DEVNULL
    )
    while not (out / "tiny-copy" / "softmax-rate1-seed0" / "config.json").exists():
        assert process.poll() is None
        time.sleep(0.02)
    children = children_of(process.pid)
    process.kill()
    process.wait()
    wait_until_ended(children)
    options = [*program, "--out", str(out), "--processes", "2", "--resume"]
    done = subprocess.run(options, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert cells_of(out) == kept.cells
    assert losses_of(out) == losses_of(whole)
    assert len(losses_of(out)) == 4


def losses_of(out: Path) -> dict[str, list[tuple[int, float]]]:
    """The loss of every step of every run."""
    return {
        str(path.parent.relative_to(out)): [
            (row["step"], row["loss"]) for row in RunFolder(path.parent).metrics()
        ]
        for path in out.glob("*/*/metrics.jsonl")
    }


def _four_steps() -> Any:
    from attnlab.tasks.comparison import TrainingBudget

    return TrainingBudget(steps=4)


def test_the_default_mechanisms_and_abilities_exist() -> None:
    for quick, counts in ((True, (8, 4)), (False, (12, 8))):
        settings = OverviewSettings(quick=quick).resolved()
        assert settings.attention is not None
        assert settings.abilities is not None
        assert (len(settings.attention), len(settings.abilities)) == counts
        assert {name.split(":")[0] for name in settings.attention} <= set(MECHANISMS)
        assert set(settings.abilities) <= set(TASKS)
