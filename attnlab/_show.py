"""`attnlab.show`: draw any matrix of attention weights."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.report import Heatmap, check_figure, figure, print_plot, save_figure

MOST_HEADS = 32
MOST_LINES = 100  # rows of a matrix in a terminal
MOST_VALUES = 144  # cells of a figure that have space for their number

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def show(
    weights: Any,
    tokens: Sequence[str] | tuple[Sequence[str], Sequence[str]] | str | None = None,
    *,
    path: Path | str | None = None,
    title: str = "",
    overwrite: bool = False,
) -> None:
    """Draw a matrix: as a figure in a notebook, into a file with `path`, else in the terminal.

    `weights` is (queries, keys), a tensor, a numpy array or nested lists; (heads, queries, keys)
    draws one matrix for each head. `tokens` names rows and columns: one list for both, a pair
    (names of queries, names of keys), or a text whose words are the names. `path` ends in .png,
    .svg or .pdf; several heads become NAME-0.png, NAME-1.png and so on.

    >>> import attnlab
    >>> attnlab.show([[1.0, 0.0], [0.25, 0.75]], tokens="the cat")
    attention weight
    query  the  cat\x20
      the   1    0\x20\x20
      cat 0.25 0.75\x20
          → key
    """
    matrices = as_matrices(weights)
    names = axis_names(tokens, *matrices[0].shape)
    plots = [heatmap(matrix, *names) for matrix in matrices]
    heads = [f"head {index}" for index in range(len(plots))] if len(plots) > 1 else [""]
    titles = [", ".join(filter(None, (str(title), head))) for head in heads]
    if path is not None:
        save(plots, titles, Path(path), overwrite)
    elif in_notebook():
        for plot, text in zip(plots, titles, strict=True):
            display(plot, text)
    else:
        from rich.console import Console

        console = Console()
        for plot, text in zip(plots, titles, strict=True):
            if text:
                console.print(text, markup=False, style="bold")
            hidden = len(plot.rows) - MOST_LINES
            if hidden > 0:
                plot = replace(plot, rows=plot.rows[:MOST_LINES], values=plot.values[:MOST_LINES])
            print_plot(plot, console)
            if hidden > 0:
                console.print(f"({hidden} more rows: use path= to draw all of them)", style="dim")


def as_matrices(weights: Any) -> list[Matrix]:
    """One matrix for each head."""
    if hasattr(weights, "detach"):  # a tensor; torch need not be imported for an array
        weights = weights.detach().cpu().double()
    try:
        if np.iscomplexobj(weights):
            raise TypeError
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"show: weights is a {type(weights).__name__} that is no matrix of numbers; give "
            "(queries, keys) or (heads, queries, keys), such as A of a pair (output, A)"
        ) from None
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or 0 in array.shape:
        raise ValueError(
            f"show: weights has shape {np.shape(weights)}; give (queries, keys) or "
            "(heads, queries, keys), such as weights[0] of a batch"
        )
    if len(array) > MOST_HEADS:
        raise ValueError(
            f"show: weights has {len(array)} heads, more than {MOST_HEADS}; give some of them, "
            f"such as weights[:{MOST_HEADS}]"
        )
    return list(array)


def axis_names(tokens: Any, queries: int, keys: int) -> tuple[list[str], list[str]]:
    """Names of the rows and of the columns; numbers where there are no tokens."""
    if tokens is None:
        return [str(i) for i in range(queries)], [str(i) for i in range(keys)]
    tokens = tokens.split() if isinstance(tokens, str) else tokens
    if not hasattr(tokens, "__len__") or not hasattr(tokens, "__getitem__"):
        raise ValueError(f"show: tokens is a {type(tokens).__name__}; give a list of texts")
    items = [tokens[i] for i in range(len(tokens))]
    lists = [isinstance(item, list | tuple) for item in items]
    if not any(lists) and len(items) == queries == keys:
        return [str(item) for item in items], [str(item) for item in items]
    if len(items) == 2 and all(isinstance(item, list | tuple | str) for item in items):
        rows, columns = ([*map(str, a.split() if isinstance(a, str) else a)] for a in items)
        if (len(rows), len(columns)) == (queries, keys):
            return rows, columns
        counts = f"{len(rows)} and {len(columns)}"
    else:
        counts = str(len(items))
    raise ValueError(
        f"show: {counts} tokens for {queries} queries and {keys} keys; give one for each, or a "
        "pair of lists (queries, keys)"
    )


def heatmap(matrix: Matrix, rows: list[str], columns: list[str]) -> Heatmap:
    signed = bool((matrix < 0).any())
    values = [[float(value) for value in row] for row in matrix]
    return Heatmap(
        "key", "query", "attention weight", columns, rows, values,
        center=0.0 if signed else None, written=matrix.size <= MOST_VALUES,
    )  # fmt: skip


def save(plots: Sequence[Heatmap], titles: Sequence[str], path: Path, overwrite: bool) -> None:
    """All names are checked before the first file is written."""
    paths = [path]
    if len(plots) > 1:
        paths = [path.with_stem(f"{path.stem}-{head}") for head in range(len(plots))]
    for each in paths:
        if each.exists() and not overwrite:
            raise ValueError(f"show: {each} already exists; pass overwrite=True or another path")
        check_figure(each, overwrite)
    for plot, title, each in zip(plots, titles, paths, strict=True):
        save_figure(plot, each, title, overwrite)


def in_notebook() -> bool:
    """Whether IPython runs with a front end that shows pictures."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


def display(plot: Heatmap, title: str) -> None:
    from IPython.display import Image
    from IPython.display import display as display_object

    image = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure(plot, title).savefig(image, format="png", dpi=160)
    display_object(Image(data=image.getvalue(), format="png", retina=True))
