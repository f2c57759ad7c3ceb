"""Trains and measures every contender with every setting and seed, all with the same budget.

It writes compare.json, compare.csv and compare.html after each run. So an interrupted comparison
has partial results, and a resumed one trains only the missing runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from attnlab._cores import available_cores
from attnlab.compare._jobs import LocalRunner, Runner
from attnlab.compare._output_folder import remove_comparison, write_figures
from attnlab.compare._plan import (
    ComparisonResult,
    PlannedComparison,
    create_budget,
    plan_comparison,
)
from attnlab.compare._progress import GridProgress, describe_attempt
from attnlab.run_folder import RunFolder, StartMode
from attnlab.run_folder._removal import removal_began
from attnlab.tasks.comparison import Comparison, TrainingBudget


def compare(
    comparison: Comparison,
    attention: Sequence[str] | None = None,
    *,
    out: str | Path,
    minutes: float | None = None,
    steps: int | None = None,
    seeds: int | None = None,
    first_seed: int = 0,
    learning_rate_factors: Sequence[float] | None = None,
    processes: int | None = 0,
    ray: str | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> ComparisonResult:
    """Compare mechanisms on a task. The others are compared with the first of `attention`.

    Each run gets `minutes` of training steps, or `steps`. `learning_rate_factors` multiply the
    task's own learning rates; each contender is compared at its best one. `out` is the
    folder of all runs, with compare.json and compare.html. `processes` train at the same time, each
    with one thread; 0 trains in this process, and None chooses: as many as there are cores if the
    budget is a number of steps, otherwise 0. `ray` is the address of a Ray cluster.

    >>> from attnlab.compare import compare
    >>> from attnlab.tasks.vision import VisionComparison
    >>> sizes = {"width": 16, "layers": 1, "heads": 2}
    >>> comparison = VisionComparison(fractions=(0.1,), sizes=sizes)
    >>> result = compare(comparison, ["softmax", "elu"], out="out", steps=2, seeds=1, quiet=True)
    """
    start = StartMode(start)
    check_single_process()
    planned = plan_comparison(
        comparison,
        attention,
        folder=Path(out),
        budget=create_budget(minutes, steps),
        seeds=range(first_seed, first_seed + (comparison.seeds if seeds is None else seeds)),
        factors=learning_rate_factors,
        start=start,
    )
    runner = create_runner(processes, ray, [planned.budget], quiet)
    with RunFolder(planned.folder).locked():
        (result,) = run_planned([planned], runner, quiet)
    return result


def check_single_process() -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("a comparison starts its own processes; start it without torchrun")


def create_runner(
    processes: int | None, ray: str | None, budgets: Sequence[TrainingBudget], quiet: bool
) -> Runner:
    if processes is not None and processes < 0:
        raise ValueError(f"--processes is {processes}; give 0 or more")
    if ray is not None:
        from attnlab.compare._ray_runner import RayRunner

        return RayRunner(ray)
    if processes is None:
        by_steps = all(budget.minutes is None for budget in budgets)
        processes = available_cores() if by_steps else 0
    if not processes:
        return LocalRunner(quiet or sys.stderr.isatty())  # the bar needs the terminal
    from attnlab.compare._process_runner import ProcessRunner

    return ProcessRunner(processes)


def run_planned(
    plans: Sequence[PlannedComparison],
    runner: Runner,
    quiet: bool,
    on_result: Callable[[list[ComparisonResult]], object] = lambda _: None,
) -> list[ComparisonResult]:
    """Run the missing trials of several comparisons, and write the results after each."""
    for plan in plans:
        if plan.start is StartMode.OVERWRITE or removal_began(plan.folder):
            remove_comparison(plan.folder)
        plan.add_impossible()
    results = [plan.write() for plan in plans]
    jobs = [job for plan in plans for job in plan.jobs()]
    by_comparison = {id(plan.comparison): number for number, plan in enumerate(plans)}
    with GridProgress(plans, jobs, runner.slots, quiet) as progress:
        for job, attempt in runner.run(jobs):
            number = by_comparison[id(job.comparison)]
            if attempt is None:
                progress.begin(job)
                continue
            plans[number].attempts.append(attempt)
            progress.end(job, describe_attempt(job.comparison, attempt))
            results[number] = plans[number].write()
            on_result(results)
    for plan, result in zip(plans, results, strict=True):
        write_figures(plan.folder, result.report)
    return results
