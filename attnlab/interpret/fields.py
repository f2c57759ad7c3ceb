"""A header that nobody vouches for, read one field at a time: an error says which one is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
LARGEST_WHOLE = 2**53 - 1  # what JSON's readers agree on


class Field:
    """A value of the header, and where it stands."""

    def __init__(self, value: Any, where: str) -> None:
        self.value = value
        self.where = where

    def wrong(self, needed: str) -> ValueError:
        return ValueError(f"{self.where} is {shown(self.value)}; {needed} is needed")

    def entries(self) -> dict[str, Field]:
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        inside = f"{self.where}." if self.where else ""
        return {name: Field(each, f"{inside}{name}") for name, each in self.value.items()}

    def fields(self, *names: str, newer: tuple[str, ...] = ()) -> list[Field]:
        """The fields of an object that has these and no others, in this order.

        What is `newer` than the first files may be missing, and is null then.
        """
        found = self.entries()
        here = self.where or "the header"
        for name in newer:
            found.setdefault(name, Field(None, f"{self.where}.{name}".lstrip(".")))
        names = (*names, *newer)
        for name in names:
            if name not in found:
                raise ValueError(f"{here} has no {name!r}")
        if len(found) > len(names):
            other = next(name for name in found if name not in names)
            raise ValueError(f"{here} has a field {shown(other)}, which it cannot have")
        return [found[name] for name in names]

    def items(self, *, least: int = 0, most: int | None = None) -> list[Field]:
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        if len(self.value) < least or (most is not None and len(self.value) > most):
            span = f"{least}" if least == most else f"{least} to {'any' if most is None else most}"
            raise ValueError(f"{self.where} has {len(self.value)} entries; {span} are needed")
        return [Field(each, f"{self.where}[{place}]") for place, each in enumerate(self.value)]

    def exactly(self, length: int) -> list[Field]:
        return self.items(least=length, most=length)

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong("text")
        return self.value

    def one_of(self, *choices: str) -> str:
        if self.value not in choices or not isinstance(self.value, str):
            raise self.wrong(f"one of {', '.join(choices)}")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def whole(self, least: int = 0, most: int = LARGEST_WHOLE) -> int:
        value = self.value
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(f"a whole number from {least} to {most}")
        return value

    def number(self, least: float = -math.inf, most: float = math.inf) -> float:
        value = self.value
        right = isinstance(value, int | float) and not isinstance(value, bool)
        if not right or not least <= value <= most or not abs(value) <= 1.7e308:
            needed = "a finite number"
            raise self.wrong(f"{needed} from {least:g} to {most:g}" if most < math.inf else needed)
        return float(value)

    def maybe(self, read: Callable[[Field], T]) -> T | None:
        return None if self.value is None else read(self)


def shown(value: Any) -> str:
    """One short line of ASCII, whatever it is."""
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_WHOLE:
        return "a huge number"  # its digits would take long to write
    line = ascii(value[:60] if isinstance(value, str) else value)
    return line if len(line) <= 60 else f"{line[:57]}..."


def parse(data: bytes) -> Any:
    """JSON without NaN, infinities and names that stand twice."""
    try:
        return json.loads(
            data.decode("ascii"), object_pairs_hook=_once, parse_constant=_no_constant
        )
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"the header is not ASCII, from its byte {error.start} on") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the header is not JSON: {error.msg} at {error.pos}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the header has {shown(name)} twice in one object")
        found[name] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"the header has {name}; only finite numbers are allowed")
