"""The runs of a comparison, and how to read them from compare.json."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from attnlab._safe_files import read_json
from attnlab._short_repr import one_line, short_repr
from attnlab.tasks.comparison import Comparison, ComparisonTrial, TrialResult

RESULTS, PAGE, FIGURES = "compare.json", "compare.html", "compare-*.svg"
TABLE = "compare.csv"
FORMAT, VERSION = "attnlab-comparison", 2
OLD_VERSIONS = (1,)  # version 2 added the sizes that make contenders equal, and the state's bytes
MAX_BYTES = 2**28


@dataclass(frozen=True)
class ComparisonRun:
    """One trained and measured run of the grid."""

    trial: ComparisonTrial
    outcome: TrialResult
    kind: Literal["run"] = "run"


@dataclass(frozen=True)
class Failure:
    """A run without a result, such as one whose loss became infinite."""

    trial: ComparisonTrial
    problem: str
    kind: Literal["failure"] = "failure"
    retry: bool = False
    """Whether --resume trains it again: its process or machine was lost, not its training."""


Attempt = ComparisonRun | Failure
ATTEMPT: TypeAdapter[Attempt] = TypeAdapter(Attempt)
ATTEMPTS: TypeAdapter[list[Attempt]] = TypeAdapter(list[Attempt])
TRIALS: TypeAdapter[list[ComparisonTrial]] = TypeAdapter(list[ComparisonTrial])


def create_attempt(trial: ComparisonTrial, outcome: TrialResult) -> Attempt:
    """A run, or a failure if a metric is not finite."""
    for name, value in {**outcome.metrics, "validation": outcome.validation}.items():
        if not math.isfinite(value):
            return Failure(trial, f"{name} is {value}")
    return ComparisonRun(trial, outcome)


def read_attempts(
    path: Path, comparison: Comparison, plan: dict[str, Any], trials: list[ComparisonTrial]
) -> list[Attempt]:
    """The finished runs of a comparison, which must have the same settings and no other trials.
    Those that must be trained again are left out."""
    try:
        old = read_json(path, MAX_BYTES)
        if not isinstance(old, dict) or old.get("format") != FORMAT:
            raise ValueError("has another format")
        if old.get("version") not in (*OLD_VERSIONS, VERSION):
            raise ValueError(f"has version {short_repr(old.get('version'))}, not {VERSION}")
        old_plan, planned = dict(old["settings"]), TRIALS.validate_python(old["trials"])
        attempts = ATTEMPTS.validate_python(old["runs"])
        metrics = {metric.name for metric in comparison.metrics}
        same_task = old_plan.get("title") == plan["title"]
        runs = [attempt for attempt in attempts if isinstance(attempt, ComparisonRun)]
        if same_task and any(metrics - {*run.outcome.metrics} for run in runs):
            raise ValueError("has runs without their metrics")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        has_message = isinstance(error, ValueError) and not isinstance(error, ValidationError)
        reason = one_line(error) if has_message else "its runs cannot be read"
        raise ValueError(
            f"{path}: no comparison to resume ({reason}); give --overwrite to replace it"
        ) from None
    for name in {**old_plan, **plan}:
        if _differ(old_plan.get(name), plan.get(name)):
            raise ValueError(
                f"{path}: the comparison has {short_repr(name)[1:-1]} "
                f"{short_repr(old_plan.get(name))}, not {short_repr(plan.get(name))}; resume with "
                "the same settings"
            )
    known_trials = set(trials)
    for trial in (*planned, *(attempt.trial for attempt in attempts)):
        if trial not in known_trials:
            raise ValueError(
                f"{path}: the comparison has the run {short_repr(trial.folder)[1:-1]}, and yours "
                "does not; give at least the same mechanisms and seeds, or --overwrite to replace "
                "it"
            )
    return [each for each in attempts if not (isinstance(each, Failure) and each.retry)]


def _differ(old: Any, new: Any) -> bool:
    """Whether two settings differ. Those with an entry for each value of a sweep may have more
    entries than before."""
    if isinstance(old, dict) and isinstance(new, dict):
        return any(old[name] != new[name] for name in old.keys() & new.keys())
    return bool(old != new)
