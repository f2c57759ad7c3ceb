"""Renders plots as matplotlib figures, for papers and documents: SVG, PNG or PDF.

It does not use matplotlib's global state, and the same plot always gives the same bytes.
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
from attnlab.report._text import clean, format_short

# Okabe and Ito's colors, which color-blind people can distinguish, without yellow, which is hard to
# see on paper; markers and dashes distinguish the lines in gray
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
DASHES = ("-", "--", "-.", ":")
MARKERS = "osD^vP*X"
GRAY, PALE = "#5a5d64", "#c9ccd2"
WIDTH, HEIGHT = 5.5, 3.4  # inches: the width of a text column
MAX_MARKERS = 30  # points of a line that has markers
HUGE, TINY = 1e150, 1e-150  # matplotlib's ticks overflow beyond these
LETTER = 0.08  # inches
MAX_WRITTEN = 400  # cells of a heatmap with written values
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
    "pdf.fonttype": 42,  # keeps letters as text
    "svg.fonttype": "none",
    "svg.hashsalt": "attnlab",
    "savefig.dpi": 200,
}


def figure(plot: Plot, title: str = "") -> Figure:
    """Draw a plot as a Matplotlib figure.

    >>> from attnlab.claims import Estimate
    >>> from attnlab.report import Bars, figure
    >>> plot = Bars("loss", {"softmax": Estimate(2.1, 2.0, 2.2), "favor": Estimate(2.4, 2.3, 2.5)})
    >>> figure(plot, "Loss by mechanism").savefig("loss.pdf")
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
    """Write a plot as SVG, PNG or PDF. The ending of the file name decides.

    >>> from pathlib import Path
    >>> from attnlab.claims import Estimate
    >>> from attnlab.report import Bars, save_figure
    >>> plot = Bars("loss", {"softmax": Estimate(2.1, 2.0, 2.2), "favor": Estimate(2.4, 2.3, 2.5)})
    >>> save_figure(plot, Path("loss.svg"), "Loss by mechanism")
    """
    check_figure(path, overwrite)
    write_figure(figure(plot, title), path, title)


