"""What a task declares of itself: everything that the rest of attnlab knows about it.

Free of torch: a list of runs, the help of a command and the studio's server read these. Whatever
is heavy is named as "module:attribute" and imported by `load` when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

Better = Literal["lower", "higher"]
TOKENS = "tokenizer.json"


def load(reference: Any) -> Any:
    """What "module:attribute" names. An object, as a file of your own may give it, is itself.

    >>> load("math:pi")
    3.141592653589793
    """
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class Capability:
    """One thing that a trained model can do, as the studio offers it.

    `serve` names a class as `attnlab.tasks.serving.Served` describes it.
    """

    serve: str
    models: tuple[str, ...] = ()
    """Kinds of models that can; none: all."""
    files: tuple[str, ...] = ()
    """That the run folder must hold."""
    prepare: str = ""
    """A function that checks a request in the server, before a model is opened."""
    examples: str = ""
    """A function that gives inputs to try, from the files of a run."""
    report: str = ""
    """The JSON file that it leaves in the run folder."""

    def available(self, folder: Path, model: Any) -> bool:
        """Whether a run of this model's kind can do it, as far as its files tell."""
        fits = not self.models or model in self.models
        return fits and all((folder / name).exists() for name in self.files)


@dataclass(frozen=True)
class Example:
    """A command that trains a first run."""

    sentence: str
    command: str
    """Up to the name of the folder that it writes: "attnlab vision train --out"."""
    folder: str


@dataclass(frozen=True)
class TaskKind:
    """One task. `attnlab.tasks.registry.TASKS` lists them."""

    name: str
    help: str
    """One sentence, for the command line and the studio."""
    headline: str
    """The metric that counts; a run's own config.json may name another."""
    better: Better
    example: Example | None = None
    commands: str = ""
    """The command line's App; none: train and evaluate are made from `recipe`."""
    recipe: Any = None
    """What trains and measures, as `attnlab.tasks.simple.Recipe` describes it."""
    subject: str = ""
    """A function that opens a run to look at its attention, where a text must be read as in
    training; none: the model reads a text as it is."""
    can: Mapping[str, Capability] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """What a run holds besides the files of every run, and what each is for."""
    results: tuple[str, ...] = ()
    """Files about the trained weights: of other weights they would be wrong."""
    reports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The same by pattern: JSON files, with a page beside each. A person may have files of such
    names too, so these keys tell which are ours."""

    def capabilities(self, folder: Path, model: Any) -> list[str]:
        """What a run whose model is of this kind can do."""
        return [name for name, each in self.can.items() if each.available(folder, model)]
