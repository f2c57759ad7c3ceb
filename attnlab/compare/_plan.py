"""The grid of a comparison: every contender with every setting and seed, checked beforehand."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attnlab._create_mechanism import create_attention, resolve_aliases
from attnlab._short_repr import one_line
from attnlab.compare._conclusions import Conclusions, conclude
from attnlab.compare._jobs import TrialJob
from attnlab.compare._output_folder import check_output_folder, write_results
from attnlab.compare._report import comparison_report
from attnlab.compare._runs import RESULTS, Attempt, Failure, read_attempts
from attnlab.report import Report
from attnlab.run_folder import StartMode
from attnlab.tasks.comparison import Comparison, ComparisonTrial, TrainingBudget

Factors = Sequence[float] | Mapping[str, Sequence[float]]
"""Factors of the learning rates, for all contenders or for each."""


@dataclass(frozen=True)
class ComparisonResult:
    """The runs of a comparison so far, and the conclusions."""

    comparison: Comparison
    budget: TrainingBudget
    trials: list[ComparisonTrial]
    attempts: list[Attempt]
    conclusions: Conclusions

    @property
    def report(self) -> Report:
        return comparison_report(
            self.comparison, self.budget, len(self.trials), self.attempts, self.conclusions
        )


@dataclass
class PlannedComparison:
    """A checked comparison and its attempts so far."""

    comparison: Comparison
    budget: TrainingBudget
    contenders: list[str]
    trials: list[ComparisonTrial]
    impossible: dict[ComparisonTrial, str]
    """Trials that cannot be trained, with the reason."""
    settings: dict[str, Any]
    folder: Path
    start: StartMode
    attempts: list[Attempt] = field(default_factory=list)

    def jobs(self) -> list[TrialJob]:
        """The trials that remain to be trained."""
        done = {attempt.trial for attempt in self.attempts}
        return [
            TrialJob(self.comparison, trial, self.budget, self.folder / trial.folder, self.start)
            for trial in self.trials
            if trial not in done and trial not in self.impossible
        ]

    def add_impossible(self) -> None:
        """Trials that cannot be trained are failures, with their reason."""
        done = {attempt.trial for attempt in self.attempts}
        missing = [trial for trial in self.impossible if trial not in done]
        self.attempts += [Failure(trial, self.impossible[trial]) for trial in missing]

    def write(self) -> ComparisonResult:
        """Conclusions from the attempts so far, written into the folder."""
        order = {trial: number for number, trial in enumerate(self.trials)}
        attempts = sorted(self.attempts, key=lambda attempt: order[attempt.trial])
        conclusions = conclude(self.comparison, self.contenders, attempts)
        result = ComparisonResult(self.comparison, self.budget, self.trials, attempts, conclusions)
        write_results(self.folder, self.settings, self.trials, attempts, conclusions, result.report)
        return result


def plan_comparison(
    comparison: Comparison,
    attention: Sequence[str] | None,
    *,
    folder: Path,
    budget: TrainingBudget | None,
    seeds: Sequence[int],
    factors: Factors | None,
    start: StartMode,
) -> PlannedComparison:
    """Check everything that can be checked before training."""
    check_output_folder(folder, start)
    budget = comparison.budget(budget)
    names = comparison.attention if attention is None else [resolve_aliases(a) for a in attention]
    for name in names:  # a mistake in a name is an error, not a contender that cannot do the task
        create_attention(name, head_dim=16, heads=4, max_length=64)
    factors = comparison.learning_rate_factors if factors is None else factors
    contenders, trials = create_grid(comparison, names, seeds, factors)
    impossible = find_impossible(comparison, trials)
    possible = [trial for trial in trials if trial not in impossible]
    equal = dict(zip(possible, comparison.with_equal_sizes(possible), strict=True))
    trials = [equal.get(trial, trial) for trial in trials]
    if len({trial.folder for trial in trials}) < len(trials):
        raise ValueError("two contenders would write into one folder; compare them separately")
    settings = {"title": comparison.title, **asdict(budget), **comparison.plan()}
    settings = json.loads(json.dumps(settings))
    attempts: list[Attempt] = []
    if start is StartMode.RESUME:
        attempts = read_attempts(folder / RESULTS, comparison, settings, trials)
    return PlannedComparison(
        comparison, budget, contenders, trials, impossible, settings, folder, start, attempts
    )


def create_grid(
    comparison: Comparison,
    attention: Sequence[str],
    seeds: Sequence[int],
    factors: Factors,
) -> tuple[list[str], list[ComparisonTrial]]:
    """The contenders and every trial. Seeds are outermost, so that an interrupted comparison has
    runs of all contenders."""
    if not attention or len(set(attention)) < len(attention):
        raise ValueError(
            "--attention is empty or names a mechanism twice; name each mechanism once"
        )
    if not len(seeds):
        raise ValueError("--seeds is 0; give 1 or more")
    if seeds[0] < 0:
        raise ValueError(f"--seed is {seeds[0]}; give 0 or more")
    sweep_values, contenders = comparison.sweep_values(), comparison.contenders(attention)
    by_contender = factors if isinstance(factors, Mapping) else dict.fromkeys(contenders, factors)
    for values in by_contender.values():
        if not values or any(not 0 < factor < math.inf for factor in values):
            raise ValueError(
                "--learning-rate-factors multiply the task's learning rates; give numbers above 0"
            )
    trials = [
        ComparisonTrial(contender, variant, factor, seed, value)
        for seed in seeds
        for value in sweep_values
        for contender, variants in contenders.items()
        for variant in variants
        for factor in dict.fromkeys(by_contender[contender])
    ]
    return list(contenders), trials


def find_impossible(
    comparison: Comparison, trials: Sequence[ComparisonTrial]
) -> dict[ComparisonTrial, str]:
    """Trials whose contender cannot do the task, with the reason. If that holds for all contenders
    at some value of the sweep, the settings are wrong: an error."""
    try:
        comparison.check(trials)
    except ValueError:
        pass
    else:
        return {}
    reasons: dict[tuple[str, float | None], ValueError] = {}
    settings = dict.fromkeys((trial.variant, trial.place) for trial in trials)
    for variant, place in settings:
        same = [trial for trial in trials if (trial.variant, trial.place) == (variant, place)]
        try:
            comparison.check(same)
        except ValueError as error:
            reasons[variant, place] = error
    for place in dict.fromkeys(place for _, place in settings):
        at_place = [setting for setting in settings if setting[1] == place]
        if all(setting in reasons for setting in at_place):
            raise reasons[at_place[0]]
    return {
        trial: one_line(reasons[trial.variant, trial.place])
        for trial in trials
        if (trial.variant, trial.place) in reasons
    }


def create_budget(minutes: float | None, steps: int | None) -> TrainingBudget | None:
    if minutes is not None and steps is not None:
        raise ValueError("--minutes and --steps exclude each other; give one of them")
    if minutes is not None and not 0 < minutes < math.inf:
        raise ValueError(f"minutes is {minutes}; give a number above 0")
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}; give 1 or more")
    return None if minutes is None and steps is None else TrainingBudget(minutes, steps)
