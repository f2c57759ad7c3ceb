"""Docstrings: the body of each is the text, its first line the summary. On every machine there is.

Sources are parsed, never imported.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from attnlab.tasks.language._text_sources import docstrings_of, sources_below
from attnlab.tasks.summary._pairs import Pair

PACKAGES = ("torch", "sympy", "numpy")
STANDARD = "standard library"
LEAST_WORDS, MOST_WORDS = 3, 25
LEAST_TEXT = 12  # words of a body
CALL = re.compile(r"\w\(.*\)|->|^[:.]|[:,]$")  # a signature, a directive, or a line that goes on


def roots() -> dict[str, Path]:
    """Where sources lie, by package; those that are not installed are left out."""
    found = {STANDARD: Path(sysconfig.get_paths()["stdlib"])}
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            found[name] = Path(spec.submodule_search_locations[0])
    return found


def sources() -> Iterator[tuple[str, Path]]:
    """Each module's name and file."""
    for package, root in roots().items():
        for path in sources_below(root):
            parts = list(path.relative_to(root).with_suffix("").parts)
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            yield ".".join([*([] if package == STANDARD else [package]), *parts]), path


def pairs_in(module: str, path: Path) -> list[Pair]:
    """Of one file; only where a blank line follows the first, as it should."""
    found = []
    for docstring in docstrings_of(path):
        first, _, rest = docstring.partition("\n")
        pair = Pair(_clean(rest), " ".join(first.split()), module)
        fits = LEAST_WORDS <= len(pair.summary.split()) <= MOST_WORDS
        blank = rest.startswith("\n") or not rest.partition("\n")[0].strip()
        enough = len(pair.text.split()) >= LEAST_TEXT
        if fits and blank and enough and not CALL.search(pair.summary):
            found.append(pair)
    return found


def _clean(body: str) -> str:
    lines = (" ".join(line.split()) for line in body.split("\n"))
    return "\n".join(line for line in lines if line)
