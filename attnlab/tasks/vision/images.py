"""Labelled images in memory: a data set, its checks, and how it is divided.

Letters: N images, C channels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

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

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Tensor) -> Images:
        return Images(self.pixels[rows], self.labels[rows])

    @property
    def channels(self) -> int:
        return self.pixels.shape[1]

    @property
    def size(self) -> int:
        return self.pixels.shape[2]


@dataclass(frozen=True)
class Dataset:
    """What a reader found."""

    name: str
    classes: list[str]
    train: Images
    test: Images | None = None
    """Where the source keeps one of its own."""
    validation: Images | None = None
    mirrored: bool = False
    """Whether a mirrored image still shows the same thing: not so of letters and digits."""
    skipped: list[str] = field(default_factory=list)
    """A sentence for each image that could not be read."""


@dataclass(frozen=True)
class Parts:
    """To train on, to choose by, and to report once."""

    train: Images
    validation: Images
    test: Images


def join(parts: Sequence[Images]) -> Images:
    return Images(torch.cat([p.pixels for p in parts]), torch.cat([p.labels for p in parts]))


def checked(dataset: Dataset, source: Path | str) -> Dataset:
    """The same, or a mistake in it by name: sizes, labels, number of classes."""
    parts = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    for name, part in parts.items():
        if part is None:
            continue
        shape = tuple(part.pixels.shape)
        if len(shape) != 4 or shape[1] not in (1, 3) or part.pixels.dtype != torch.uint8:
            raise ValueError(f"{source}: {name} images {shape}; give grey or colour ones in bytes")
        if shape[2] != shape[3]:
            raise ValueError(f"{source}: images of {shape[3]} x {shape[2]} pixels; give squares")
        if shape[1:] != tuple(dataset.train.pixels.shape[1:]):
            raise ValueError(
                f"{source}: {name} images are {_shape(part)}, training images "
                f"{_shape(dataset.train)}; give one size"
            )
        if len(part) != len(part.pixels):
            raise ValueError(f"{source}: {len(part)} labels for {len(part.pixels)} {name} images")
        if not len(part):
            raise ValueError(f"{source}: there are no {name} images")
        check_labels(part.labels, dataset.classes, f"{source}: {name}")
    present = dataset.train.labels.unique()
    if len(present) < 2:
        only = dataset.classes[int(present[0])]
        raise ValueError(f"{source}: all images are of one class ({only}); give two or more")
    return dataset


def check_labels(labels: Tensor, classes: Sequence[str], source: str) -> None:
    wrong = labels[(labels < 0) | (labels >= len(classes))]
    if len(wrong):
        raise ValueError(
            f"{source}: label {int(wrong[0])}; there are {len(classes)} classes, from 0 to "
            f"{len(classes) - 1}"
        )


def numbered(dataset: Dataset, source: Path | str) -> Dataset:
    """Labels that are any numbers as classes of their own, in order, named after them."""
    found = dataset.train.labels.unique()  # sorted

    def renumber(part: Images | None, name: str) -> Images | None:
        if part is None:
            return None
        places = torch.searchsorted(found, part.labels)
        known = found[places.clamp(max=len(found) - 1)] == part.labels
        if not bool(known.all()):
            stranger = int(part.labels[~known][0])
            raise ValueError(f"{source}: {name} label {stranger} is none of the training images'")
        return Images(part.pixels, places)

    train = renumber(dataset.train, "train")
    assert train is not None
    return replace(
        dataset,
        classes=[str(each) for each in found.tolist()],
        train=train,
        validation=renumber(dataset.validation, "validation"),
        test=renumber(dataset.test, "test"),
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
            f"{dataset.name}: too few images to train on, choose by and test with; "
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
    return f"{width} x {height} {'grey' if channels == 1 else 'colour'}"