def check_figure(path: Path, overwrite: bool) -> None:
    """Raises an error if the figure cannot be written, before anything is computed for it."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path}: a figure is written as SVG, PNG or PDF; name it NAME.svg")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if path.exists() and not overwrite:
        raise ValueError(f"{path}: already exists; give --overwrite or another name")


def write_figure(fig: Figure, path: Path, title: str = "") -> None:
    """Writes a figure without a date, so that the same figure has the same bytes. `title` is for
    screen readers."""
    kind = path.suffix[1:].lower()
    metadata: dict[str, Any] = {"Title": clean(title)} if title else {}
    metadata |= {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[kind]

    def write(part: Path) -> None:
        with mpl.rc_context(STYLE), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # readers' fonts may have it
            warnings.filterwarnings("ignore", "constrained_layout not applied")
            fig.savefig(part, format=kind, metadata=metadata)

    write_atomically(path, write)


def plain_text(text: str, width: int = 80, lines: int = 3) -> str:
    """Text without formulas (dollar signs are escaped); long texts are wrapped, then cut."""
    # textwrap would drop a word longer than a line
    words = (w if len(w) <= width else f"{w[: width - 1]}…" for w in clean(text).split())
    wrapped = textwrap.wrap(" ".join(words), width, max_lines=lines, placeholder="…")
    return "\n".join(wrapped).replace("$", r"\$")


def _new_figure(title: str, width: float = WIDTH, height: float = HEIGHT) -> tuple[Figure, Axes]:
    fig = Figure(figsize=(width, height), layout="constrained")
    if title:
        fig.suptitle(plain_text(title, round(13 * width)), x=0.01, ha="left")
    return fig, fig.add_subplot()


# Lines


def _draw_lines(plot: Lines, title: str) -> Figure:
    fig, axes = _new_figure(title)
    axes.grid(True)
    handles = [_draw_series(axes, series, index, plot) for index, series in enumerate(plot.series)]
    visible = [p for series in plot.series for p in series.points if _is_visible(p, plot)]
    if visible:
        axes.set_xscale("log" if plot.x_log else "linear")
        axes.set_yscale("log" if plot.y_log else "linear")
    else:
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", color=GRAY)
    axes.set_xlabel(plain_text(plot.x, 80))
    axes.set_ylabel(plain_text(plot.y, 50))
    for mark in plot.marks:
        _draw_mark(axes, mark, plot)
    _number_axis(axes.xaxis, plot.x_percent)
    _number_axis(axes.yaxis, plot.y_percent)
    if len(plot.series) > 1:
        _draw_legend(fig, handles, [series.name for series in plot.series])
    return fig


def _draw_series(axes: Axes, series: Series, index: int, plot: Lines) -> Any:
    """Values that are not finite, or not positive on a logarithmic axis, leave a gap."""
    points = [point for point in series.points if math.isfinite(point[0])]
    bands = [
        band
        for band, point in zip(series.band, series.points, strict=False)
        if math.isfinite(point[0])
    ]
    x = _bounded([x for x, _ in points], plot.x_log)
    y = _bounded([y for _, y in points], plot.y_log)
    style: Any = {
        "color": COLORS[index % len(COLORS)],
        "linestyle": DASHES[index // len(COLORS) % len(DASHES)],
    }
    low, high = (_bounded([band[end] for band in bands], False) for end in (0, 1))
    if plot.y_log and bands:  # a band may reach down to 0
        least = np.nanmin([*y, *high[high > 0], np.inf])
        low = np.where(low > 0, low, least)
    if bands and not series.error_bars:
        axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
    (line,) = axes.plot(
        x,
        y,
        marker=MARKERS[index % len(MARKERS)] if len(x) <= MAX_MARKERS else "",
        markersize=4,
        **style,
    )
    if bands and series.error_bars:
        ends = np.abs(np.stack([np.minimum(low - y, 0), np.maximum(high - y, 0)]))
        axes.errorbar(x, y, yerr=ends, fmt="none", ecolor=style["color"], capsize=3)
    return line


def _bounded(values: Sequence[float], log: bool) -> np.ndarray[Any, np.dtype[np.float64]]:
    """An array within HUGE, with NaN for values that the axis cannot show."""
    array = np.array(values, dtype=np.float64)
    array[~np.isfinite(array)] = np.nan
    if log:
        array[array <= 0] = np.nan
        return np.clip(array, TINY, HUGE)
    return np.clip(array, -HUGE, HUGE)


def _is_visible(point: tuple[float | None, float | None], plot: Lines) -> bool:
    """Whether the axes can show a point; None stands for any value."""
    return all(
        value is None or (math.isfinite(value) and (value > 0 or not log))
        for value, log in zip(point, (plot.x_log, plot.y_log), strict=True)
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
    """Labels 2 and 5 of each decade if there are few decades."""
    first = f"{value:e}"[0] if value > 0 else ""
    return format_number(float(value)) if first in ("2", "5") else ""


def _draw_mark(axes: Axes, mark: Mark, plot: Lines) -> None:
    if (mark.x is None and mark.y is None) or not _is_visible((mark.x, mark.y), plot):
        return
    style = {"color": GRAY, "linestyle": (0, (4, 3)), "linewidth": 1}
    if mark.x is not None and mark.y is not None:
        axes.plot([mark.x], [mark.y], "o", color="black", fillstyle="none", markersize=7)
        position: Any = (mark.x, mark.y)
        coordinates: Any = "data"
    elif mark.x is not None:
        axes.axvline(mark.x, **style)  # type: ignore[arg-type]
        position, coordinates = (mark.x, 1), axes.get_xaxis_transform()
    else:
        axes.axhline(mark.y or 0.0, **style)  # type: ignore[arg-type]
        position, coordinates = (1, mark.y), axes.get_yaxis_transform()
    inside = mark.x is None or mark.y is not None
    axes.annotate(
        plain_text(mark.label, 40), position, xycoords=coordinates, textcoords="offset points",
        color=GRAY, xytext=(-4, 4) if inside else (4, -4), ha="right" if inside else "left",
        va="bottom" if inside else "top", fontsize="small",
    )  # fmt: skip


def _draw_legend(fig: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Below the axes, in as many columns as fit. Each name starts with a zero-width space, because
    matplotlib leaves out names that begin with an underscore."""
    labels = ["\u200b" + plain_text(name, 70, 1) for name in names]
    columns = max(1, min(len(labels), int(80 / (max(map(len, labels)) + 6))))
    fig.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


# Bars


