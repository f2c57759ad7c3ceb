"""Trains and measures every contender with every setting and seed, all with the same budget.

It writes compare.json and compare.html after each run. So an interrupted comparison has partial
results, and a resumed one trains only the missing runs.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attnlab._confidence_intervals import format_number
from attnlab._create_mechanism import resolve_aliases
from attnlab._safe_files import write_json
from attnlab.compare._conclusions import Conclusions, conclude
from attnlab.compare._report import comparison_report
from attnlab.compare._runs import (
    ATTEMPTS,
    FIGURES,
    FORMAT,
    PAGE,
    RESULTS,
    TRIALS,
    VERSION,
    Attempt,
    Failure,
    create_attempt,
    read_attempts,
)
from attnlab.errors import InterruptedTraining, TrainingStoppedError
from attnlab.report import Figure, Lines, Report, save_figure, save_page
from attnlab.run_folder import RunFolder, StartMode
from attnlab.run_folder._file_names import LOCK
from attnlab.run_folder._removal import removal, removal_began, remove_empty_folders
from attnlab.run_folder._run_list import find_runs
from attnlab.tasks.comparison import TRIAL_FOLDER, Comparison, ComparisonTrial, TrainingBudget
from attnlab.tasks.registry import result_files
from attnlab.training._distributed import is_main_process


@dataclass(frozen=True)
class ComparisonResult:
    """The runs of a comparison so far, and the conclusions."""

    comparison: Comparison
    budget: TrainingBudget
    trials: list[ComparisonTrial]
    attempts: list[Attempt]
    conclusions: Conclusions

    @property
    def report(self) -> Report:
        return comparison_report(
            self.comparison, self.budget, len(self.trials), self.attempts, self.conclusions
        )


def compare(
    comparison: Comparison,
    attention: Sequence[str] | None = None,
    *,
    out: str | Path,
    minutes: float | None = None,
    steps: int | None = None,
    seeds: int | None = None,
    first_seed: int = 0,
    learning_rate_factors: Sequence[float] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> ComparisonResult:
    """Compare mechanisms on a task. The others are compared with the first of `attention`.

    Each run gets `minutes` of training steps, or `steps`. `learning_rate_factors` multiply the
    task's own learning rates; each contender is compared at its best one. `out` is the
    folder of all runs, with compare.json and compare.html.

    >>> from attnlab.compare import compare
    >>> from attnlab.tasks.vision import VisionComparison
    >>> sizes = {"width": 16, "layers": 1, "heads": 2}
    >>> comparison = VisionComparison(fractions=(0.1,), sizes=sizes)
    >>> result = compare(comparison, ["softmax", "elu"], out="out", steps=2, seeds=1, quiet=True)
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("a comparison trains its runs in one process; start it without torchrun")
    folder, start = Path(out), StartMode(start)
    check_output_folder(folder, start)
    budget = comparison.budget(_create_budget(minutes, steps))
    if learning_rate_factors is None:
        learning_rate_factors = comparison.learning_rate_factors
    contenders, trials = create_grid(
        comparison,
        comparison.attention if attention is None else [resolve_aliases(a) for a in attention],
        range(first_seed, first_seed + (comparison.seeds if seeds is None else seeds)),
        learning_rate_factors,
    )
    comparison.check(trials)
    plan = {"title": comparison.title, **asdict(budget), **comparison.plan()}
    plan = json.loads(json.dumps(plan))
    attempts: list[Attempt] = []
    if start is StartMode.RESUME:
        attempts = read_attempts(folder / RESULTS, comparison, plan, trials)
    with RunFolder(folder).locked() if is_main_process() else nullcontext():
        if start is StartMode.OVERWRITE or removal_began(folder):
            remove_comparison(folder)
        for note in comparison.notes(trials):
            _print_progress(note, quiet)
        return _run_trials(
            comparison, budget, contenders, trials, attempts, folder, plan, start, quiet
        )


def _run_trials(
    comparison: Comparison,
    budget: TrainingBudget,
    contenders: list[str],
    trials: list[ComparisonTrial],
    attempts: list[Attempt],
    folder: Path,
    plan: dict[str, Any],
    start: StartMode,
    quiet: bool,
) -> ComparisonResult:
    done = {attempt.trial for attempt in attempts}
    missing = [trial for trial in trials if trial not in done]
    already = f", {len(done)} of them done" if done else ""
    total = f": {len(missing) * budget.minutes:g} minutes in all" if budget.minutes else ""
    _print_progress(f"{_count(len(trials), 'run')} of {budget}{already}{total}", quiet)

    def write() -> ComparisonResult:
        conclusions = conclude(comparison, contenders, attempts)
        result = ComparisonResult(comparison, budget, trials, list(attempts), conclusions)
        _write(folder, plan, result)
        return result

    result = write()
    for trial in missing:
        _print_progress(f"{len(attempts) + 1} of {len(trials)}: {trial.folder}", quiet)
        attempts.append(
            _train_and_measure(comparison, trial, folder / trial.folder, budget, start, quiet)
        )
        _print_progress(f"    {_describe_attempt(comparison, attempts[-1])}", quiet)
        result = write()
    if is_main_process():
        _write_figures(folder, result.report)
    return result


def _train_and_measure(
    comparison: Comparison,
    trial: ComparisonTrial,
    path: Path,
    budget: TrainingBudget,
    start: StartMode,
    quiet: bool,
) -> Attempt:
    try:
        comparison.train(trial, path, budget, start, quiet)
    except InterruptedTraining:
        raise
    except TrainingStoppedError as error:  # the other runs can still be compared
        return Failure(trial, str(error).removeprefix(f"{path}: "))
    return create_attempt(trial, comparison.measure(trial, path))


def create_grid(
    comparison: Comparison,
    attention: Sequence[str],
    seeds: Sequence[int],
    learning_rate_factors: Sequence[float],
) -> tuple[list[str], list[ComparisonTrial]]:
    """The contenders and every trial. Seeds are outermost, so that an interrupted comparison has
    runs of all contenders."""
    if not attention or len(set(attention)) < len(attention):
        raise ValueError(
            "--attention is empty or names a mechanism twice; name each mechanism once"
        )
    if not len(seeds):
        raise ValueError("--seeds is 0; give 1 or more")
    if seeds[0] < 0:
        raise ValueError(f"--seed is {seeds[0]}; give 0 or more")
    if not learning_rate_factors or any(
        not 0 < factor < math.inf for factor in learning_rate_factors
    ):
        raise ValueError(
            "--learning-rate-factors multiply the task's learning rates; give numbers above 0"
        )
    sweep_values, contenders = comparison.sweep_values(), comparison.contenders(attention)
    trials = [
        ComparisonTrial(contender, variant, factor, seed, value)
        for seed in seeds
        for value in sweep_values
        for contender, variants in contenders.items()
        for variant in variants
        for factor in dict.fromkeys(learning_rate_factors)
    ]
    if len({trial.folder for trial in trials}) < len(trials):
        raise ValueError("two contenders would write into one folder; compare them separately")
    return list(contenders), trials


def _create_budget(minutes: float | None, steps: int | None) -> TrainingBudget | None:
    if minutes is not None and steps is not None:
        raise ValueError("--minutes and --steps exclude each other; give one of them")
    if minutes is not None and not 0 < minutes < math.inf:
        raise ValueError(f"minutes is {minutes}; give a number above 0")
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}; give 1 or more")
    return None if minutes is None and steps is None else TrainingBudget(minutes, steps)


def check_output_folder(folder: Path, start: StartMode) -> None:
    """Raises an error if `start` does not fit the folder, before anything is computed."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; give a folder")
    exists = (folder / RESULTS).exists()
    if start is StartMode.RESUME and not exists:
        raise ValueError(
            f"{folder}: holds no comparison to resume; {RESULTS} is missing; start without --resume"
        )
    if start is StartMode.NEW and exists:
        raise ValueError(
            f"{folder}: already holds a comparison; give --resume to continue it, --overwrite to "
            "replace it, or another folder"
        )
    if start is StartMode.NEW and not removal_began(folder) and _trial_runs(folder):
        raise ValueError(
            f"{folder}: has runs of a comparison, but its {RESULTS} is missing; give --overwrite "
            "to remove them, or another folder"
        )


def remove_comparison(folder: Path) -> None:
    """Deletes all runs of a comparison, also those that the new one lacks: they would look like its
    own. Your other files stay."""
    with removal(folder, RESULTS):
        for path in (folder / PAGE, *folder.glob(FIGURES)):
            path.unlink(missing_ok=True)
        for path in _trial_runs(folder):
            RunFolder(path, result_files()).delete_folder()
        for path in _trial_folders(folder):
            remove_empty_folders(path)


def _trial_folders(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if TRIAL_FOLDER.fullmatch(path.name)]


def _trial_runs(folder: Path) -> list[Path]:
    """The run folders of a comparison, also those that never began. A trial may have several."""
    runs = [path for trial in _trial_folders(folder) for path in find_runs(trial)]
    locks = [path.parent for trial in _trial_folders(folder) for path in trial.rglob(LOCK)]
    return sorted({*runs, *locks})


def _write(folder: Path, plan: dict[str, Any], result: ComparisonResult) -> None:
    if not is_main_process():
        return
    content = {
        "format": FORMAT,
        "version": VERSION,
        "settings": plan,
        "trials": TRIALS.dump_python(result.trials, mode="json"),
        **asdict(result.conclusions),
        "runs": ATTEMPTS.dump_python(result.attempts, mode="json"),
    }
    write_json(folder / RESULTS, content)
    if result.attempts:
        save_page(folder / PAGE, result.report, overwrite=True)


def _write_figures(folder: Path, report: Report) -> None:
    """Writes each figure as an SVG file, for papers."""
    blocks = [block for section in report.sections for block in section.blocks]
    figures = [block for block in blocks if isinstance(block, Figure)]
    for figure in figures:
        assert isinstance(figure.plot, Lines)
        name = "-".join(re.findall(r"\w+", figure.plot.y))
        path = folder / FIGURES.replace("*", name)
        save_figure(figure.plot, path, figure.title, overwrite=True)


def _describe_attempt(comparison: Comparison, attempt: Attempt) -> str:
    """The metrics of a run, or why it failed."""
    if isinstance(attempt, Failure):
        return f"failed: {attempt.problem}"
    outcome = attempt.outcome
    facts = [
        f"{metric.title} {format_number(outcome.metrics[metric.name], metric.percent)}"
        for metric in comparison.metrics
    ]
    return f"{', '.join(facts)}; {_count(outcome.steps, 'step')}, {60 * outcome.minutes:.0f} s"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _print_progress(text: str, quiet: bool) -> None:
    if is_main_process() and not quiet:
        print(text, file=sys.stderr)
