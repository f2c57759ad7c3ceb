"""`attnlab compare all`: what can each mechanism do? One comparison for each ability or task.

The folder has overview.json, overview.html and overview.csv, and a folder for each ability, which
is a comparison of its own. If the learning rate is swept, that comparison comes first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from attnlab._cores import available_cores
from attnlab._safe_files import read_json, write_json, write_text
from attnlab._short_repr import short_repr
from attnlab.compare._conclusions import best_runs
from attnlab.compare._engine import check_single_process, create_runner, run_planned
from attnlab.compare._output_folder import check_output_folder, remove_comparison, write_figures
from attnlab.compare._overview_report import create_cells, overview_report
from attnlab.compare._plan import ComparisonResult, Factors, PlannedComparison, plan_comparison
from attnlab.compare._runs import MAX_BYTES, RESULTS
from attnlab.report import Report, save_page, to_csv
from attnlab.run_folder import RunFolder, StartMode
from attnlab.run_folder._file_names import REMOVING
from attnlab.run_folder._removal import removal, removal_began
from attnlab.tasks._simple_comparison import RecipeComparison, comparison_class
from attnlab.tasks.comparison import Comparison, TrainingBudget
from attnlab.tasks.registry import TASKS

OVERVIEW, PAGE, TABLE = "overview.json", "overview.html", "overview.csv"
FIGURES = "overview-*.svg"
FORMAT, VERSION = "attnlab-overview", 1
RATES = "learning-rates"
"""The folder of the comparison that chooses the learning rates."""

QUICK_ATTENTION = (
    *("softmax", "window:window=16", "elu", "based"),
    *("retention", "gla", "delta", "gated_delta"),
)
ATTENTION = (*QUICK_ATTENTION, "mamba2", "kda", "hedgehog", "differential")
QUICK_ABILITIES = ("recall", "selective_copy", "induction", "parity")
ABILITIES = (*QUICK_ABILITIES, "noisy_recall", "compress", "sort", "listops")
FACTORS = (0.3, 1.0, 3.0)
STOP_AT = 0.99
FACTORS_OF: TypeAdapter[dict[str, list[float]]] = TypeAdapter(dict[str, list[float]])


@dataclass(frozen=True)
class OverviewSettings:
    """What `compare all` compares. None stands for the default of --quick or of a night."""

    quick: bool = False
    attention: Sequence[str] | None = None
    abilities: Sequence[str] | None = None
    seeds: int | None = None
    first_seed: int = 0
    learning_rate_factors: Sequence[float] | None = None

    def resolved(self) -> OverviewSettings:
        quick = self.quick
        factors = (1.0,) if quick else FACTORS
        return replace(
            self,
            attention=self.attention or (QUICK_ATTENTION if quick else ATTENTION),
            abilities=self.abilities or (QUICK_ABILITIES if quick else ABILITIES),
            seeds=(1 if quick else 3) if self.seeds is None else self.seeds,
            learning_rate_factors=self.learning_rate_factors or factors,
        )


@dataclass(frozen=True)
class Overview:
    """The comparisons so far, by ability, in the order in which they are shown."""

    attention: list[str]
    results: dict[str, ComparisonResult]
    quick: bool

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Each mechanism on each ability, as plain data."""
        return [
            cell.describe() for row in create_cells(self.attention, self.results) for cell in row
        ]

    @property
    def report(self) -> Report:
        return overview_report(self.attention, self.results, self.quick)


def compare_all(
    settings: OverviewSettings | None = None,
    *,
    out: str | Path,
    budget: TrainingBudget | None = None,
    processes: int | None = None,
    ray: str | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> Overview:
    """Compare mechanisms on several abilities or tasks, and write the overview.

    Without `budget`, each ability has its own number of steps. `processes` and `ray` are those of
    `attnlab.compare.compare`; without `processes`, there are as many as cores.
    """
    check_single_process()
    chosen, folder, start = (settings or OverviewSettings()).resolved(), Path(out), StartMode(start)
    check_output_folder(folder, start, OVERVIEW)
    comparisons = create_comparisons(chosen)
    plan = _describe(chosen, budget)
    if start is StartMode.RESUME:
        _check_same(folder / OVERVIEW, plan)
    replaced = _old_parts(folder)
    fresh = start is StartMode.OVERWRITE or removal_began(folder)

    def plan_one(
        name: str, comparison: Comparison, factors: Factors, seeds: int, start: StartMode
    ) -> PlannedComparison:
        path = folder / name
        if start is StartMode.OVERWRITE and name not in replaced and (path / RESULTS).exists():
            raise ValueError(
                f"{path}: holds a comparison that is no part of the overview in {folder}; give "
                "another folder, or move it"
            )
        if name not in replaced or (start is StartMode.RESUME and not (path / RESULTS).exists()):
            start = StartMode.NEW
        return plan_comparison(
            comparison,
            chosen.attention,
            folder=path,
            budget=budget,
            seeds=range(chosen.first_seed, chosen.first_seed + seeds),
            factors=factors,
            start=start,
        )

    def plan_all(factors: Factors, start: StartMode) -> list[PlannedComparison]:
        seeds = chosen.seeds or 0
        return [plan_one(name, each, factors, seeds, start) for name, each in comparisons.items()]

    factors = tuple(chosen.learning_rate_factors or ())
    part_start = StartMode.OVERWRITE if fresh else start
    check_start = StartMode.OVERWRITE if start is StartMode.RESUME else part_start
    plans = plan_all(factors[:1], check_start)  # checks all before anything is trained
    sweeps = len(factors) > 1
    rates = plan_one(RATES, plans[0].comparison, factors, 1, part_start) if sweeps else None
    if processes is None:  # one thread for each run, also if the budget is minutes
        processes = available_cores()
    runner = create_runner(processes, ray, [], quiet)
    with ExitStack() as stack:
        parts = {*comparisons, *([RATES] if sweeps else [])}
        old = {name for name in replaced if fresh and (folder / name).is_dir()}
        for path in (folder, *(folder / name for name in sorted(parts | old))):
            stack.enter_context(RunFolder(path).locked())
        if fresh:
            _remove(folder, sorted(old))
        header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "settings": plan}
        if start is not StartMode.RESUME:
            write_json(folder / OVERVIEW, header)
        best: Factors = factors
        if rates is not None:
            known = _chosen_factors(folder, plans[0].contenders)
            if known is None:
                (swept,) = run_planned([rates], runner, quiet)
                known = _best_factors(swept, plans[0].contenders)
                write_json(folder / OVERVIEW, {**header, "best_factors": known})
            header["best_factors"] = best = known
        plans = plan_all(best, part_start)

        def write(results: list[ComparisonResult]) -> Overview:
            named = dict(zip(comparisons, results, strict=True))
            overview = Overview(plans[0].contenders, named, chosen.quick)
            report = overview.report
            write_json(folder / OVERVIEW, {**header, "cells": overview.cells})
            save_page(folder / PAGE, report, overwrite=True)
            write_text(folder / TABLE, to_csv(report))
            return overview

        overview = write(run_planned(plans, runner, quiet, write))
        write_figures(folder, overview.report, FIGURES)
    return overview


