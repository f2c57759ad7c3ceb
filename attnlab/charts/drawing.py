"""The charts as inline SVG: no script, colours from the page's CSS, every value also in a table.

All coordinates are units of a drawing 400 wide, which a phone shows nearly as they are and a wide
page somewhat larger: text of 13 units stays readable on both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnlab.charts.scales import (
    HUGE,
    Axis,
    escape,
    extent,
    fitted,
    width_of,
)
from attnlab.intervals import number

WIDTH, HEIGHT, LINE = 400.0, 250.0, 17.0  # of a drawing, and of a line of text
EDGE = 18.0  # at the right, for half of the last tick's text
COLOURS = 6  # --s0 to --s5 of the page

Cell = str | int | float | None


@dataclass(frozen=True)
class Chart:
    """A drawing and the numbers in it."""

    title: str
    svg: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Series:
    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float]] = ()  # low and high around each point
    bars: bool = False  # the band as error bars at the points


@dataclass(frozen=True)
class Mark:
    """A vertical line at x, a horizontal one at y, or with both a point and its guides."""

    label: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    interval: tuple[float, float] | None = None
    beside: float | None = None  # a second, paler bar to compare with


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _rect(x: float, y: float, width: float, height: float, kind: str, tip: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect class="{kind}" {place}><title>{escape(tip)}</title></rect>'


def _svg(height: float, title: str, description: str, parts: Iterable[str]) -> str:
    """Title and description are what a screen reader says instead of the drawing."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height:.0f}" '
        f'role="img"><title>{escape(title)}</title><desc>{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _finite(values: Iterable[float]) -> bool:
    return all(map(math.isfinite, values))


def _with_interval(value: float, ends: Sequence[float] | None, percent: bool) -> str:
    text = number(value, percent)
    return f"{text} ({' to '.join(number(end, percent) for end in ends)})" if ends else text


def _grid(
    x: Axis, y: Axis, labels: tuple[str, str], x_percent: bool, percent: bool, above: float = 14
) -> list[str]:
    """Ticks and labels; the y axis is named over it, `above` its end, where it can be read."""
    parts = []
    for value, text in zip(y.ticks(), y.texts(percent), strict=True):
        parts.append(_line(x.start, y(value), x.end, y(value), "grid"))
        parts.append(_text(x.start - 6, y(value) + 4.5, text, "end", "dim"))
    texts = x.texts(x_percent)
    room = sum(width_of(text) + 12 for text in texts)
    every = max(1, math.ceil(room / (x.end - x.start)))
    for value, text in list(zip(x.ticks(), texts, strict=True))[::every]:
        parts.append(_line(x(value), y.start, x(value), y.start + 4, "axis"))
        middle = max(min(x(value), WIDTH - width_of(text) / 2), width_of(text) / 2)
        parts.append(_text(middle, y.start + LINE, text, "middle", "dim"))
    parts.append(_line(x.start, y.start, x.end, y.start, "axis"))
    middle = (x.start + x.end) / 2
    parts.append(_text(middle, y.start + 2 * LINE + 2, fitted(labels[0], 300), "middle"))
    return [*parts, _text(2, y.end - above, fitted(labels[1], WIDTH))]


def _legend(names: Sequence[str], kinds: Sequence[str]) -> tuple[list[str], float]:
    """Swatches with names in as many rows as they need, and the height of these."""
    parts, x, y = [], 2.0, 12.0
    for name, kind in zip(names, kinds, strict=True):
        shown = fitted(name, WIDTH - 30)
        if x > 2 and x + 24 + width_of(shown) > WIDTH:
            x, y = 2.0, y + LINE
        parts += [_line(x, y - 4, x + 18, y - 4, kind), _text(x + 24, y, shown)]
        x += 40 + width_of(shown)
    return parts, y + 8


