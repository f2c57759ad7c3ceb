"""The runs of a comparison, and how they stand in its file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from attnlab._safe_files import read_json
from attnlab.tasks.comparison import Comparison, Outcome, Trial

RESULTS, PAGE, FIGURES = "compare.json", "compare.html", "compare-*.svg"
FORMAT, VERSION = "attnlab-comparison", 1
MOST_BYTES = 2**28


@dataclass(frozen=True)
class Run:
    """One trained and measured run of the grid."""

    trial: Trial
    outcome: Outcome
    kind: Literal["run"] = "run"


@dataclass(frozen=True)
class Failure:
    """A run that came to nothing, such as one whose loss became infinite."""

    trial: Trial
    problem: str
    kind: Literal["failure"] = "failure"


Attempt = Run | Failure
ATTEMPTS: TypeAdapter[list[Attempt]] = TypeAdapter(list[Attempt])
TRIALS: TypeAdapter[list[Trial]] = TypeAdapter(list[Trial])


def attempt_of(trial: Trial, outcome: Outcome) -> Attempt:
    """What is not finite cannot be compared."""
    for name, value in {**outcome.metrics, "validation": outcome.validation}.items():
        if not math.isfinite(value):
            return Failure(trial, f"{name} is {value}")
    return Run(trial, outcome)


def read_attempts(
    path: Path, comparison: Comparison, plan: dict[str, Any], trials: list[Trial]
) -> list[Attempt]:
    """What a comparison with the same settings has done already, as part of these trials."""
    try:
        old = read_json(path, MOST_BYTES)
        if not isinstance(old, dict) or (old.get("format"), old.get("version")) != (
            FORMAT,
            VERSION,
        ):
            raise ValueError("has another format")
        was, planned = dict(old["settings"]), TRIALS.validate_python(old["trials"])
        attempts = ATTEMPTS.validate_python(old["runs"])
        needed = {metric.name for metric in comparison.metrics}
        same = was.get("title") == plan["title"]
        if same and any(isinstance(each, Run) and needed - {*each.outcome.metrics}
                        for each in attempts):  # fmt: skip
            raise ValueError("has runs without their metrics")
    except (KeyError, TypeError, ValueError) as error:
        known = isinstance(error, ValueError) and not isinstance(error, ValidationError)
        reason = str(error) if known else "its runs cannot be read"
        raise ValueError(
            f"{path}: no comparison to resume ({reason}); give --overwrite to replace it"
        ) from None
    for name in {**was, **plan}:
        if was.get(name) != plan.get(name):
            raise ValueError(
                f"{path}: the comparison has {name} {was.get(name)!r}, not {plan.get(name)!r}; "
                "resume with the same settings"
            )
    known_trials = set(trials)
    for trial in (*planned, *(each.trial for each in attempts)):
        if trial not in known_trials:
            raise ValueError(
                f"{path}: the comparison has the run {trial.folder}, and yours does not; name all "
                "that it has, or more, or give --overwrite to replace it"
            )
    return attempts
