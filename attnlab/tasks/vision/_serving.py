"""Classifies images with a vision run, for the studio."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Model
from attnlab.tasks.serving import Request, SendEvent
from attnlab.tasks.vision._classify import classify_with
from attnlab.tasks.vision._training import load_vision


@dataclass(frozen=True)
class ClassificationService:
    """Classifies the image of a request."""

    model: Model
    config: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> ClassificationService:
        return cls(*load_vision(folder))

    def __call__(self, request: Request, send: SendEvent) -> Any:
        del send
        probabilities = classify_with(self.model, self.config, [request["image"]])[0].probabilities
        rows = [{"label": label, "probability": p} for label, p in probabilities]
        return {"label": probabilities[0][0], "probabilities": rows}
