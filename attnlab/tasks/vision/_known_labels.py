"""Find the label of an image that belongs to a run's own data, by its pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attnlab._image_files import encode_png
from attnlab.tasks.vision._dataset import Images
from attnlab.tasks.vision._open_data import is_resized
from attnlab.tasks.vision._seen_images import image_digests
from attnlab.tasks.vision._training import open_matching_data, open_run_data


def known_labels(config: dict[str, Any]) -> Mapping[int, str]:
    """The class of every image of the run's data by the digest of its pixels.

    Empty if the data cannot be opened anymore, or are a folder of images: resizing them all takes
    too long. Leaves out images that the data have with two labels.
    """
    try:
        source = config["task"]["data"]
        if is_resized(source):
            return {}
        dataset = open_matching_data(config, source)
    except (ValueError, OSError, KeyError):
        return {}
    labels: dict[int, str | None] = {}
    for part in filter(None, (dataset.train, dataset.validation, dataset.test)):
        for digest, label in zip(image_digests(part).tolist(), part.labels.tolist(), strict=True):
            name = dataset.classes[label]
            labels[digest] = name if labels.get(digest, name) == name else None
    return {digest: name for digest, name in labels.items() if name is not None}


def test_images(config: dict[str, Any], count: int) -> list[tuple[bytes, str]]:
    """The first test images of the run's data, as PNG files with their labels. None of them if the
    data cannot be opened anymore, or are a folder of images, which takes too long to read."""
    try:
        if is_resized(config["task"]["data"]):
            return []
        dataset, parts = open_run_data(config)
    except (ValueError, OSError, KeyError):
        return []
    labels = parts.test.labels[:count].tolist()
    return [
        (encode_png(pixels), dataset.classes[label])
        for pixels, label in zip(parts.test.pixels[:count], labels, strict=True)
    ]


def find_labels(labels: Mapping[int, str], images: Tensor) -> list[str | None]:
    """The label of each image (B, C, size, size) from 0 to 1, or None."""
    pixels = (255 * images).round().byte()
    digests = image_digests(Images(pixels, pixels.new_zeros(len(pixels)).long()))
    return [labels.get(digest) for digest in digests.tolist()]
