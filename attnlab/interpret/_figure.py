"""A head of a capture as a matplotlib figure, for papers and slides.

It does not use matplotlib's global state. Token texts are drawn letter by letter: none is read as
mathematics.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal, get_args

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from attnlab.interpret._layer_numbers import layer_numbers, list_numbers
from attnlab.interpret._records import Capture, CapturePanel
from attnlab.report._text import clean

FigureView = Literal["heads", "matrix", "image"]
WIDTHS = {1: 85 / 25.4, 2: 178 / 25.4}  # inches: one or two columns of a paper
MAX_ROWS = 60  # tokens of which the heads view can draw lines
MAX_NAMES = 48  # tokens that are named along a matrix
ROW = 0.17  # inches of a token
MAX_LETTERS = 18
MIN_LINE = 0.01  # smaller weights have no line
COLORS = {
    "light": {"page": "#ffffff", "ink": "#1c1d20", "dim": "#5a5d64", "line": "#0072b2"},
    "dark": {"page": "#15171a", "ink": "#e9e9e6", "dim": "#a5a9b1", "line": "#4fa8de"},
}
RAMPS = {
    "light": ("#ffffff", "#f1e3a2", "#c9ac57", "#7f7c6d", "#3d5277", "#0b1f4e"),
    "dark": ("#15171a", "#1f3a6b", "#4d5f80", "#8f8a74", "#d1b64f", "#fff0a0"),
}


@dataclass(frozen=True)
class SelectedHead:
    """Weights of one head, or of the mean of all heads, and the tokens they belong to."""

    panel: CapturePanel
    layer: int
    head: int | None
    """Index among the captured heads; None for the mean."""
    query: int | None

    @property
    def weights(self) -> Tensor:
        """(T, S)"""
        weights = self.panel.layers[self.layer].weights
        assert weights is not None
        chosen = weights.mean(0) if self.head is None else weights[self.head]
        return chosen.detach().float()

    @property
    def texts(self) -> tuple[list[str], list[str]]:
        """The tokens of the queries and of the keys."""
        queries, keys = self.panel.sequence_indices[self.layer]
        return self.panel.sequences[queries].texts, self.panel.sequences[keys].texts

    @property
    def name(self) -> str:
        layer = self.panel.layers[self.layer]
        head = "mean of all heads" if self.head is None else f"head {layer.heads[self.head]}"
        return f"{layer.name}, {head}"

    def finding(self) -> str:
        """What the selected query attends to most."""
        if self.query is None:
            return self.name
        row, (queries, keys) = self.weights[self.query], self.texts
        key = int(row.abs().argmax())
        mostly = "mostly" if float(row[key]) >= 0.5 else "most"
        return (
            f"{self.name}: “{_shorten(queries[self.query])}” attends {mostly} to "
            f"“{_shorten(keys[key])}” ({float(row[key]):.0%})"
        )

    def rows(self) -> list[dict[str, Any]]:
        """Every weight as a row; those of the query alone, if one is selected."""
        queries, keys = self.texts
        weights = self.weights
        chosen = range(len(queries)) if self.query is None else [self.query]
        return [
            {
                "query": query, "query_token": queries[query], "key": key,
                "key_token": keys[key], "weight": float(weights[query, key]),
            }
            for query in chosen
            for key in range(len(keys))
        ]  # fmt: skip


def select_head(
    capture: Capture,
    panel: int = 0,
    layer: int | str | None = None,
    head: int | None = None,
    query: int | None = None,
) -> SelectedHead:
    """The head that was asked for. If no layer is given, what the capture's page opens with."""
    if not 0 <= panel < len(capture.panels):
        raise ValueError(f"no panel {panel}; give 0 to {len(capture.panels) - 1}")
    chosen = capture.panels[panel]
    opening = capture.initial_view
    if layer is None and head is None and query is None and opening is not None:
        selected = SelectedHead(chosen, opening.layer, opening.head, opening.query)
        if panel == 0:
            return selected
    names = [each.name for each in chosen.layers]
    numbers = layer_numbers(names)
    if layer is not None and layer not in names and layer not in numbers:
        raise ValueError(f"no layer {layer!r}; give {list_numbers(numbers)}, or a name")
    index = 0
    if layer is not None:
        index = numbers.index(layer) if isinstance(layer, int) else names.index(layer)
    heads = chosen.layers[index].heads
    if chosen.layers[index].weights is None:
        raise ValueError(f"{names[index]}: its weights were not captured")
    if head is not None and head not in heads:
        raise ValueError(f"no head {head} in {names[index]}; give one of {_listed(heads)}")
    result = SelectedHead(chosen, index, None if head is None else heads.index(head), query)
    if query is not None and not 0 <= query < len(result.texts[0]):
        raise ValueError(f"no query {query}; give 0 to {len(result.texts[0]) - 1}")
    return result


