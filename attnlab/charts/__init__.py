"""Charts for pages, and the safe text and short numbers they share with them."""

from __future__ import annotations

from attnlab.charts.drawing import (
    Bar,
    Cell,
    Chart,
    Mark,
    Series,
    bar_chart,
    line_chart,
    reliability_chart,
)
from attnlab.charts.matrix import matrix_chart
from attnlab.charts.scales import clean, escape
from attnlab.intervals import number

__all__ = [
    "Bar",
    "Cell",
    "Chart",
    "Mark",
    "Series",
    "bar_chart",
    "clean",
    "escape",
    "line_chart",
    "matrix_chart",
    "number",
    "reliability_chart",
]
