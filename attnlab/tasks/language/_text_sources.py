"""Texts to train on without files: the docstrings of the installed Python packages."""

from __future__ import annotations

import ast
import os
import random
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

SHORTEST = 40  # characters; a shorter docstring says little more than the function's name
LARGEST_SOURCE = 2**20  # bytes; larger files are generated tables, slow to parse and without text
# Tests repeat the code; installed packages are read separately, after the standard library.
SKIPPED = {"__pycache__", "dist-packages", "idle_test", "site-packages", "test", "tests"}
NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documentation_text(
    limit: int = 4_000_000,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[str]:
    """Docstrings of the standard library, then of the installed packages: no download needed.

    Sources are parsed, never imported. Together the documents have at most `limit` characters;
    the last one is cut to fit. The seed only changes the order. The same Python with the same
    packages gives the same documents. `progress` is called with the number of characters so far.
    """
    if limit < SHORTEST:
        raise ValueError(
            f"limit is {limit}; give {SHORTEST} characters or more, the length of the shortest "
            "document"
        )
    documents: dict[str, None] = {}  # in order, without duplicates
    gathered = 0
    for source in _all_sources():
        for docstring in docstrings_of(source):
            if docstring in documents:
                continue
            document = docstring[: limit - gathered]
            documents[document] = None
            gathered += len(document)
            if limit - gathered < SHORTEST:
                return _shuffle(list(documents), seed)
        if progress is not None:
            progress(gathered)
    if not documents:
        raise ValueError("this Python has no source files to take docstrings from; give files")
    return _shuffle(list(documents), seed)


def _all_sources() -> Iterator[Path]:
    """All Python source files, the standard library first, sorted by package and path."""
    locations = sysconfig.get_paths()
    roots = dict.fromkeys(locations[name] for name in ("stdlib", "purelib", "platlib"))
    for root in map(Path, roots):
        yield from find_sources(root)


def find_sources(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in sorted_entries:
        # A link may lead back up and never end.
        if entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED:
            yield from find_sources(Path(entry.path))
        elif entry.name.endswith(".py") and entry.is_file():
            yield Path(entry.path)


def docstrings_of(source: Path) -> Iterator[str]:
    try:
        if source.stat().st_size > LARGEST_SOURCE:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in the sources
            tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return  # templates, Python 2 or other encodings: skip them
    for node in _documented_nodes(tree):
        docstring = (ast.get_docstring(node) or "").strip()
        if len(docstring) >= SHORTEST and not NOT_TEXT.search(docstring):
            yield docstring


def _documented_nodes(tree: ast.AST) -> Iterator[Documented]:
    """Nodes that can have a docstring. ast.walk would spend its time in expressions."""
    waiting = [tree]  # no recursion, because each `elif` is one level deeper
    while waiting:
        node = waiting.pop()
        if isinstance(node, Documented):
            yield node
        for block in ("body", "handlers", "cases", "orelse", "finalbody"):
            statements = getattr(node, block, None)
            if isinstance(statements, list):  # a lambda's body is an expression
                waiting += statements


def _shuffle(documents: list[str], seed: int) -> list[str]:
    random.Random(seed).shuffle(documents)
    return documents
