"""How sure a model is against how often it is right, as blocks of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attnlab._confidence_intervals import format_number
from attnlab.report._content import Block, Figure, Lines, Series, Table


def reliability_blocks(bins: Sequence[Mapping[str, float]], title: str) -> list[Block]:
    """A bin has low, high, count, confidence and accuracy."""
    points = [(each["confidence"], each["accuracy"]) for each in bins]
    series = [
        Series("share right", points),
        Series("as sure as it is right", [(0.0, 0.0), (1.0, 1.0)]),
    ]
    rows = [
        (
            f"{format_number(each['low'], True)} to {format_number(each['high'], True)}",
            int(each["count"]),
            format_number(each["confidence"], True),
            format_number(each["accuracy"], True),
        )
        for each in bins
    ]
    plot = Lines("confidence", "share right", series, x_percent=True, y_percent=True)
    note = (
        "What is said with 80% confidence should be right 80 times of 100. Below the diagonal it "
        "is too sure, above it too modest."
    )
    header = ["confidence", "answers", "mean confidence", "right"]
    return [Figure(title, plot, note, in_table=True), Table("", header, rows)]
