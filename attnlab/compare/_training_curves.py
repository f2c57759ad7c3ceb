"""Figures of metrics over the minutes of training."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from attnlab.compare._conclusions import Baseline, Conclusions, best_runs
from attnlab.compare._runs import Attempt, ComparisonRun
from attnlab.report import Figure, Lines, Mark, Series
from attnlab.tasks.comparison import Comparison


def curve_figures(
    comparison: Comparison, attempts: Sequence[Attempt], conclusions: Conclusions
) -> list[Figure]:
    """One figure for each curve, with the best setting of each contender; for a sweep those of its
    last value."""
    places = {attempt.trial.place for attempt in attempts}
    last = max(places, key=lambda place: place or 0.0, default=None)
    best = {name: best_runs(comparison, attempts, name, last) for name in conclusions.contenders}
    runs = [run for group in best.values() for run in group]
    percent = {metric.name for metric in comparison.metrics if metric.percent}
    at, place = "", None
    if last is not None:
        place = comparison.displayed_sweep_value(last)
        at = f" ({comparison.sweep_title} {place:,g})"
    baseline = conclusions.baseline_at(place)
    figures = []
    for title in dict.fromkeys(title for run in runs for title in run.outcome.curves):
        metric = title.removeprefix("validation ")
        plot = Lines(
            "minutes of training",
            title,
            _curve_series(best, title),
            marks=_baseline_marks(baseline, metric) if metric != title else [],
            y_percent=metric in percent,
        )
        figures.append(Figure(f"{title} over minutes of training{at}", plot))
    return figures


def _curve_series(best: Mapping[str, Sequence[ComparisonRun]], title: str) -> list[Series]:
    series = []
    for name, runs in best.items():
        curves = [run.outcome.curves[title] for run in runs if run.outcome.curves.get(title)]
        if curves:
            points, band = mean_curve(curves)
            series.append(Series(name, points, band if len(curves) > 1 else ()))
    return series


def _baseline_marks(baseline: Baseline | None, metric: str) -> list[Mark]:
    name, metrics = baseline or ("", {})
    return [Mark(name, y=metrics[metric])] if metric in metrics else []


def mean_curve(
    curves: Sequence[Sequence[tuple[float, float]]],
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """The mean over seeds, with the lowest and the highest. The steps of different seeds have
    different times, so all curves are interpolated at the times of the first, where all overlap."""
    low, high = max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves)
    inner = [x for x, _ in curves[0] if low < x < high]
    points, band = [], []
    for time in sorted({low, *inner, max(low, high)}):
        ys = [float(np.interp(time, *np.transpose(curve))) for curve in curves]
        points.append((time, statistics.fmean(ys)))
        band.append((min(ys), max(ys)))
    return points, band
