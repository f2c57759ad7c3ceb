"""What a figure is drawn from, in the terminal, as a picture or on a page, and its JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.charts.drawing import Mark, Series
from attnlab.intervals import Estimate


@dataclass(frozen=True)
class Lines:
    """Lines over common axes."""

    x: str
    y: str
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Bars:
    """Named values side by side."""

    y: str
    values: Mapping[str, Estimate]
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Heatmap:
    """A value for each row and column, as colours; None where nothing was measured.

    `centre`: values below it have one colour, those above another (a ratio: 1). `names`: values
    are whole numbers, places in this list, and each has a colour of its own.
    """

    x: str
    y: str
    z: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float | None]]
    log: bool = False
    centre: float | None = None
    names: Sequence[str] = ()
    texts: Sequence[Sequence[str]] = ()
    """More to say of each cell, where a reader asks for it."""


Drawing = Lines | Bars | Heatmap


def plain(value: float | None) -> float | str | None:
    """JSON has no infinity: a text, as in attnlab's other files."""
    return value if value is None or math.isfinite(value) else str(value)


def figure_json(figure: Estimate) -> dict[str, float | str | None]:
    return {"value": plain(figure.value), "low": plain(figure.low), "high": plain(figure.high)}


def plot_json(drawn: Drawing) -> dict[str, Any]:
    if isinstance(drawn, Heatmap):
        return _heatmap(drawn)
    marks = [{"label": mark.label, "x": mark.x, "y": mark.y} for mark in drawn.marks]
    if isinstance(drawn, Bars):
        values = [[name, figure_json(figure)] for name, figure in drawn.values.items()]
        return {"kind": "bars", "y": drawn.y, "values": values, "marks": marks}
    series = [
        {
            "name": each.name,
            "points": [[plain(x), plain(y)] for x, y in each.points],
            "band": [[plain(low), plain(high)] for low, high in each.band],
        }
        for each in drawn.series
    ]
    return {
        "kind": "lines",
        "x": drawn.x,
        "y": drawn.y,
        "x_log": drawn.x_log,
        "y_log": drawn.y_log,
        "series": series,
        "marks": marks,
    }


def _heatmap(drawn: Heatmap) -> dict[str, Any]:
    return {
        "kind": "heatmap",
        "x": drawn.x,
        "y": drawn.y,
        "z": drawn.z,
        "columns": list(drawn.columns),
        "rows": list(drawn.rows),
        "values": [[plain(value) for value in row] for row in drawn.values],
        "log": drawn.log,
        "centre": drawn.centre,
        "names": list(drawn.names),
        "texts": [list(row) for row in drawn.texts],
    }