def draw_figure(
    selected: SelectedHead,
    view: FigureView | None = None,
    columns: int = 1,
    dark: bool = False,
    caption: bool = True,
) -> Figure:
    """A figure of one or two columns of a paper: lines between tokens, a matrix, or a picture."""
    if columns not in WIDTHS:
        raise ValueError(f"columns is {columns}; give 1 or 2")
    image = selected.panel.sequences[selected.panel.sequence_indices[selected.layer][1]].image
    longest = max(map(len, selected.texts))
    if view is None:
        view = "image" if image is not None else "heads" if longest <= MAX_ROWS else "matrix"
    if view not in get_args(FigureView):
        raise ValueError(f"no figure {view!r}; give one of {', '.join(get_args(FigureView))}")
    if view == "image" and image is None:
        raise ValueError("this capture has no image; give heads or matrix")
    if view == "heads" and longest > MAX_ROWS:
        raise ValueError(f"{longest} tokens are too many for lines; give matrix")
    mode = "dark" if dark else "light"
    with mpl.rc_context({"font.size": 8.0, "pdf.fonttype": 42, "svg.fonttype": "none"}):
        figure = Figure(figsize=(WIDTHS[columns], 1), layout=None, facecolor=COLORS[mode]["page"])
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_facecolor(COLORS[mode]["page"])
        draw = {"heads": _draw_heads, "matrix": _draw_matrix, "image": _draw_image}[view]
        draw(figure, axes, selected, mode, columns)
        if caption:
            _add_caption(figure, selected.finding(), mode)
    return figure


