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
    list_option,
    merge_options,
    option,
    options_of,
    start_mode,
    values_of,
)
from attnlab._help_groups import HARDWARE, OPTIMIZER, TRAINING
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
PROCESSES_HELP = (
    "Number of runs to train at the same time, each in a process with one thread. 0 trains in this "
    "process. Without it, the number of cores"
)
Processes = Annotated[
    int | None, option(f"{PROCESSES_HELP} if the budget is steps, otherwise 0.", HARDWARE)
]
Ray = Annotated[
    str | None,
    option(
        "Address of a Ray cluster to train on, such as auto or 10.0.0.5:6379. Needs attnlab[ray].",
        HARDWARE,
    ),
]
Resume = Annotated[bool, flag("Continue the comparison in --out.")]
Overwrite = Annotated[bool, flag("Replace the comparison in --out.")]
Seed = Annotated[int, option("Random seed of the first run. Each further run adds 1.", TRAINING)]
STEPS_HELP = "Number of optimizer steps of each run, instead of --minutes."
SEEDS_HELP = "Number of runs of each setting, with different random seeds."
app = create_app("compare", "Train mechanisms on a task with equal budgets and compare them.")


@app.command(name="all")
def compare_everything(
    *,
    quick: Annotated[
        bool,
        flag(
            "Compare eight mechanisms on four abilities with one seed and short trainings: at most "
            "15 minutes on two cores."
        ),
    ] = False,
    attention: Annotated[
        tuple[str, ...], list_option("Mechanisms to compare. Without it, twelve of them.")
    ] = (),
    abilities: Annotated[
        tuple[str, ...],
        list_option(
            "Abilities to compare on; also other tasks: language, knowledge, summary, vision. "
            "Without it, eight abilities."
        ),
    ] = (),
    minutes: Annotated[float | None, option("Minutes of training steps of each run.")] = None,
    steps: Annotated[int | None, option(STEPS_HELP)] = None,
    seeds: Annotated[int | None, option(f"{SEEDS_HELP} Without it, 3, or 1 with --quick.")] = None,
    seed: Seed = 0,
    learning_rate_factors: Annotated[
        tuple[float, ...],
        list_option(
            "Factors of the learning rate to try for each mechanism, on the first ability. Without "
            "it, 0.3 1 3, or 1 with --quick.",
            OPTIMIZER,
        ),
    ] = (),
    out: Annotated[Path, option("Folder for all runs and the results.")] = Path("runs/compare-all"),
    processes: Annotated[int | None, option(f"{PROCESSES_HELP}.", HARDWARE)] = None,
    ray: Ray = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """What can each mechanism do? Compare mechanisms on several abilities."""
    from rich.console import Console

    from attnlab.compare._overview import OVERVIEW, PAGE, TABLE, OverviewSettings, compare_all
    from attnlab.compare._plan import create_budget
    from attnlab.report import print_report

    settings = OverviewSettings(quick, attention, abilities, seeds, seed, learning_rate_factors)
    overview = compare_all(
        settings,
        out=out,
        budget=create_budget(minutes, steps),
        processes=processes,
        ray=ray,
        start=start_mode(resume, overwrite),
    )
    print_report(overview.report, Console(), charts=True)
    print(f"{out / OVERVIEW}\n{out / TABLE}\n{out / PAGE}")


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
    from attnlab.compare._runs import PAGE, RESULTS, TABLE
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
        steps: Annotated[int | None, option(STEPS_HELP)] = None,
        seeds: Annotated[int, option(SEEDS_HELP)] = Comparison.seeds,
        seed: Seed = 0,
        learning_rate_factors: LearningRateFactors = Comparison.learning_rate_factors,
        options: Any = Options(),  # noqa: B008 (a frozen value)
        out: Annotated[Path, option("Folder for all runs and the results.")] = Path("runs")
        / f"compare-{kind.name}",
        processes: Processes = None,
        ray: Ray = None,
        resume: Resume = False,
        overwrite: Overwrite = False,
    ) -> None:
        from rich.console import Console

        from attnlab.report import print_report

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
            processes=processes,
            ray=ray,
            start=start_mode(resume, overwrite),
        )
        print_report(comparison.report, Console())
        print(f"{out / RESULTS}\n{out / TABLE}\n{out / PAGE}")

    compare.__doc__ = _help(kind)
    usual = f" Without a budget, {Comparison.default_budget or 'the task decides'}."
    budget = option(f"Minutes of training steps of each run.{usual}")
    compare.__annotations__["minutes"] = Annotated[float | None, budget]
    return compare
