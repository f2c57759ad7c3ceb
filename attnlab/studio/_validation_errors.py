"""What pydantic finds wrong with a request, as one plain sentence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

TYPES = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


def sentence_of(errors: Sequence[Any], known: Iterable[str]) -> str:
    """The first of `ValidationError.errors()`, a field that is not known before all others.

    `known` are the fields that there are.
    """
    error = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    place, *path = error["loc"]
    whole = "the body" if place == "body" else "the address"
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        there = f" (there are: {', '.join(known)})" if len(path) == 1 else ""
        return f"{_where(path[:-1]) or whole}: {path[-1][:40]!r} is not known{there}"
    if kind == "missing":
        if place == "query":
            return f"{path[-1]}: is missing; give ?{path[-1]}="
        return f"{_where(path[:-1]) or whole}: has no {path[-1]}; give one"
    return f"{_where(path) or whole}: {_problem(kind, value, context)}"


def _where(path: Sequence[Any]) -> str:
    """subject.model, or questions, item 3. What has a space in it is no name but a choice."""
    names = ".".join(each for each in path if isinstance(each, str) and " " not in each)
    return "".join([names, *(f", item {each + 1}" for each in path if isinstance(each, int))])


def _problem(kind: str, value: Any, context: dict[str, Any]) -> str:
    if kind in TYPES:
        return f"is {_shown(value)}; give {TYPES[kind]}"
    match kind:
        case "string_unicode":
            return "holds half a character; give whole ones"
        case "string_too_short":
            return "is empty; give a text"
        case "string_too_long":
            return f"has {len(value)} characters; {context['max_length']} are the most"
        case "string_pattern_mismatch":
            return f"is {_shown(value)}; give a text that matches {context['pattern']}"
        case "too_short":
            return f"has {len(value)} items; give at least {context['min_length']}"
        case "too_long":
            return f"has {len(value)} items; give at most {context['max_length']}"
        case "greater_than_equal":
            return f"is {_shown(value)}; give at least {context['ge']:g}"
        case "greater_than":
            return f"is {_shown(value)}; give more than {context['gt']:g}"
        case "less_than_equal":
            return f"is {_shown(value)}; give at most {context['le']:.16g}"
        case "literal_error":
            return f"is {_shown(value)}; give {context['expected']}"
    raise AssertionError(f"{kind}: no request has this error")


def _shown(value: Any) -> str:
    """Not too long: a text has no end, and an integer may have thousands of digits."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"{value:g}" if abs(value) < 1e300 else "too large"
    text = str(value)
    return repr(text[:40] + "…" if len(text) > 40 else text)
