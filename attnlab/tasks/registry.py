"""Every task by its name. A new one is a folder with a `kind.py`, and a line here; a new ability is
a file and a line in `abilities/kind.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from attnlab.extensions import Registry
from attnlab.tasks.abilities.kind import ABILITIES
from attnlab.tasks.kind import TaskDeclaration, TaskKind
from attnlab.tasks.knowledge.kind import KNOWLEDGE
from attnlab.tasks.language.kind import LANGUAGE
from attnlab.tasks.summary.kind import SUMMARY
from attnlab.tasks.vision.kind import VISION

TASKS: Registry[TaskKind] = Registry(
    "attnlab.tasks",
    {kind.name: kind for kind in (LANGUAGE, KNOWLEDGE, SUMMARY, VISION, *ABILITIES)},
)
T = TypeVar("T", bound="TaskDeclaration | type[TaskDeclaration]")


def register_task(task: T) -> T:
    """Add your own task to the command line, the run lists and the studio.

    Pass a TaskKind or a subclass of `attnlab.tasks.simple.SimpleTask`, or use it as a decorator.
    You can register your own task again, as notebooks do, but not replace a task of attnlab.

    >>> from attnlab.tasks import TASKS, SimpleTask, register_task
    >>> @register_task
    ... class Reverse(SimpleTask):
    ...     name = "reverse-example"
    ...     alphabet = "abc>"
    ...
    ...     def rows(self, part, random):
    ...         words = ["".join(random.choices("abc", k=4)) for _ in range(50)]
    ...         return [self.text_row(f"{word}>", word[::-1]) for word in words]
    >>> "reverse-example" in TASKS
    True
    """
    declaration = task() if isinstance(task, type) else task
    if not isinstance(declaration, TaskDeclaration):
        raise ValueError(f"{task!r} is not a task; give a TaskKind or a subclass of SimpleTask")
    kind = declaration.kind()
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", kind.name):
        raise ValueError(
            f"task {kind.name!r}: use only lower-case letters, digits, hyphens and underscores in "
            "the name, as in noisy_recall"
        )
    if kind.name in TASKS.built_in:
        raise ValueError(f"task {kind.name!r} is built into attnlab; choose another name")
    if not (kind.commands or kind.recipe):
        raise ValueError(f"task {kind.name!r} has no commands and no recipe; give one of them")
    TASKS[kind.name] = kind
    return task


def result_files() -> tuple[str, ...]:
    """The result files of all tasks, because a run folder may hold files of another task."""
    return tuple(dict.fromkeys(name for kind in TASKS.values() for name in kind.results))


def task_of(config: Mapping[str, Any]) -> TaskKind | None:
    """The task that a run's config.json names, or None if it is not registered."""
    task = config.get("task")
    name = task.get("name") if isinstance(task, Mapping) else None
    return TASKS.get(name) if isinstance(name, str) else None
