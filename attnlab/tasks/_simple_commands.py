"""attnlab TASK train | evaluate, for every task that brings no commands of its own.

This module has an attribute for each such task, so that the command line can name it before it
imports torch.
"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App

from attnlab._command_options import (
    Json,
    Out,
    Overwrite,
    Resume,
    RunFolder,
    given,
    grouped,
    one_or_each,
    options_of,
    several,
    start_mode,
    told,
)
from attnlab.models import StackConfig
from attnlab.tasks.kind import TaskKind, load
from attnlab.tasks.registry import TASKS
from attnlab.tasks.simple import Recipe
from attnlab.training import Settings

ModelOptions: Any = options_of(
    StackConfig, without=("vocabulary", "context", "attention"), unset=True
)
TrainingOptions: Any = options_of(Settings, unset=True)


PREFIX = "task "  # of an attribute; no name of this module begins so


def __getattr__(name: str) -> App:
    task = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX) or task not in TASKS:
        raise AttributeError(name)
    return app_of(TASKS[task])


def app_of(kind: TaskKind) -> App:
    app = App(name=kind.name, help=kind.help, help_format="plaintext")
    recipe: Recipe = load(kind.recipe)

    @app.command
    @grouped(model=ModelOptions, training=TrainingOptions)
    def train(
        *,
        attention: Annotated[
            list[str] | None, several("Mechanism of all layers, or one for each.")
        ] = None,
        out: Out = Path("runs") / kind.name,
        resume: Resume = False,
        overwrite: Overwrite = False,
        model: Any = ModelOptions(),  # noqa: B008 (a frozen value)
        training: Any = TrainingOptions(),  # noqa: B008
    ) -> None:
        """Train a model. Settings that are not given are the task's own."""
        metrics = recipe.train(
            out,
            attention=one_or_each(attention),
            model=given(model, unset=True),
            training=given(training, unset=True),
            start=start_mode(resume, overwrite),
        )
        told(out, metrics, "validation ")

    @app.command
    def evaluate(run: RunFolder, /, *, json: Json = False) -> None:
        """Measure a trained run on the task's test rows."""
        metrics = recipe.evaluate(run)
        if json:
            print(json_format.dumps({"run": str(run), **metrics}, indent=2))
        else:
            print(", ".join(f"{name} {value:.4g}" for name, value in metrics.items()))

    return app
