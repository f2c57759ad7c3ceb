"""Labeled images in memory: a data set, its checks, and its splits.

Letters: N images, C channels.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unicodedata import category

import torch
from torch import Tensor

MAX_BYTES = 2**31  # of pixels, because a small file can unpack to more than the memory holds
TEST_FRACTION, VALIDATION_FRACTION, MAX_VALIDATION = 0.2, 0.1, 5000


@dataclass(frozen=True)
class Images:
    pixels: Tensor
    """(N, C, height, width) uint8."""
    labels: Tensor
    """(N,) int64."""
    file: str = "images"
    labels_file: str = "labels"
    """Where pixels and labels come from, for error messages."""

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Tensor) -> Images:
        return replace(self, pixels=self.pixels[rows], labels=self.labels[rows])

    @property
    def channels(self) -> int:
        return self.pixels.shape[1]

    @property
    def size(self) -> int:
        return self.pixels.shape[2]


@dataclass(frozen=True)
class Dataset:
    """A labeled data set as a reader returns it."""

    source: str
    """A name, a file or a folder, for error messages."""
    classes: list[str]
    train: Images
    test: Images | None = None
    """The test set, if the source has one."""
    validation: Images | None = None
    skipped: list[str] = field(default_factory=list)
    """A sentence for each image that could not be read."""
    notes: list[str] = field(default_factory=list)
    """Lines about what is missing or was not read, to be printed."""

    @property
    def can_be_mirrored(self) -> bool:
        """Whether a mirrored image still belongs to its class. Digits and letters do not, and for
        classes that are only numbers we cannot know."""
        return not all(name.isdecimal() or len(name) == 1 for name in self.classes)


@dataclass(frozen=True)
class Parts:
    """The three parts of a data set."""

    train: Images
    validation: Images
    test: Images


def escape_unprintable(text: str) -> str:
    """Escape what cannot be printed: a file name may contain line breaks and bytes that are not
    text. They appear as numbers, so that you can still find the file."""
    decoded = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(f"\\x{ord(c):02x}" if category(c) == "Cc" else c for c in decoded)


def no_test_note(source: str | Path, reason: str = "does not exist") -> str:
    """A note that the source has no test set, so that a part of the training images is used."""
    return f"{source}: {reason}; a fifth of the training images becomes the test set"


def join(parts: Sequence[Images]) -> Images:
    """Concatenate parts. File names come from the first one."""
    first, more = parts[0], f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return Images(
        torch.cat([p.pixels for p in parts]),
        torch.cat([p.labels for p in parts]),
        f"{first.file}{more}",
        f"{first.labels_file}{more}",
    )


def check_dataset(dataset: Dataset) -> Dataset:
    """Check sizes, labels and the number of classes. An error names the file.

    Without class names the labels may be any numbers, which then become the names.
    """
    all_parts = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    parts = {name: part for name, part in all_parts.items() if part is not None}
    for name, part in parts.items():
        shape = tuple(part.pixels.shape)
        if len(shape) != 4 or shape[1] not in (1, 3) or part.pixels.dtype != torch.uint8:
            raise ValueError(
                f"{part.file}: {name} images have shape {shape}; give gray or color images as bytes"
            )
        if shape[2] != shape[3]:
            raise ValueError(
                f"{part.file}: images have {shape[3]} x {shape[2]} pixels; give square images"
            )
        if len(part) != len(part.pixels):
            raise ValueError(
                f"{part.labels_file}: has {len(part)} labels for {len(part.pixels)} {name} images; "
                "give one label for each image"
            )
        if not part.pixels.numel():
            raise ValueError(f"{part.file}: has no {name} images; give at least one")
        check_size(part, dataset.train)
    if not dataset.classes:
        return _check_class_count(_number_classes(dataset))
    for part in parts.values():
        check_labels(part.labels, dataset.classes, part.labels_file)
    return _check_class_count(dataset)


def check_size(images: Images, first: Images) -> None:
    if images.pixels.shape[1:] != first.pixels.shape[1:]:
        raise ValueError(
            f"{images.file}: images are {_describe_shape(images)}, those of {first.file} "
            f"{_describe_shape(first)}; give images of one size"
        )


def _check_class_count(dataset: Dataset) -> Dataset:
    train = dataset.train
    present = train.labels.unique()
    if len(present) < 2:
        only = dataset.classes[int(present[0])]
        raise ValueError(
            f"{train.labels_file}: all images have one class ({only}); give two or more classes"
        )
    return dataset


def check_labels(labels: Tensor, classes: Sequence[str], source: str) -> None:
    wrong = labels[(labels < 0) | (labels >= len(classes))]
    if len(wrong):
        raise ValueError(
            f"{source}: has label {int(wrong[0])}; there are {len(classes)} classes, from 0 to "
            f"{len(classes) - 1}"
        )


def _number_classes(dataset: Dataset) -> Dataset:
    """Number the classes by the sorted labels, and name them after the labels."""
    values = dataset.train.labels.unique()  # sorted

    def renumber(part: Images) -> Images:
        indices = torch.searchsorted(values, part.labels)
        is_known = values[indices.clamp(max=len(values) - 1)] == part.labels
        if not bool(is_known.all()):
            unknown = int(part.labels[~is_known][0])
            raise ValueError(
                f"{part.labels_file}: label {unknown} does not occur in the training images"
            )
        return replace(part, labels=indices)

    return replace(
        dataset,
        classes=[str(value) for value in values.tolist()],
        train=renumber(dataset.train),
        validation=None if dataset.validation is None else renumber(dataset.validation),
        test=None if dataset.test is None else renumber(dataset.test),
    )


def split_dataset(dataset: Dataset) -> Parts:
    """Split by class, always in the same way: a run's seed does not change it."""
    train, validation, test = dataset.train, dataset.validation, dataset.test
    if test is None:
        train, test = _split_off(train, TEST_FRACTION, len(train), 1)
    if validation is None:
        train, validation = _split_off(train, VALIDATION_FRACTION, MAX_VALIDATION, 2)
    if not len(validation) or not len(test) or len(train.labels.unique()) < 2:
        raise ValueError(
            f"{dataset.source}: too few images for training, validation and test; "
            "give ten or more of each class"
        )
    return Parts(train, validation, test)


