"""One's own mechanisms: what a class must say of itself, and how it becomes known by name."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from attnlab.mechanism import Card, Mechanism
from attnlab.mechanisms import MECHANISMS

COMMON = ("head_dim", "heads", "max_length")
Kind = TypeVar("Kind", bound=type[Mechanism])


@dataclass(frozen=True)
class Option:
    """One setting of a mechanism, read off its constructor."""

    name: str
    default: Any
    type: str
    help: str


def options_of(kind: type[Mechanism]) -> list[Option]:
    """What a mechanism's constructor takes beyond its sizes, documented where declared."""
    hints = get_type_hints(kind.__init__, include_extras=True)
    options = []
    for parameter in inspect.signature(kind.__init__).parameters.values():
        if parameter.name in ("self", *COMMON):
            continue
        told = get_args(hints.get(parameter.name))  # Annotated[type, "help"]
        if len(told) != 2 or not isinstance(told[1], str) or parameter.default is parameter.empty:
            raise ValueError(
                f"{kind.__name__}: its option {parameter.name!r} has no help or no default; "
                f'write {parameter.name}: Annotated[float, "what it does"] = 1.0'
            )
        shown = told[0].__name__ if isinstance(told[0], type) else str(told[0])
        options.append(Option(parameter.name, parameter.default, shown, told[1]))
    return options


def register_mechanism(kind: Kind) -> Kind:
    """Make a mechanism known by its name, to models, tasks, benchmarks and views; a decorator.

    A name of attnlab's own is refused; one's own may be given anew, as notebooks do.
    """
    check_kind(kind)
    if kind.name in MECHANISMS.built_in:
        raise ValueError(
            f"{kind.__name__}: {kind.name!r} is a mechanism of attnlab; choose another name"
        )
    MECHANISMS[kind.name] = kind
    return kind


def check_kind(kind: object) -> None:
    """What can be wrong with a class, each said in one sentence."""
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        raise ValueError(f"{kind!r} is no mechanism; give a subclass of attnlab.Mechanism")
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(
            f"{kind.__name__}: its name is {name!r}; give small letters, digits and _, as in "
            f'name = "{kind.__name__.lower()}"'
        )
    if not isinstance(getattr(kind, "card", None), Card):
        raise ValueError(
            f"{kind.__name__}: has no card; say what it can do and costs: "
            "card = attnlab.Card(summary=..., paper=..., arxiv=..., time=..., memory=...)"
        )
    for method in ("weights", "phi"):
        if getattr(getattr(kind, method, None), "__isabstractmethod__", False):
            raise ValueError(f"{kind.__name__}: does not define {method}")
    options_of(kind)
