"""Draws a heatmap with characters: a number in each cell, on a colored background."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text

from attnlab.report._content import Heatmap
from attnlab.report._terminal_lines import LETTERS, STYLES
from attnlab.report._text import clean, format_short

BELOW, ABOVE, NEAR = (
    (38, 122, 181),
    (196, 92, 24),
    (68, 70, 74),
)  # blue, orange, gray; safe for color-blind people
FULL_COLOR = 2.0  # distance from the center, in powers of e, at which a color is full
MIN_CELL, MAX_CELL = 5, 16  # characters


def draw_heatmap(heatmap: Heatmap, *, width: int, ascii_only: bool = False) -> list[Text]:
    """Columns that do not fit are left out, with a note that counts them.

    Names that are too long for their cells become letters, with a legend below.
    """
    longest = max((len(clean(name)) for name in heatmap.names), default=0)
    if longest > 1 and (longest + 1) * len(heatmap.columns) + len(heatmap.y) + 1 > width:
        letters = [LETTERS[i] if i < len(LETTERS) else str(i) for i in range(len(heatmap.names))]
        lines = draw_heatmap(replace(heatmap, names=letters), width=width, ascii_only=ascii_only)
        return [*lines, *_legend(heatmap, letters)]
    rows, names, across, down = (
        [clean(text) for text in texts]
        for texts in (heatmap.rows, heatmap.columns, [heatmap.x], [heatmap.y])
    )
    margin = min(max(map(len, [*rows, *down])), max(12, width // 3))
    cells = [_format_value(heatmap, value) for row in heatmap.values for value in row]
    space = max(MIN_CELL, width - margin - 1)
    least = max([MIN_CELL, *(len(text) + 1 for text in cells)])
    widest = max([least, *(len(text) + 1 for text in names)])
    cell = min(widest, space, MAX_CELL)
    if least <= space // max(1, len(names)) < cell:
        cell = space // len(names)  # all columns fit if their names are cut
    fits = max(1, space // cell)
    columns = [_cut(name, cell - 1) for name in names[:fits]]
    lines = [Text(f"{_cut(down[0], margin):>{margin}} ").append(
        "".join(f"{name:^{cell}}" for name in columns), "bold")]  # fmt: skip
    ends = _ends(heatmap)
    for name, row in zip(rows, heatmap.values, strict=True):
        line = Text(f"{_cut(name, margin):>{margin}} ")
        for value in row[:fits]:
            line.append(
                f"{_cut(_format_value(heatmap, value), cell - 1):^{cell}}",
                _style(heatmap, value, ends),
            )
        lines.append(line)
    left = len(heatmap.columns) - len(columns)
    more = f" ({left} more {'column does' if left == 1 else 'columns do'} not fit)" if left else ""
    arrow = "->" if ascii_only else "→"
    lines.append(
        Text(f"{'':>{margin}} {arrow} {_cut(across[0], max(8, width - margin - 34))}{more}", "dim")
    )
    return lines


def _legend(heatmap: Heatmap, letters: Sequence[str]) -> list[Text]:
    return [
        Text("  ")
        .append(f" {letter} ", _style(heatmap, index, (0.0, 1.0)))
        .append(f" {clean(name)}")
        for index, (letter, name) in enumerate(zip(letters, heatmap.names, strict=True))
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "~"


def _format_value(heatmap: Heatmap, value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    if heatmap.names:
        return clean(heatmap.names[int(value)])
    return format_short(value)


def _ends(heatmap: Heatmap) -> tuple[float, float]:
    """The least and the largest value, which get the end colors if there is no center."""
    finite = [
        _scaled(heatmap, value)
        for row in heatmap.values
        for value in row
        if value is not None and math.isfinite(value)
    ]
    return min(finite, default=0.0), max(finite, default=1.0)


def _scaled(heatmap: Heatmap, value: float) -> float:
    return math.log(max(value, 1e-300)) if heatmap.log else value


def _style(heatmap: Heatmap, value: float | None, ends: tuple[float, float]) -> str:
    if value is None or math.isnan(value):
        return "dim"
    if heatmap.names:
        return f"black on {STYLES[int(value) % len(STYLES)]}"
    bounded = min(max(value, -1e300), 1e300)
    scaled = _scaled(heatmap, bounded)
    if heatmap.center is None:
        fraction = (scaled - ends[0]) / ((ends[1] - ends[0]) or 1.0)
        color = _mix(NEAR, BELOW, fraction)
    else:
        distance = scaled - _scaled(heatmap, heatmap.center)
        scale = FULL_COLOR if heatmap.log else max(abs(end - heatmap.center) for end in ends) or 1.0
        color = _mix(NEAR, BELOW if distance < 0 else ABOVE, min(1.0, abs(distance) / scale))
    return f"white on rgb({','.join(map(str, color))})"


def _mix(
    start: tuple[int, int, int], end: tuple[int, int, int], fraction: float
) -> tuple[int, int, int]:
    fraction = min(max(fraction, 0.0), 1.0)
    red, green, blue = (round(a + (b - a) * fraction) for a, b in zip(start, end, strict=True))
    return red, green, blue
