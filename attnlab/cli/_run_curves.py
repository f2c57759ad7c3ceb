"""Curves of a run, drawn with characters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from attnlab.cli._run_table import printable
from attnlab.report._terminal_lines import canvas
from attnlab.run_folder._config import LAST_STEP
from attnlab.run_folder._metrics import NAMES, Metrics, to_float

Point = tuple[float, float]
"""A step and a value."""


def metric_curves(metrics: Metrics) -> Iterator[tuple[str, list[Point]]]:
    """Titles and points, also those that are not finite."""
    yield "training loss, smoothed", smooth(series(metrics.rows, "loss"))
    rows = metrics.validations
    names = list(dict.fromkeys(name for row in rows[:NAMES] for name in row if name != "step"))
    for name in names[:NAMES]:
        yield f"validation {printable(name, 40)}", series(rows, name)


def series(rows: Sequence[dict[str, Any]], name: str) -> list[Point]:
    pairs = ((to_float(row.get("step")), to_float(row.get(name))) for row in rows)
    points = [(step, value) for step, value in pairs if step is not None and value is not None]
    return sorted((step, value) for step, value in points if 0 <= step < LAST_STEP)


def smooth(points: Sequence[Point]) -> list[Point]:
    """Moving average over a fiftieth of all points. The window shrinks at both ends."""
    finite = [point for point in points if math.isfinite(point[1])]
    radius = len(finite) // 100
    if not radius:
        return list(points)
    sums = [0.0]
    for _, value in finite:
        sums.append(sums[-1] + value)
    smoothed = []
    for i, (step, _) in enumerate(finite):
        size = min(radius, i, len(finite) - 1 - i)
        smoothed.append((step, (sums[i + size + 1] - sums[i - size]) / (2 * size + 1)))
    return smoothed + [point for point in points if not math.isfinite(point[1])]


def title_with_range(title: str, points: Sequence[Point]) -> str:
    finite = [point for point in points if math.isfinite(point[1])]
    if finite:
        step, lowest = min(finite, key=lambda point: point[1])
        highest = max(value for _, value in finite)
        title += f": last {finite[-1][1]:.4g}, lowest {lowest:.4g} at step {step:.0f}, "
        title += f"highest {highest:.4g}"
    not_finite = len(points) - len(finite)
    return f"{title}; {not_finite} not finite" if not_finite else title


def chart(points: Sequence[Point], width: int, height: int, ascii_only: bool) -> list[str]:
    """The curve with axes: values on the left, the first and the last step below."""
    finite = [point for point in points if math.isfinite(point[1])]
    if not finite:
        return ["no values yet"]
    low, high = (choose(value for _, value in finite) for choose in (min, max))
    labels = [""] * height
    texts = distinct_numbers((high, low + (high - low) / 2, low))
    if low == high:
        labels[(height - 1) // 2] = texts[0]
    else:
        labels[0], labels[-1] = texts[0], texts[2]
        if height % 2 and height > 2:
            labels[height // 2] = texts[1]
    margin = max(map(len, labels))
    columns = max(8, width - margin - 2)
    tick, bar, corner, line = "||+-" if ascii_only else "┤│└─"
    curve = canvas(finite, columns, height, ascii_only)
    body = [
        f"{label:>{margin}} {tick if label else bar}{row}".rstrip()
        for label, row in zip(labels, curve, strict=True)
    ]
    first, last = (f"{choose(step for step, _ in finite):.0f}" for choose in (min, max))
    below = first if first == last else f"{first}{last:>{max(columns - len(first), len(last) + 1)}}"
    return [*body, " " * (margin + 1) + corner + line * columns, " " * (margin + 2) + below]


def distinct_numbers(values: Sequence[float]) -> list[str]:
    """The values with as few digits as keep them distinct."""
    for digits in range(3, 17):
        texts = [f"{value:.{digits}g}" for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts
