"""Plots as matplotlib figures, for papers and documents: SVG, PNG or PDF.

No global state is touched: a figure belongs to whoever asked for it, and two calls with the same
plot write the same bytes.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import (
    BoundaryNorm,
    CenteredNorm,
    ListedColormap,
    LogNorm,
    Normalize,
)
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from attnlab._confidence_intervals import format_number
from attnlab._safe_files import write_atomically
from attnlab.report._content import Bars, Heatmap, Lines, Mark, Plot, Series
from attnlab.report._text import clean, short

# Okabe and Ito's colors, which color-blind eyes tell apart, without the yellow that paper swallows;
# markers and dashes tell the lines apart in gray too
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
DASHES = ("-", "--", "-.", ":")
MARKERS = "osD^vP*X"
GRAY, PALE = "#5a5d64", "#c9ccd2"
WIDTH, HEIGHT = 5.5, 3.4  # inches: the width of a text column
FEW = 30  # points of a line that are marked
HUGE, TINY = 1e150, 1e-150  # matplotlib's ticks overflow beyond
LETTER = 0.08  # inches
MAX_WRITTEN = 400  # cells that have room for their value
MAX_TICKS = 40  # names along an axis
SUFFIXES = (".svg", ".png", ".pdf")
STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "figure.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e3e4e0",
    "pdf.fonttype": 42,  # letters stay text
    "svg.fonttype": "none",
    "svg.hashsalt": "attnlab",
    "savefig.dpi": 200,
}


def figure(plot: Plot, title: str = "") -> Figure:
    """
    >>> plot = Bars("loss", {"softmax": Estimate(2.1, 2.0, 2.2)})  # doctest: +SKIP
    >>> figure(plot, "Loss by mechanism").savefig("loss.pdf")  # doctest: +SKIP
    """
    with mpl.rc_context(STYLE):
        match plot:
            case Bars():
                return _draw_bars(plot, title)
            case Heatmap():
                return _draw_heatmap(plot, title)
            case Lines():
                return _draw_lines(plot, title)


def save_figure(plot: Plot, path: Path, title: str = "", overwrite: bool = False) -> None:
    """As SVG, PNG or PDF, by the name's ending."""
    check_figure(path, overwrite)
    write_figure(figure(plot, title), path, title)


def check_figure(path: Path, overwrite: bool) -> None:
    """Before anything is computed for it."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: a figure is written as SVG, PNG or PDF; name it NAME.svg")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if path.exists() and not overwrite:
        raise ValueError(f"{path}: is there already; give --overwrite or another name")


def write_figure(drawn: Figure, path: Path, title: str = "") -> None:
    """Without a date: the same figure has the same bytes. `title` is for who cannot see it."""
    kind = path.suffix[1:]
    about: dict[str, Any] = {"Title": clean(title)} if title else {}
    about |= {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[kind]

    def write(part: Path) -> None:
        with mpl.rc_context(STYLE), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # the reader's font may have it
            warnings.filterwarnings("ignore", "constrained_layout not applied")
            drawn.savefig(part, format=kind, metadata=about)

    write_atomically(path, write)


def plain(text: str, width: int = 80, lines: int = 3) -> str:
    """A dollar sign is one, not the start of a formula; long texts are broken, then cut."""
    wrapped = textwrap.wrap(clean(text), width, max_lines=lines, placeholder="…")
    return "\n".join(wrapped).replace("$", r"\$")


def _new_figure(title: str, width: float = WIDTH, height: float = HEIGHT) -> tuple[Figure, Axes]:
    made = Figure(figsize=(width, height), layout="constrained")
    if title:
        made.suptitle(plain(title, round(13 * width)), x=0.01, ha="left")
    return made, made.add_subplot()


# Lines


def _draw_lines(plot: Lines, title: str) -> Figure:
    made, axes = _new_figure(title)
    axes.grid(True)
    handles = [_draw_series(axes, series, place, plot) for place, series in enumerate(plot.series)]
    known = [p for series in plot.series for p in series.points if _drawn(p, plot)]
    if known:
        axes.set_xscale("log" if plot.x_log else "linear")
        axes.set_yscale("log" if plot.y_log else "linear")
    else:
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", color=GRAY)
    axes.set_xlabel(plain(plot.x, 80))
    axes.set_ylabel(plain(plot.y, 50))
    for mark in plot.marks:
        _draw_mark(axes, mark, plot)
    _number_axis(axes.xaxis, plot.x_percent)
    _number_axis(axes.yaxis, plot.y_percent)
    if len(plot.series) > 1:
        _draw_legend(made, handles, [series.name for series in plot.series])
    return made


def _draw_series(axes: Axes, series: Series, place: int, plot: Lines) -> Any:
    """What is not finite, or not positive on a logarithmic axis, leaves a gap."""
    points = [point for point in series.points if math.isfinite(point[0])]
    bands = [
        band
        for band, point in zip(series.band, series.points, strict=False)
        if math.isfinite(point[0])
    ]
    x = _placed([x for x, _ in points], plot.x_log)
    y = _placed([y for _, y in points], plot.y_log)
    style: Any = {
        "color": COLORS[place % len(COLORS)],
        "linestyle": DASHES[place // len(COLORS) % len(DASHES)],
    }
    low, high = (_placed([band[end] for band in bands], False) for end in (0, 1))
    if plot.y_log and bands:  # a band may reach down to 0
        least = np.nanmin([*y, *high[high > 0], np.inf])
        low = np.where(low > 0, low, least)
    if bands and not series.error_bars:
        axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
    (line,) = axes.plot(
        x, y, marker=MARKERS[place % len(MARKERS)] if len(x) <= FEW else "", markersize=4, **style
    )
    if bands and series.error_bars:
        ends = np.abs(np.stack([np.minimum(low - y, 0), np.maximum(high - y, 0)]))
        axes.errorbar(x, y, yerr=ends, fmt="none", ecolor=style["color"], capsize=3)
    return line


def _placed(values: Sequence[float], log: bool) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Bounded, and nan where nothing can be drawn."""
    found = np.array(values, dtype=np.float64)
    found[~np.isfinite(found)] = np.nan
    if log:
        found[found <= 0] = np.nan
        return np.clip(found, TINY, HUGE)
    return np.clip(found, -HUGE, HUGE)


