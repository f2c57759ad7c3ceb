"""attnlab's own models, as `adapters` asks for them."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from torch import nn

from attnlab.interpret import hooks
from attnlab.interpret.adapters import ModelAdapter
from attnlab.interpret.calls import Listener
from attnlab.interpret.subjects import Subject
from attnlab.models import MODELS, Model
from attnlab.tokens import Tokenizer


class OwnModels(ModelAdapter):
    def open_folder(self, path: Path) -> Subject | None:
        from attnlab.interpret.own_subjects import open_own  # all tasks: `capture` needs none

        return open_own(path) if _is_own(path / "config.json") else None

    def subject_of(self, model: Any, reader: Any) -> Subject | None:
        from attnlab.interpret.own_subjects import OwnSubject

        if not isinstance(model, Model):
            return None
        if reader is not None and not isinstance(reader, Tokenizer):
            raise ValueError("tokenizer: give one of attnlab.tokens with a model of attnlab")
        return OwnSubject(model, reader, type(model).__name__)

    def listen(self, model: nn.Module, listener: Listener) -> AbstractContextManager[list[str]]:
        return hooks.listen(model, listener)


def _is_own(config: Path) -> bool:
    """Whether attnlab wrote it; another adapter says what is wrong with a broken file."""
    try:
        read = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(read, dict) and ("training" in read or str(read.get("model")) in MODELS)
