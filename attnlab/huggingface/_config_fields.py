"""Values of a config.json that may be broken or hostile: each is checked when it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from attnlab._short_repr import short_repr

T = TypeVar("T")
LARGEST_COUNT = 2**31


class ConfigFields:
    """The values of one config.json. A missing value, or null, is its default."""

    def __init__(self, values: Mapping[str, Any], source: Path | str) -> None:
        self.values, self.source = values, source

    def error(self, name: str, wanted: str) -> ValueError:
        value = short_repr(self.values.get(name))
        return ValueError(f"{self.source}: {name} is {value}; {wanted}")

    def count(self, name: str, default: int | None = None) -> int:
        value = self.optional_count(name)
        if value is None and default is None:
            raise ValueError(f"{self.source}: {name} is missing; give a whole number")
        return value if value is not None else default or 0

    def optional_count(self, name: str) -> int | None:
        value = self.values.get(name)
        if value is not None and (type(value) is not int or not 0 < value < LARGEST_COUNT):
            raise self.error(name, "give a whole number above 0")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.values.get(name, default)
        value = default if value is None else value
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise self.error(name, "give a number, 0 or more")
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name)
        if value is not None and type(value) is not bool:
            raise self.error(name, "give true or false")
        return default if value is None else value

    def choice(self, name: str, choices: Mapping[str, T], default: str) -> T:
        """What the text of this name stands for."""
        value = self.values.get(name)
        value = default if value is None else value
        if not isinstance(value, str) or value not in choices:
            raise self.error(name, f"attnlab has {', '.join(choices)}")
        return choices[value]

    def require(self, name: str, only: Any, reason: str) -> None:
        """Refuse any value but this one, which is also the default."""
        if self.values.get(name) not in (None, only):
            raise self.error(name, f"attnlab's models {reason}")

    def part(self, name: str) -> dict[str, Any]:
        """A nested object."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.error(name, "give an object")
        return value or {}
