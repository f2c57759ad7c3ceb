"""Conclusions from the runs of a comparison: the best setting of each contender, and whether it
matches the first contender.

Validation data choose the best setting. The comparison uses test data, seed by seed.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from attnlab._confidence_intervals import Estimate, mean_interval, wilson_interval
from attnlab.compare._crossover import find_crossover, rounded_mean
from attnlab.compare._runs import Attempt, ComparisonRun
from attnlab.tasks.comparison import Comparison, ComparisonTrial, Metric

MATCHES, WORSE, BETTER = "matches", "worse", "better"
UNDECIDED, UNLEARNED = "undecided", "not learned enough"
Baseline = tuple[str, dict[str, float]]
"""The name of a method that needs no training, and its metrics."""


@dataclass(frozen=True)
class BestSetting:
    """A contender at its best setting, at one value of a sweep. The fields are JSON names."""

    contender: str
    variant: str
    rate: float
    """Factor of the task's learning rates."""
    place: float | None
    """The value of the sweep."""
    settings: int
    """How many settings were tried."""
    seeds: int
    metrics: dict[str, Estimate]
    parameters: int
    steps: float
    minutes: float
    state_bytes: int | None = None
    """Size of the decoding state of one row after the longest test row."""


@dataclass(frozen=True)
class Difference:
    """The best of one contender minus the best of another, seed by seed."""

    contender: str
    against: str
    place: float | None
    seeds: int
    metrics: dict[str, Estimate]
    verdict: str


@dataclass(frozen=True)
class Conclusions:
    contenders: list[str]
    """The others are compared with the first."""
    baseline: Baseline | None
    """None if there is none, or if it depends on the value of the sweep."""
    best: list[BestSetting]
    differences: list[Difference]
    crossovers: list[dict[str, Any]]
    """For a sweep: where the curves of the first metric cross, for each pair."""
    baselines: list[tuple[float | None, str, dict[str, float]]] = field(default_factory=list)
    """If the baseline depends on the value of the sweep: that value, and name and metrics there."""

    def baseline_at(self, place: float | None) -> Baseline | None:
        """The baseline at a value of the sweep, as the report shows that value."""
        matching = ((name, metrics) for value, name, metrics in self.baselines if value == place)
        return next(matching, self.baseline)


def conclude(
    comparison: Comparison, contenders: Sequence[str], attempts: Sequence[Attempt]
) -> Conclusions:
    """Conclusions from the runs so far."""
    baselines = _baselines(comparison)
    values = sorted({attempt.trial.place for attempt in attempts}, key=lambda value: value or 0.0)
    best, differences = [], []
    runs = {
        (name, value): best_runs(comparison, attempts, name, value)
        for value in values
        for name in contenders
    }
    for value in values:
        for name in contenders:
            if runs[name, value]:
                best.append(_best_setting(comparison, attempts, runs[name, value]))
        for name in contenders[1:]:
            pair = runs[name, value], runs[contenders[0], value]
            difference = _difference(comparison, *pair, baselines[value])
            differences += [difference] if difference is not None else []
    crossovers = []
    if len(values) > 1 and all(value is not None and value > 0 for value in values):
        for name in contenders[1:]:
            curves = [(runs[name, value], runs[contenders[0], value]) for value in values]
            crossovers += _crossover(comparison, curves)
    baseline, *others = baselines.values()
    listed = []
    if any(each != baseline for each in others):
        baseline = None
        listed = [
            (None if value is None else comparison.displayed_sweep_value(value), *each)
            for value, each in baselines.items()
            if each is not None
        ]
    return Conclusions(list(contenders), baseline, best, differences, crossovers, listed)


def _baselines(comparison: Comparison) -> dict[float | None, Baseline | None]:
    """The baseline at each value of the sweep."""
    baselines: dict[float | None, Baseline | None] = {}
    for value in comparison.sweep_values():
        baseline_here = comparison.baseline(value)
        baselines[value] = (
            None if baseline_here is None else (baseline_here[0], dict(baseline_here[1]))
        )
    return baselines


def best_runs(
    comparison: Comparison, attempts: Sequence[Attempt], contender: str, sweep_value: float | None
) -> list[ComparisonRun]:
    """The runs of a contender's best setting, by the mean validation over seeds. A setting with a
    failed seed comes last: its other seeds alone would make it look too good."""
    settings: dict[tuple[str, float], list[Attempt]] = {}
    for attempt in attempts:
        trial = attempt.trial
        if (trial.contender, trial.place) == (contender, sweep_value):
            settings.setdefault((trial.variant, trial.rate), []).append(attempt)
    sign = -1 if comparison.metrics[0].better == "higher" else 1
    ranked = []
    for setting in settings.values():
        runs = [attempt for attempt in setting if isinstance(attempt, ComparisonRun)]
        if runs:
            mean = statistics.fmean(run.outcome.validation for run in runs)
            ranked.append((len(setting) - len(runs), sign * mean, runs))
    return min(ranked, key=lambda row: row[:2])[2] if ranked else []