def _drawn(point: tuple[float | None, float | None], plot: Lines) -> bool:
    """Whether a point has a place on these axes; None is anywhere."""
    return all(
        at is None or (math.isfinite(at) and (at > 0 or not log))
        for at, log in zip(point, (plot.x_log, plot.y_log), strict=True)
    )


def _number_axis(axis: Any, percent: bool) -> None:
    """Short numbers, without the formulas that logarithmic axes have by default."""
    log = axis.get_scale() == "log"
    if percent or log:
        axis.set_major_formatter(
            FuncFormatter(lambda value, _: format_number(float(value), percent))
        )
    if log:
        low, high = axis.get_view_interval()
        minor = FuncFormatter(_two_or_five) if high < 100 * low else NullFormatter()
        axis.set_minor_formatter(minor)


def _two_or_five(value: float, _: Any = None) -> str:
    """Names 2 and 5 of a decade where there are few decades."""
    first = f"{value:e}"[0] if value > 0 else ""
    return format_number(float(value)) if first in ("2", "5") else ""


def _draw_mark(axes: Axes, mark: Mark, plot: Lines) -> None:
    if (mark.x is None and mark.y is None) or not _drawn((mark.x, mark.y), plot):
        return
    style = {"color": GRAY, "linestyle": (0, (4, 3)), "linewidth": 1}
    if mark.x is not None and mark.y is not None:
        axes.plot([mark.x], [mark.y], "o", color="black", fillstyle="none", markersize=7)
        place: Any = (mark.x, mark.y)
        where: Any = "data"
    elif mark.x is not None:
        axes.axvline(mark.x, **style)  # type: ignore[arg-type]
        place, where = (mark.x, 1), axes.get_xaxis_transform()
    else:
        axes.axhline(mark.y or 0.0, **style)  # type: ignore[arg-type]
        place, where = (1, mark.y), axes.get_yaxis_transform()
    inside = mark.x is None or mark.y is not None
    axes.annotate(
        plain(mark.label, 40), place, xycoords=where, textcoords="offset points", color=GRAY,
        xytext=(-4, 4) if inside else (4, -4), ha="right" if inside else "left",
        va="bottom" if inside else "top", fontsize="small",
    )  # fmt: skip


