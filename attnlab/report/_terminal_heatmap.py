"""A map of values in characters: a number in each cell, and a color behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text

from attnlab.report._content import Heatmap
from attnlab.report._terminal_lines import LETTERS, STYLES
from attnlab.report._text import clean, short

BELOW, ABOVE, NEAR = (38, 122, 181), (196, 92, 24), (68, 70, 74)  # blue, orange; told apart by all
FAR = 2.0  # powers of e from the center at which a color is full
CELL, LONGEST = 5, 14  # characters


def draw_heatmap(drawn: Heatmap, *, width: int, ascii_only: bool = False) -> list[Text]:
    """Rows and columns as they are given; columns that do not fit are left out, and it is said.

    Names that are too long for their cells have a letter each, told below.
    """
    longest = max((len(clean(name)) for name in drawn.names), default=0)
    if longest > 1 and (longest + 1) * len(drawn.columns) + len(drawn.y) + 1 > width:
        letters = [LETTERS[i] if i < len(LETTERS) else str(i) for i in range(len(drawn.names))]
        lines = draw_heatmap(replace(drawn, names=letters), width=width, ascii_only=ascii_only)
        return [*lines, *_legend(drawn, letters)]
    rows, names, across, down = (
        [clean(each) for each in texts]
        for texts in (drawn.rows, drawn.columns, [drawn.x], [drawn.y])
    )
    margin = min(max(map(len, [*rows, *down])), max(12, width // 3))
    told = [_told(drawn, value) for row in drawn.values for value in row]
    widest = max([CELL, *(len(each) + 1 for each in (*names, *told))])
    cell = min(widest, max(CELL, width - margin - 1), LONGEST)
    fits = max(1, (width - margin - 1) // cell)
    columns = [_cut(name, cell - 1) for name in names[:fits]]
    found = [Text(f"{_cut(down[0], margin):>{margin}} ").append(
        "".join(f"{name:^{cell}}" for name in columns), "bold")]  # fmt: skip
    ends = _ends(drawn)
    for name, row in zip(rows, drawn.values, strict=True):
        line = Text(f"{_cut(name, margin):>{margin}} ")
        for value in row[:fits]:
            line.append(
                f"{_cut(_told(drawn, value), cell - 1):^{cell}}", _style(drawn, value, ends)
            )
        found.append(line)
    left = len(drawn.columns) - len(columns)
    more = f" ({left} more {'column does' if left == 1 else 'columns do'} not fit)" if left else ""
    arrow = "->" if ascii_only else "→"
    found.append(
        Text(f"{'':>{margin}} {arrow} {_cut(across[0], max(8, width - margin - 34))}{more}", "dim")
    )
    return found


def _legend(drawn: Heatmap, letters: Sequence[str]) -> list[Text]:
    return [
        Text("  ").append(f" {letter} ", _style(drawn, place, (0.0, 1.0))).append(f" {clean(name)}")
        for place, (letter, name) in enumerate(zip(letters, drawn.names, strict=True))
    ]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(0, room - 1)] + "~"


def _told(drawn: Heatmap, value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    if drawn.names:
        return clean(drawn.names[int(value)])
    return short(value)


def _ends(drawn: Heatmap) -> tuple[float, float]:
    """Of what is colored from one end to the other, where there is no center."""
    known = [
        _placed(drawn, each)
        for row in drawn.values
        for each in row
        if each is not None and math.isfinite(each)
    ]
    return min(known, default=0.0), max(known, default=1.0)


def _placed(drawn: Heatmap, value: float) -> float:
    return math.log(max(value, 1e-300)) if drawn.log else value


def _style(drawn: Heatmap, value: float | None, ends: tuple[float, float]) -> str:
    if value is None or math.isnan(value):
        return "dim"
    if drawn.names:
        return f"black on {STYLES[int(value) % len(STYLES)]}"
    bounded = min(max(value, -1e300), 1e300)
    place = _placed(drawn, bounded)
    if drawn.center is None:
        share = (place - ends[0]) / ((ends[1] - ends[0]) or 1.0)
        color = _mixed(NEAR, BELOW, share)
    else:
        away = place - _placed(drawn, drawn.center)
        scale = FAR if drawn.log else max(abs(end - drawn.center) for end in ends) or 1.0
        color = _mixed(NEAR, BELOW if away < 0 else ABOVE, min(1.0, abs(away) / scale))
    return f"white on rgb({','.join(map(str, color))})"


def _mixed(
    one: tuple[int, int, int], other: tuple[int, int, int], share: float
) -> tuple[int, int, int]:
    share = min(max(share, 0.0), 1.0)
    first, second, third = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return first, second, third
