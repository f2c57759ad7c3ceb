"""Values and errors inside error messages."""

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


def one_line(error: BaseException, most: int = 500) -> str:
    """The message of an error in one line, cut if it is long.

    >>> from attnlab._short_repr import one_line
    >>> one_line(ValueError("two\\n lines")), one_line(KeyError())
    ('two lines', 'KeyError')
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= most else f"{text[:most]}..."