def _draw_legend(made: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Below the axes, in as many columns as fit. A zero-width mark goes before each name: a name
    that begins with an underscore would be left out."""
    labels = ["\u200b" + plain(name, 70, 1) for name in names]
    columns = max(1, min(len(labels), int(80 / (max(map(len, labels)) + 6))))
    made.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


# Bars


def _draw_bars(plot: Bars, title: str) -> Figure:
    """Horizontal, so that names can be read; the first stands on top."""
    names, estimates = list(plot.values), list(plot.values.values())
    made, axes = _new_figure(title, height=1.1 + 0.32 * max(1, len(names)))
    thin = 0.25 if plot.beside else 0.0
    places = np.arange(len(names))
    values = _placed([each.value for each in estimates], False)
    shown = np.nan_to_num(values)
    first = axes.barh(places, shown, height=0.7 - thin, color=COLORS[0])
    ends = _placed([end for each in estimates for end in each.ends], False).reshape(-1, 2)
    for place, (low, high) in enumerate(ends):
        if low < high:
            axes.errorbar(
                [(low + high) / 2], [place], xerr=[(high - low) / 2], fmt="none", ecolor="black",
                capsize=3, linewidth=1,
            )  # fmt: skip
    if plot.beside:
        paler = np.nan_to_num(_placed([plot.beside.get(name, 0.0) for name in names], False))
        second = axes.barh(places + 0.35, paler, height=thin, color=PALE)
        _draw_legend(made, [first, second], [plot.y, plot.beside_name])
    for place, each in enumerate(estimates):
        end = max(0.0, float(shown[place]), float(np.nan_to_num(ends[place, 1])))
        axes.annotate(
            format_number(each.value, plot.percent), (end, place), textcoords="offset points",
            xytext=(4, 0), va="center", fontsize="small",
        )  # fmt: skip
    axes.margins(x=0.12)
    axes.axvline(0, color="black", linewidth=0.8)
    for mark in plot.marks:
        if mark.y is not None and math.isfinite(mark.y):
            axes.axvline(mark.y, color=GRAY, linestyle=(0, (4, 3)), linewidth=1)
            axes.annotate(
                plain(mark.label, 40), (mark.y, 1), xycoords=axes.get_xaxis_transform(),
                textcoords="offset points", xytext=(0, 2), ha="center", color=GRAY,
                fontsize="small",
            )  # fmt: skip
    axes.set_yticks(places, [plain(name, 36, 2) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel(plain(plot.y, 80))
    _number_axis(axes.xaxis, plot.percent)
    return made


# Heatmaps


def _draw_heatmap(plot: Heatmap, title: str) -> Figure:
    rows, columns = len(plot.rows), len(plot.columns)
    wide, named, high = (
        min(24, max(map(len, texts), default=0)) * LETTER
        for texts in (plot.rows, plot.names, plot.columns)
    )
    width = min(max(WIDTH, 2.2 + wide + named + 0.3 * columns), 14.0)
    slanted = high * columns > width - wide - named - 1.5
    height = min(max(2.4, 1.4 + 0.28 * rows), 12.0) + (high if slanted else 0.0)
    made, axes = _new_figure(title, width, height)
    values = np.full((rows, columns), np.nan)
    for i, row in enumerate(plot.values):
        values[i] = [math.nan if value is None else value for value in row]
    axes.set_facecolor(PALE)  # of what was not measured
    if values.size:
        _draw_cells(made, axes, plot, values)
    for names, axis in ((plot.columns, axes.xaxis), (plot.rows, axes.yaxis)):
        every = -(-len(names) // MAX_TICKS) or 1
        texts = [plain(name, 24, 1) for name in names[::every]]
        axis.set_ticks(np.arange(0, len(names), every), texts)
    if slanted:
        axes.tick_params(axis="x", rotation=60)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(plain(plot.x, 80))
    axes.set_ylabel(plain(plot.y, 50))
    return made


def _draw_cells(made: Figure, axes: Axes, plot: Heatmap, values: Any) -> None:
    if plot.names:
        colors = [COLORS[place % len(COLORS)] for place in range(len(plot.names))]
        map_: Any = ListedColormap(colors)
        norm: Normalize = BoundaryNorm(np.arange(len(colors) + 1) - 0.5, len(colors))
    else:
        map_ = mpl.colormaps["cividis" if plot.center is None else "PuOr_r"]
        norm = _norm(plot, values)
    drawn = np.clip(values, TINY if plot.log else -HUGE, HUGE)  # infinite: the end of the scale
    image = axes.imshow(drawn, cmap=map_, norm=norm, aspect="auto", interpolation="nearest")
    bar = made.colorbar(image, ax=axes, label=plain(plot.z, round(10 * made.get_figheight() - 6)))
    if plot.names:
        bar.set_ticks(range(len(plot.names)), labels=[plain(each, 30, 1) for each in plot.names])
    else:
        _number_axis(bar.ax.yaxis, False)
    bar.outline.set_visible(False)
    if plot.written and values.size <= MAX_WRITTEN:
        _write_values(axes, plot, values, lambda value: map_(norm(value)))


def _write_values(axes: Axes, plot: Heatmap, values: Any, color: Any) -> None:
    """In black or white, whichever can be read."""
    for (row, column), value in np.ndenumerate(values):
        if math.isnan(value):
            continue
        red, green, blue, _ = color(value)
        dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.55
        text = plot.names[int(value)] if plot.names else short(float(value))
        axes.text(
            column, row, plain(text), ha="center", va="center", fontsize="small",
            color="white" if dark else "black",
        )  # fmt: skip


def _norm(plot: Heatmap, values: Any) -> Normalize:
    """Where colors begin and end; with a center, as far below it as above."""
    least = TINY if plot.log else -HUGE
    known = values[np.isfinite(values) & (values >= least) & (values <= HUGE)]
    low, high = (float(known.min()), float(known.max())) if known.size else (1.0, 10.0)
    if plot.center is None:
        if low == high:
            low, high = (low / 2, high * 2) if plot.log else (low - 1, high + 1)
        return LogNorm(low, high) if plot.log else Normalize(low, high)
    if not plot.log:
        return CenteredNorm(plot.center, max(abs(low - plot.center), abs(high - plot.center)) or 1)
    center = math.log(max(plot.center, TINY))
    away = max(abs(math.log(low) - center), abs(math.log(high) - center)) or 1.0
    ends = math.exp(max(center - away, -600)), math.exp(min(center + away, 600))
    return LogNorm(*ends)
