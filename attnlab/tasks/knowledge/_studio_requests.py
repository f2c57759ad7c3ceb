"""What the studio asks of a knowledge run before it opens a model; free of torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attnlab.tasks.knowledge._data import WORLD, pairs_in
from attnlab.tasks.knowledge.kind import KNOWN

EXAMPLES = 8


def examples(read_json: Callable[[str], Any]) -> list[str]:
    """Questions to try: the run's own wordings, with names that it learned about."""
    known = read_json(KNOWN)
    names, wordings = (
        (known.get("names"), known.get("wordings")) if isinstance(known, dict) else (None, None)
    )
    if not (isinstance(names, list) and isinstance(wordings, list) and names and wordings):
        return []
    every = max(1, len(names) // EXAMPLES)
    found = []
    for number, name in enumerate(names[::every][:EXAMPLES]):
        wording = wordings[number % len(wordings)]
        if isinstance(name, str) and isinstance(wording, list) and len(wording) == 2:
            found.append(f"{wording[0]}{name}{wording[1]}"[:500])
    return found


def audit_request(
    task: Mapping[str, Any], request: Mapping[str, Any], file_named: Callable[[str], Path | None]
) -> dict[str, Any]:
    """What an audit is to ask: pairs that were given, or the file that the run learned from.

    `file_named` finds a file that a run's settings name, where it may be read. Wrong pairs are a
    ValueError; a file that is not there is a FileNotFoundError with its name.
    """
    pairs = request["pairs"]
    if pairs is not None:  # without right answers it would replace an audit by nearly nothing
        pairs_in(pairs, "the questions")
    if pairs is not None or task.get("corpus") == WORLD:
        return {"pairs": pairs, "file": None}
    learned = task.get("pairs")
    learned = learned if isinstance(learned, str) else ""
    found = file_named(learned)
    if found is None:
        raise FileNotFoundError(learned)
    return {"pairs": None, "file": str(found)}