def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG file, cropped to its content."""
    file = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font without some letters draws boxes
        figure.savefig(file, format="png", dpi=150, bbox_inches="tight", pad_inches=0.05)
    return file.getvalue()


def _draw_heads(
    figure: Figure, axes: Axes, selected: SelectedHead, mode: str, columns: int
) -> None:
    """Tokens in two columns, with a line for each weight of the query, or of all queries."""
    colors, (queries, keys) = COLORS[mode], selected.texts
    rows = max(len(queries), len(keys))
    width = WIDTHS[columns]
    figure.set_size_inches(width, ROW * rows + 0.1)
    weights = selected.weights.abs()
    chosen = range(len(queries)) if selected.query is None else [selected.query]
    largest = max(float(weights[list(chosen)].max()), 1e-12)
    left, right = 0.36, 0.64
    for query in chosen:
        for key, weight in enumerate(weights[query].tolist()):
            if weight >= MIN_LINE:
                strength = weight / largest
                axes.plot(
                    (left + 0.01, right - 0.01), (query, key), color=colors["line"],
                    alpha=max(0.06, strength), linewidth=0.4 + 1.6 * strength,
                )  # fmt: skip
    row = weights[selected.query].tolist() if selected.query is not None else [0.0] * len(keys)
    for side, texts in ((left, queries), (right, keys)):
        for number, text in enumerate(texts):
            is_query = side == left
            bold = is_query and number == selected.query
            shade = 0.0 if is_query else 0.42 * row[number] / largest
            axes.text(
                side, number, _shorten(text), ha="right" if is_query else "left", va="center",
                color=colors["ink"], fontweight="bold" if bold else "normal", parse_math=False,
                bbox={"facecolor": (*mpl.colors.to_rgb(colors["line"]), shade),
                      "edgecolor": "none", "pad": 1.2},
            )  # fmt: skip
            if not is_query and row[number] >= MIN_LINE:
                axes.text(
                    0.99, number, f"{row[number]:.2f}", ha="right", va="center",
                    color=colors["dim"],
                )  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_axis_off()


def _draw_matrix(
    figure: Figure, axes: Axes, selected: SelectedHead, mode: str, columns: int
) -> None:
    """The whole matrix of weights, with tokens along both axes."""
    colors, (queries, keys) = COLORS[mode], selected.texts
    weights = selected.weights
    width = WIDTHS[columns]
    figure.set_size_inches(width, width * min(2.0, max(0.3, len(queries) / len(keys))))
    signed = bool((weights < 0).any())
    largest = max(float(weights.abs().max()), 1e-12)
    ramp = LinearSegmentedColormap.from_list("attnlab", RAMPS[mode])
    cmap: Any = "PuOr_r" if signed else ramp
    axes.imshow(
        weights.numpy(), cmap=cmap, vmin=-largest if signed else 0, vmax=largest, aspect="auto"
    )
    for axis, texts in ((axes.yaxis, queries), (axes.xaxis, keys)):
        every = -(-len(texts) // MAX_NAMES)
        # ticks are made again when they are drawn, so parse_math=False would be lost
        names = [_shorten(text).replace("$", r"\$") for text in texts[::every]]
        axis.set_ticks(range(0, len(texts), every), names)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, colors=colors["ink"], labelsize=7)
    axes.tick_params(axis="x", rotation=90)
    for spine in axes.spines.values():
        spine.set_color(colors["dim"])
    if selected.query is not None:
        axes.axhspan(
            selected.query - 0.5, selected.query + 0.5, fill=False, edgecolor=colors["line"],
        )  # fmt: skip


def _draw_image(
    figure: Figure, axes: Axes, selected: SelectedHead, mode: str, columns: int
) -> None:
    """The picture in dark gray, and the attention of the query as light: brighter is more."""
    del mode
    queries, keys = selected.panel.sequence_indices[selected.layer]
    image = selected.panel.sequences[keys].image
    assert image is not None
    query = selected.query
    if query is None:
        same = queries == keys
        query = 0 if same and image.first else len(selected.texts[0]) - 1
    pixels = image.pixels.float() @ torch.tensor([0.299, 0.587, 0.114])  # (height, width)
    gray = (24 + pixels / 255 * 60) / 255
    patches = selected.weights[query][image.first :][: image.rows * image.columns].abs()
    heat = (patches / patches.max().clamp(min=1e-12)).view(image.rows, image.columns)
    height, width = gray.shape
    rows = torch.arange(height) * image.rows // height
    places = torch.arange(width) * image.columns // width
    opacity = 0.88 * heat[rows][:, places, None]  # (height, width, 1)
    light = torch.tensor(mpl.colors.to_rgb("#ffc21a"))
    figure.set_size_inches(WIDTHS[columns] * 0.7, WIDTHS[columns] * 0.7 * height / width)
    shown = opacity * light + (1 - opacity) * gray[..., None]  # (height, width, 3)
    axes.imshow(shown.numpy(), interpolation="nearest")
    axes.set_axis_off()


def _add_caption(figure: Figure, text: str, mode: str) -> None:
    letters = max(30, int(figure.get_figwidth() * 18))
    lines, words = [""], clean(text).split(" ")
    for word in words:
        if len(lines[-1]) + len(word) < letters:
            lines[-1] = f"{lines[-1]} {word}".strip()
        else:
            lines.append(word[:letters])
    figure.text(
        0.01, -0.02, "\n".join(lines), ha="left", va="top", color=COLORS[mode]["ink"],
        parse_math=False,
    )  # fmt: skip


def _shorten(text: str) -> str:
    """A token on one line, without characters that cannot be drawn."""
    shown = clean(text.replace("\n", "⏎")).strip() or "␣"
    return shown if len(shown) <= MAX_LETTERS else f"{shown[: MAX_LETTERS - 1]}…"


def _listed(heads: Sequence[int]) -> str:
    return ", ".join(map(str, heads))
