"""What attnlab needs to know of a library to look into its models, and which libraries it knows.

`attnlab.MODEL_ADAPTERS` names the adapters. They are imported when a model is first looked at, so
this package knows none of the libraries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

import attnlab
from attnlab.interpret._attention_call import Listener
from attnlab.interpret._inspected_model import Subject


class ModelAdapter(ABC):
    """One library's models: how to open one, and how to hear its attention calls."""

    @abstractmethod
    def open_folder(self, path: Path) -> Subject | None:
        """The model in a folder or file; None if it is none of this library's."""

    @abstractmethod
    def subject_of(self, model: Any, reader: Any) -> Subject | None:
        """A model in memory with its tokenizer or image processor; None as above."""

    @abstractmethod
    def listen(self, model: nn.Module, listener: Listener) -> AbstractContextManager[list[str]]:
        """Tell `listener` of each attention call inside the `with`; gives the layers' names, which
        are none where no layer is of this library."""


@cache
def adapters() -> list[ModelAdapter]:
    """In the order in which they are asked. The last one takes any folder that is left, and says
    what is wrong with it."""
    names = (name.split(":") for name in attnlab.MODEL_ADAPTERS)
    return [getattr(import_module(module), kind)() for module, kind in names]


@contextmanager
def listen(model: nn.Module, listener: Listener) -> Iterator[list[str]]:
    """Tell `listener` of every attention call of `model`, whatever library its layers are of."""
    with ExitStack() as stack:
        yield [
            name
            for adapter in adapters()
            for name in stack.enter_context(adapter.listen(model, listener))
        ]


def open_subject(model: Any, reader: Any = None) -> Subject:
    """A folder, or a model in memory with its tokenizer or image processor."""
    if isinstance(model, Subject):
        return model
    path = Path(model) if isinstance(model, str | Path) else None
    if path is not None and not path.exists():
        raise ValueError(f"{path}: is not there; give a folder with a model, or a capture file")
    for adapter in adapters():
        subject = (
            adapter.subject_of(model, reader) if path is None else adapter.open_folder(path)
        )  # fmt: skip
        if subject is not None:
            return subject
    raise ValueError(
        f"cannot look at {type(model).__name__}; give a folder, a model of attnlab, or a Hugging "
        "Face model with its tokenizer"
    )
