"""A vision run that says what images show, for the studio."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Model
from attnlab.tasks.serving import Request, Tell
from attnlab.tasks.vision._classify import classify_with
from attnlab.tasks.vision._training import load_vision


@dataclass(frozen=True)
class Classifying:
    model: Model
    config: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> Classifying:
        return cls(*load_vision(folder))

    def __call__(self, request: Request, tell: Tell) -> Any:
        del tell
        chances = classify_with(self.model, self.config, [request["image"]])[0].chances
        probabilities = [{"label": label, "probability": p} for label, p in chances]
        return {"label": chances[0][0], "probabilities": probabilities}
