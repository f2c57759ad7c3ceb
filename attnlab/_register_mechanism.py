"""Register your own mechanism under a name, and read the options of a mechanism's constructor."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from attnlab.mechanism import Card, Mechanism
from attnlab.mechanisms import MECHANISMS

SIZES = ("head_dim", "heads", "max_length")
Kind = TypeVar("Kind", bound=type[Mechanism])


@dataclass(frozen=True)
class Option:
    """One option of a mechanism's constructor."""

    name: str
    default: Any
    type: str
    help: str


def constructor_options(kind: type[Mechanism]) -> list[Option]:
    """The options of a mechanism's constructor beyond its sizes, with help text and default."""
    hints = get_type_hints(kind.__init__, include_extras=True)
    options = []
    for parameter in inspect.signature(kind.__init__).parameters.values():
        if parameter.name in ("self", *SIZES):
            continue
        hint = get_args(hints.get(parameter.name))  # Annotated[type, "help"]
        if len(hint) != 2 or not isinstance(hint[1], str) or parameter.default is parameter.empty:
            raise ValueError(
                f"{kind.__name__}: option {parameter.name!r} has no help text or no default; "
                f'write {parameter.name}: Annotated[float, "what it does"] = 1.0'
            )
        type_name = hint[0].__name__ if isinstance(hint[0], type) else str(hint[0])
        options.append(Option(parameter.name, parameter.default, type_name, hint[1]))
    return options


def register_mechanism(kind: Kind) -> Kind:
    """Register a mechanism class under its name, so that models, tasks and benchmarks find it.

    Use it as a decorator. It refuses the name of a built-in mechanism. You may register your own
    name again, as happens when you run a notebook cell twice.

    >>> import attnlab
    >>> @attnlab.register_mechanism
    ... class Uniform(attnlab.Mechanism):
    ...     name = "uniform_example"
    ...     card = attnlab.Card("equal weights", "none", "none", time="N^2 D", memory="N^2")
    ...
    ...     def weights(self, q, k, mask):
    ...         allowed = mask.allowed(q.shape[2], k.shape[2], q.device)
    ...         ones = q.new_ones(*q.shape[:3], k.shape[2])
    ...         ones = ones if allowed is None else ones * allowed
    ...         return ones / ones.sum(-1, keepdim=True).clamp(min=1)
    >>> "uniform_example" in attnlab.MECHANISMS
    True
    """
    check_mechanism_class(kind)
    if kind.name in MECHANISMS.built_in:
        raise ValueError(
            f"{kind.__name__}: {kind.name!r} is a built-in mechanism; choose another name"
        )
    MECHANISMS[kind.name] = kind
    return kind


def check_mechanism_class(kind: object) -> None:
    """Refuse a class that is no complete mechanism. Each error is one sentence."""
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        raise ValueError(f"{kind!r} is not a mechanism; give a subclass of attnlab.Mechanism")
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(
            f"{kind.__name__}: its name is {name!r}; use lowercase letters, digits and _, as in "
            f'name = "{kind.__name__.lower()}"'
        )
    if not isinstance(getattr(kind, "card", None), Card):
        raise ValueError(
            f"{kind.__name__}: has no card; describe what it can do and what it costs: "
            "card = attnlab.Card(summary=..., paper=..., arxiv=..., time=..., memory=...)"
        )
    for method in ("weights", "phi"):
        if getattr(getattr(kind, method, None), "__isabstractmethod__", False):
            raise ValueError(f"{kind.__name__}: does not define {method}")
    constructor_options(kind)
