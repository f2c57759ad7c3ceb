"""In a worker: what a run's model can do, by the code of its task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnlab.studio._loaded_models import MODELS
from attnlab.studio._worker import Teller
from attnlab.tasks.kind import load
from attnlab.tasks.registry import task_of
from attnlab.tasks.serving import Served
from attnlab.training import Run


def use(name: str, given: dict[str, Any], content: bytes, tell: Teller) -> tuple[Any, bytes]:
    """The capability `name` of the run in given["folder"]."""
    del content

    def opened(folder: Path) -> Served:
        config = Run(folder).config()
        kind = task_of(config)
        if kind is None or name not in kind.can:
            task = config["task"].get("name")
            raise ValueError(f"{folder.name}: a run of task {task!r}, which cannot do {name!r}")
        found: Served = load(kind.can[name].serve).open(folder)
        return found

    return MODELS.get(name, given["folder"], opened)(given, tell), b""