# The charts


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_log: bool = False,
    y_log: bool = False,
    x_percent: bool = False,
    percent: bool = False,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    marks: Sequence[Mark] = (),
) -> Chart:
    """Lines with their bands; a value that is not finite leaves a gap, one out of range its edge.

    Two or three short names stand at the ends of their lines, more above as a legend.
    """
    for each in series:
        if each.band and len(each.band) != len(each.points):
            raise ValueError(f"{each.name}: {len(each.band)} bands for {len(each.points)} points")
    known = [point for each in series for point in each.points if _finite(point)]
    xs = [x for x, _ in known] + [mark.x for mark in marks if mark.x is not None]
    ys = [y for _, y in known] + [mark.y for mark in marks if mark.y is not None]
    if not _finite(xs + ys):
        raise ValueError(f"{title}: a mark that is not finite; leave it out")
    if x_log and min([*xs, *(x_range or ())], default=1.0) <= 0:
        raise ValueError(f"{title}: x of zero or less on a logarithmic axis; leave it out")
    if y_log and min([*ys, *(y_range or ())], default=1.0) <= 0:
        raise ValueError(f"{title}: y of zero or less on a logarithmic axis; leave it out")
    ends = [end for each in series for pair in each.band for end in pair if math.isfinite(end)]
    ys += [end for end in ends if end > 0 or not y_log]  # a band may reach down to 0
    names = [each.name for each in series]
    direct = 1 < len(series) <= 3 and max(map(width_of, names)) <= 90
    kinds = [f"s{i % COLOURS}{' thin' if i >= COLOURS else ''}" for i in range(len(series))]
    legend, top = (
        _legend(names, [f"line {each}" for each in kinds])
        if len(series) > 1 and not direct
        else ([], 0.0)
    )
    y = Axis(*extent(y_range or ys, y_log), top + HEIGHT - 2 * LINE - 6, top + LINE + 12, y_log)
    left = max(map(width_of, y.texts(percent)), default=0.0) + 10
    right = WIDTH - (max(map(width_of, names)) + 14 if direct else EDGE)
    x = Axis(*extent(x_range or xs, x_log), left, right, x_log)
    parts = [*legend, *_grid(x, y, (x_label, y_label), x_percent, percent)]
    for each, kind in zip(series, kinds, strict=True):
        parts += _drawn_series(each, kind, x, y, (x_percent, percent))
    parts += _end_labels(series, x, y) if direct else []
    for mark in marks:
        parts += _drawn_mark(mark, x, y)
    if not known:
        parts.append(_text((left + right) / 2, y.end + 60, "no values", "middle"))
    rows = [
        (each.name, number(at, x_percent), _with_interval(value, band, percent))
        for each in series
        for (at, value), band in zip(each.points, each.band or itertools.repeat(None), strict=False)
    ]
    text = f"Lines of {y_label} by {x_label}: {', '.join(names)}."
    svg = _svg(top + HEIGHT, title, text, parts)
    return Chart(title, svg, ("series", x_label, y_label), rows)


def _drawn_series(
    series: Series, kind: str, x: Axis, y: Axis, percents: tuple[bool, bool]
) -> list[str]:
    runs: list[list[int]] = [[]]
    for i, point in enumerate(series.points):
        if _finite(point):
            runs[-1].append(i)
        elif runs[-1]:
            runs.append([])
    parts = []
    at = [x(px) if math.isfinite(px) else 0.0 for px, _ in series.points]
    for run in filter(None, runs):
        banded = [i for i in run if series.band and _finite(series.band[i])]
        edge = [f"{at[i]:.1f} {y(series.band[i][0]):.1f}" for i in banded]
        edge += [f"{at[i]:.1f} {y(series.band[i][1]):.1f}" for i in reversed(banded)]
        if series.bars:
            for i in banded:
                low, high = (y(end) for end in series.band[i])
                ends = [
                    _line(at[i] - 4, each, at[i] + 4, each, f"error {kind}") for each in (low, high)
                ]
                parts += [_line(at[i], low, at[i], high, f"error {kind}"), *ends]
        elif edge:
            parts.append(f'<path class="band {kind}" d="M{"L".join(edge)}Z"/>')
        line = "L".join(f"{at[i]:.1f} {y(series.points[i][1]):.1f}" for i in run)
        parts.append(f'<path class="line {kind}" d="M{line}"/>')
        for i in run if len(series.points) <= 30 or len(run) == 1 else ():
            px, py = series.points[i]
            tip = f"{series.name}: {number(py, percents[1])} at {number(px, percents[0])}"
            parts.append(
                f'<circle class="dot {kind}" cx="{at[i]:.1f}" cy="{y(py):.1f}" r="3">'
                f"<title>{escape(tip)}</title></circle>"
            )
    return parts


def _end_labels(series: Sequence[Series], x: Axis, y: Axis) -> list[str]:
    """Each name beside the end of its line, moved down where another one stands."""
    ends = []
    for each in series:
        finite = [point for point in each.points if _finite(point)]
        ends += [(y(finite[-1][1]), each.name)] if finite else []
    parts, free = [], 0.0
    ends.sort()
    for i, (height, name) in enumerate(ends):
        lowest = y.start + 4 - (len(ends) - 1 - i) * LINE
        free = max(free, min(height + 4, lowest))
        parts.append(_text(x.end + 8, free, name))
        free += LINE
    return parts


def _drawn_mark(mark: Mark, x: Axis, y: Axis) -> list[str]:
    """The label stands where there is more room, a point's beside its guide down to the axis."""
    px = x.end if mark.x is None else x(mark.x)
    py = y.end if mark.y is None else y(mark.y)
    parts = []
    if mark.x is not None:
        parts.append(_line(px, y.start, px, py if mark.y is not None else y.end, "mark"))
    if mark.y is not None:
        parts.append(_line(x.start, py, px, py, "mark"))
    if mark.x is not None and mark.y is not None:
        parts.append(f'<circle class="ring" cx="{px:.1f}" cy="{py:.1f}" r="5"/>')
    left = px < (x.start + x.end) / 2
    label = fitted(mark.label, x.end - px - 8 if left else px - x.start - 8)
    below = py + LINE if mark.x is None or mark.y is None else (py + y.start) / 2
    place = (px + 8 if left else px - 8, below)
    return [*parts, _text(*place, label, "start" if left else "end", "halo")]


