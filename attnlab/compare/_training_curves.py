"""Curves over the minutes of training, as figures."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from attnlab.compare._conclusions import Conclusions, best_runs
from attnlab.compare._runs import Attempt, Run
from attnlab.report import Figure, Lines, Mark, Series
from attnlab.tasks.comparison import Comparison


def curve_figures(
    comparison: Comparison, attempts: Sequence[Attempt], conclusions: Conclusions
) -> list[Figure]:
    """Each curve over minutes, of the contenders' best settings."""
    chosen = {name: best_runs(comparison, attempts, name, None) for name in conclusions.contenders}
    runs = [run for each in chosen.values() for run in each]
    percent = {metric.name for metric in comparison.metrics if metric.percent}
    figures = []
    for title in dict.fromkeys(title for run in runs for title in run.outcome.curves):
        metric = title.removeprefix("validation ")
        plot = Lines(
            "minutes of training",
            title,
            _curve_series(chosen, title),
            marks=_baseline_marks(conclusions, metric) if metric != title else [],
            y_percent=metric in percent,
        )
        figures.append(Figure(f"{title} over minutes of training", plot))
    return figures


def _curve_series(chosen: Mapping[str, Sequence[Run]], title: str) -> list[Series]:
    series = []
    for name, runs in chosen.items():
        curves = [run.outcome.curves[title] for run in runs if run.outcome.curves.get(title)]
        if curves:
            points, band = mean_curve(curves)
            series.append(Series(name, points, band if len(curves) > 1 else ()))
    return series


def _baseline_marks(conclusions: Conclusions, metric: str) -> list[Mark]:
    name, known = conclusions.baseline or ("", {})
    return [Mark(name, y=known[metric])] if metric in known else []


def mean_curve(
    curves: Sequence[Sequence[tuple[float, float]]],
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """The mean over seeds, with the lowest and the highest of them. Seeds took their steps at
    different times, so each line is read at those of the first, as far as all lines reach."""
    low, high = max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves)
    inner = [x for x, _ in curves[0] if low < x < high]
    points, band = [], []
    for time in sorted({low, *inner, max(low, high)}):
        ys = [float(np.interp(time, *np.transpose(curve))) for curve in curves]
        points.append((time, statistics.fmean(ys)))
        band.append((min(ys), max(ys)))
    return points, band
