"""A comparison as a report: verdicts, the best setting of each contender, curves, all runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnlab.compare.conclusions import (
    BETTER,
    MATCHES,
    UNLEARNED,
    WORSE,
    Conclusions,
    Difference,
    best_runs,
)
from attnlab.intervals import Estimate, number
from attnlab.report import Block, Cell, Figure, Lines, Mark, Report, Section, Series, Table
from attnlab.tasks.comparison import Budget, Comparison, Metric

if TYPE_CHECKING:
    from attnlab.compare.engine import Run

SENTENCES = {
    MATCHES: "{contender} matches {against}",
    WORSE: "{contender} is worse than {against}",
    BETTER: "{contender} is better than {against}",
    UNLEARNED: "Whether {contender} matches {against} is undecided: {against} has not yet learned "
    "more than the baseline",
}
OPEN = "Whether {contender} matches {against} is undecided"


def comparison_report(
    comparison: Comparison,
    budget: Budget,
    planned: int,
    runs: Sequence[Run],
    conclusions: Conclusions,
) -> Report:
    findings = [*_verdicts(comparison, conclusions), *_crossings(comparison, conclusions)]
    if len(runs) < planned:
        findings.append(f"{len(runs)} of {planned} runs are done; --resume goes on.")
    how = [
        f"Every run had {budget}. {comparison.describe()}".strip(),
        f"A match: the 95% interval of the difference in {comparison.metrics[0].title} lies within "
        f"{_shown(comparison.margin, comparison.metrics[0])}.",
    ]
    blocks: list[Block] = [
        *_sweep_figures(comparison, conclusions),
        _best_table(comparison, conclusions),
    ]
    if conclusions.differences and comparison.sweep:
        blocks.append(_difference_table(comparison, conclusions))
    curves = _curve_figures(runs, conclusions)
    sections = [
        Section("summary", "Result", findings=[*findings, *how], blocks=blocks),
        *([Section("curves", "During training", blocks=curves)] if curves else []),
        Section("runs", "All runs", blocks=[_run_table(comparison, runs)]),
    ]
    return Report("comparison", comparison.title, sections)


def _verdicts(comparison: Comparison, conclusions: Conclusions) -> list[str]:
    """One sentence for each contender; of a sweep for its last place, the table has the others."""
    last = {each.contender: each for each in conclusions.differences}
    sentences = []
    for each in last.values():
        text = SENTENCES.get(each.verdict, OPEN).format(
            contender=each.contender, against=each.against
        )
        where = "" if each.place is None else f" at {each.place:,.0f} {comparison.sweep}"
        differences = ", ".join(
            f"{metric.title} {_signed(each.metrics[metric.name], metric)}"
            for metric in comparison.metrics
        )
        seeds = "1 seed" if each.seeds == 1 else f"{each.seeds} seeds"
        sentences.append(f"{text}{where}: {differences}, over {seeds}.")
    return sentences


def _crossings(comparison: Comparison, conclusions: Conclusions) -> list[str]:
    sentences = []
    for each in conclusions.crossovers:
        pair = f"The curves of {each['contender']} and {each['against']}"
        if not each["places"]:
            sentences.append(f"{pair} do not cross.")
            continue
        listed = ", ".join(f"{place:,.0f}" for place in each["places"])
        text = f"{pair} cross at about {listed} {comparison.sweep}"
        if each["low"] is not None:
            text += (
                f" (95% of draws from the spread of the seeds: {each['low']:,.0f} to "
                f"{each['high']:,.0f}; {each['share']:.0%} of all draws cross)"
            )
        sentences.append(f"{text}.")
    return sentences


def _shown(value: float, metric: Metric) -> str:
    return number(value, metric.percent)


def _cell(estimate: Estimate, metric: Metric) -> str:
    if estimate.low is None or estimate.high is None:
        return _shown(estimate.value, metric)
    ends = " to ".join(_shown(end, metric) for end in _ends(estimate, metric))
    return f"{_shown(estimate.value, metric)} ({ends})"


def _signed(estimate: Estimate, metric: Metric) -> str:
    def sign(value: float) -> str:
        return f"{'+' if value > 0 else ''}{_shown(value, metric)}"

    if estimate.low is None or estimate.high is None:
        return sign(estimate.value)
    return f"{sign(estimate.value)} (95% interval {' to '.join(map(sign, estimate.ends))})"


def _best_table(comparison: Comparison, conclusions: Conclusions) -> Table:
    """Each contender at its best setting, the best first, then the baseline."""
    decides = comparison.metrics[0]
    sign = -1 if decides.better == "higher" else 1
    rows: list[list[Cell]] = [
        [
            *([each.place] if comparison.sweep else []),
            each.variant,
            each.rate,
            each.seeds,
            *(_cell(each.metrics[metric.name], metric) for metric in comparison.metrics),
            each.parameters,
            round(each.steps),
            round(each.minutes, 2),
        ]
        for each in sorted(
            conclusions.best,
            key=lambda each: (each.place or 0, sign * each.metrics[decides.name].value),
        )
    ]
    sweep = [comparison.sweep] if comparison.sweep else []
    titles = [metric.title for metric in comparison.metrics]
    header = [*sweep, "mechanism", "rate", "seeds", *titles, "parameters", "steps", "minutes"]
    if conclusions.baseline is not None:
        name, known = conclusions.baseline
        cells = [
            _shown(known[metric.name], metric) if metric.name in known else None
            for metric in comparison.metrics
        ]
        rows.append([*([None] if sweep else []), name, None, None, *cells, None, None, None])
    note = (
        "Means over seeds with their 95% intervals, on test data; rate multiplies the usual ones."
    )
    return Table(
        "Best setting of each",
        header,
        rows,
        note,
        drop=("rate", "seeds", "steps", "minutes", "parameters"),
    )


def _difference_table(comparison: Comparison, conclusions: Conclusions) -> Table:
    metric = comparison.metrics[0]

    def row(each: Difference) -> list[Cell]:
        difference = _signed(each.metrics[metric.name], metric)
        return [each.place, each.contender, difference, each.verdict]

    against = conclusions.contenders[0]
    return Table(
        f"Difference from {against} in {metric.title}",
        [comparison.sweep, "mechanism", "difference", "verdict"],
        [row(each) for each in conclusions.differences],
    )


def _run_table(comparison: Comparison, runs: Sequence[Run]) -> Table:
    sweep = [comparison.sweep] if comparison.sweep else []
    titles = [metric.title for metric in comparison.metrics]
    rows: list[list[Cell]] = [
        [
            *([run.outcome.place] if sweep else []),
            run.trial.variant,
            run.trial.rate,
            run.trial.seed,
            *(_shown(run.outcome.metrics[m.name], m) for m in comparison.metrics),
            run.outcome.validation,
            run.outcome.steps,
            round(run.outcome.minutes, 2),
        ]
        for run in runs
    ]
    header = [*sweep, "mechanism", "rate", "seed", *titles, "validation", "steps", "minutes"]
    return Table("Runs", header, rows, drop=("minutes", "rate", "steps", "validation"))


def _sweep_figures(comparison: Comparison, conclusions: Conclusions) -> list[Figure]:
    """The deciding metric over the sweep."""
    if not comparison.sweep or len({each.place for each in conclusions.best}) < 2:
        return []
    metric = comparison.metrics[0]
    series = []
    for name in conclusions.contenders:
        mine = [each for each in conclusions.best if each.contender == name]
        points = [(float(each.place or 0), each.metrics[metric.name].value) for each in mine]
        series.append(
            Series(
                name,
                points,
                [_ends(each.metrics[metric.name], metric) for each in mine],
                error_bars=True,
            )
        )
    plot = Lines(comparison.sweep, metric.title, series, x_log=True, y_percent=metric.percent)
    return [Figure(f"{metric.title} over {comparison.sweep}", plot)]


def _ends(estimate: Estimate, metric: Metric) -> tuple[float, float]:
    """A share is never below 0 or above 1, whatever its interval says."""
    low, high = estimate.ends
    return (max(0.0, low), min(1.0, high)) if metric.percent else (low, high)


def _curve_figures(runs: Sequence[Run], conclusions: Conclusions) -> list[Figure]:
    """Each curve over minutes, of the contenders' best settings, where no sweep multiplies them."""
    if any(run.outcome.place is not None for run in runs):
        return []
    chosen = {name: best_runs(runs, name) for name in conclusions.contenders}
    titles = dict.fromkeys(title for run in runs for title in run.outcome.curves)
    figures = []
    for title in titles:
        series = []
        for name, mine in chosen.items():
            curves = [run.outcome.curves[title] for run in mine if run.outcome.curves.get(title)]
            if curves:
                points, band = mean_curve(curves)
                series.append(Series(name, points, band if len(curves) > 1 else ()))
        name, known = conclusions.baseline or ("", {})
        marks = [
            Mark(name, y=value)
            for metric, value in known.items()
            if title == f"validation {metric}"
        ]
        figures.append(
            Figure(
                f"{title} over minutes of training", Lines("minutes", title, series, marks=marks)
            )
        )
    return figures


def mean_curve(
    curves: Sequence[Sequence[tuple[float, float]]],
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """The mean over seeds, between its extremes. Seeds took their steps at other times, so each is
    read off its line at those of the first, as far as all lines go."""
    low, high = max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves)
    inner = [x for x, _ in curves[0] if low < x < high]
    points, band = [], []
    for time in sorted({low, *inner, max(low, high)}):
        ys = [float(np.interp(time, *np.transpose(curve))) for curve in curves]
        points.append((time, statistics.fmean(ys)))
        band.append((min(ys), max(ys)))
    return points, band
