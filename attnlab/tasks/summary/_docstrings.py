"""Pairs from docstrings, which every machine has: the first line is the summary of the rest.

Sources are parsed, never imported.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from attnlab.tasks.language._text_sources import docstrings_of, find_sources
from attnlab.tasks.summary._pairs import Pair

PACKAGES = ("torch", "sympy", "numpy")
STANDARD = "standard library"
MIN_WORDS, MAX_WORDS = 3, 25  # of a summary
MIN_TEXT_WORDS = 12
NOT_A_SENTENCE = re.compile(
    r"\w\(.*\)|->|^[:.]|[:,]$"
)  # a signature, a directive, or an unfinished line


def package_roots() -> dict[str, Path]:
    """The source folder of each package that is installed."""
    folders = {STANDARD: Path(sysconfig.get_paths()["stdlib"])}
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            folders[name] = Path(spec.submodule_search_locations[0])
    return folders


def sources() -> Iterator[tuple[str, Path]]:
    """Each module's name and file."""
    for package, root in package_roots().items():
        for path in find_sources(root):
            parts = list(path.relative_to(root).with_suffix("").parts)
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            yield ".".join([*([] if package == STANDARD else [package]), *parts]), path


def docstring_pairs(module: str, path: Path) -> list[Pair]:
    """The pairs of one file, from docstrings with a blank line after the first line."""
    pairs = []
    for docstring in docstrings_of(path):
        first, _, rest = docstring.partition("\n")
        pair = Pair(_clean(rest), " ".join(first.split()), module)
        fits = MIN_WORDS <= len(pair.summary.split()) <= MAX_WORDS
        blank = rest.startswith("\n") or not rest.partition("\n")[0].strip()
        enough = len(pair.text.split()) >= MIN_TEXT_WORDS
        if fits and blank and enough and not NOT_A_SENTENCE.search(pair.summary):
            pairs.append(pair)
    return pairs


def _clean(body: str) -> str:
    lines = (" ".join(line.split()) for line in body.split("\n"))
    return "\n".join(line for line in lines if line)
