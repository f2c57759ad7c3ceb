"""Prepare the studio's requests to a knowledge run, without importing torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attnlab.tasks.knowledge._data import WORLD, parse_pairs
from attnlab.tasks.knowledge.kind import KNOWN

EXAMPLES = 8


def example_questions(read_json: Callable[[str], Any]) -> list[str]:
    """Questions to try: the run's kinds of questions with names from its training."""
    known = read_json(KNOWN)
    names, wordings = (
        (known.get("names"), known.get("wordings")) if isinstance(known, dict) else (None, None)
    )
    if not (isinstance(names, list) and isinstance(wordings, list) and names and wordings):
        return []
    every = max(1, len(names) // EXAMPLES)
    questions = []
    for number, name in enumerate(names[::every][:EXAMPLES]):
        encoding = wordings[number % len(wordings)]
        if isinstance(name, str) and isinstance(encoding, list) and len(encoding) == 2:
            questions.append(f"{encoding[0]}{name}{encoding[1]}"[:500])
    return questions


def audit_request(
    task: Mapping[str, Any], request: Mapping[str, Any], file_named: Callable[[str], Path | None]
) -> dict[str, Any]:
    """The questions of an audit: the pairs of the request, or the file that the run was trained on.

    `file_named` returns the path of a file in a run's settings, if the studio may read it. Wrong
    pairs raise a ValueError; a missing file raises a FileNotFoundError with its name.
    """
    pairs = request["pairs"]
    if pairs is not None:  # an audit without right answers would say almost nothing
        parse_pairs(pairs, "the questions")
    if pairs is not None or task.get("corpus") == WORLD:
        return {"pairs": pairs, "file": None}
    pairs_file = task.get("pairs")
    pairs_file = pairs_file if isinstance(pairs_file, str) else ""
    path = file_named(pairs_file)
    if path is None:
        raise FileNotFoundError(pairs_file)
    return {"pairs": None, "file": str(path)}
