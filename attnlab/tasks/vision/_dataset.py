"""Labeled images in memory: a data set, its checks, and how it is divided.

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

MOST_BYTES = 2**31  # of pixels: a small file can open to more than memory holds
TEST_SHARE, VALIDATION_SHARE, MOST_VALIDATION = 0.2, 0.1, 5000


@dataclass(frozen=True)
class Images:
    pixels: Tensor
    """(N, C, height, width) uint8."""
    labels: Tensor
    """(N,) int64."""
    file: str = "images"
    labels_file: str = "labels"
    """Where both come from, for errors to name."""

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
    """What a reader found."""

    source: str
    """A name, a file or a folder, for errors to name."""
    classes: list[str]
    train: Images
    test: Images | None = None
    """Where the source keeps one of its own."""
    validation: Images | None = None
    skipped: list[str] = field(default_factory=list)
    """A sentence for each image that could not be read."""
    notes: list[str] = field(default_factory=list)
    """What else one may have expected to be there or to be used."""

    @property
    def mirrored(self) -> bool:
        """Whether a mirrored image still shows the same thing: not so of digits and letters, and
        nothing is known of classes that only have numbers."""
        return not all(name.isdecimal() or len(name) == 1 for name in self.classes)


@dataclass(frozen=True)
class Parts:
    """To train on, to choose by, and to report once."""

    train: Images
    validation: Images
    test: Images


def legible(text: str) -> str:
    """As it can be written and printed: a file's name may hold bytes that are no text, and line
    breaks. Such are shown by their numbers, so that the file can still be found."""
    named = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(f"\\x{ord(c):02x}" if category(c) == "Cc" else c for c in named)


def no_test(where: str | Path, what: str = "is not there") -> str:
    """A note on a set that has a training part, and no test part beside it."""
    return f"{where}: {what}; a fifth of the training images is the test set"


def join(parts: Sequence[Images]) -> Images:
    """One after the other; named after the first."""
    first, more = parts[0], f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return Images(
        torch.cat([p.pixels for p in parts]),
        torch.cat([p.labels for p in parts]),
        f"{first.file}{more}",
        f"{first.labels_file}{more}",
    )


def checked(dataset: Dataset) -> Dataset:
    """The same, or a mistake in it by the name of its file: sizes, labels, number of classes.

    Where classes have no names the labels may be any numbers, and name them.
    """
    found = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    parts = {name: part for name, part in found.items() if part is not None}
    for name, part in parts.items():
        shape = tuple(part.pixels.shape)
        if len(shape) != 4 or shape[1] not in (1, 3) or part.pixels.dtype != torch.uint8:
            raise ValueError(
                f"{part.file}: {name} images {shape}; give gray or color ones in bytes"
            )
        if shape[2] != shape[3]:
            raise ValueError(f"{part.file}: images of {shape[3]} x {shape[2]} pixels; give squares")
        if len(part) != len(part.pixels):
            raise ValueError(
                f"{part.labels_file}: {len(part)} labels for {len(part.pixels)} {name} images"
            )
        if not part.pixels.numel():
            raise ValueError(f"{part.file}: there are no {name} images")
        check_size(part, dataset.train)
    if not dataset.classes:
        return _two_or_more(_numbered(dataset))
    for part in parts.values():
        check_labels(part.labels, dataset.classes, part.labels_file)
    return _two_or_more(dataset)


def check_size(images: Images, first: Images) -> None:
    if images.pixels.shape[1:] != first.pixels.shape[1:]:
        raise ValueError(
            f"{images.file}: images are {_shape(images)}, those of {first.file} {_shape(first)}; "
            "give one size"
        )


def _two_or_more(dataset: Dataset) -> Dataset:
    train = dataset.train
    present = train.labels.unique()
    if len(present) < 2:
        only = dataset.classes[int(present[0])]
        raise ValueError(
            f"{train.labels_file}: all images are of one class ({only}); give two or more"
        )
    return dataset


def check_labels(labels: Tensor, classes: Sequence[str], source: str) -> None:
    wrong = labels[(labels < 0) | (labels >= len(classes))]
    if len(wrong):
        raise ValueError(
            f"{source}: label {int(wrong[0])}; there are {len(classes)} classes, from 0 to "
            f"{len(classes) - 1}"
        )


def _numbered(dataset: Dataset) -> Dataset:
    """Labels that are any numbers as classes of their own, in order, named after them."""
    found = dataset.train.labels.unique()  # sorted

    def renumber(part: Images) -> Images:
        places = torch.searchsorted(found, part.labels)
        known = found[places.clamp(max=len(found) - 1)] == part.labels
        if not bool(known.all()):
            stranger = int(part.labels[~known][0])
            raise ValueError(
                f"{part.labels_file}: label {stranger} is none of the training images'"
            )
        return replace(part, labels=places)

    return replace(
        dataset,
        classes=[str(each) for each in found.tolist()],
        train=renumber(dataset.train),
        validation=None if dataset.validation is None else renumber(dataset.validation),
        test=None if dataset.test is None else renumber(dataset.test),
    )


def divided(dataset: Dataset) -> Parts:
    """The same division at every call, by class: what a run's seed is changes nothing here."""
    train, validation, test = dataset.train, dataset.validation, dataset.test
    if test is None:
        train, test = _part_off(train, TEST_SHARE, len(train), 1)
    if validation is None:
        train, validation = _part_off(train, VALIDATION_SHARE, MOST_VALIDATION, 2)
    if not len(validation) or not len(test) or len(train.labels.unique()) < 2:
        raise ValueError(
            f"{dataset.source}: too few images to train on, choose by and test with; "
            "give ten or more of each class"
        )
    return Parts(train, validation, test)


def _part_off(images: Images, share: float, most: int, seed: int) -> tuple[Images, Images]:
    share = min(share, most / max(1, len(images)))
    taken = _of_each_class(images.labels, share, seed, least=0)
    left = torch.ones(len(images), dtype=torch.bool)
    left[taken] = False
    return images.select(left.nonzero()[:, 0]), images.select(taken)


def fraction(images: Images, share: float, seed: int) -> Images:
    """This share of each class, at least one image of it; a larger one holds the smaller."""
    if not 0 < share <= 1:
        raise ValueError(f"fraction {share}; give a share above 0, at most 1")
    return images if share == 1 else images.select(_of_each_class(images.labels, share, seed, 1))


def _of_each_class(labels: Tensor, share: float, seed: int, least: int) -> Tensor:
    """Row numbers, sorted."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    found = []
    for each in labels.unique():
        rows = order[labels[order] == each]
        found.append(rows[: max(least, round(share * len(rows)))])
    return torch.cat(found).sort().values


def digest(*parts: Images) -> str:
    """Tells one set of images from another: a run must not go on with the wrong one."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.pixels.contiguous().numpy().data)
        found.update(part.labels.contiguous().numpy().data)
    return found.hexdigest()[:16]


def _shape(images: Images) -> str:
    _, channels, height, width = images.pixels.shape
    return f"{width} x {height} {'gray' if channels == 1 else 'color'}"
