"""Curves drawn with characters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from attnlab.cli._run_table import printable
from attnlab.report._terminal_lines import canvas
from attnlab.run_folder._config import LAST_STEP
from attnlab.run_folder._metrics import NAMES, Metrics, number

Point = tuple[float, float]
"""A step and a value."""


def curves_of(metrics: Metrics) -> Iterator[tuple[str, list[Point]]]:
    """Titles and points; values that are not finite are among them."""
    yield "training loss, smoothed", smooth(series(metrics.rows, "loss"))
    rows = metrics.validations
    names = list(dict.fromkeys(name for row in rows[:NAMES] for name in row if name != "step"))
    for name in names[:NAMES]:
        yield f"validation {printable(name, 40)}", series(rows, name)


def series(rows: Sequence[dict[str, Any]], name: str) -> list[Point]:
    pairs = ((number(row.get("step")), number(row.get(name))) for row in rows)
    known = [(step, value) for step, value in pairs if step is not None and value is not None]
    return sorted((step, value) for step, value in known if 0 <= step < LAST_STEP)


def smooth(points: Sequence[Point]) -> list[Point]:
    """The mean of a window around each point, a fiftieth of all wide; short ends shrink it."""
    good = [point for point in points if math.isfinite(point[1])]
    reach = len(good) // 100
    if not reach:
        return list(points)
    sums = [0.0]
    for _, value in good:
        sums.append(sums[-1] + value)
    smoothed = []
    for i, (step, _) in enumerate(good):
        near = min(reach, i, len(good) - 1 - i)
        smoothed.append((step, (sums[i + near + 1] - sums[i - near]) / (2 * near + 1)))
    return smoothed + [point for point in points if not math.isfinite(point[1])]


def caption(title: str, points: Sequence[Point]) -> str:
    good = [point for point in points if math.isfinite(point[1])]
    if good:
        step, lowest = min(good, key=lambda point: point[1])
        highest = max(value for _, value in good)
        title += f": last {good[-1][1]:.4g}, lowest {lowest:.4g} at step {step:.0f}, "
        title += f"highest {highest:.4g}"
    lost = len(points) - len(good)
    return f"{title}; {lost} not finite" if lost else title


def chart(points: Sequence[Point], width: int, height: int, ascii_only: bool) -> list[str]:
    """The curve with axes: values at the left, the first and the last step below."""
    good = [point for point in points if math.isfinite(point[1])]
    if not good:
        return ["no values yet"]
    low, high = (choose(value for _, value in good) for choose in (min, max))
    labels = [""] * height
    texts = distinct((high, low + (high - low) / 2, low))
    if low == high:
        labels[(height - 1) // 2] = texts[0]
    else:
        labels[0], labels[-1] = texts[0], texts[2]
        if height % 2 and height > 2:
            labels[height // 2] = texts[1]
    margin = max(map(len, labels))
    room = max(8, width - margin - 2)
    tick, bar, corner, line = "||+-" if ascii_only else "┤│└─"
    drawn = canvas(good, room, height, ascii_only)
    body = [
        f"{label:>{margin}} {tick if label else bar}{row}".rstrip()
        for label, row in zip(labels, drawn, strict=True)
    ]
    first, last = (f"{choose(step for step, _ in good):.0f}" for choose in (min, max))
    below = first if first == last else f"{first}{last:>{max(room - len(first), len(last) + 1)}}"
    return [*body, " " * (margin + 1) + corner + line * room, " " * (margin + 2) + below]


def distinct(values: Sequence[float]) -> list[str]:
    """As few digits as tell the values apart."""
    for digits in range(3, 17):
        texts = [f"{value:.{digits}g}" for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts
