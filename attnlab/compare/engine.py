"""Trains every contender with every setting and seed, with the same budget, and measures it.

compare.json and compare.html are written after each run, so a comparison that is cut short has told
its part, and a resumed one trains only what is missing.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from attnlab.compare.conclusions import Conclusions, conclude
from attnlab.compare.report import comparison_report
from attnlab.files import read_json, write_json
from attnlab.report import Report, save_page
from attnlab.run_folder import StartMode, check_folder
from attnlab.tasks.comparison import Budget, Comparison, Outcome, Trial
from attnlab.training.distributed import speaks

RESULTS, PAGE = "compare.json", "compare.html"
FORMAT, VERSION = "attnlab-comparison", 1
MOST_BYTES = 2**28


@dataclass(frozen=True)
class Run:
    """One trained and measured run of the grid."""

    trial: Trial
    outcome: Outcome


RUNS: TypeAdapter[list[Run]] = TypeAdapter(list[Run])


@dataclass(frozen=True)
class Compared:
    """What a comparison found so far."""

    comparison: Comparison
    budget: Budget
    planned: int
    runs: list[Run]
    conclusions: Conclusions

    @property
    def report(self) -> Report:
        return comparison_report(
            self.comparison, self.budget, self.planned, self.runs, self.conclusions
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
    rates: Sequence[float] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> Compared:
    """Compare mechanisms on a task. `attention`: the first is what the others are compared with."""
    folder, start = Path(out), StartMode(start)
    budget = _budget(comparison, minutes, steps)
    names = comparison.attention if attention is None else attention
    count = comparison.seeds if seeds is None else seeds
    contenders, trials = grid(
        comparison, names, range(first_seed, first_seed + count), rates or comparison.rates
    )
    check_out(folder, start)
    for trial in trials:
        check_folder(folder / trial.folder, start.for_part(folder / trial.folder))
    comparison.check(trials)
    plan = json.loads(json.dumps({"budget": asdict(budget), **comparison.plan()}))
    runs = finished(folder / RESULTS, plan) if start is StartMode.RESUME else []
    done = {run.trial for run in runs}
    left = [trial for trial in trials if trial not in done]
    already = f", {len(trials) - len(left)} of them done" if len(left) < len(trials) else ""
    _say(f"{len(trials)} runs of {budget}{already}", quiet)

    def written() -> Compared:
        known = [run for run in runs if run.trial in trials]
        found = conclude(comparison, contenders, known)
        compared = Compared(comparison, budget, len(trials), known, found)
        _write(folder, plan, compared)
        return compared

    compared = written()
    for number, trial in enumerate(left, len(trials) - len(left) + 1):
        _say(f"{number} of {len(trials)}: {trial.folder}", quiet)
        path = folder / trial.folder
        comparison.train(trial, path, budget, start.for_part(path), quiet)
        runs.append(Run(trial, comparison.measure(trial, path)))
        compared = written()
    return compared


def grid(
    comparison: Comparison, attention: Sequence[str], seeds: Sequence[int], rates: Sequence[float]
) -> tuple[list[str], list[Trial]]:
    """Every run: seeds outermost, so that a comparison cut short has all contenders."""
    if not attention or len(set(attention)) < len(attention):
        raise ValueError("--attention: give the mechanisms to compare, each once")
    if not len(seeds):
        raise ValueError("--seeds: give 1 or more")
    if not rates or any(not 0 < rate < math.inf for rate in rates):
        raise ValueError("--rates multiply the usual learning rates; give numbers above 0")
    contenders = comparison.contenders(attention)
    trials = [
        Trial(contender, variant, rate, seed, place)
        for seed in seeds
        for place in comparison.places()
        for contender, variants in contenders.items()
        for variant in variants
        for rate in rates
    ]
    if len({trial.folder for trial in trials}) < len(trials):
        raise ValueError("two contenders would write into one folder; compare them separately")
    return list(contenders), trials


def _budget(comparison: Comparison, minutes: float | None, steps: int | None) -> Budget:
    if minutes is not None and steps is not None:
        raise ValueError("--minutes and --steps; give one of them")
    if minutes is not None and not 0 < minutes < math.inf:
        raise ValueError(f"minutes is {minutes}; give a number above 0")
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}; give 1 or more")
    return comparison.budget() if minutes is None and steps is None else Budget(minutes, steps)


def check_out(folder: Path, start: StartMode) -> None:
    """Before anything is read or computed."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; name a folder")
    there = (folder / RESULTS).exists()
    if start is StartMode.RESUME and not there:
        raise ValueError(f"{folder}: holds no comparison to go on with; {RESULTS} is missing")
    if there and start is StartMode.NEW:
        raise ValueError(
            f"{folder}: holds a comparison already; "
            "give --resume to go on, --overwrite to replace it, or another folder"
        )


def finished(path: Path, plan: dict[str, Any]) -> list[Run]:
    """The runs that a comparison with the same settings has done already."""
    try:
        old = read_json(path, MOST_BYTES)
        if not isinstance(old, dict) or old.get("format") != FORMAT:
            raise ValueError("it has another format")
        was, runs = dict(old["settings"]), RUNS.validate_python(old["runs"])
    except (KeyError, TypeError, ValidationError, ValueError) as error:
        reason = "its runs cannot be read" if isinstance(error, ValidationError) else error
        raise ValueError(
            f"{path}: not a comparison to go on with ({reason}); give --overwrite"
        ) from None
    for name in {**was, **plan}:
        if was.get(name) != plan.get(name):
            raise ValueError(
                f"{path}: the comparison has {name} {was.get(name)!r}, not {plan.get(name)!r}; "
                "resume with the same settings"
            )
    return runs


def _write(folder: Path, plan: dict[str, Any], compared: Compared) -> None:
    if not speaks():
        return
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "settings": plan,
        "planned": compared.planned,
        **asdict(compared.conclusions),
        "runs": RUNS.dump_python(compared.runs, mode="json"),
    }
    write_json(folder / RESULTS, content)
    if compared.runs:
        save_page(folder / PAGE, compared.report, overwrite=True)
    else:
        (folder / PAGE).unlink(missing_ok=True)  # of a comparison that is replaced


def _say(text: str, quiet: bool) -> None:
    if speaks() and not quiet:
        print(text, file=sys.stderr)
