"""One declaration for each request: it checks what comes, and is the OpenAPI description.

A request is a dataclass whose fields are annotated with a kind:

    @dataclass(frozen=True)
    class Ask:
        run: Annotated[str, RUN]
        questions: Annotated[tuple[str, ...], Many(Text(500), 1, 50)]

A field with a default may be left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Protocol, TypeVar, get_type_hints

T = TypeVar("T")
Schema = dict[str, Any]


class Refused(Exception):  # noqa: N818 (an answer, not an accident)
    """A request that is not answered, with its status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def wrong(sentence: str) -> Refused:
    return Refused(400, sentence)


class Kind(Protocol):
    def schema(self) -> Schema: ...

    def check(self, value: Any, where: str) -> Any:
        """The value as the program uses it; what is wrong with it is a sentence."""

    def parse(self, text: str, where: str) -> Any:
        """The same of a text in the address."""


@dataclass(frozen=True)
class Text:
    most: int
    least: int = 1
    about: str = ""
    pattern: str = ""

    def schema(self) -> Schema:
        found: Schema = {"type": "string", "minLength": self.least, "maxLength": self.most}
        if self.pattern:
            found["pattern"] = f"^{self.pattern}$"
        return _told(found, self.about)

    def check(self, value: Any, where: str) -> str:
        if not isinstance(value, str):
            raise wrong(f"{where}: is {_kind(value)}; give a text")
        if len(value) > self.most:
            raise wrong(f"{where}: has {len(value)} characters; {self.most} are the most")
        if len(value) < self.least:
            raise wrong(f"{where}: is empty; give a text")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise wrong(f"{where}: holds half a character; give whole ones") from None
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise wrong(f"{where}: is not {self.about or self.pattern}")
        return value

    def parse(self, text: str, where: str) -> str:
        return self.check(text, where)