def create_comparisons(settings: OverviewSettings) -> dict[str, Comparison]:
    """The comparison of each ability or task."""
    names = list(settings.abilities or ())
    if not names or len(set(names)) < len(names):
        raise ValueError("--abilities is empty or names an ability twice; name each once")
    comparisons: dict[str, Comparison] = {}
    for name in names:
        if name not in TASKS or not TASKS[name].can_compare:
            known = ", ".join(key for key, kind in TASKS.items() if kind.can_compare)
            raise ValueError(f"--abilities {short_repr(name)}: no such task; there are {known}")
        comparison = comparison_class(TASKS[name]).for_overview(settings.quick)
        if isinstance(comparison, RecipeComparison):
            training = {"stop_at": STOP_AT, **comparison.training}
            if comparison.metrics[0].better == "higher" and comparison.metrics[0].percent:
                comparison = replace(comparison, training=training)
        comparisons[name] = comparison
    return comparisons


def _best_factors(swept: ComparisonResult, contenders: Sequence[str]) -> dict[str, list[float]]:
    """The learning rate factor that did best for each contender; 1 if all of its runs failed."""
    best = {}
    for contender in contenders:
        runs = best_runs(swept.comparison, swept.attempts, contender, None)
        best[contender] = [runs[0].trial.rate if runs else 1.0]
    return best


def _chosen_factors(folder: Path, contenders: Sequence[str]) -> dict[str, list[float]] | None:
    """The factors that were chosen before the overview was interrupted. They stay, also if a run of
    the sweep that was lost could now be trained: the runs so far have them."""
    with suppress(KeyError, TypeError, ValueError):
        best = FACTORS_OF.validate_python(read_json(folder / OVERVIEW, MAX_BYTES)["best_factors"])
        if best.keys() == set(contenders):
            return best
    return None


def _describe(settings: OverviewSettings, budget: TrainingBudget | None) -> dict[str, Any]:
    content = {
        "quick": settings.quick,
        "attention": list(settings.attention or ()),
        "abilities": list(settings.abilities or ()),
        "seeds": settings.seeds,
        "first_seed": settings.first_seed,
        "learning_rate_factors": list(settings.learning_rate_factors or ()),
        "minutes": budget and budget.minutes,
        "steps": budget and budget.steps,
    }
    described: dict[str, Any] = json.loads(json.dumps(content))
    return described


def _check_same(path: Path, plan: dict[str, Any]) -> None:
    """A comparison of everything resumes only with the same settings."""
    try:
        old = read_json(path, MAX_BYTES)
        if not isinstance(old, dict) or (old.get("format"), old.get("version")) != (
            FORMAT,
            VERSION,
        ):
            raise ValueError("has another format")
        before = dict(old["settings"])
    except (KeyError, TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, ValueError) else "its settings cannot be read"
        raise ValueError(
            f"{path}: no comparison to resume ({reason}); give --overwrite to replace it"
        ) from None
    for name, value in plan.items():
        if before.get(name) != value:
            raise ValueError(
                f"{path}: the comparison has {name} {short_repr(before.get(name))}, not "
                f"{short_repr(value)}; resume with the same settings"
            )


def _old_parts(folder: Path) -> set[str]:
    """The folders of the comparisons that an old overview made, also if its removal was killed."""
    for name in (OVERVIEW, REMOVING):
        with suppress(KeyError, TypeError, ValueError):
            settings = read_json(folder / name, MAX_BYTES)["settings"]
            names = {*settings["abilities"]}
            names |= {RATES} if len(settings["learning_rate_factors"]) > 1 else set()
            return {name for name in names if Path(name).name == name != ".."}
    return set()


def _remove(folder: Path, parts: Sequence[str]) -> None:
    """Deletes the overview and its comparisons, if there is one. Your other files stay."""
    if not (folder / OVERVIEW).exists() and not removal_began(folder):
        return
    with removal(folder, OVERVIEW):
        for path in (folder / PAGE, folder / TABLE, *folder.glob(FIGURES)):
            path.unlink(missing_ok=True)
        for name in parts:
            remove_comparison(folder / name)
