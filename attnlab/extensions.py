"""Mechanisms, tasks and claims from outside the package: files, modules and entry points.

`POINTS` lists what can be added. Nothing heavy is imported here, so that help comes at once; the
registries call `load_extensions` when they are first read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from hashlib import sha256
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

VARIABLE = "ATTNLAB_EXTENSIONS"
"""Names files and modules, with os.pathsep between them; worker processes inherit it."""
Value = TypeVar("Value")


class Point(NamedTuple):
    """Something that can be added from outside."""

    kind: str
    """The class of what an extension defines: a subclass of it, or an instance."""
    registry: str
    register: str
    """A function that takes one of these, checks it and enters it into the registry."""


POINTS = {
    "attnlab.mechanisms": Point(
        "attnlab.mechanism:Mechanism",
        "attnlab.mechanisms:MECHANISMS",
        "attnlab._register_mechanism:register_mechanism",
    ),
    "attnlab.tasks": Point(
        "attnlab.tasks.kind:Declared",
        "attnlab.tasks.registry:TASKS",
        "attnlab.tasks.registry:register_task",
    ),
    "attnlab.claims": Point(
        "attnlab.claims._claim:Claim",
        "attnlab.claims._claim:CLAIMS",
        "attnlab.claims._claim:register_claim",
    ),
}
"""By group of entry points."""

_loaded: set[str] = set()  # groups, files and modules; VARIABLE once all that it names are


class Registry(MutableMapping[str, Value]):
    """A dict by name. What extensions add to it is loaded when it is first read."""

    def __init__(self, group: str, own: Mapping[str, Value]) -> None:
        self.group, self.entries = group, dict(own)
        self.built_in = frozenset(own)

    def __getitem__(self, name: str) -> Value:
        if name not in self.entries:  # attnlab's own need no extension
            load_extensions(self.group)
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        load_extensions(self.group)
        return iter(self.entries)

    def __len__(self) -> int:
        load_extensions(self.group)
        return len(self.entries)

    def __setitem__(self, name: str, value: Value) -> None:
        self.entries[name] = value

    def __delitem__(self, name: str) -> None:
        del self.entries[name]


def load_extensions(group: str) -> None:
    """Once: the files that ATTNLAB_EXTENSIONS names, and the entry points of this group.

    A mistake in a named file is an error. An installed package that cannot be loaded is reported in
    one line on standard error, and everything else goes on without it.
    """
    load_named()
    if group in _loaded:
        return
    _loaded.add(group)
    for entry in entry_points(group=group):
        try:
            _load_entry(entry, group)
        except ValueError as error:
            print(f"attnlab: {error}", file=sys.stderr)


def load_named() -> None:
    """Once: the files and modules that ATTNLAB_EXTENSIONS names."""
    if VARIABLE not in _loaded:
        _loaded.add(VARIABLE)
        try:
            for source in _named():
                if source not in _loaded:
                    load_extension(source)
        except ValueError:
            _loaded.discard(VARIABLE)  # whoever asks next hears of it too
            raise


def forget_extensions() -> None:
    """Look for extensions again. For tests, which change the environment."""
    _loaded.clear()


def load_extension(source: str | Path) -> list[Any]:
    """Import a file NAME.py or a module, and register the mechanisms, tasks and claims that it
    defines. Returns them.

    ATTNLAB_EXTENSIONS names it from then on, so that processes that this one starts know it too.

    >>> [each.name for each in load_extension("examples/sigmoid_attention.py")]
    ['sigmoid']
    """
    named = str(Path(source).resolve()) if str(source).endswith(".py") else str(source)
    module = _imported(str(source))
    _loaded.add(named)
    try:
        defined = [value for group in POINTS for value in _register(module, group)]
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    if not defined:
        raise ValueError(
            f"{source}: defines no extension; give a subclass of Mechanism with a name, a task "
            "or a function under @claim"
        )
    if named not in _named():
        os.environ[VARIABLE] = os.pathsep.join([*_named(), named])
    return defined


def _named() -> list[str]:
    return [each for each in os.environ.get(VARIABLE, "").split(os.pathsep) if each]


def _register(module: ModuleType, group: str) -> list[Any]:
    """What a module defines for a group, registered unless its own code did so already."""
    point = POINTS[group]
    if point.kind.partition(":")[0] not in sys.modules:
        return []  # nothing here can be of a class that nobody imported
    kind, registry = _resolve(point.kind), _resolve(point.registry)
    known = getattr(registry, "entries", registry)
    defined = [value for value in vars(module).values() if _is_defined(value, kind, module)]
    for value in defined:
        if known.get(value.name) is not value:
            _resolve(point.register)(value)
    # @claim enters a function, and leaves no claim in the module
    measured = [each for each in known.values() if hasattr(each, "measure")]
    return defined + [each for each in measured if _module_of(each.measure) == module.__name__]


def _is_defined(value: object, kind: type[Any], module: ModuleType) -> bool:
    if isinstance(value, type):  # a class without a name is what others are built upon
        mine = value.__module__ == module.__name__ and "name" in vars(value)
        return mine and issubclass(value, kind)
    return isinstance(value, kind)


def _module_of(function: object) -> str | None:
    return getattr(function, "__module__", None)


def _load_entry(entry: EntryPoint, group: str) -> None:
    """An entry point names a module, which registers what it defines, or one thing to register."""
    package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    try:
        value = entry.load()
        if isinstance(value, ModuleType):
            defined = _register(value, group)
            if not defined:
                raise ValueError(f"{entry.value} defines nothing for {group}")
        else:
            _resolve(POINTS[group].register)(value)
    except Exception as error:  # whatever stands in somebody's package
        raise ValueError(
            f"entry point {entry.name}{package}: cannot be loaded ({_one_line(error)})"
        ) from error


def _imported(source: str) -> ModuleType:
    path = Path(source)
    try:
        if path.suffix != ".py":
            return import_module(source)
        if not path.is_file():
            raise ValueError(f"{source}: is not there; give a file NAME.py or a module's name")
        where = sha256(str(path.resolve()).encode()).hexdigest()[:8]  # two may have one name
        name = f"attnlab_extension_{re.sub('[^0-9a-zA-Z]', '_', path.stem)}_{where}"
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    except Exception as error:  # whatever stands in a person's file
        if isinstance(error, ValueError) and str(error).startswith(f"{source}: "):
            raise
        raise ValueError(f"{source}: cannot be imported ({_one_line(error)})") from error
    return module


def _resolve(reference: str) -> Any:
    """What "module:attribute" names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