def _split_off(images: Images, fraction: float, limit: int, seed: int) -> tuple[Images, Images]:
    fraction = min(fraction, limit / max(1, len(images)))
    rows = _sample_each_class(images.labels, fraction, seed, least=0)
    remaining = torch.ones(len(images), dtype=torch.bool)
    remaining[rows] = False
    return images.select(remaining.nonzero()[:, 0]), images.select(rows)


def take_fraction(images: Images, fraction: float, seed: int) -> Images:
    """This fraction of each class, at least one image. A larger fraction contains a smaller one."""
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction is {fraction}; give a number above 0, at most 1")
    if fraction == 1:
        return images
    return images.select(_sample_each_class(images.labels, fraction, seed, 1))


def _sample_each_class(labels: Tensor, fraction: float, seed: int, least: int) -> Tensor:
    """Sorted row numbers: this fraction of each class, at least `least` of each."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    selected = []
    for label in labels.unique():
        rows = order[labels[order] == label]
        selected.append(rows[: max(least, round(fraction * len(rows)))])
    return torch.cat(selected).sort().values


def digest(*parts: Images) -> str:
    """Identifies a set of images, so that a run is not resumed with other data."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part.pixels.contiguous().numpy().data)
        sha.update(part.labels.contiguous().numpy().data)
    return sha.hexdigest()[:16]


def _describe_shape(images: Images) -> str:
    _, channels, height, width = images.pixels.shape
    return f"{width} x {height} {'gray' if channels == 1 else 'color'}"