@dataclass(frozen=True)
class Whole:
    least: int
    most: int
    about: str = ""

    def schema(self) -> Schema:
        found: Schema = {"type": "integer", "minimum": self.least, "maximum": self.most}
        return _told(found, self.about)

    def check(self, value: Any, where: str) -> int:
        if isinstance(value, float) and value.is_integer():  # JSON does not tell 1 from 1.0
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(f"{where}: is {_kind(value)}; give a whole number")
        if not self.least <= value <= self.most:
            raise wrong(f"{where}: is {_shown(value)}; give {self.least} to {self.most}")
        return value

    def parse(self, text: str, where: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            raise wrong(f"{where}: is {text[:40]!r}; give a whole number")
        return self.check(int(text), where)


@dataclass(frozen=True)
class Real:
    least: float
    most: float
    above: bool = False
    """More than `least`, not the least itself."""
    about: str = ""

    def schema(self) -> Schema:
        lower = "exclusiveMinimum" if self.above else "minimum"
        return _told({"type": "number", lower: self.least, "maximum": self.most}, self.about)

    def check(self, value: Any, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong(f"{where}: is {_kind(value)}; give a number")
        low = value > self.least if self.above else value >= self.least
        if not (low and value <= self.most):  # NaN is neither
            above = "above " if self.above else ""
            raise wrong(f"{where}: is {_shown(value)}; give {above}{self.least:g} to {self.most:g}")
        return float(value)

    def parse(self, text: str, where: str) -> float:
        try:
            return self.check(float(text[:40]), where)
        except ValueError:
            raise wrong(f"{where}: is {text[:40]!r}; give a number") from None


@dataclass(frozen=True)
class Flag:
    about: str = ""

    def schema(self) -> Schema:
        return _told({"type": "boolean"}, self.about)

    def check(self, value: Any, where: str) -> bool:
        if not isinstance(value, bool):
            raise wrong(f"{where}: is {_kind(value)}; give true or false")
        return value

    def parse(self, text: str, where: str) -> bool:
        if text not in ("true", "false"):
            raise wrong(f"{where}: is {text[:40]!r}; give true or false")
        return text == "true"


@dataclass(frozen=True)
class Choice:
    values: Sequence[str]
    about: str = ""

    def schema(self) -> Schema:
        return _told({"type": "string", "enum": list(self.values)}, self.about)

    def check(self, value: Any, where: str) -> str:
        if not isinstance(value, str) or value not in self.values:
            given = f"{value[:40]!r}" if isinstance(value, str) else _kind(value)
            raise wrong(f"{where}: is {given}; there are {', '.join(self.values)}")
        return value

    def parse(self, text: str, where: str) -> str:
        return self.check(text, where)


@dataclass(frozen=True)
class Many:
    each: Kind
    least: int
    most: int

    def schema(self) -> Schema:
        lengths = {"minItems": self.least, "maxItems": self.most}
        return {"type": "array", "items": self.each.schema(), **lengths}

    def check(self, value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise wrong(f"{where}: is {_kind(value)}; give a list")
        if not self.least <= len(value) <= self.most:
            raise wrong(f"{where}: has {len(value)} items; give {self.least} to {self.most}")
        return tuple(
            self.each.check(one, f"{where}, item {number}") for number, one in enumerate(value, 1)
        )

    def parse(self, text: str, where: str) -> Any:
        raise AssertionError(f"{where}: {text}: lists come as repeated names")


@dataclass(frozen=True)
class Either:
    """A text, or an object."""

    text: Kind
    record: type[Any]

    def schema(self) -> Schema:
        return {"anyOf": [self.text.schema(), schema_of(self.record)]}

    def check(self, value: Any, where: str) -> Any:
        if isinstance(value, dict):
            return read(self.record, value, where)
        return self.text.check(value, where)

    def parse(self, text: str, where: str) -> Any:
        return self.text.parse(text, where)


def kinds_of(request: type[Any]) -> dict[str, tuple[Kind, bool]]:
    """Of each field: its kind, and whether it must be given."""
    hints = get_type_hints(request, include_extras=True)
    return {
        each.name: (hints[each.name].__metadata__[0], each.default is MISSING)
        for each in fields(request)
    }


def schema_of(request: type[Any]) -> Schema:
    kinds = kinds_of(request)
    properties = {}
    for each in fields(request):
        kind, _ = kinds[each.name]
        shape = kind.schema()
        if each.default is None:
            shape = {"anyOf": [shape, {"type": "null"}]}
        elif each.default is not MISSING:
            shape = {**shape, "default": each.default}
        properties[each.name] = shape
    needed = [name for name, (_, must) in kinds.items() if must]
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }


def read(request: type[T], given: Any, where: str = "the body") -> T:
    """A body, checked."""
    if not isinstance(given, dict):
        raise wrong(f"{where}: is {_kind(given)}; give an object")
    kinds = kinds_of(request)
    _refuse_unknown(given, kinds, where)
    found = {}
    for each in fields(request):  # type: ignore[arg-type]
        kind, must = kinds[each.name]
        if each.name in given:
            if given[each.name] is not None or each.default is not None:
                found[each.name] = kind.check(given[each.name], each.name)
        elif must:
            raise wrong(f"{where}: has no {each.name}; give one")
    return request(**found)


def read_query(request: type[T], given: Sequence[tuple[str, str]]) -> T:
    """What stands behind the question mark, checked. A list is a name that comes several times."""
    kinds = kinds_of(request)
    values: dict[str, list[str]] = {}
    for name, text in given:
        values.setdefault(name, []).append(text)
    _refuse_unknown(values, kinds, "the address")
    found: dict[str, Any] = {}
    for name, (kind, must) in kinds.items():
        texts = values.get(name, [])
        if isinstance(kind, Many):
            if texts or must:
                if not kind.least <= len(texts) <= kind.most:
                    raise wrong(f"{name}: {len(texts)} given; give {kind.least} to {kind.most}")
                found[name] = tuple(kind.each.parse(text, name) for text in texts)
        elif len(texts) > 1:
            raise wrong(f"{name}: is given {len(texts)} times; give it once")
        elif texts:
            found[name] = kind.parse(texts[0], name)
        elif must:
            raise wrong(f"{name}: is missing; give ?{name}=")
    return request(**found)


def _refuse_unknown(given: dict[str, Any], known: dict[str, Any], where: str) -> None:
    for name in given:
        if name not in known:
            there = ", ".join(known) or "none"
            raise wrong(f"{where}: {name[:40]!r} is not known (there are: {there})")


def _told(schema: Schema, about: str) -> Schema:
    return {**schema, "description": about} if about else schema


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")


def _shown(value: float) -> str:
    """A number that is not too long: an integer may have thousands of digits."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return f"{value:g}" if abs(value) < 1e300 else "too large"