def _best_setting(
    comparison: Comparison, attempts: Sequence[Attempt], runs: Sequence[ComparisonRun]
) -> BestSetting:
    trial, outcome = runs[0].trial, runs[0].outcome
    trials = [each.trial for each in attempts if each.trial.contender == trial.contender]
    return BestSetting(
        contender=trial.contender,
        variant=trial.variant,
        rate=trial.rate,
        place=displayed_sweep_value(comparison, trial),
        settings=len({(each.variant, each.rate) for each in trials}),
        seeds=len(runs),
        metrics={metric.name: estimate_metric(runs, metric) for metric in comparison.metrics},
        parameters=outcome.parameters,
        steps=statistics.fmean(run.outcome.steps for run in runs),
        minutes=statistics.fmean(run.outcome.minutes for run in runs),
        state_bytes=outcome.state_bytes,
    )


def displayed_sweep_value(comparison: Comparison, trial: ComparisonTrial) -> float | None:
    """The trial's value of the sweep as the report shows it."""
    return None if trial.place is None else comparison.displayed_sweep_value(trial.place)


def estimate_metric(runs: Sequence[ComparisonRun], metric: Metric) -> Estimate:
    """The mean over seeds with its interval. With one seed, a fraction has that of its examples."""
    values = [run.outcome.metrics[metric.name] for run in runs]
    if len(values) == 1 and metric.name in runs[0].outcome.correct:
        return Estimate(values[0], *wilson_interval(*runs[0].outcome.correct[metric.name]))
    return mean_interval(values)


def _difference(
    comparison: Comparison,
    runs: Sequence[ComparisonRun],
    reference: Sequence[ComparisonRun],
    baseline: Baseline | None,
) -> Difference | None:
    """The difference from the reference; None while they have no seed in common."""
    first, second = ({run.trial.seed: run for run in group} for group in (runs, reference))
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return None
    metrics = {}
    for metric in comparison.metrics:
        pairs = [
            (first[seed].outcome.metrics[metric.name], second[seed].outcome.metrics[metric.name])
            for seed in seeds
        ]
        metrics[metric.name] = mean_interval([a - b for a, b in pairs])
    ranking_metric = comparison.metrics[0]
    return Difference(
        contender=runs[0].trial.contender,
        against=reference[0].trial.contender,
        place=displayed_sweep_value(comparison, runs[0].trial),
        seeds=len(seeds),
        metrics=metrics,
        verdict=verdict(
            metrics[ranking_metric.name],
            ranking_metric,
            comparison.margin,
            beats_baseline(comparison, [second[seed] for seed in seeds], baseline),
        ),
    )


def beats_baseline(
    comparison: Comparison,
    runs: Sequence[ComparisonRun],
    baseline: Baseline | None,
) -> bool:
    """Whether these runs beat the baseline, which needs no training. Models that have learned
    nothing are all alike, so a match between them means nothing."""
    if baseline is None:
        return True
    for metric in comparison.metrics:
        if metric.name in baseline[1]:
            mean = statistics.fmean(run.outcome.metrics[metric.name] for run in runs)
            gain = mean - baseline[1][metric.name]
            if (gain if metric.better == "higher" else -gain) <= 0:
                return False
    return True


def verdict(difference: Estimate, metric: Metric, margin: float, has_learned: bool) -> str:
    """A difference within the margin is a match. One seed has no interval, so it is undecided."""
    if difference.low is None or difference.high is None:
        return UNDECIDED if has_learned else UNLEARNED
    low, high = difference.low, difference.high
    within = low >= -margin and high <= margin
    if not within and (low > 0 or high < 0):
        return BETTER if (low > 0) == (metric.better == "higher") else WORSE
    if not has_learned:
        return UNLEARNED
    return MATCHES if within else UNDECIDED


def _crossover(
    comparison: Comparison,
    curves: Sequence[tuple[Sequence[ComparisonRun], Sequence[ComparisonRun]]],
) -> list[dict[str, Any]]:
    """Where the curves of a contender and the first one cross along the sweep; empty while some
    value has no seed of both."""
    name = comparison.metrics[0].name
    values, rows = [], []
    for runs, reference in curves:
        first, second = (
            {run.trial.seed: run.outcome.metrics[name] for run in group}
            for group in (runs, reference)
        )
        rows.append([first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())])
        if not rows[-1]:
            return []
        values.append(displayed_sweep_value(comparison, runs[0].trial) or 0.0)
    pair = [group[0].trial.contender for group in curves[-1]]
    mean = rounded_mean(rows[-1])
    lead = mean if comparison.metrics[0].better == "higher" else -mean
    ahead = None if lead == 0 else pair[0] if lead > 0 else pair[1]
    crossover = asdict(find_crossover(values, rows))
    return [{"contender": pair[0], "against": pair[1], "ahead": ahead, **crossover}]
