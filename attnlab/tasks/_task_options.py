"""The options of a task: the fields of a `SimpleTask` that is a frozen dataclass.

    @dataclass(frozen=True)
    class Backwards(SimpleTask):
        "Write a word backwards."

        name = "backwards"
        length: Annotated[int, "Letters in a word.", Bounds(1, 100)] = 5

`attnlab backwards train --length 7` then trains `Backwards(length=7)`, and config.json keeps the 7,
so that evaluating and resuming build the same task. This module does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from attnlab._declared_types import needed_type
from attnlab._short_repr import short_repr

T = TypeVar("T")
RESERVED = {"name", "headline", "better", "rows", "data"}
"""What else the section "task" of config.json holds."""


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest value of an option."""

    low: float
    high: float


def option_names(task: Any) -> list[str]:
    """The names of the options of a task, or of its class."""
    return [field.name for field in fields(task)] if is_dataclass(task) else []


def task_options(task: Any) -> dict[str, Any]:
    """The options of a task with their values."""
    return {name: getattr(task, name) for name in option_names(task)}


def check_options(task: Any) -> None:
    """Refuse a value of the wrong type, or one that is too small or too large."""
    hints = get_type_hints(type(task), include_extras=True)
    for name, value in task_options(task).items():
        if name in RESERVED:
            raise ValueError(f"task {task.name}: no option can have the name {name!r}; rename it")
        kind, *notes = get_args(hints[name])  # Annotated[type, "help", Bounds(1, 9)]
        problem = needed_type(value, kind)
        if problem:
            raise ValueError(f"{task.name}: {name} is {short_repr(value)}; give {problem}")
        for bounds in (note for note in notes if isinstance(note, Bounds)):
            if value is not None and not bounds.low <= value <= bounds.high:
                limits = f"{bounds.low:,} to {bounds.high:,}"
                raise ValueError(f"{task.name}: {name} is {short_repr(value)}; give {limits}")


def with_options(task: T, options: Mapping[str, Any]) -> T:
    """The task with these options. An error names an option that it lacks."""
    known = option_names(task)
    for name in options:
        if name not in known:
            close = get_close_matches(name, known, 1)
            there = f"there are {', '.join(known)}" if known else "it has none"
            hint = f"did you mean {close[0]!r}?" if close else there
            title = getattr(task, "name", type(task).__name__)
            raise ValueError(f"{title}: has no option {short_repr(name)}; {hint}")
    return replace(task, **options) if options else task  # type: ignore[type-var]


def with_run_options(task: T, section: Mapping[str, Any], folder: Path) -> T:
    """The task with the options that a run was trained with: `section` is "task" of config.json."""
    stored = {name: section[name] for name in option_names(task) if name in section}
    try:
        return with_options(task, stored)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None
