"""Hugging Face models, as `attnlab.interpret.adapters` asks for them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from torch import nn

from attnlab.huggingface.interface import listen
from attnlab.huggingface.places import is_huggingface
from attnlab.huggingface.subjects import HuggingFaceSubject, open_huggingface
from attnlab.interpret.adapters import ModelAdapter
from attnlab.interpret.calls import Listener
from attnlab.interpret.subjects import Subject


class HuggingFaceModels(ModelAdapter):
    def open_folder(self, path: Path) -> Subject:
        """Any folder: an error says why no model is there."""
        return open_huggingface(path)

    def subject_of(self, model: Any, reader: Any) -> Subject | None:
        if not isinstance(model, nn.Module) or not hasattr(model, "main_input_name"):
            return None
        name = str(getattr(model.config, "name_or_path", "")) or type(model).__name__
        return HuggingFaceSubject(model, reader, Path(name).name)

    def listen(self, model: nn.Module, listener: Listener) -> AbstractContextManager[list[str]]:
        ours = any(is_huggingface(module) for module in model.modules())
        return listen(model, listener) if ours else nullcontext([])
