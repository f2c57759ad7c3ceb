"""One's own mechanisms: what a class must say of itself, and how it becomes known by name."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_args, get_type_hints

from attnlab.mechanism import Card, Mechanism
from attnlab.mechanisms import MECHANISMS

COMMON = ("head_dim", "heads", "max_length")
VARIABLE = "ATTNLAB_MECHANISMS"
BUILT_IN = frozenset(MECHANISMS)
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
    if kind.name in BUILT_IN:
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


def load_mechanisms(source: str | Path) -> list[type[Mechanism]]:
    """Register the mechanisms that a file NAME.py or a module defines; those it defines."""
    module = _imported(str(source))
    found = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Mechanism)
        and kind.__module__ == module.__name__
        and "name" in vars(kind)  # others are what these are built upon
    ]
    if not found:
        raise ValueError(f"{source}: defines no mechanism; a subclass of Mechanism with a name is")
    return [register_mechanism(kind) for kind in found]


def _imported(source: str) -> ModuleType:
    path = Path(source)
    try:
        if path.suffix != ".py":
            return importlib.import_module(source)
        if not path.is_file():
            raise ValueError(f"{source}: is not there; give a file NAME.py or a module's name")
        name = f"attnlab_own_{re.sub('[^0-9a-zA-Z]', '_', path.stem)}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    except ValueError:
        raise
    except Exception as error:  # whatever stands in a person's file
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{source}: cannot be imported ({told})") from error
    return module


@lru_cache(maxsize=1)
def load_named() -> None:
    """Once: what ATTNLAB_MECHANISMS names, so that every command and its processes know it."""
    for source in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        load_mechanisms(source)
