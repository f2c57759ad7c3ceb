"""Mechanisms, tasks and claims from outside the package: files, modules and entry points.

`EXTENSION_POINTS` lists what you can add. This module imports nothing heavy, so that `--help` is
fast; the registries call `load_extensions` when they are first read.
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
"""Lists files and modules, separated by os.pathsep. Worker processes inherit it."""
Value = TypeVar("Value")


class ExtensionPoint(NamedTuple):
    """A kind of thing that extensions can add."""

    kind: str
    """The class that an extension subclasses or makes an instance of."""
    registry: str
    register: str
    """The function that checks it and adds it to the registry."""


EXTENSION_POINTS = {
    "attnlab.mechanisms": ExtensionPoint(
        "attnlab.mechanism:Mechanism",
        "attnlab.mechanisms:MECHANISMS",
        "attnlab._register_mechanism:register_mechanism",
    ),
    "attnlab.tasks": ExtensionPoint(
        "attnlab.tasks.kind:TaskDeclaration",
        "attnlab.tasks.registry:TASKS",
        "attnlab.tasks.registry:register_task",
    ),
    "attnlab.claims": ExtensionPoint(
        "attnlab.claims._claim:Claim",
        "attnlab.claims._claim:CLAIMS",
        "attnlab.claims._claim:register_claim",
    ),
}
"""The key is the group of entry points."""

_loaded: set[str] = set()  # groups, files and modules; VARIABLE once all that it lists are


class Registry(MutableMapping[str, Value]):
    """A dict by name. It loads the extensions of its group when it is first read."""

    def __init__(self, group: str, built_in: Mapping[str, Value]) -> None:
        self.group, self.entries = group, dict(built_in)
        self.built_in = frozenset(built_in)

    def __getitem__(self, name: str) -> Value:
        if name not in self.entries:  # built-in names need no extension
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
    """Load the files that ATTNLAB_EXTENSIONS lists and the entry points of this group, once.

    A mistake in a listed file is an error. An installed package that cannot be loaded prints one
    line on standard error, and everything else works without it.
    """
    load_named_extensions()
    if group in _loaded:
        return
    _loaded.add(group)
    for entry in entry_points(group=group):
        try:
            _load_entry(entry, group)
        except ValueError as error:
            print(f"attnlab: {error}", file=sys.stderr)


def load_named_extensions() -> None:
    """Load the files and modules that ATTNLAB_EXTENSIONS lists, once."""
    if VARIABLE not in _loaded:
        _loaded.add(VARIABLE)
        try:
            for source in _listed_sources():
                if source not in _loaded:
                    load_extension(source)
        except ValueError:
            _loaded.discard(VARIABLE)  # the next call raises the same error
            raise


def forget_extensions() -> None:
    """Load extensions again when next needed. For tests that change the environment."""
    _loaded.clear()


def load_extension(source: str | Path) -> list[Any]:
    """Import a file NAME.py or a module, register the mechanisms, tasks and claims that it defines,
    and return them.

    Adds the source to ATTNLAB_EXTENSIONS, so that processes started from here load it too.

    >>> from pathlib import Path
    >>> import attnlab
    >>> _ = Path("sharp.py").write_text(
    ...     "import attnlab\\n"
    ...     "@attnlab.register_mechanism\\n"
    ...     "class Sharp(attnlab.MECHANISMS['hard']):\\n"
    ...     "    name = 'sharp_example'\\n"
    ... )
    >>> [mechanism.name for mechanism in attnlab.load_extension("sharp.py")]
    ['sharp_example']
    """
    resolved = str(Path(source).resolve()) if str(source).endswith(".py") else str(source)
    module = _import_source(str(source))
    _loaded.add(resolved)
    try:
        defined = [value for group in EXTENSION_POINTS for value in _register(module, group)]
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    if not defined:
        raise ValueError(
            f"{source}: defines no extension; define a subclass of Mechanism with a name, a task "
            "or a function decorated with @claim"
        )
    if resolved not in _listed_sources():
        os.environ[VARIABLE] = os.pathsep.join([*_listed_sources(), resolved])
    return defined


def _listed_sources() -> list[str]:
    return [source for source in os.environ.get(VARIABLE, "").split(os.pathsep) if source]


def _register(module: ModuleType, group: str) -> list[Any]:
    """Register what a module defines for a group, unless its own code did so, and return it."""
    point = EXTENSION_POINTS[group]
    if point.kind.partition(":")[0] not in sys.modules:
        return []  # the module cannot use a class that was never imported
    kind, registry = _resolve(point.kind), _resolve(point.registry)
    entries = getattr(registry, "entries", registry)
    defined = [value for value in vars(module).values() if _is_defined(value, kind, module)]
    for value in defined:
        if entries.get(value.name) is not value:
            _resolve(point.register)(value)
    # @claim registers a function and leaves no Claim object in the module
    claims = [entry for entry in entries.values() if hasattr(entry, "measure")]
    return defined + [claim for claim in claims if _module_of(claim.measure) == module.__name__]


def _is_defined(value: object, kind: type[Any], module: ModuleType) -> bool:
    if isinstance(value, type):  # a class without a name is a base class
        is_local = value.__module__ == module.__name__ and "name" in vars(value)
        return is_local and issubclass(value, kind)
    return isinstance(value, kind)


def _module_of(function: object) -> str | None:
    return getattr(function, "__module__", None)


def _load_entry(entry: EntryPoint, group: str) -> None:
    """An entry point names a module whose definitions are registered, or one object to register."""
    package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    try:
        value = entry.load()
        if isinstance(value, ModuleType):
            defined = _register(value, group)
            if not defined:
                raise ValueError(f"{entry.value} defines nothing for {group}")
        else:
            _resolve(EXTENSION_POINTS[group].register)(value)
    except Exception as error:  # a package may raise anything
        raise ValueError(
            f"entry point {entry.name}{package}: cannot be loaded ({_one_line(error)})"
        ) from error


def _import_source(source: str) -> ModuleType:
    path = Path(source)
    try:
        if path.suffix != ".py":
            return import_module(source)
        if not path.is_file():
            raise ValueError(f"{source}: does not exist; give a file NAME.py or a module's name")
        digest = sha256(str(path.resolve()).encode()).hexdigest()[:8]  # two files may share a name
        name = f"attnlab_extension_{re.sub('[^0-9a-zA-Z]', '_', path.stem)}_{digest}"
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    except Exception as error:  # a file may raise anything
        if isinstance(error, ValueError) and str(error).startswith(f"{source}: "):
            raise
        raise ValueError(f"{source}: cannot be imported ({_one_line(error)})") from error
    return module


def _resolve(reference: str) -> Any:
    """The object that "module:attribute" names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
