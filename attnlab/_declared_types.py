"""Check a value against the type that a setting or an option declares."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import TypeAdapter

NEEDED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    int | None: "a whole number or null",
    float | None: "a number or null",
    str | None: "a text or null",
    str | float | None: "a number, a text or null",
    str | list[str]: "a text or a list of texts",
}


def needed_type(value: Any, hint: Any) -> str | None:
    """What to give instead of a value of the wrong type, or None if the type is right.

    Strict, so that true is not a whole number. A whole number is also a number.

    >>> from attnlab._declared_types import needed_type
    >>> needed_type("x", int), needed_type(True, int), needed_type(1, float)
    ('a whole number', 'a whole number', None)
    """
    from pydantic import ValidationError  # slow to import, and rarely needed

    adapter = _strict_adapter(hint)
    if adapter is None:
        return None
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError:
        return NEEDED.get(hint, getattr(hint, "__name__", str(hint)))
    return None


@cache
def _strict_adapter(hint: Any) -> TypeAdapter[Any] | None:
    """None for a type that pydantic cannot check, such as a class of an extension."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(hint)
    except PydanticUserError:
        return None
