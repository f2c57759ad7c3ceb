"""The interface between attnlab and a library of models, and the list of supported libraries.

`attnlab.MODEL_ADAPTERS` names the adapters. They are imported when a model is first opened, so
this package imports none of the libraries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import attnlab
from attnlab.interpret._attention_call import CallListener
from attnlab.interpret._attention_sites import AttentionSite
from attnlab.interpret._inspected_model import BatchOutput, InspectedModel
from attnlab.interpret._local_models import resolve_model


class ModelAdapter(ABC):
    """One library: how to open its models, and how to observe their attention calls."""

    @abstractmethod
    def open_folder(self, path: Path) -> InspectedModel | None:
        """The model in a folder or file; None if another library wrote it."""

    @abstractmethod
    def wrap_model(self, model: Any, processor: Any) -> InspectedModel | None:
        """A model in memory with its tokenizer or image processor; None if another library's."""

    @abstractmethod
    def listen(self, model: nn.Module, listener: CallListener) -> AbstractContextManager[list[str]]:
        """Pass each attention call inside the `with` to `listener`; returns the layers' names (an
        empty list if no layer belongs to this library)."""

    @abstractmethod
    def sites(self, model: nn.Module) -> list[AttentionSite]:
        """The attention layers of this library in `model`, in the order of its modules."""

    @abstractmethod
    def predict(self, model: nn.Module, inputs: dict[str, Tensor]) -> BatchOutput | None:
        """Run a model on the inputs of a `PreparedInput`, of any batch size; a text may also be
        given as `ids`. None if it is another library's."""


@cache
def adapters() -> list[ModelAdapter]:
    """All adapters in the order in which they are tried. The last one accepts any folder, and its
    error says what is wrong with it."""
    names = (name.split(":") for name in attnlab.MODEL_ADAPTERS)
    return [getattr(import_module(module), kind)() for module, kind in names]


@contextmanager
def listen(model: nn.Module, listener: CallListener) -> Iterator[list[str]]:
    """Pass every attention call of `model` to `listener`, for the layers of all libraries."""
    with ExitStack() as stack:
        yield [
            name
            for adapter in adapters()
            for name in stack.enter_context(adapter.listen(model, listener))
        ]


def attention_sites(model: nn.Module) -> list[AttentionSite]:
    """The attention layers of all libraries in a model."""
    return [site for adapter in adapters() for site in adapter.sites(model)]


def predict(model: nn.Module, inputs: dict[str, Tensor]) -> BatchOutput:
    """Run a model of any library."""
    for adapter in adapters():
        output = adapter.predict(model, inputs)
        if output is not None:
            return output
    raise ValueError(
        f"cannot run a {type(model).__name__}; give an attnlab model or a Hugging Face model"
    )


def open_model(model: Any, processor: Any = None) -> InspectedModel:
    """Open a folder, a model of this machine by its name, or a model in memory with its tokenizer
    or image processor."""
    if isinstance(model, InspectedModel):
        return model
    path = resolve_model(model) if isinstance(model, str | Path) else None
    for adapter in adapters():
        inspected = (
            adapter.wrap_model(model, processor) if path is None else adapter.open_folder(path)
        )
        if inspected is not None:
            return inspected
    raise ValueError(
        f"cannot look at {type(model).__name__}; give a folder, an attnlab model, or a Hugging "
        "Face model with its tokenizer"
    )
