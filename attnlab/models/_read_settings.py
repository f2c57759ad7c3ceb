"""Settings of a model from a file: every value must have the type that its field declares."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from typing import Any, get_type_hints

from attnlab._declared_types import needed_type
from attnlab._short_repr import one_line, short_repr

MAX_CHARACTERS = 10_000  # of a text; a description of many heads is long
MAX_LISTED = 5
LARGEST_NUMBER = 1e300


def make_config(kind: Any, settings: Any, source: object) -> Any:
    """The dataclass `kind` of these settings, also nested ones. Refuses unknown and missing names,
    and values of another type."""
    if not isinstance(settings, dict):
        raise ValueError(f"{source}: {short_repr(settings)} is not an object with settings")
    _check_names(kind, settings, source)
    nested, hints = getattr(kind, "nested", {}), _type_hints(kind)
    values = {}
    for name, value in settings.items():
        if name in nested:
            values[name] = make_config(nested[name], value, source)
            continue
        if hints[name] is float and type(value) is int:
            value = float(value) if abs(value) < LARGEST_NUMBER else math.inf
        problem = needed_type(value, hints[name])
        if problem:
            raise ValueError(f"{source}: {name} is {short_repr(value)}; give {problem}")
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and len(text) > MAX_CHARACTERS for text in texts):
            raise ValueError(f"{source}: {name} has more than {MAX_CHARACTERS:,} characters")
        values[name] = value
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{source}: {one_line(error)}") from None


def _check_names(kind: type[Any], settings: dict[str, Any], source: object) -> None:
    fields = dataclasses.fields(kind)
    names = [field.name for field in fields]
    unknown = sorted(set(settings) - set(names))
    missing = [
        field.name
        for field in fields
        if field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and field.name not in settings
    ]
    if unknown or missing:
        listed = ", ".join(short_repr(name)[1:-1] for name in (unknown or missing)[:MAX_LISTED])
        problem = f"{'unknown' if unknown else 'missing'} {listed}"
        raise ValueError(f"{source}: {problem} (settings: {', '.join(names)})")


@cache
def _type_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
