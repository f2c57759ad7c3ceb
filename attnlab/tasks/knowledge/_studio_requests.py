"""Prepare the studio's requests to a knowledge run, without importing torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.tasks.knowledge._data import WORLD, parse_pairs
from attnlab.tasks.knowledge._world import WorldConfig, make_world
from attnlab.tasks.knowledge.kind import KNOWN

EACH = 2  # questions of each kind
MAX_QUESTION = 500  # characters
OFF_TOPIC = "What is the capital of Peru?"
ANSWER_IF_MADE_UP = "nobody has this name"
NOT_READ = "it read nothing about this"

Example = dict[str, str | None]


def example_questions(read_json: Callable[[str], Any], task: Mapping[str, Any]) -> list[Example]:
    """Questions to try: held out, trained on, about people who do not exist, and off-topic.

    Each says of which kind it is and, where it is known, the right answer.
    """
    known = read_json(KNOWN)
    names, wordings = (
        (known.get("names"), known.get("wordings")) if isinstance(known, dict) else (None, None)
    )
    if not (isinstance(names, list) and isinstance(wordings, list)):
        return []
    names = [name for name in names if isinstance(name, str)]
    kinds = [kind for kind in wordings if isinstance(kind, list) and len(kind) == 2]
    if not names or not kinds:
        return []
    world = make_world(WorldConfig()) if task.get("corpus") == WORLD else None
    answers = dict(world.train) if world is not None else {}
    held_out = world.held_out[:EACH] if world is not None else []
    asked = [
        _question(kinds[i % len(kinds)], name)
        for i, name in enumerate(names[:: max(1, len(names) // EACH)][:EACH])
    ]
    return [
        *(_example("held out", question, answer) for question, answer in held_out),
        *(_example("trained on", question, answers.get(question)) for question in asked),
        *(
            _example("made up", _question(kinds[0], name), ANSWER_IF_MADE_UP)
            for name in _mixed_names(names, EACH)
        ),
        _example("off-topic", OFF_TOPIC, NOT_READ),
        _example("off-topic", f"How tall is {names[0]}?", NOT_READ),
    ]


def _example(kind: str, text: str, answer: str | None) -> Example:
    return {"kind": kind, "text": text[:MAX_QUESTION], "answer": answer}


def _question(template: Sequence[object], name: str) -> str:
    return f"{template[0]}{name}{template[1]}"


def _mixed_names(names: Sequence[str], count: int) -> list[str]:
    """Names of the first part of one name and the last part of another, which no one has."""
    whole, mixed = set(names), list[str]()
    for name, other in zip(names, names[len(names) // 2 :], strict=False):
        new = f"{name.split()[0]} {other.split()[-1]}" if name.split() and other.split() else ""
        if new and new not in whole and new not in mixed:
            mixed.append(new)
        if len(mixed) == count:
            break
    return mixed


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
