"""One trial as a job: trained and measured here, or described as plain data for another process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

import attnlab
from attnlab._short_repr import one_line
from attnlab.compare._runs import ATTEMPT, Attempt, Failure, create_attempt
from attnlab.errors import InterruptedTraining, TrainingStoppedError
from attnlab.extensions import VARIABLE
from attnlab.run_folder import StartMode
from attnlab.tasks._simple_comparison import RecipeComparison, comparison_class
from attnlab.tasks.comparison import Comparison, ComparisonTrial, TrainingBudget
from attnlab.tasks.kind import load_reference
from attnlab.tasks.registry import TASKS

BUDGET, TRIAL = TypeAdapter(TrainingBudget), TypeAdapter(ComparisonTrial)
OUT_OF_MEMORY = "ran out of memory"


@dataclass(frozen=True, eq=False)
class TrialJob:
    """A trial to train and measure into a folder."""

    comparison: Comparison
    trial: ComparisonTrial
    budget: TrainingBudget
    folder: Path
    start: StartMode
    """The start mode of the whole comparison."""


class Runner(Protocol):
    """Where jobs run: in this process, in several, or on a cluster."""

    slots: int
    """How many jobs run at the same time."""

    def run(self, jobs: Sequence[TrialJob]) -> Iterator[tuple[TrialJob, Attempt | None]]:
        """Each job twice: with None when it starts, and with its attempt when it is done."""
        ...


class LocalRunner:
    """Runs jobs in this process, one after the other."""

    slots = 1

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def run(self, jobs: Sequence[TrialJob]) -> Iterator[tuple[TrialJob, Attempt | None]]:
        for job in jobs:
            yield job, None
            yield job, run_job(job, self.quiet)


def run_job(job: TrialJob, quiet: bool) -> Attempt:
    """Train and measure. A contender that fails is a result too: the others can be compared.

    Errors about files are raised, because they say what to do before the trial can run.
    """
    try:
        job.comparison.train(job.trial, job.folder, job.budget, job.start, quiet)
        return create_attempt(job.trial, job.comparison.measure(job.trial, job.folder))
    except InterruptedTraining:
        raise
    except TrainingStoppedError as error:
        return Failure(job.trial, str(error).removeprefix(f"{job.folder}: "))
    except OSError:
        raise
    except ValueError as error:
        if str(error).startswith(str(job.folder)):
            raise
        return Failure(job.trial, one_line(error))
    except MemoryError:
        return Failure(job.trial, OUT_OF_MEMORY)
    except RuntimeError as error:  # PyTorch's own errors
        text = one_line(error)
        return Failure(job.trial, f"{OUT_OF_MEMORY}: {text}" if "memory" in text else text)


def describe_job(job: TrialJob) -> dict[str, Any]:
    """The job as JSON. The other process makes the same comparison from the task's name."""
    comparison = job.comparison
    options = _with_absolute_paths(_fields(type(comparison)).dump_python(comparison))
    return {
        "version": attnlab.__version__,
        "extensions": os.environ.get(VARIABLE, ""),
        "task": task_name(comparison),
        "options": to_jsonable_python(options),
        "trial": TRIAL.dump_python(job.trial, mode="json"),
        "budget": BUDGET.dump_python(job.budget, mode="json"),
        "folder": str(job.folder.absolute()),
        "start": job.start.value,
    }


def read_job(content: dict[str, Any]) -> TrialJob:
    """The job that `describe_job` described."""
    kind = comparison_class(TASKS[content["task"]])
    return TrialJob(
        _fields(kind).validate_python(content["options"]),
        TRIAL.validate_python(content["trial"]),
        BUDGET.validate_python(content["budget"]),
        Path(content["folder"]),
        StartMode(content["start"]),
    )


def _with_absolute_paths(value: Any) -> Any:
    """A machine of a cluster has another working directory."""
    if isinstance(value, Path):
        return value.absolute()
    if isinstance(value, Mapping):
        return {name: _with_absolute_paths(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_absolute_paths(each) for each in value]
    return value


@lru_cache(maxsize=32)
def _fields(kind: type[Comparison]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def task_name(comparison: Comparison) -> str:
    """The registered task of a comparison. Other processes can find only those."""
    if isinstance(comparison, RecipeComparison):
        return comparison.kind_name
    for name, kind in TASKS.items():
        if kind.comparison and load_reference(kind.comparison) is type(comparison):
            return name
    raise ValueError(
        f"{type(comparison).__name__}: is not the comparison of a registered task, so other "
        "processes cannot find it; register the task, or give processes=0"
    )


def pack_attempt(attempt: Attempt) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(ATTEMPT.dump_json(attempt))
    return content


def read_attempt(content: dict[str, Any]) -> Attempt:
    return ATTEMPT.validate_python(content)


def resumed(job: TrialJob) -> TrialJob:
    """The same job, continued from its last checkpoint if it has one."""
    return replace(job, start=StartMode.RESUME)
