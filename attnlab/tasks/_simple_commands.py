"""attnlab TASK train | evaluate, for every task that brings no commands of its own.

This module has an attribute for each of these tasks, so that the command line can refer to one
before it imports torch.
"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Any

from cyclopts import App

from attnlab._command_options import (
    Attention,
    Json,
    Out,
    Overwrite,
    Resume,
    RunFolder,
    create_app,
    flatten_options,
    layer_attention,
    option_values,
    options_of,
    print_training_result,
    start_mode,
)
from attnlab.models import StackConfig
from attnlab.tasks.kind import TaskKind, load_reference
from attnlab.tasks.registry import TASKS
from attnlab.tasks.simple import Recipe
from attnlab.training import Settings

ModelOptions: Any = options_of(
    StackConfig, without=("vocabulary", "context", "attention"), optional=True
)
TrainingOptions: Any = options_of(Settings, optional=True)


PREFIX = "task "  # of these attributes; no other name has a space


def __getattr__(name: str) -> App:
    task = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX) or task not in TASKS:
        raise AttributeError(name)
    return task_app(TASKS[task])


def task_app(kind: TaskKind) -> App:
    app = create_app(kind.name, kind.help)
    recipe: Recipe = load_reference(kind.recipe)

    @app.command
    @flatten_options(model=ModelOptions, training=TrainingOptions)
    def train(
        *,
        attention: Attention = None,
        model: Any = ModelOptions(),  # noqa: B008 (a frozen value)
        training: Any = TrainingOptions(),  # noqa: B008
        out: Out = Path("runs") / kind.name,
        resume: Resume = False,
        overwrite: Overwrite = False,
    ) -> None:
        """Train a model. The task decides the settings that you leave out."""
        metrics = recipe.train(
            out,
            attention=layer_attention(attention),
            model=option_values(model, set_only=True),
            training=option_values(training, set_only=True),
            start=start_mode(resume, overwrite),
        )
        print_training_result(out, metrics, "validation ")

    @app.command
    def evaluate(run: RunFolder, /, *, json: Json = False) -> None:
        """Evaluate a run on the test data of the task."""
        metrics = recipe.evaluate(run)
        if json:
            print(json_format.dumps({"run": str(run), **metrics}, indent=2))
        else:
            print(", ".join(f"{name} {value:.4g}" for name, value in metrics.items()))

    return app
