"""Every task by its name. A new one is a folder with a `kind.py`, and a line here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from attnlab.extensions import Registry
from attnlab.tasks.kind import Declared, TaskKind
from attnlab.tasks.knowledge.kind import KNOWLEDGE
from attnlab.tasks.language.kind import LANGUAGE
from attnlab.tasks.summary.kind import SUMMARY
from attnlab.tasks.vision.kind import VISION

TASKS: Registry[TaskKind] = Registry(
    "attnlab.tasks", {kind.name: kind for kind in (LANGUAGE, KNOWLEDGE, SUMMARY, VISION)}
)
T = TypeVar("T", bound="Declared | type[Declared]")


def register_task(task: T) -> T:
    """Make a task of your own known by its name: to the command line, run lists and the studio.

    Give a TaskKind, or a subclass of `attnlab.tasks.simple.SimpleTask`; it can be a decorator. A
    name of attnlab's own is refused. Your own can be given again, as notebooks do.
    """
    made = task() if isinstance(task, type) else task
    if not isinstance(made, Declared):
        raise ValueError(f"{task!r} is no task; give a TaskKind or a subclass of SimpleTask")
    kind = made.kind()
    if not re.fullmatch(r"[a-z][a-z0-9-]*", kind.name):
        raise ValueError(
            f"task {kind.name!r}: a name is lower-case letters, digits and hyphens, as in recall"
        )
    if kind.name in TASKS.built_in:
        raise ValueError(f"task {kind.name!r} is attnlab's own; choose another name")
    if not (kind.commands or kind.recipe):
        raise ValueError(f"task {kind.name!r} has no commands and no recipe; give one of them")
    TASKS[kind.name] = kind
    return task


def result_files() -> tuple[str, ...]:
    """What commands of any task write about trained weights: a folder may hold another task's."""
    return tuple(dict.fromkeys(name for kind in TASKS.values() for name in kind.results))


def task_of(config: Mapping[str, Any]) -> TaskKind | None:
    """The task of a run, by its config.json; None where it is not known here."""
    task = config.get("task")
    name = task.get("name") if isinstance(task, Mapping) else None
    return TASKS.get(name) if isinstance(name, str) else None
