"""Draws lines and bars with characters: a braille character is two dots wide and four high."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text

from attnlab._confidence_intervals import format_number
from attnlab.report._content import Bars, Lines
from attnlab.report._text import clean

Point = tuple[float, float]
Dots = set[tuple[int, int]]

STYLES = (
    "cyan", "yellow", "magenta", "green", "red", "blue", "bright_white", "bright_yellow",
    "bright_magenta", "bright_green", "bright_red", "bright_blue",
)  # fmt: skip
FEW_NAMES = 4  # of a legend with one name per line
LETTERS = "abcdefghijklmnopqrstuvwxyz"  # for terminals without braille and colors


def draw_lines(plot: Lines, *, width: int, height: int, ascii_only: bool = False) -> list[Text]:
    """Several lines in one plot, with a legend of colors or letters.

    Values that are not finite, or not positive on a logarithmic axis, are left out.
    """
    lines = [
        [_scale_point(p, plot) for p in series.points if _is_visible(p, plot.x_log, plot.y_log)]
        for series in plot.series
    ]
    points = [point for line in lines for point in line]
    if not points:
        return [Text("no values")]
    low, high = (limit(y for _, y in points) for limit in (min, max))
    left, right = (limit(x for x, _ in points) for limit in (min, max))
    first, last = (_label(x, plot.x_log, plot.x_percent) for x in (left, right))
    top, bottom = (_label(y, plot.y_log, plot.y_percent) for y in (high, low))
    labels = {0: top, height - 1: bottom}
    margin = max(map(len, labels.values()))
    columns = max(8, width - margin - 2)
    tick, bar, corner, line = "||+-" if ascii_only else "┤│└─"
    across, down = (1, 1) if ascii_only else (2, 4)
    dots = [
        plot_dots(points, columns * across, height * down, (left, right), (low, high))
        for points in lines
    ]
    rows = []
    for y in range(height):
        label = labels.get(y, "")
        row = Text(f"{label:>{margin}} {tick if label else bar}")
        for x in range(columns):
            row.append(_cell(dots, x, y, ascii_only))
        rows.append(row)
    rows.append(Text(" " * (margin + 1) + corner + line * columns))
    rows.append(Text(" " * (margin + 2) + f"{first}{last:>{max(1, columns - len(first))}}"))
    names = [clean(series.name) for series in plot.series]
    return rows + _legend(names, margin + 2, columns, ascii_only)


def _legend(names: Sequence[str], margin: int, columns: int, ascii_only: bool) -> list[Text]:
    """One name per line; more than FEW_NAMES share lines."""
    entries = [
        Text(f"{LETTERS[index % 26]} " if ascii_only else "━ ", _style(index)).append(name)
        for index, name in enumerate(names)
    ]
    width = max((len(entry) for entry in entries), default=0) + 3
    across = max(1, columns // width) if len(entries) > FEW_NAMES else 1
    rows = []
    for first in range(0, len(entries), across):
        row = Text(" " * margin)
        for entry in entries[first : first + across]:
            row.append_text(entry).append(" " * (width - len(entry)))
        row.rstrip()
        rows.append(row)
    return rows


def canvas(points: Sequence[Point], width: int, height: int, ascii_only: bool) -> list[str]:
    """One line over the whole canvas, without axes."""
    across, down = (1, 1) if ascii_only else (2, 4)
    xs, ys = ([point[i] for point in points] for i in (0, 1))
    dots = plot_dots(points, width * across, height * down, (min(xs), max(xs)), (min(ys), max(ys)))
    if ascii_only:
        return ["".join(" *"[(x, y) in dots] for x in range(width)) for y in range(height)]
    return ["".join(braille(dots, x, y) for x in range(width)) for y in range(height)]


def braille(dots: Dots, x: int, y: int) -> str:
    bits = 0
    for i, column in enumerate(((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))):
        for j, bit in enumerate(column):
            bits |= bit if (2 * x + i, 4 * y + j) in dots else 0
    return chr(0x2800 + bits) if bits else " "


def _cell(lines: Sequence[Dots], x: int, y: int, ascii_only: bool) -> Text:
    """The first line that passes through the cell determines its color."""
    for index, dots in enumerate(lines):
        character = (LETTERS[index % 26] if (x, y) in dots else " ") if ascii_only else (
            braille(dots, x, y)
        )  # fmt: skip
        if character != " ":
            return Text(character, _style(index))
    return Text(" ")


def _style(index: int) -> str:
    return STYLES[index % len(STYLES)]


def _is_visible(point: Point, x_log: bool, y_log: bool) -> bool:
    x, y = point
    return math.isfinite(x) and math.isfinite(y) and (x > 0 or not x_log) and (y > 0 or not y_log)


def _scale_point(point: Point, plot: Lines) -> Point:
    x, y = point
    return math.log10(x) if plot.x_log else x, math.log10(y) if plot.y_log else y


def _label(value: float, log: bool, percent: bool) -> str:
    return format_number(10**value if log else value, percent)


def plot_dots(
    points: Sequence[Point],
    columns: int,
    rows: int,
    x_range: tuple[float, float],
    y_range: tuple[float, float],
) -> Dots:
    """The mean of each column's points, joined by lines; row 0 is the highest."""
    values_by_column: dict[int, list[float]] = {}
    for step, value in points:
        values_by_column.setdefault(_to_index(step, x_range, columns), []).append(value)
    dots: Dots = set()
    left = before = None
    for x, values in sorted(values_by_column.items()):
        mean = sum(values) / len(values)
        is_flat = y_range[0] == y_range[1]
        y = (rows - 1) // 2 if is_flat else rows - 1 - _to_index(mean, y_range, rows)
        if left is None or before is None:
            dots.add((x, y))
        else:
            dots |= line_between(left, before, x, y)
        left, before = x, y
    return dots


def _to_index(value: float, ends: tuple[float, float], count: int) -> int:
    low, span = ends[0], ends[1] - ends[0]
    index = round((value - low) / span * (count - 1)) if span else 0
    return min(max(index, 0), count - 1)  # a mean may round to just beyond the ends


def line_between(left: int, before: int, x: int, y: int) -> Dots:
    """Every dot of the line but the first; a steep line fills its columns."""
    dots, last = set(), before
    for column in range(left + 1, x + 1):
        row = round(before + (y - before) * (column - left) / (x - left))
        step = 1 if row >= last else -1
        dots |= {(column, between) for between in range(last + step, row, step)}
        dots.add((column, row))
        last = row
    return dots


def draw_bars(plot: Bars, *, width: int, ascii_only: bool = False) -> list[Text]:
    """One line for each value; the length of a bar is the absolute value."""
    values = {clean(name): estimate.value for name, estimate in plot.values.items()}
    rows = [(name, value) for name, value in values.items() if math.isfinite(value)]
    if not rows:
        return [Text("no values")]
    margin = min(max(len(name) for name, _ in rows), max(8, width // 2))
    most = max(abs(value) for _, value in rows) or 1.0
    columns = max(4, width - margin - 14)
    block = "#" if ascii_only else "█"
    return [
        Text(f"{name[:margin]:>{margin}} ")
        .append(block * round(abs(value) / most * columns), "cyan")
        .append(f" {format_number(value, plot.percent)}")
        for name, value in rows
    ]
