"""attnlab TASK train | evaluate, for every task that brings no commands of its own.

This module has an attribute for each of these tasks, so that the command line can refer to one
before it imports torch.
"""

from __future__ import annotations

import json as json_format
from dataclasses import make_dataclass
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
    merge_options,
    options_of,
    print_training_result,
    start_mode,
    values_of,
)
from attnlab._help_groups import DATA
from attnlab.models import StackConfig
from attnlab.run_folder import StartMode, check_folder
from attnlab.tasks._simple_training import task_of_run
from attnlab.tasks._task_options import option_names, with_options
from attnlab.tasks.kind import TaskKind
from attnlab.tasks.registry import TASKS
from attnlab.tasks.simple import Recipe, SimpleTask
from attnlab.training import Settings

ModelOptions: Any = options_of(
    StackConfig, without=("vocabulary", "context", "attention"), optional=True
)
TrainingOptions: Any = options_of(Settings, optional=True)
NO_OPTIONS: Any = make_dataclass("NoOptions", [], frozen=True)

PREFIX = "task "  # of these attributes; no other name has a space


def __getattr__(name: str) -> App:
    task = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX) or task not in TASKS:
        raise AttributeError(name)
    return task_app(TASKS[task])


def task_option_class(recipe: Recipe) -> Any:
    """The options of a task, for the command line: its fields, if it is a dataclass."""
    if not option_names(recipe):
        return NO_OPTIONS
    return options_of(type(recipe), optional=True, defaults=recipe, group=DATA)


def task_app(kind: TaskKind) -> App:
    app = create_app(kind.name, kind.help)
    recipe: Recipe = kind.load_recipe()
    TaskOptions = task_option_class(recipe)
    Options: Any = merge_options(TaskOptions, ModelOptions, TrainingOptions)

    @app.command
    @flatten_options(options=Options)
    def train(
        *,
        attention: Attention = None,
        options: Any = Options(),  # noqa: B008 (a frozen value)
        out: Out = Path("runs") / kind.name,
        resume: Resume = False,
        overwrite: Overwrite = False,
    ) -> None:
        """Train a model. The task decides the settings that you leave out."""
        start = start_mode(resume, overwrite)
        task = recipe
        if isinstance(recipe, SimpleTask) and start is StartMode.RESUME:
            check_folder(out, start)
            task = task_of_run(recipe, out)
        task = with_options(task, values_of(options, TaskOptions, set_only=True))
        metrics = task.train(
            out,
            attention=layer_attention(attention),
            model=values_of(options, ModelOptions, set_only=True),
            training=values_of(options, TrainingOptions, set_only=True),
            start=start,
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
