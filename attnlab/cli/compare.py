"""attnlab compare TASK: mechanisms trained with equal budgets.

This module has an attribute for each task that can be compared, so that the command line can refer
to its command without importing torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from attnlab._command_options import (
    create_app,
    flag,
    flatten_options,
    format_values,
    merge_options,
    option,
    options_of,
    start_mode,
    values_of,
)
from attnlab._help_groups import OPTIMIZER, TRAINING
from attnlab.tasks.kind import TaskKind
from attnlab.tasks.registry import TASKS

LIST: dict[str, Any] = {"consume_multiple": True, "negative": "", "show_default": format_values}
Attention = Annotated[
    tuple[str, ...],
    option("Mechanisms to compare. The others are compared with the first.", **LIST),
]
LearningRateFactors = Annotated[
    tuple[float, ...],
    option(
        "Factors of the task's learning rate to try. Each mechanism is compared at its best.",
        OPTIMIZER,
        **LIST,
    ),
]
app = create_app("compare", "Train mechanisms on a task with equal budgets and compare them.")
PREFIX = "task "  # of these attributes; no other name has a space


def mount(kind: TaskKind) -> None:
    """Add a command for a task that can be compared."""
    if kind.can_compare and kind.name not in app:
        group = {"group": kind.group.capitalize()} if kind.group else {}
        app.command(f"{__name__}:{PREFIX}{kind.name}", name=kind.name, help=_help(kind), **group)


def _help(kind: TaskKind) -> str:
    return kind.help if kind.group else f"Compare mechanisms on the task {kind.name}."


def __getattr__(name: str) -> Any:
    task = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX) or task not in TASKS:
        raise AttributeError(name)
    return comparison_command(TASKS[task])


def comparison_command(kind: TaskKind) -> Any:
    from attnlab.compare._engine import compare as run
    from attnlab.compare._runs import PAGE, RESULTS
    from attnlab.tasks._simple_comparison import comparison_class

    Comparison = comparison_class(kind)
    groups = Comparison.option_groups()
    own_options = options_of(Comparison, without=tuple(groups))
    Options: Any = merge_options(own_options, *(group.options for group in groups.values()))

    @flatten_options(options=Options)
    def compare(
        *,
        attention: Attention = Comparison.attention,
        minutes: float | None = None,
        steps: Annotated[
            int | None, option("Number of optimizer steps of each run, instead of --minutes.")
        ] = None,
        seeds: Annotated[
            int, option("Number of runs of each setting, with different random seeds.")
        ] = Comparison.seeds,
        seed: Annotated[
            int, option("Random seed of the first run. Each further run adds 1.", TRAINING)
        ] = 0,
        learning_rate_factors: LearningRateFactors = Comparison.learning_rate_factors,
        options: Any = Options(),  # noqa: B008 (a frozen value)
        out: Annotated[Path, option("Folder for all runs and the results.")] = Path("runs")
        / f"compare-{kind.name}",
        resume: Annotated[bool, flag("Continue the comparison in --out.")] = False,
        overwrite: Annotated[bool, flag("Replace the comparison in --out.")] = False,
    ) -> None:
        from rich.console import Console

        from attnlab.report import print_report
        from attnlab.training import is_main_process

        values = values_of(options, own_options)
        for name, group in groups.items():
            values[name] = group.build(**values_of(options, group.options))
        comparison = run(
            Comparison(**values),
            attention,
            out=out,
            minutes=minutes,
            steps=steps,
            seeds=seeds,
            first_seed=seed,
            learning_rate_factors=learning_rate_factors,
            start=start_mode(resume, overwrite),
        )
        if is_main_process():
            print_report(comparison.report, Console())
            print(f"{out / RESULTS}\n{out / PAGE}")

    compare.__doc__ = _help(kind)
    usual = f" Without a budget, {Comparison.default_budget or 'the task decides'}."
    budget = option(f"Minutes of training steps of each run.{usual}")
    compare.__annotations__["minutes"] = Annotated[float | None, budget]
    return compare
