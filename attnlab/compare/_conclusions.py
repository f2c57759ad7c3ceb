"""What the runs of a comparison say: each contender's best setting, and whether it matches.

Settings are chosen on validation data. What is compared is measured on test data, seed by seed.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attnlab._confidence_intervals import Estimate, over, wilson
from attnlab.compare._crossover import find_crossover, mean_of
from attnlab.compare._runs import Attempt, Run
from attnlab.tasks.comparison import Comparison, Metric, Trial

MATCHES, WORSE, BETTER = "matches", "worse", "better"
UNDECIDED, UNLEARNED = "undecided", "not learned enough"


@dataclass(frozen=True)
class Best:
    """A contender at its best setting, at one place of a sweep."""

    contender: str
    variant: str
    rate: float
    place: float | None
    settings: int
    """How many were tried."""
    seeds: int
    metrics: dict[str, Estimate]
    parameters: int
    steps: float
    minutes: float


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
    """The first is what the others are compared with."""
    baseline: tuple[str, dict[str, float]] | None
    best: list[Best]
    differences: list[Difference]
    crossovers: list[dict[str, Any]]
    """Of a sweep: for each pair, where the curves of the deciding metric cross."""


def conclude(
    comparison: Comparison, contenders: Sequence[str], attempts: Sequence[Attempt]
) -> Conclusions:
    """As far as there are runs."""
    known = comparison.baseline()
    baseline = None if known is None else (known[0], dict(known[1]))
    places = sorted({each.trial.place for each in attempts}, key=lambda place: place or 0.0)
    best, differences = [], []
    chosen = {
        (name, place): best_runs(comparison, attempts, name, place)
        for place in places
        for name in contenders
    }
    for place in places:
        for name in contenders:
            if chosen[name, place]:
                best.append(_best(comparison, attempts, chosen[name, place]))
        for name in contenders[1:]:
            pair = chosen[name, place], chosen[contenders[0], place]
            difference = _difference(comparison, *pair, baseline)
            differences += [difference] if difference is not None else []
    crossovers = []
    if len(places) > 1:
        for name in contenders[1:]:
            curves = [(chosen[name, place], chosen[contenders[0], place]) for place in places]
            crossovers += _crossover(comparison, curves)
    return Conclusions(list(contenders), baseline, best, differences, crossovers)


def best_runs(
    comparison: Comparison, attempts: Sequence[Attempt], contender: str, place: float | None
) -> list[Run]:
    """Of one contender: the runs of the setting with the best mean validation over seeds. One that
    failed with any seed comes last: its other seeds would flatter it."""
    settings: dict[tuple[str, float], list[Attempt]] = {}
    for each in attempts:
        if (each.trial.contender, each.trial.place) == (contender, place):
            settings.setdefault((each.trial.variant, each.trial.rate), []).append(each)
    sign = -1 if comparison.metrics[0].better == "higher" else 1
    ranked = []
    for tried in settings.values():
        runs = [each for each in tried if isinstance(each, Run)]
        if runs:
            mean = statistics.fmean(run.outcome.validation for run in runs)
            ranked.append((len(tried) - len(runs), sign * mean, runs))
    return min(ranked, key=lambda each: each[:2])[2] if ranked else []


def _best(comparison: Comparison, attempts: Sequence[Attempt], chosen: Sequence[Run]) -> Best:
    trial, outcome = chosen[0].trial, chosen[0].outcome
    mine = [each.trial for each in attempts if each.trial.contender == trial.contender]
    return Best(
        contender=trial.contender,
        variant=trial.variant,
        rate=trial.rate,
        place=shown(comparison, trial),
        settings=len({(each.variant, each.rate) for each in mine}),
        seeds=len(chosen),
        metrics={each.name: estimate(chosen, each) for each in comparison.metrics},
        parameters=outcome.parameters,
        steps=statistics.fmean(run.outcome.steps for run in chosen),
        minutes=statistics.fmean(run.outcome.minutes for run in chosen),
    )


def shown(comparison: Comparison, trial: Trial) -> float | None:
    """Its place in the sweep, as the report shows it."""
    return None if trial.place is None else comparison.place_shown(trial.place)


def estimate(runs: Sequence[Run], metric: Metric) -> Estimate:
    """The mean over seeds with its interval; of one seed the interval of a share, if it is one."""
    values = [run.outcome.metrics[metric.name] for run in runs]
    if len(values) == 1 and metric.name in runs[0].outcome.correct:
        return Estimate(values[0], *wilson(*runs[0].outcome.correct[metric.name]))
    return over(values)


def _difference(
    comparison: Comparison,
    one: Sequence[Run],
    other: Sequence[Run],
    baseline: tuple[str, dict[str, float]] | None,
) -> Difference | None:
    """None while no seed of both is done."""
    first, second = ({run.trial.seed: run for run in each} for each in (one, other))
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return None
    metrics = {}
    for metric in comparison.metrics:
        pairs = [
            (first[seed].outcome.metrics[metric.name], second[seed].outcome.metrics[metric.name])
            for seed in seeds
        ]
        metrics[metric.name] = over([a - b for a, b in pairs])
    decides = comparison.metrics[0]
    return Difference(
        contender=one[0].trial.contender,
        against=other[0].trial.contender,
        place=shown(comparison, one[0].trial),
        seeds=len(seeds),
        metrics=metrics,
        verdict=verdict(
            metrics[decides.name],
            decides,
            comparison.margin,
            learned(comparison, [second[seed] for seed in seeds], baseline),
        ),
    )


def learned(
    comparison: Comparison, runs: Sequence[Run], baseline: tuple[str, dict[str, float]] | None
) -> bool:
    """Whether these runs beat what needs no training. Models that have learned nothing are all
    alike, so a match with one means nothing."""
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
    """Of a difference: one within the margin is a match. One seed has no interval and so no
    verdict."""
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
    comparison: Comparison, curves: Sequence[tuple[Sequence[Run], Sequence[Run]]]
) -> list[dict[str, Any]]:
    """Where the mean of a contender overtakes that of the first one along the sweep; nothing while
    a place has no seed of both."""
    name = comparison.metrics[0].name
    places, rows = [], []
    for one, other in curves:
        first, second = (
            {run.trial.seed: run.outcome.metrics[name] for run in each} for each in (one, other)
        )
        rows.append([first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())])
        if not rows[-1]:
            return []
        places.append(shown(comparison, one[0].trial) or 0.0)
    pair = [each[0].trial.contender for each in curves[-1]]
    lead = mean_of(rows[-1]) if comparison.metrics[0].better == "higher" else -mean_of(rows[-1])
    ahead = None if lead == 0 else pair[0] if lead > 0 else pair[1]
    crossover = asdict(find_crossover(places, rows))
    return [{"contender": pair[0], "against": pair[1], "ahead": ahead, **crossover}]
