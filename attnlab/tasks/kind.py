"""How a task declares itself. This is all that the rest of attnlab knows about a task.

This module does not import torch, so that the run list, `--help` and the studio's server start
fast. Heavy code is named as "module:attribute"; `load_reference` imports it when it is needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

Better = Literal["lower", "higher"]


def load_reference(reference: Any) -> Any:
    """Import the object that "module:attribute" names. Anything but a string is returned as it is.

    >>> load_reference("math:pi")
    3.141592653589793
    """
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{reference}: cannot be loaded ({error})") from error


@dataclass(frozen=True)
class Capability:
    """One thing that a trained model can do, as the studio offers it."""

    serve: Annotated[str, "reference to a class like `attnlab.tasks.serving.Service`"]
    models: Annotated[tuple[str, ...], "kinds of models that can do it; empty means all"] = ()
    files: Annotated[tuple[str, ...], "files that the run folder must contain"] = ()
    prepare: Annotated[str, "reference to a function that checks a request in the server"] = ""
    examples: Annotated[str, "reference to a function that returns example inputs"] = ""
    report: Annotated[str, "the JSON file that it writes into the run folder"] = ""

    def is_available(self, folder: Path, model: Any) -> bool:
        """Whether a run with this kind of model and these files can do it."""
        model_fits = not self.models or model in self.models
        return model_fits and all((folder / name).exists() for name in self.files)


@dataclass(frozen=True)
class Example:
    """A command that trains a first run."""

    sentence: Annotated[str, "what the command does, shown before it"]
    command: Annotated[str, "the command up to its output folder, as in `vision train --out`"]
    folder: Annotated[str, "the name of the output folder"]


class TaskDeclaration(ABC):
    """Anything that `register_task` accepts."""

    @abstractmethod
    def kind(self) -> TaskKind:
        """The description that the rest of attnlab uses."""


@dataclass(frozen=True)
class TaskKind(TaskDeclaration):
    """The description of one task. `attnlab.tasks.registry.TASKS` lists all of them."""

    name: Annotated[str, "also the name of its command"]
    help: Annotated[str, "one sentence, for the command line and the studio"]
    headline: Annotated[str, "the main metric; a run's config.json may name another"]
    better: Annotated[Better, "whether a lower or a higher headline is better"]
    example: Annotated[Example | None, "how to train a first run"] = None
    commands: Annotated[
        str, "reference to its App; without it, the commands are made from the recipe"
    ] = ""
    recipe: Annotated[
        Any,
        "trains and measures, see `attnlab.tasks.simple.Recipe`; also a class, or a reference",
    ] = None
    group: Annotated[
        str, "what it belongs to, as in `abilities`; attnlab --help does not list it then"
    ] = ""
    comparison: Annotated[
        str,
        "reference to its `attnlab.tasks.comparison.Comparison`; without it, one is made from the "
        "recipe",
    ] = ""
    inspected_model: Annotated[
        str,
        "reference to a function that opens a run for `look`; without it, `look` reads a text as "
        "it is",
    ] = ""
    capabilities: Annotated[Mapping[str, Capability], "what its runs can do"] = field(
        default_factory=dict
    )
    files: Annotated[
        Mapping[str, str], "files that only runs of this task have, and what each is for"
    ] = field(default_factory=dict)
    results: Annotated[
        tuple[str, ...],
        "result files, removed together with the trained weights; a file that matches a pattern is "
        'removed only if it is JSON that names its "run"',
    ] = ()

    def kind(self) -> TaskKind:
        return self

    def load_recipe(self) -> Any:
        """What trains and measures its models."""
        recipe = load_reference(self.recipe)
        return recipe() if isinstance(recipe, type) else recipe

    @property
    def can_compare(self) -> bool:
        return bool(self.comparison or self.recipe)

    def available_capabilities(self, folder: Path, model: Any) -> list[str]:
        """The names of what a run with this kind of model can do."""
        return [
            name
            for name, capability in self.capabilities.items()
            if capability.is_available(folder, model)
        ]