def _draw_bars(plot: Bars, title: str) -> Figure:
    """Horizontal bars with readable names, the first on top."""
    names, estimates = list(plot.values), list(plot.values.values())
    fig, axes = _new_figure(title, height=1.1 + 0.32 * max(1, len(names)))
    thin = 0.25 if plot.beside else 0.0
    rows = np.arange(len(names))
    values = _bounded([estimate.value for estimate in estimates], False)
    widths = np.nan_to_num(values)
    first = axes.barh(rows, widths, height=0.7 - thin, color=COLORS[0])
    ends = _bounded([end for estimate in estimates for end in estimate.ends], False).reshape(-1, 2)
    for row, (low, high) in enumerate(ends):
        if low < high:
            axes.errorbar(
                [(low + high) / 2], [row], xerr=[(high - low) / 2], fmt="none", ecolor="black",
                capsize=3, linewidth=1,
            )  # fmt: skip
    if plot.beside:
        paler = np.nan_to_num(_bounded([plot.beside.get(name, 0.0) for name in names], False))
        second = axes.barh(rows + 0.35, paler, height=thin, color=PALE)
        _draw_legend(fig, [first, second], [plot.y, plot.beside_name])
    for row, estimate in enumerate(estimates):
        end = max(0.0, float(widths[row]), float(np.nan_to_num(ends[row, 1])))
        axes.annotate(
            format_number(estimate.value, plot.percent), (end, row), textcoords="offset points",
            xytext=(4, 0), va="center", fontsize="small",
        )  # fmt: skip
    axes.margins(x=0.12)
    axes.axvline(0, color="black", linewidth=0.8)
    for mark in plot.marks:
        if mark.y is not None and math.isfinite(mark.y):
            axes.axvline(mark.y, color=GRAY, linestyle=(0, (4, 3)), linewidth=1)
            axes.annotate(
                plain_text(mark.label, 40), (mark.y, 1), xycoords=axes.get_xaxis_transform(),
                textcoords="offset points", xytext=(0, 2), ha="center", color=GRAY,
                fontsize="small",
            )  # fmt: skip
    axes.set_yticks(rows, [plain_text(name, 36, 2) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel(plain_text(plot.y, 80))
    _number_axis(axes.xaxis, plot.percent)
    return fig


# Heatmaps


def _draw_heatmap(plot: Heatmap, title: str) -> Figure:
    rows, columns = len(plot.rows), len(plot.columns)
    row_width, name_width, column_width = (
        min(24, max(map(len, texts), default=0)) * LETTER
        for texts in (plot.rows, plot.names, plot.columns)
    )
    width = min(max(WIDTH, 2.2 + row_width + name_width + 0.3 * columns), 14.0)
    slanted = column_width * columns > width - row_width - name_width - 1.5
    height = min(max(2.4, 1.4 + 0.28 * rows), 12.0) + (column_width if slanted else 0.0)
    fig, axes = _new_figure(title, width, height)
    values = np.full((rows, columns), np.nan)
    for i, row in enumerate(plot.values):
        values[i] = [math.nan if value is None else value for value in row]
    axes.set_facecolor(PALE)  # the color of missing values
    if values.size:
        _draw_cells(fig, axes, plot, values)
    for names, axis in ((plot.columns, axes.xaxis), (plot.rows, axes.yaxis)):
        every = -(-len(names) // MAX_TICKS) or 1
        texts = [plain_text(name, 24, 1) for name in names[::every]]
        axis.set_ticks(np.arange(0, len(names), every), texts)
    if slanted:
        axes.tick_params(axis="x", rotation=60)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(plain_text(plot.x, 80))
    axes.set_ylabel(plain_text(plot.y, 50))
    return fig


def _draw_cells(fig: Figure, axes: Axes, plot: Heatmap, values: Any) -> None:
    if plot.names:
        colors = [COLORS[index % len(COLORS)] for index in range(len(plot.names))]
        colormap: Any = ListedColormap(colors)
        norm: Normalize = BoundaryNorm(np.arange(len(colors) + 1) - 0.5, len(colors))
    else:
        colormap = mpl.colormaps["cividis" if plot.center is None else "PuOr_r"]
        norm = _norm(plot, values)
    bounded = np.clip(values, TINY if plot.log else -HUGE, HUGE)  # infinity is the scale's end
    image = axes.imshow(bounded, cmap=colormap, norm=norm, aspect="auto", interpolation="nearest")
    bar = fig.colorbar(
        image, ax=axes, label=plain_text(plot.z, round(10 * fig.get_figheight() - 6))
    )
    if plot.names:
        bar.set_ticks(
            range(len(plot.names)), labels=[plain_text(name, 30, 1) for name in plot.names]
        )
    else:
        _number_axis(bar.ax.yaxis, False)
    bar.outline.set_visible(False)
    if plot.written and values.size <= MAX_WRITTEN:
        _write_values(axes, plot, values, lambda value: colormap(norm(value)))


def _write_values(axes: Axes, plot: Heatmap, values: Any, color: Any) -> None:
    """In black or white, whichever is readable on the color."""
    for (row, column), value in np.ndenumerate(values):
        if math.isnan(value):
            continue
        red, green, blue, _ = color(value)
        dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.55
        text = plot.names[int(value)] if plot.names else format_short(float(value))
        axes.text(
            column, row, plain_text(text), ha="center", va="center", fontsize="small",
            color="white" if dark else "black",
        )  # fmt: skip


def _norm(plot: Heatmap, values: Any) -> Normalize:
    """The range of the colors; with a center, equally far below and above it."""
    least = TINY if plot.log else -HUGE
    finite = values[np.isfinite(values) & (values >= least) & (values <= HUGE)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (1.0, 10.0)
    if plot.center is None:
        if low == high:
            low, high = (low / 2, high * 2) if plot.log else (low - 1, high + 1)
        return LogNorm(low, high) if plot.log else Normalize(low, high)
    if not plot.log:
        return CenteredNorm(plot.center, max(abs(low - plot.center), abs(high - plot.center)) or 1)
    center = math.log(max(plot.center, TINY))
    radius = max(abs(math.log(low) - center), abs(math.log(high) - center)) or 1.0
    ends = math.exp(max(center - radius, -600)), math.exp(min(center + radius, 600))
    return LogNorm(*ends)
