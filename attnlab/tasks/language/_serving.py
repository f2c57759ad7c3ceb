"""A language run that writes on, for the studio."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Decoder
from attnlab.tasks.language._training import load_language
from attnlab.tasks.serving import Request, Tell, continue_text
from attnlab.tokenizer import Tokenizer


@dataclass(frozen=True)
class Generating:
    model: Decoder
    tokenizer: Tokenizer

    @classmethod
    def open(cls, folder: Path) -> Generating:
        model, tokenizer, _ = load_language(folder)
        if not isinstance(model, Decoder):
            raise ValueError(f"{folder.name}: a masked model fills gaps, it cannot write")
        return cls(model, tokenizer)

    def __call__(self, request: Request, tell: Tell) -> Any:
        prompt = [self.tokenizer.end, *self.tokenizer.encode(request["text"])]
        continue_text(self.model, self.tokenizer, prompt, request, tell)
        return {}
