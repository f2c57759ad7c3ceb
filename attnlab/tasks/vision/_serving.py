"""Classifies images with a vision run, for the studio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Model
from attnlab.tasks.serving import Request, SendEvent
from attnlab.tasks.vision._classify import classify_with
from attnlab.tasks.vision._known_labels import known_labels, test_images
from attnlab.tasks.vision._training import load_vision

EXAMPLES = 8  # images to try


@dataclass(frozen=True)
class ClassificationService:
    """Classifies the image of a request."""

    model: Model
    config: dict[str, Any]
    labels: Mapping[int, str]
    """The classes of the run's own images, by digest."""

    @classmethod
    def open(cls, folder: Path) -> ClassificationService:
        model, config = load_vision(folder)
        return cls(model, config, known_labels(config))

    def __call__(self, request: Request, send: SendEvent) -> Any:
        del send
        if "examples" in request:
            return {"images": test_images(self.config, EXAMPLES)}
        images = [request["image"]]
        (prediction,) = classify_with(self.model, self.config, images, self.labels)
        rows = [{"label": label, "probability": p} for label, p in prediction.probabilities]
        return {
            "label": prediction.probabilities[0][0],
            "known_label": prediction.label,
            "probabilities": rows,
        }
