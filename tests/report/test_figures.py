"""Rendering plots as matplotlib figures."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer

from attnlab._confidence_intervals import Estimate
from attnlab.report import (
    Bars,
    Figure,
    Heatmap,
    Lines,
    Mark,
    Plot,
    Series,
    figure,
    save_figure,
)
from tests.support.examples import examples
from tests.support.made_up_reports import accuracy_bars, head_map, hostile_report, ratio_map, times

PLOTS: dict[str, Plot] = {
    "lines": times(), "bars": accuracy_bars(), "ratios": ratio_map(), "heads": head_map(),
    "nothing": Lines("x", "y", []), "no bars": Bars("y", {}),
    "no cells": Heatmap("x", "y", "z", [], [], []),
    "unknown": Heatmap("x", "y", "z", ["a"], ["b"], [[None]], log=True, center=1.0),
}  # fmt: skip


def render_axes(plot: Plot, title: str = "") -> Axes:
    fig = figure(plot, title)
    fig.draw_without_rendering()
    return fig.axes[0]


def axes_texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


# Lines


def test_lines_have_their_points_labels_and_scales() -> None:
    fig = figure(times(), "Time by length")
    axes = fig.axes[0]
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [512, 1024, 2048, 4096]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("tokens", "milliseconds")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert fig.get_suptitle() == "Time by length"
    legend = [text.get_text().strip("\u200b") for text in fig.legends[0].get_texts()]
    assert legend == ["softmax", "favor", "window"]
    assert "context" in axes_texts(axes)
    assert len({to_hex(line.get_color()) for line in axes.lines[:3]}) == 3
    assert len({line.get_marker() for line in axes.lines[:3]}) == 3


def test_bands_and_error_bars() -> None:
    axes = render_axes(times())
    bands = [
        artist
        for artist in axes.collections
        if type(artist).__name__ == "FillBetweenPolyCollection"
    ]
    assert len(bands) == 2
    assert sum(isinstance(each, ErrorbarContainer) for each in axes.containers) == 1


def test_missing_points_leave_a_gap() -> None:
    axes = render_axes(
        Lines("x", "y", [Series("a", [(1, 2), (2, 3), (3, math.nan), (4, math.inf)])])
    )
    y: Any = axes.lines[0].get_ydata()
    assert np.isnan(y).tolist() == [False, False, True, True]


def test_logarithmic_axes_leave_out_other_values() -> None:
    points, band = [(0.0, 1.0), (1.0, 0.0), (2.0, 3.0)], [(0.0, 2.0), (-1.0, 1.0), (0.0, 4.0)]
    for error_bars in (False, True):
        plot = Lines("x", "y", [Series("a", points, band, error_bars)], x_log=True, y_log=True,
                     marks=[Mark("nowhere", x=0.0), Mark("nor", y=math.nan)])  # fmt: skip
        axes = render_axes(plot)
        assert np.isfinite(np.asarray(axes.lines[0].get_xydata())).all(1).tolist() == [
            False, False, True
        ]  # fmt: skip
        assert axes.get_ylim()[0] > 0.1
        assert "nowhere" not in axes_texts(axes)


def test_marks_and_percents() -> None:
    marks = [Mark("here", 0.5, 0.25), Mark("level", y=0.3), Mark("then", x=0.9)]
    plot = Lines("x", "y", [Series("a", [(0, 0.1), (1, 0.4)])], marks=marks, x_percent=True,
                 y_percent=True)  # fmt: skip
    axes = render_axes(plot)
    assert {"here", "level", "then"} <= set(axes_texts(axes))
    assert "20%" in [each.get_text() for each in axes.get_yticklabels()]
    assert "80%" in [each.get_text() for each in axes.get_xticklabels()]
    assert "no values" not in axes_texts(axes)
    assert "no values" in axes_texts(render_axes(Lines("x", "y", [])))


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@examples(40)
@given(st.lists(st.tuples(FINITE, st.floats()), max_size=4), st.booleans())
def test_lines_of_any_values(points: list[tuple[float, float]], log: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        render_axes(Lines("x", "y", [Series("a", points)], x_log=log, y_log=log))


# Bars


def test_bars() -> None:
    axes = render_axes(accuracy_bars())
    widths = [patch.get_width() for patch in axes.containers[0].patches]  # type: ignore[attr-defined]
    assert widths == [0.5, 0.25, 0.0]
    assert {"50%", "25%", "–", "all"} <= set(axes_texts(axes))
    assert [each.get_text() for each in axes.get_yticklabels()] == ["London", "1", "nowhere"]
    assert axes.yaxis_inverted()
    assert sum(isinstance(each, ErrorbarContainer) for each in axes.containers) == 1
    paler = axes.containers[-1].patches  # type: ignore[attr-defined]
    assert [patch.get_width() for patch in paler] == [0.125, 0.0, 0.0]


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e-9, -7, 1e308, math.inf])
def test_bars_of_any_size(value: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = render_axes(Bars("y", {"a": Estimate(value, value, value), "b": Estimate(1)}))
    assert len(axes_texts(axes)) == 2


# Heatmaps


def test_heatmap_is_centered_and_shows_missing_values() -> None:
    fig = figure(ratio_map())
    image: Any = fig.axes[0].images[0]
    assert image.norm(1.0) == pytest.approx(0.5)
    data = np.ma.getmaskarray(np.ma.masked_invalid(image.get_array()))
    assert data.tolist() == [[False] * 5, [False] * 4 + [True], [False] * 5]
    assert fig.axes[1].get_ylabel().replace("\n", " ") == "error over that of uniform weights"


def test_heatmap_with_names_and_written_values() -> None:
    fig = figure(head_map())
    fig.draw_without_rendering()
    names = [label.get_text() for label in fig.axes[1].get_yticklabels()]
    assert names == ["window:window=64", "favor:features=256", "elu", "softmax"]
    counts = Heatmap("said", "is", "images", ["cat", "dog"], ["cat", "dog"], [[5, 0], [2, 12345]],
                     written=True)  # fmt: skip
    assert axes_texts(render_axes(counts)) == ["5", "0", "2", "12,345"]


# Files


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
@pytest.mark.parametrize("name", list(PLOTS))
def test_files_are_reproducible(name: str, suffix: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    for path in (first, second):
        save_figure(PLOTS[name], path, "A title")
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes()) > 1000


def test_svg_has_its_texts_and_loads_nothing(tmp_path: Path) -> None:
    save_figure(times(), tmp_path / "a.svg", "Time by length")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    visible = "".join(ElementTree.fromstring(text).itertext())
    for word in ("Time by length", "softmax", "tokens", "context"):
        assert word in visible
    assert "<script" not in text
    assert "date" not in text


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    """They become neither formulas nor elements."""
    for section in hostile_report().sections:
        for block in section.blocks:
            if isinstance(block, Figure):
                path = tmp_path / "a.svg"
                save_figure(block.plot, path, block.title[:200], overwrite=True)
                root = ElementTree.parse(path).getroot()
                assert not [node for node in root.iter() if node.tag.endswith(("script", "img"))]
                if section.title == "$\\frac":
                    assert "$\\frac" in "".join(root.itertext())


def test_save_figure_checks_the_path(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    save_figure(times(), path)
    with pytest.raises(ValueError, match="already exists; give --overwrite"):
        save_figure(times(), path)
    save_figure(times(), path, overwrite=True)
    with pytest.raises(ValueError, match="written as SVG, PNG or PDF"):
        save_figure(times(), tmp_path / "a.jpeg")
    with pytest.raises(ValueError, match="there is no folder"):
        save_figure(times(), tmp_path / "no" / "a.svg")
