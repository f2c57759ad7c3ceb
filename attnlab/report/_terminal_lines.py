"""Lines drawn with characters: a braille character is two dots wide and four high."""

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
FEW = 4  # names that have a line each
LETTERS = "abcdefghijklmnopqrstuvwxyz"  # where there are no colors, and no braille


def draw_lines(plot: Lines, *, width: int, height: int, ascii_only: bool = False) -> list[Text]:
    """Several lines over common axes, with a legend: colors and letters tell them apart.

    What is not finite, or not positive on a logarithmic axis, is left out.
    """
    lines = [
        [_placed(p, plot) for p in each.points if _shown(p, plot.x_log, plot.y_log)]
        for each in plot.series
    ]
    known = [point for line in lines for point in line]
    if not known:
        return [Text("no values")]
    low, high = (choose(y for _, y in known) for choose in (min, max))
    left, right = (choose(x for x, _ in known) for choose in (min, max))
    first, last = (_label(x, plot.x_log, plot.x_percent) for x in (left, right))
    top, bottom = (_label(y, plot.y_log, plot.y_percent) for y in (high, low))
    labels = {0: top, height - 1: bottom}
    margin = max(map(len, labels.values()))
    room = max(8, width - margin - 2)
    tick, bar, corner, line = "||+-" if ascii_only else "┤│└─"
    across, down = (1, 1) if ascii_only else (2, 4)
    drawn = [
        dots_of(each, room * across, height * down, (left, right), (low, high)) for each in lines
    ]
    found = []
    for y in range(height):
        label = labels.get(y, "")
        row = Text(f"{label:>{margin}} {tick if label else bar}")
        for x in range(room):
            row.append(_cell(drawn, x, y, ascii_only))
        found.append(row)
    found.append(Text(" " * (margin + 1) + corner + line * room))
    found.append(Text(" " * (margin + 2) + f"{first}{last:>{max(1, room - len(first))}}"))
    found += _legend([clean(each.name) for each in plot.series], margin + 2, room, ascii_only)
    return found


def _legend(names: Sequence[str], margin: int, room: int, ascii_only: bool) -> list[Text]:
    """A line for each; many, or short ones, side by side."""
    entries = [
        Text(f"{LETTERS[place % 26]} " if ascii_only else "━ ", _style(place)).append(name)
        for place, name in enumerate(names)
    ]
    width = max((len(entry) for entry in entries), default=0) + 3
    across = max(1, room // width) if len(entries) > FEW else 1
    rows = []
    for first in range(0, len(entries), across):
        row = Text(" " * margin)
        for entry in entries[first : first + across]:
            row.append_text(entry).append(" " * (width - len(entry)))
        row.rstrip()
        rows.append(row)
    return rows


def canvas(points: Sequence[Point], width: int, height: int, ascii_only: bool) -> list[str]:
    """One line alone, over the whole canvas."""
    across, down = (1, 1) if ascii_only else (2, 4)
    xs, ys = ([point[i] for point in points] for i in (0, 1))
    dots = dots_of(points, width * across, height * down, (min(xs), max(xs)), (min(ys), max(ys)))
    if ascii_only:
        return ["".join(" *"[(x, y) in dots] for x in range(width)) for y in range(height)]
    return ["".join(braille(dots, x, y) for x in range(width)) for y in range(height)]


def braille(dots: Dots, x: int, y: int) -> str:
    bits = 0
    for i, column in enumerate(((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))):
        for j, bit in enumerate(column):
            bits |= bit if (2 * x + i, 4 * y + j) in dots else 0
    return chr(0x2800 + bits) if bits else " "


def _cell(drawn: Sequence[Dots], x: int, y: int, ascii_only: bool) -> Text:
    """The first line that passes here has the cell; two are not mixed in one color."""
    for place, dots in enumerate(drawn):
        sign = (LETTERS[place % 26] if (x, y) in dots else " ") if ascii_only else (
            braille(dots, x, y)
        )  # fmt: skip
        if sign != " ":
            return Text(sign, _style(place))
    return Text(" ")


def _style(place: int) -> str:
    return STYLES[place % len(STYLES)]


def _shown(point: Point, x_log: bool, y_log: bool) -> bool:
    x, y = point
    return math.isfinite(x) and math.isfinite(y) and (x > 0 or not x_log) and (y > 0 or not y_log)


def _placed(point: Point, plot: Lines) -> Point:
    x, y = point
    return math.log10(x) if plot.x_log else x, math.log10(y) if plot.y_log else y


def _label(value: float, log: bool, percent: bool) -> str:
    return format_number(10**value if log else value, percent)


def dots_of(
    points: Sequence[Point],
    columns: int,
    rows: int,
    across: tuple[float, float],
    upward: tuple[float, float],
) -> Dots:
    """The mean of each column's points, joined by lines; row 0 is the highest."""
    gathered: dict[int, list[float]] = {}
    for step, value in points:
        gathered.setdefault(_at(step, across, columns), []).append(value)
    dots: Dots = set()
    left = before = None
    for x, found in sorted(gathered.items()):
        mean = sum(found) / len(found)
        y = rows - 1 - _at(mean, upward, rows) if upward[0] != upward[1] else (rows - 1) // 2
        if left is None or before is None:
            dots.add((x, y))
        else:
            dots |= line_between(left, before, x, y)
        left, before = x, y
    return dots


def _at(value: float, ends: tuple[float, float], count: int) -> int:
    low, span = ends[0], ends[1] - ends[0]
    place = round((value - low) / span * (count - 1)) if span else 0
    return min(max(place, 0), count - 1)  # a mean may round to just beyond the extremes


def line_between(left: int, before: int, x: int, y: int) -> Dots:
    """Every dot after the first; a steep line fills its columns from top to bottom."""
    dots, last = set(), before
    for column in range(left + 1, x + 1):
        row = round(before + (y - before) * (column - left) / (x - left))
        step = 1 if row >= last else -1
        dots |= {(column, each) for each in range(last + step, row, step)}
        dots.add((column, row))
        last = row
    return dots


def draw_bars(plot: Bars, *, width: int, ascii_only: bool = False) -> list[Text]:
    """A line for each value; a bar's length is the value's size, whatever its sign."""
    values = {clean(name): estimate.value for name, estimate in plot.values.items()}
    rows = [(name, value) for name, value in values.items() if math.isfinite(value)]
    if not rows:
        return [Text("no values")]
    margin = min(max(len(name) for name, _ in rows), max(8, width // 2))
    most = max(abs(value) for _, value in rows) or 1.0
    room = max(4, width - margin - 14)
    sign = "#" if ascii_only else "█"
    return [
        Text(f"{name[:margin]:>{margin}} ")
        .append(sign * round(abs(value) / most * room), "cyan")
        .append(f" {format_number(value, plot.percent)}")
        for name, value in rows
    ]