def bar_chart(
    bars: Sequence[Bar],
    *,
    title: str,
    label: str,
    value: str,
    beside: str = "",
    percent: bool = False,
    mark: tuple[str, float] | None = None,
) -> Chart:
    """Horizontal bars from zero, with their values; `beside` names the second bars if any.

    Where a value is negative, zero stands inside, and the bar grows to the left."""
    numbers = [
        end
        for bar in bars
        for end in (bar.value, bar.beside, *(bar.interval or ()))
        if end is not None and math.isfinite(end)
    ]
    twice = any(bar.beside is not None for bar in bars)
    legend, top = _legend([value, beside], ["thick s0", "thick s5"]) if twice else ([], 0.0)
    top += LINE + 2 if mark else 4
    pitch = 38.0 if twice else 27.0
    left = min(max((width_of(bar.label) for bar in bars), default=0.0), WIDTH * 0.44) + 8
    shown = [number(bar.value, percent) for bar in bars]
    room = max(map(width_of, shown), default=0.0) + 12
    numbers += [mark[1]] if mark else []
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    x = Axis(max(low, -HUGE), min(high, HUGE) if low < high else 1.0, left, WIDTH - room)
    parts, bottom = [*legend], top + pitch * len(bars)
    for i, bar in enumerate(bars):
        parts += _drawn_bar(bar, x, top + pitch * i + 12, beside, percent)
    if mark:
        parts.append(_line(x(mark[1]), top - 2, x(mark[1]), bottom, "mark"))
        middle = min(max(x(mark[1]), width_of(mark[0]) / 2), WIDTH - width_of(mark[0]) / 2)
        parts.append(_text(middle, top - 7, mark[0], "middle", "dim"))
    parts.append(_line(x(0.0), top - 2, x(0.0), bottom, "axis"))
    rows = [
        (bar.label, _with_interval(bar.value, bar.interval, percent), number(bar.beside, percent))
        for bar in bars
    ]
    header, columns = (label, value, beside), 3 if twice else 2
    svg = _svg(bottom + 4, title, f"Bars of {value} by {label}.", parts)
    return Chart(title, svg, header[:columns], [row[:columns] for row in rows])


def _drawn_bar(bar: Bar, x: Axis, middle: float, beside: str, percent: bool) -> list[str]:
    zero = x(0.0)
    text, end = number(bar.value, percent), zero
    parts = [_text(x.start - 8, middle + 4.5, fitted(bar.label, x.start - 8), "end")]
    if math.isfinite(bar.value):
        end = max(zero, x(bar.value))
        tip = f"{bar.label}: {text}"
        begin = min(zero, x(bar.value))
        parts.append(_rect(begin, middle - 8, end - begin, 15, "bar s0", tip))
    if bar.interval and _finite(bar.interval):
        low, end = x(bar.interval[0]), max(end, x(bar.interval[1]))
        parts.append(_line(low, middle, end, middle, "whisker"))
        parts += [_line(at, middle - 4, at, middle + 4, "whisker") for at in (low, end)]
    if bar.beside is not None and math.isfinite(bar.beside):
        tip = f"{bar.label}, {beside}: {number(bar.beside, percent)}"
        begin, width = min(zero, x(bar.beside)), abs(x(bar.beside) - zero)
        parts.append(_rect(begin, middle + 9, width, 7, "bar s5", tip))
    return [*parts, _text(end + 6, middle + 4.5, text, kind="halo")]


def reliability_chart(bins: Sequence[Mapping[str, float]], *, title: str) -> Chart:
    """Bars of accuracy; on the diagonal a model is as sure as it should be.

    A bin has low, high, count, confidence and accuracy.
    """
    x = Axis(0.0, 1.0, 46.0, WIDTH - EDGE)
    y = Axis(0.0, 1.0, HEIGHT - LINE - 6, 2 * LINE + 10)
    labels = "confidence", "share right; number of answers above"
    parts = _grid(x, y, labels, x_percent=True, percent=True, above=LINE + 13)
    rows = []
    for each in bins:
        left, right, top = x(each["low"]), x(each["high"]), y(each["accuracy"])
        between = f"{number(each['low'], True)} to {number(each['high'], True)}"
        values = number(each["confidence"], True), number(each["accuracy"], True)
        count = int(each["count"])
        tip = f"confidence {between}: {count} answers, {values[1]} right"
        parts.append(_rect(left + 1, top, right - left - 2, y.start - top, "bar s0", tip))
        short = f"{count}" if count < 10_000 else f"{count / 1000:.0f}k"
        parts.append(_text((left + right) / 2, y.end - 6, short, "middle", "dim small"))
        rows.append((between, count, *values))
    parts.append(_line(x(0), y(0), x(1), y(1), "mark"))
    text = "Bars of the share of right answers by confidence, and the diagonal they should reach."
    header = ("confidence", "answers", "mean confidence", "right")
    return Chart(title, _svg(HEIGHT + LINE, title, text, parts), header, rows)
