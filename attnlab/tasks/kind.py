"""What a task declares of itself: everything that the rest of attnlab knows about it.

Free of torch: a list of runs, the help of a command and the studio's server read these. Whatever
is heavy is named as "module:attribute" and imported by `load` when it is needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

Better = Literal["lower", "higher"]


def load(reference: Any) -> Any:
    """What "module:attribute" names. An object, as a file of your own may give it, is itself.

    >>> load("math:pi")
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

    serve: Annotated[str, "reference to a class as `attnlab.tasks.serving.Served` describes it"]
    models: Annotated[tuple[str, ...], "kinds of models that can do it; none: all"] = ()
    files: Annotated[tuple[str, ...], "files that the run folder must hold"] = ()
    prepare: Annotated[str, "reference to a function that checks a request in the server"] = ""
    examples: Annotated[str, "reference to a function that gives inputs to try"] = ""
    report: Annotated[str, "the JSON file that it leaves in the run folder"] = ""

    def available(self, folder: Path, model: Any) -> bool:
        """Whether a run with this kind of model can do it, as far as its files tell."""
        fits = not self.models or model in self.models
        return fits and all((folder / name).exists() for name in self.files)


@dataclass(frozen=True)
class Example:
    """A command that trains a first run."""

    sentence: Annotated[str, "what it does, before the command"]
    command: Annotated[str, "up to the folder that it writes, as in `vision train --out`"]
    folder: Annotated[str, "the name of that folder"]


class Declared(ABC):
    """What can be registered as a task."""

    @abstractmethod
    def kind(self) -> TaskKind:
        """What the rest of attnlab knows of it."""


@dataclass(frozen=True)
class TaskKind(Declared):
    """One task. `attnlab.tasks.registry.TASKS` lists them."""

    name: Annotated[str, "also the name of its command"]
    help: Annotated[str, "one sentence, for the command line and the studio"]
    headline: Annotated[str, "the metric that counts; a run's config.json may name another"]
    better: Annotated[Better, "whether a lower or a higher headline is better"]
    example: Annotated[Example | None, "how to train a first run"] = None
    commands: Annotated[str, "reference to its App; none: made from the recipe"] = ""
    recipe: Annotated[Any, "trains and measures, as `attnlab.tasks.simple.Recipe` says"] = None
    comparison: Annotated[
        str, "reference to its `attnlab.tasks.comparison.Comparison`; none: made from the recipe"
    ] = ""
    subject: Annotated[
        str, "reference to a function that opens a run for `look`; none: texts are read as they are"
    ] = ""
    can: Annotated[Mapping[str, Capability], "what its runs can do"] = field(default_factory=dict)
    files: Annotated[
        Mapping[str, str], "files of a run besides those of every run, and what each is for"
    ] = field(default_factory=dict)
    results: Annotated[
        tuple[str, ...],
        'files about the trained weights, removed with them; a pattern: JSON that names its "run"',
    ] = ()

    def kind(self) -> TaskKind:
        return self

    @property
    def can_compare(self) -> bool:
        return bool(self.comparison or self.recipe)

    def capabilities(self, folder: Path, model: Any) -> list[str]:
        """What a run with this kind of model can do."""
        return [name for name, each in self.can.items() if each.available(folder, model)]
