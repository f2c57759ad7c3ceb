"""Figures and numbers of a capture in Python, and the picture that stands in for the widget."""

from __future__ import annotations

import base64
import io
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from attnlab.interpret._look import LookResult, look
from attnlab.models import ViT, ViTConfig
from tests.support.hostile_capture import HOSTILE, hostile
from tests.support.pronoun_captures import pronoun_result
from tests.support.text_models import TOKENS, decoder, write_image


@pytest.fixture(scope="module")
def seen() -> LookResult:
    return pronoun_result()


def saved(figure: Figure, kind: str) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the font has no Chinese letters
        figure.savefig(file, format=kind, bbox_inches="tight")
    return file.getvalue()


def texts_of(figure: Figure) -> list[str]:
    axes = figure.axes[0]
    labels = [*figure.texts, *axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels()]
    return [text.get_text() for text in labels]


@pytest.mark.parametrize("view", ["heads", "matrix"])
@pytest.mark.parametrize(("columns", "millimeters"), [(1, 85), (2, 178)])
def test_figures_have_the_width_of_a_column(
    seen: LookResult, view: str, columns: int, millimeters: float
) -> None:
    figure = seen.figure(view, columns=columns)
    assert figure.get_figwidth() == pytest.approx(millimeters / 25.4)
    assert saved(figure, "pdf").startswith(b"%PDF")
    assert b"<svg" in saved(figure, "svg")
    assert "animal" in texts_of(figure)


def test_a_figure_shows_what_the_page_opens_with(seen: LookResult) -> None:
    opening = seen.capture.initial_view
    assert opening is not None
    assert opening.query is not None
    assert opening.head is not None
    rows = seen.data()
    weights = seen.panels[0].layers[opening.layer].weights
    assert weights is not None
    assert [row["weight"] for row in rows] == weights[opening.head, opening.query].tolist()
    assert {row["query"] for row in rows} == {opening.query}
    caption = " ".join(seen.figure().texts[0].get_text().split())
    assert caption == "blocks.1, head 1: “it” attends mostly to “animal” (64%)"
    assert seen.figure(caption=False).texts == []


def test_the_mean_of_all_heads_and_one_head(seen: LookResult) -> None:
    weights = seen.panels[0].layers[1].weights
    assert weights is not None
    T, S = weights.shape[1:]
    mean, one = seen.data(layer=1), seen.data(layer=seen.panels[0].layers[1].name, head=2)
    assert len(mean) == len(one) == T * S
    values = np.array([row["weight"] for row in mean]).reshape(T, S)
    assert np.allclose(values, weights.mean(0))
    drawn = np.asarray(seen.figure("matrix", layer=1, head=2).axes[0].images[0].get_array())
    assert np.allclose(drawn, weights[2])
    assert [row["weight"] for row in one] == weights[2].flatten().tolist()


def test_light_and_dark(seen: LookResult) -> None:
    def corner(dark: bool) -> int:
        png = saved(seen.figure("matrix", dark=dark), "png")
        return int(np.asarray(Image.open(io.BytesIO(png)).convert("L"))[0, 0])

    assert corner(False) > 240
    assert corner(True) < 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "flow"}, "no figure 'flow'; give one of heads, matrix, image"),
        ({"view": "image"}, "this capture has no image"),
        ({"layer": 99}, "no layer 99; give a number from 0 to"),
        ({"layer": "nowhere"}, "no layer 'nowhere'; give a number from 0 to"),
        ({"layer": 0, "head": 77}, "no head 77 in .*; give one of 0, 1"),
        ({"layer": 0, "query": -1}, "no query -1; give 0 to"),
        ({"panel": 1}, "no panel 1; give 0 to 0"),
        ({"columns": 3}, "columns is 3; give 1 or 2"),
    ],
)
def test_mistakes_are_explained(seen: LookResult, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        seen.figure(**options)


def test_hostile_tokens_are_letters() -> None:
    """No token is read as mathematics, or breaks a file."""
    result = hostile()
    for text in ("$\\frac{1}{0$", *HOSTILE):
        result.panels[0].sequences[0].texts[1] = text
        for view in ("heads", "matrix"):
            svg = saved(result.figure(view, layer=0, query=1), "svg")
            assert b"<script" not in svg


def test_a_picture_with_its_brightest_patch(tmp_path: Path) -> None:
    model = ViT(ViTConfig(classes=3, image_size=12, patch=4, width=16, layers=2, heads=2))
    result = look(model, image=write_image(tmp_path / "a.png"), control=False)
    figure = result.figure("image", layer=1, head=0, query=0)
    drawn = np.asarray(figure.axes[0].images[0].get_array()).mean(-1)
    rows = [row for row in result.data(layer=1, head=0, query=0) if row["key"] > 0]
    best = max(rows, key=lambda row: row["weight"])["key"] - 1
    size = drawn.shape[0] // 3
    patches = [
        drawn[i * size : (i + 1) * size, j * size : (j + 1) * size].mean()
        for i in range(3)
        for j in range(3)
    ]
    assert int(np.argmax(patches)) == best


@pytest.mark.parametrize("with_widget", [True, False])
def test_a_notebook_has_a_static_picture(
    with_widget: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exported notebooks show it where no widget runs."""
    if with_widget:
        pytest.importorskip("anywidget", reason="anywidget is not installed")
    else:
        monkeypatch.setitem(sys.modules, "anywidget", None)
        monkeypatch.delitem(sys.modules, "attnlab.interpret._notebook_widget", raising=False)
    bundle = look(decoder(), "the dog ran", tokenizer=TOKENS)._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert picture.width > 400
    assert len(np.unique(np.asarray(picture.convert("L")))) > 5  # something is drawn
    kinds = {"application/vnd.jupyter.widget-view+json", "text/html"}
    assert kinds & set(data)
    assert data["text/plain"].startswith("LookResult(")
