"""The notebooks in examples/: they run from top to bottom, and are kept without outputs.

Cells are run in this process, as plain Python: a kernel for each would cost more than the cells.
That a real Jupyter shows the widget is tested in test_look_notebook.py, in a browser.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab import MECHANISMS

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
notebooks = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
SHOWN = ("_repr_mimebundle_", "_repr_svg_", "_repr_html_")


def cells(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    return (cell for cell in found["cells"] if cell["cell_type"] == kind)


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(MECHANISMS)
    yield
    MECHANISMS.clear()
    MECHANISMS.update(before)


def run_cell(source: str, namespace: dict[str, Any]) -> Any:
    """As a notebook does: the value of a last expression is shown."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    for way in SHOWN:
        if hasattr(value, way):
            getattr(value, way)()
    return value


@notebooks
@pytest.mark.usefixtures("registry")
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython", reason="IPython is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    shown = [run_cell("".join(cell["source"]), namespace) for cell in cells(path, "code")]
    assert any(hasattr(value, way) for value in shown for way in SHOWN)  # a picture at least


@notebooks
def test_it_is_kept_without_outputs(path: Path) -> None:
    for cell in cells(path, "code"):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


def test_there_are_three_and_the_docs_link_to_them() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        assert f"(../examples/{path.name})" in index


def test_a_cell_that_fails_is_noticed() -> None:
    with pytest.raises(ZeroDivisionError):
        run_cell("x = 1\nx / 0", {})
    assert run_cell("x = 2\nx + 1", {}) == 3
