"""`attnlab.show` draws any matrix: in a terminal, into a file, in a notebook."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import attnlab

A = [[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.125, 0.375, 0.5]]


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_a_matrix_in_a_terminal(kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    attnlab.show(kind(A), tokens="the small cat")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "attention weight"
    assert lines[1].split() == ["query", "the", "small", "cat"]
    assert lines[3].split() == ["small", "0.25", "0.75", "0"]


def test_rows_and_columns_have_their_own_names(capsys: pytest.CaptureFixture[str]) -> None:
    attnlab.show(torch.rand(2, 3), (["le", "chat"], ["the", "small", "cat"]), title="Head [1]")
    out = capsys.readouterr().out
    assert out.startswith("Head [1]\n")
    assert [line.split()[0] for line in out.splitlines()[3:5]] == ["le", "chat"]
    attnlab.show(torch.rand(2, 3))
    assert capsys.readouterr().out.splitlines()[1].split() == ["query", "0", "1", "2"]


def test_every_head_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    attnlab.show(torch.rand(1, 2, 3, 3, requires_grad=True), title="layer 0")
    out = capsys.readouterr().out
    assert "layer 0, head 0\n" in out
    assert "layer 0, head 1\n" in out


def test_a_path_makes_figures(tmp_path: Path) -> None:
    attnlab.show(A, path=tmp_path / "a.svg", tokens=["x", "y", "$z$"])
    assert "<svg" in (tmp_path / "a.svg").read_text()
    with pytest.raises(ValueError, match=r"a\.svg already exists; pass overwrite=True"):
        attnlab.show(A, path=tmp_path / "a.svg")
    attnlab.show(-np.array(A), path=str(tmp_path / "a.svg"), overwrite=True)
    (tmp_path / "heads-1.png").touch()
    with pytest.raises(ValueError, match=r"heads-1\.png already exists"):
        attnlab.show([A, A], path=tmp_path / "heads.png")
    assert not (tmp_path / "heads-0.png").exists()  # nothing half-written
    attnlab.show([A, A], path=tmp_path / "heads.png", overwrite=True)
    assert (tmp_path / "heads-0.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="SVG, PNG or PDF"):
        attnlab.show(A, path=tmp_path / "a.jpg")


def test_a_notebook_gets_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    shell = SimpleNamespace(kernel=object())
    display = SimpleNamespace(Image=lambda **options: options, display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    attnlab.show(A, title="one")
    assert [image["format"] for image in shown] == ["png"]
    assert shown[0]["data"].startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0],), "weights has shape (2,); give (queries, keys)"),
        ((np.ones((2, 2, 3, 3)),), "such as weights[0] of a batch"),
        ((np.ones((0, 3)),), "weights has shape (0, 3)"),
        ((np.ones((33, 2, 2)),), "weights has 33 heads, more than 32"),
        (("text",), "weights is a str that is no matrix of numbers"),
        (([[1.0], [1.0, 2.0]],), "weights is a list that is no matrix of numbers"),
        (((A, np.ones((3, 5))),), "such as A of a pair (output, A)"),
        ((A, 5), "tokens is a int; give a list of texts"),
        ((np.ones((2, 2)) * 1j,), "no matrix of numbers"),
        ((A, ["a", "b"]), "1 and 1 tokens for 3 queries and 3 keys"),
        ((np.ones((2, 3)), ["a", "b"]), "1 and 1 tokens for 2 queries and 3 keys"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_one_line(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        attnlab.show(*arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_tokens_are_labels_unless_they_are_lists(capsys: pytest.CaptureFixture[str]) -> None:
    def labels(tokens: Any, shape: tuple[int, int]) -> tuple[list[str], list[str]]:
        attnlab.show(np.ones(shape), tokens)
        lines = capsys.readouterr().out.splitlines()
        return [line.split()[0] for line in lines[2:4]], lines[1].split()[1:]

    assert labels([1, 2], (2, 2)) == (["1", "2"], ["1", "2"])
    assert labels((["a", "b"], ["x", "y", "z"]), (2, 3)) == (["a", "b"], ["x", "y", "z"])
    assert labels(("a b", "x y z"), (2, 3)) == (["a", "b"], ["x", "y", "z"])


def test_a_long_matrix_is_cut_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    attnlab.show(np.eye(120))
    out = capsys.readouterr().out
    assert "(20 more rows: use path= to draw all of them)" in out
    assert len(out.splitlines()) < 110


def test_endings_in_capitals_and_tokens_longer_than_a_label(tmp_path: Path) -> None:
    attnlab.show(np.eye(2), tokens=["x" * 200, "b"], path=tmp_path / "A.SVG")
    labels = re.findall(
        r"<text[^>]*>(.*?)</text>", (tmp_path / "A.SVG").read_text(encoding="utf-8")
    )
    assert any(re.fullmatch("x{8,}…", label) for label in labels), labels
