"""The notebooks in examples/ run from top to bottom, and are stored without outputs.

Cells run in this process as plain Python, because starting a kernel takes longer than the cells.
test_look_notebook.py tests the widget with a real Jupyter in a browser.
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
DISPLAY_METHODS = ("_repr_mimebundle_", "_repr_svg_", "_repr_html_")


def read_cells(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return (cell for cell in notebook["cells"] if cell["cell_type"] == kind)


@pytest.fixture
def restored_mechanisms() -> Iterator[None]:
    before = dict(MECHANISMS)
    yield
    MECHANISMS.clear()
    MECHANISMS.update(before)


def run_cell(source: str, namespace: dict[str, Any]) -> Any:
    """Runs a cell as a notebook does: it displays the value of the last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    for method in DISPLAY_METHODS:
        if hasattr(value, method):
            getattr(value, method)()
    return value


@notebooks
@pytest.mark.usefixtures("restored_mechanisms")
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython", reason="IPython is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    values = [run_cell("".join(cell["source"]), namespace) for cell in read_cells(path, "code")]
    assert any(
        hasattr(value, method) for value in values for method in DISPLAY_METHODS
    )  # at least one picture


@notebooks
def test_notebook_has_no_outputs(path: Path) -> None:
    for cell in read_cells(path, "code"):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


def test_docs_link_to_all_notebooks() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        assert f"(../examples/{path.name})" in index


def test_failing_cell_is_detected() -> None:
    with pytest.raises(ZeroDivisionError):
        run_cell("x = 1\nx / 0", {})
    assert run_cell("x = 2\nx + 1", {}) == 3
