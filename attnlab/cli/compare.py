"""attnlab compare TASK: mechanisms trained with equal budgets.

This module has an attribute for each task that can be compared, so that the command line can name
its command without importing torch.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from attnlab._command_options import (
    grouped,
    joined_options,
    options_of,
    spaced,
    start_mode,
)
from attnlab.tasks.kind import TaskKind
from attnlab.tasks.registry import TASKS

Attention = Annotated[
    tuple[str, ...],
    Parameter(
        help="Mechanisms; the others are compared with the first.",
        consume_multiple=True,
        negative="",
        show_default=spaced,
    ),
]
Rates = Annotated[
    tuple[float, ...],
    Parameter(
        help="Try each of these times the usual learning rates.",
        consume_multiple=True,
        negative="",
        show_default=spaced,
    ),
]
app = App(
    name="compare",
    help="Train mechanisms on a task with equal budgets, and say which is better.",
    help_format="plaintext",
)
PREFIX = "task "  # of an attribute; no name of this module begins so


def mount(kind: TaskKind) -> None:
    """A command for a task that can be compared."""
    if kind.can_compare and kind.name not in app:
        app.command(f"{__name__}:{PREFIX}{kind.name}", name=kind.name, help=_help(kind))


def _help(kind: TaskKind) -> str:
    return f"Compare mechanisms on the task {kind.name}."


def __getattr__(name: str) -> Any:
    task = name.removeprefix(PREFIX)
    if not name.startswith(PREFIX) or task not in TASKS:
        raise AttributeError(name)
    return command_of(TASKS[task])


def command_of(kind: TaskKind) -> Any:
    from attnlab.compare._engine import compare as run
    from attnlab.compare._runs import PAGE, RESULTS
    from attnlab.tasks._simple_comparison import comparison_class

    Comparison = comparison_class(kind)
    groups = Comparison.option_groups()
    own = options_of(Comparison, without=tuple(groups))
    Options: Any = joined_options(own, *(group.options for group in groups.values()))

    @grouped(options=Options)
    def compare(
        *,
        attention: Attention = Comparison.attention,
        minutes: float | None = None,
        steps: Annotated[int | None, Parameter(help="Training steps of each run instead.")] = None,
        seeds: Annotated[int, Parameter(help="Repeats of each setting.")] = Comparison.seeds,
        seed: Annotated[int, Parameter(help="The first random seed.")] = 0,
        rates: Rates = Comparison.rates,
        out: Annotated[Path, Parameter(help="Folder of all runs and results.")] = Path("runs")
        / f"compare-{kind.name}",
        resume: Annotated[
            bool, Parameter(negative="", help="Continue the comparison in --out.")
        ] = False,
        overwrite: Annotated[
            bool, Parameter(negative="", help="Replace the comparison in --out.")
        ] = False,
        options: Any = Options(),  # noqa: B008 (a frozen value)
    ) -> None:
        from rich.console import Console

        from attnlab.report import print_report
        from attnlab.training import speaks

        values = given_part(options, own)
        for name, group in groups.items():
            values[name] = group.build(**given_part(options, group.options))
        compared = run(
            Comparison(**values),
            attention,
            out=out,
            minutes=minutes,
            steps=steps,
            seeds=seeds,
            first_seed=seed,
            rates=rates,
            start=start_mode(resume, overwrite),
        )
        if speaks():
            print_report(compared.report, Console())
            print(f"{out / RESULTS}\n{out / PAGE}")

    compare.__doc__ = _help(kind)
    usual = f"; without a budget: {Comparison.usual}" if Comparison.usual else ""
    budget = Parameter(help=f"Minutes of training steps for each run{usual}.")
    compare.__annotations__["minutes"] = Annotated[float | None, budget]
    return compare


def given_part(options: Any, group: type[Any]) -> dict[str, Any]:
    """Of joined options the values of one group."""
    return {each.name: getattr(options, each.name) for each in fields(group)}
