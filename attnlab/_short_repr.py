"""Values in error messages."""

from __future__ import annotations

from reprlib import Repr

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 100


def short_repr(value: object) -> str:
    """`repr`, cut if it is long or nested deeply.

    >>> from attnlab._short_repr import short_repr
    >>> short_repr([[1, 2], "a text"])
    "[[1, 2], 'a text']"
    """
    return _SHORT.repr(value)
