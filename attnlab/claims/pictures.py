"""A claim's figure as a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from attnlab.charts import Bar, Chart, Series, bar_chart, line_chart
from attnlab.claims.base import Bars, Estimate, Lines
from attnlab.page import picture, write_page


def chart_of(drawn: Lines | Bars, title: str) -> Chart:
    if isinstance(drawn, Bars):
        bars = [Bar(name, figure.value, _interval(figure)) for name, figure in drawn.values.items()]
        level = next(((mark.label, mark.y) for mark in drawn.marks if mark.y is not None), None)
        return bar_chart(bars, title=title, label="", value=drawn.y, mark=level)
    return line_chart(
        [_drawable(each, drawn) for each in drawn.series],
        title=title,
        x_label=drawn.x,
        y_label=drawn.y,
        x_log=drawn.x_log,
        y_log=drawn.y_log,
        marks=drawn.marks,
    )


def save_picture(drawn: Lines | Bars, title: str, path: Path, overwrite: bool = False) -> None:
    write_page(path, picture(chart_of(drawn, title)), overwrite)


def _interval(figure: Estimate) -> tuple[float, float] | None:
    return None if figure.low is None or figure.high is None else (figure.low, figure.high)


def _drawable(series: Series, drawn: Lines) -> Series:
    """Without what a logarithmic axis cannot show: an error of exactly 0."""
    keep = [
        place
        for place, (x, y) in enumerate(series.points)
        if (x > 0 or not drawn.x_log) and (y > 0 or not drawn.y_log)
    ]
    points = [series.points[place] for place in keep]
    return replace(
        series, points=points, band=[series.band[place] for place in keep] if series.band else ()
    )
