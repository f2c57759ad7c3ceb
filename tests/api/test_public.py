"""Every public function has an example in its docstring, and the examples work."""

from __future__ import annotations

import doctest
import inspect
import pydoc
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

import attnlab
from docs.scripts.api import MODULES
from tests.support.registries import restored_registries

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def public_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    """By full name, each once, where it is first public."""
    known = set()
    for module in map(import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value) and value not in known:
                known.add(value)
                yield f"{module.__name__}.{name}", value


FUNCTIONS = dict(public_functions())


@pytest.mark.usefixtures("few_docstrings")
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_the_example_of_a_public_function_works(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    function = FUNCTIONS[name]
    if "from transformers" in (function.__doc__ or ""):
        pytest.importorskip("transformers", reason="transformers is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (test,) = doctest.DocTestFinder(recurse=False).find(function, name, globs={})
    assert test.examples, f"{name} has no example in its docstring"
    with restored_registries():
        results = doctest.DocTestRunner(optionflags=OPTIONS).run(test, clear_globs=False)
    assert results.failed == 0, capsys.readouterr().out


def test_help_shows_the_public_names_on_its_first_screen() -> None:
    text = pydoc.plain(pydoc.render_doc(attnlab))
    first_screen = "\n".join(text.splitlines()[:48])
    assert [name for name in attnlab.__all__ if name not in first_screen] == []
    for module in MODULES:
        if module.count(".") == 1 and module not in ("attnlab.laws", "attnlab.run_folder"):
            assert module in first_screen or module == "attnlab.tokenizer"
