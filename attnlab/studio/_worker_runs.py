"""In a worker: the capabilities of a run's model, such as answering or generating text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnlab.studio._loaded_models import LOADED_MODELS
from attnlab.studio._worker import EventSender
from attnlab.tasks.kind import load_reference
from attnlab.tasks.registry import task_of
from attnlab.tasks.serving import Service
from attnlab.training import Run


def run_capability(
    name: str, arguments: dict[str, Any], attached: bytes, send_event: EventSender
) -> tuple[Any, bytes]:
    """Runs the capability `name` of the run in arguments["folder"], by the code of its task."""
    del attached

    def open_capability(folder: Path) -> Service:
        config = Run(folder).config()
        kind = task_of(config)
        if kind is None or name not in kind.capabilities:
            task = config["task"].get("name")
            raise ValueError(
                f"{folder.name}: is a run of task {task!r}, which does not support {name!r}"
            )
        capability: Service = load_reference(kind.capabilities[name].serve).open(folder)
        return capability

    capability = LOADED_MODELS.get(name, arguments["folder"], open_capability)
    return capability(arguments, send_event), b""
