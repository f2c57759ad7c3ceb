"""What an image shows, as a trained run sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlab._image_files import center_crop, open_rgb_image, to_channels
from attnlab.tasks.vision._task import as_floats
from attnlab.tasks.vision._training import load_vision, parts_of


@dataclass(frozen=True)
class Prediction:
    image: str
    chances: list[tuple[str, float]]
    """Of every class, the likeliest first."""
    label: str | None = None
    """What the data set says, of an image that comes from it."""


def classify(run: str | Path, images: Sequence[str | Path]) -> list[Prediction]:
    """Each image is cut to its middle square and resized to what the run learned from."""
    if not images:
        raise ValueError("give an image, or more of them")
    return classify_with(*load_vision(run), images)


def classify_with(
    model: nn.Module, config: dict[str, Any], images: Sequence[str | Path]
) -> list[Prediction]:
    """`classify` by a run that is open already."""
    task = config["task"]
    squares = [
        to_channels(center_crop(open_rgb_image(Path(path)), task["image_size"]), task["channels"])
        for path in images
    ]
    return _said(model, torch.stack(squares), [str(path) for path in images], config)


def classify_test(run: str | Path, numbers: Sequence[int]) -> tuple[list[Prediction], list[Tensor]]:
    """Test images by their number, and their pixels (C, side, side)."""
    model, config = load_vision(run)
    dataset, parts = parts_of(config)
    for number in numbers:
        if not 0 <= number < len(parts.test):
            raise ValueError(f"test image {number}; there are 0 to {len(parts.test) - 1}")
    pixels = parts.test.pixels[list(numbers)]
    labels = [dataset.classes[int(parts.test.labels[number])] for number in numbers]
    names = [f"test image {number}" for number in numbers]
    return _said(model, as_floats(pixels), names, config, labels), list(pixels)


@torch.no_grad()
def _said(
    model: nn.Module,
    images: Tensor,
    names: Sequence[str],
    config: dict[str, Any],
    labels: Sequence[str | None] | None = None,
) -> list[Prediction]:
    classes = config["task"]["classes"]
    chances = model(images).float().softmax(-1)  # (B, K)
    found = []
    for name, row, label in zip(names, chances, labels or [None] * len(names), strict=True):
        order = row.argsort(descending=True).tolist()
        found.append(Prediction(name, [(classes[k], float(row[k])) for k in order], label))
    return found
