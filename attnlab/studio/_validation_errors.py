"""Turns pydantic's errors about a request into one plain sentence."""

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


def describe_validation_error(errors: Sequence[Any], fields: Iterable[str]) -> str:
    """Describes the first of `ValidationError.errors()`, but an unknown field before all others.

    `fields` are the names of the declared fields.
    """
    unknown = (error for error in errors if error["type"] == "extra_forbidden")
    error = next(unknown, errors[0])
    location, *path = error["loc"]
    request_part = "the body" if location == "body" else "the address"
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        declared = f" (known: {', '.join(fields)})" if len(path) == 1 else ""
        return (
            f"{_field_path(path[:-1]) or request_part}: unknown field {path[-1][:40]!r}{declared}"
        )
    if kind == "missing":
        if location == "query":
            return f"{path[-1]}: is missing; give ?{path[-1]}="
        return f"{_field_path(path[:-1]) or request_part}: has no {path[-1]}; give one"
    return f"{_field_path(path) or request_part}: {_describe_problem(kind, value, context)}"


def _field_path(path: Sequence[Any]) -> str:
    """Such as `target.model` or `questions, item 3`. Parts with a space are tags of a union."""
    names = ".".join(each for each in path if isinstance(each, str) and " " not in each)
    return "".join([names, *(f", item {each + 1}" for each in path if isinstance(each, int))])


def _describe_problem(kind: str, value: Any, context: dict[str, Any]) -> str:
    if kind in TYPES:
        return f"is {_format_value(value)}; give {TYPES[kind]}"
    match kind:
        case "string_unicode":
            return "contains half a character (a lone surrogate); give whole characters"
        case "string_too_short":
            return "is empty; give a text"
        case "string_too_long":
            return f"has {len(value)} characters; give at most {context['max_length']}"
        case "string_pattern_mismatch":
            return f"is {_format_value(value)}; give a text that matches {context['pattern']}"
        case "too_short":
            return f"has {len(value)} items; give at least {context['min_length']}"
        case "too_long":
            return f"has {len(value)} items; give at most {context['max_length']}"
        case "greater_than_equal":
            return f"is {_format_value(value)}; give at least {context['ge']:g}"
        case "greater_than":
            return f"is {_format_value(value)}; give more than {context['gt']:g}"
        case "less_than_equal":
            return f"is {_format_value(value)}; give at most {context['le']:.16g}"
        case "literal_error":
            return f"is {_format_value(value)}; give {context['expected']}"
    raise AssertionError(f"{kind}: no request model has this error")


def _format_value(value: Any) -> str:
    """The value in a few characters: a text or an integer may be very long."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"{value:g}" if abs(value) < 1e300 else "too large"
    text = str(value)
    return repr(text[:40] + "…" if len(text) > 40 else text)
