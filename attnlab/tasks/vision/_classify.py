"""Classify images with a trained run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlab._image_files import center_crop, open_rgb_image, to_channels
from attnlab.tasks.vision._known_labels import find_labels, known_labels
from attnlab.tasks.vision._task import to_float
from attnlab.tasks.vision._training import load_vision, open_run_data


@dataclass(frozen=True)
class Prediction:
    """The probabilities that a run gives to the classes of one image."""

    image: str
    probabilities: list[tuple[str, float]]
    """(class, probability) for every class, the most probable first."""
    label: str | None = None
    """The class in the run's data, if the image comes from them."""

    @property
    def is_wrong(self) -> bool:
        return self.label is not None and self.label != self.probabilities[0][0]

    def describe(self) -> str:
        """The predicted class with its probability, and the label if it is known: "9 (99%), but
        its label is 5"."""
        name, probability = self.probabilities[0]
        text = f"{name} ({probability:.0%})"
        if self.label is None:
            return text
        return f"{text}, {'but' if self.is_wrong else 'and'} its label is {self.label}"


def classify(run: str | Path, images: Sequence[str | Path]) -> list[Prediction]:
    """Classify image files. Each is cut to its middle square and resized to the size of the run.

    >>> from PIL import Image
    >>> from attnlab.tasks.vision import classify, train_vision
    >>> sizes = {"width": 16, "layers": 1, "heads": 2}
    >>> small = {"sizes": sizes, "training": {"steps": 2}, "quiet": True}
    >>> metrics = train_vision("digits", out="run", **small)
    >>> Image.new("L", (28, 28)).save("black.png")
    >>> (prediction,) = classify("run", ["black.png"])
    >>> len(prediction.probabilities)
    10
    """
    if not images:
        raise ValueError("no images; give one or more")
    model, config = load_vision(run)
    return classify_with(model, config, images, known_labels(config))


def classify_with(
    model: nn.Module,
    config: dict[str, Any],
    images: Sequence[str | Path],
    labels: Mapping[int, str],
) -> list[Prediction]:
    """`classify` with a model that is already loaded, and the `known_labels` of its data."""
    task = config["task"]
    squares = [
        to_channels(center_crop(open_rgb_image(Path(path)), task["image_size"]), task["channels"])
        for path in images
    ]
    stacked = torch.stack(squares)
    names = [str(path) for path in images]
    return _predict(model, stacked, names, config, find_labels(labels, stacked))


def classify_test(run: str | Path, numbers: Sequence[int]) -> tuple[list[Prediction], list[Tensor]]:
    """Classify test images by number. Also returns their pixels (C, size, size).

    >>> from attnlab.tasks.vision import classify_test, train_vision
    >>> sizes = {"width": 16, "layers": 1, "heads": 2}
    >>> small = {"sizes": sizes, "training": {"steps": 2}, "quiet": True}
    >>> metrics = train_vision("digits", out="run", **small)
    >>> (prediction,), (pixels,) = classify_test("run", [0])
    >>> best, probability = prediction.probabilities[0]
    >>> best in "0123456789"
    True
    """
    model, config = load_vision(run)
    dataset, parts = open_run_data(config)
    for number in numbers:
        if not 0 <= number < len(parts.test):
            raise ValueError(f"no test image {number}; give 0 to {len(parts.test) - 1}")
    pixels = parts.test.pixels[list(numbers)]
    labels = [dataset.classes[int(parts.test.labels[number])] for number in numbers]
    names = [f"test image {number}" for number in numbers]
    return _predict(model, to_float(pixels), names, config, labels), list(pixels)


@torch.no_grad()
def _predict(
    model: nn.Module,
    images: Tensor,
    names: Sequence[str],
    config: dict[str, Any],
    labels: Sequence[str | None] | None = None,
) -> list[Prediction]:
    classes = config["task"]["classes"]
    probabilities = model(images).float().softmax(-1)  # (B, K)
    predictions = []
    for name, row, label in zip(names, probabilities, labels or [None] * len(names), strict=True):
        order = row.argsort(descending=True).tolist()
        predictions.append(Prediction(name, [(classes[k], float(row[k])) for k in order], label))
    return predictions
