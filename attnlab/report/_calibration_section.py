"""Report blocks that compare a model's confidence with its accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attnlab._confidence_intervals import format_number
from attnlab.report._content import Block, Figure, Lines, Series, Table


def reliability_blocks(bins: Sequence[Mapping[str, float]], title: str) -> list[Block]:
    """A reliability diagram and its table. A bin has low, high, count, confidence and accuracy."""
    points = [(bin_["confidence"], bin_["accuracy"]) for bin_ in bins]
    series = [
        Series("accuracy", points),
        Series("perfect calibration", [(0.0, 0.0), (1.0, 1.0)]),
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
    plot = Lines("confidence", "accuracy", series, x_percent=True, y_percent=True)
    note = (
        "Of the answers with 80% confidence, 80% should be right. Below the diagonal the model is "
        "overconfident, above it underconfident."
    )
    header = ["confidence", "answers", "mean confidence", "accuracy"]
    return [Figure(title, plot, note, in_table=True), Table("", header, rows)]
