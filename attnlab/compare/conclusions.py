"""What the runs of a comparison say: each contender's best setting, and whether it matches.

Settings are chosen on validation data. What is compared is measured on test data, seed by seed.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from attnlab.compare.crossover import find_crossover
from attnlab.intervals import Estimate, over, wilson
from attnlab.tasks.comparison import Comparison, Metric

if TYPE_CHECKING:
    from attnlab.compare.engine import Run

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
    baseline: tuple[str, dict[str, float]] | None
    best: list[Best]
    differences: list[Difference]
    crossovers: list[dict[str, Any]]
    """Of a sweep: for each pair, where the curves of the deciding metric cross."""


def conclude(comparison: Comparison, contenders: Sequence[str], runs: Sequence[Run]) -> Conclusions:
    """As far as there are runs; the first contender is what the others are compared with."""
    known = comparison.baseline()
    baseline = None if known is None else (known[0], dict(known[1]))
    places = sorted({run.outcome.place for run in runs}, key=lambda place: place or 0.0)
    best, differences = [], []
    for place in places:
        here = [run for run in runs if run.outcome.place == place]
        chosen = {name: best_runs(here, name) for name in contenders}
        best += [_best(comparison, here, name, each) for name, each in chosen.items() if each]
        for name in contenders[1:]:
            found = _difference(comparison, chosen[name], chosen[contenders[0]], baseline)
            differences += [found] if found is not None else []
    crossovers = _crossovers(comparison, contenders, runs, places) if len(places) > 1 else []
    return Conclusions(list(contenders), baseline, best, differences, crossovers)


def best_runs(runs: Sequence[Run], contender: str) -> list[Run]:
    """Of one contender: the runs of the setting with the best mean validation over seeds."""
    settings: dict[tuple[str, float], list[Run]] = {}
    for run in runs:
        if run.trial.contender == contender:
            settings.setdefault((run.trial.variant, run.trial.rate), []).append(run)
    return min(
        settings.values(),
        key=lambda each: statistics.fmean(run.outcome.validation for run in each),
        default=[],
    )


def _best(
    comparison: Comparison, runs: Sequence[Run], contender: str, chosen: Sequence[Run]
) -> Best:
    mine = [run.trial for run in runs if run.trial.contender == contender]
    trial, outcome = chosen[0].trial, chosen[0].outcome
    return Best(
        contender=contender,
        variant=trial.variant,
        rate=trial.rate,
        place=outcome.place,
        settings=len({(each.variant, each.rate) for each in mine}),
        seeds=len(chosen),
        metrics={each.name: estimate(chosen, each) for each in comparison.metrics},
        parameters=outcome.parameters,
        steps=statistics.fmean(run.outcome.steps for run in chosen),
        minutes=statistics.fmean(run.outcome.minutes for run in chosen),
    )


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
        place=one[0].outcome.place,
        seeds=len(seeds),
        metrics=metrics,
        verdict=verdict(
            metrics[decides.name], decides, comparison.margin, learned(comparison, other, baseline)
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
    """Of a difference: within the margin is a match; one seed has no interval, so no verdict."""
    if difference.low is None or difference.high is None:
        return UNDECIDED if has_learned else UNLEARNED
    low, high = difference.low, difference.high
    within = low >= -margin and high <= margin
    if not within and (low > 0 or high < 0):
        return BETTER if (low > 0) == (metric.better == "higher") else WORSE
    if not has_learned:
        return UNLEARNED
    return MATCHES if within else UNDECIDED


def _crossovers(
    comparison: Comparison,
    contenders: Sequence[str],
    runs: Sequence[Run],
    places: Sequence[float | None],
) -> list[dict[str, Any]]:
    """Where the mean of a contender overtakes that of the first one along the sweep."""
    name = comparison.metrics[0].name
    found = []
    for contender in contenders[1:]:
        rows = []
        for place in places:
            here = [run for run in runs if run.outcome.place == place]
            one, other = (
                {run.trial.seed: run.outcome.metrics[name] for run in best_runs(here, each)}
                for each in (contender, contenders[0])
            )
            rows.append([one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())])
        if all(rows):
            crossover = find_crossover([float(place or 0) for place in places], rows)
            found.append({"contender": contender, "against": contenders[0], **asdict(crossover)})
    return found
