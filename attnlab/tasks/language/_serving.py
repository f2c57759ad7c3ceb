"""Continues texts with a language run, for the studio."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Decoder
from attnlab.tasks.language._training import load_language
from attnlab.tasks.serving import Request, SendEvent, continue_text
from attnlab.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextGenerationService:
    """Continues the text of a request."""

    model: Decoder
    tokenizer: Tokenizer

    @classmethod
    def open(cls, folder: Path) -> TextGenerationService:
        model, tokenizer, _ = load_language(folder)
        if not isinstance(model, Decoder):
            raise ValueError(
                f"{folder.name}: a masked language model cannot write; train with --objective "
                "causal"
            )
        return cls(model, tokenizer)

    def __call__(self, request: Request, send: SendEvent) -> Any:
        prompt, _ = self.tokenizer.encode_prompt(request["text"])
        continue_text(self.model, self.tokenizer, prompt, request, send)
        return {}
