"""A folder of images for each class, read by Pillow. What cannot be read is named and left out."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from attnlab.pictures import (
    SUFFIXES,
    UnreadableImageError,
    middle_square,
    open_picture,
    to_channels,
)
from attnlab.tasks.vision.images import MOST_BYTES, Dataset, Images, checked

TRAIN, TEST = ("train", "training"), ("test", "testing")
VALIDATION = ("val", "valid", "validation")
USUAL_SIZE = 32


def is_image_folder(folder: Path) -> bool:
    return bool(_classes(_first(folder, TRAIN) or folder))


def read_folders(folder: Path, size: int | None = None, channels: int = 3) -> Dataset:
    """FOLDER/class/image, or FOLDER/train/class/image with test and validation beside train.

    Every image is cut to its middle square and resized to `size` pixels.
    """
    size = size or USUAL_SIZE
    train = _first(folder, TRAIN) or folder
    classes = [path.name for path in _classes(train)]
    if len(classes) < 2:
        raise ValueError(
            f"{train}: {'only one class, ' + classes[0] if classes else 'no class'}; give a folder "
            "of images for each of two classes or more"
        )
    skipped: list[str] = []
    notes = _notes(folder, train)
    parts: list[Images | None] = []
    for part in (train, _first(folder, TEST), _first(folder, VALIDATION)):
        if part is None or (part is not train and train is folder):
            parts.append(None)
            continue
        notes += _strangers(part)
        strange = [path for path in _classes(part) if path.name not in classes]
        if strange:
            raise ValueError(f"{strange[0]}: no class of this name in {train}")
        parts.append(_read(part, classes, size, channels, skipped))
    assert parts[0] is not None
    for number, name in enumerate(classes):
        if not bool((parts[0].labels == number).any()):
            raise ValueError(
                f"{train / name}: no image that can be read ({_first_of(skipped, train / name)})"
            )
    return checked(Dataset(str(folder), classes, parts[0], parts[1], parts[2], skipped, notes))


def _read(part: Path, classes: list[str], size: int, channels: int, skipped: list[str]) -> Images:
    pixels: list[Tensor] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        for path in _images(part / name):
            if (len(pixels) + 1) * channels * size * size > MOST_BYTES:
                raise ValueError(f"{part}: more images than fit into {MOST_BYTES:,} bytes")
            try:
                square = middle_square(open_picture(path), size)  # (size, size, 3)
            except UnreadableImageError as error:
                skipped.append(str(error))
                continue
            values = to_channels(square, channels) * 255
            pixels.append(values.round().to(torch.uint8))
            labels.append(number)
    if not pixels:
        raise ValueError(f"{part}: no image that can be read ({_first_of(skipped, part)})")
    return Images(torch.stack(pixels), torch.tensor(labels), str(part), str(part))


def _first_of(skipped: list[str], folder: Path) -> str:
    return next((each for each in skipped if each.startswith(str(folder))), "there is none")


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    """A part of the set is known by the folders of classes in it: `train` may be a class."""
    found = (folder / name for name in names if (folder / name).is_dir())
    return next((path for path in found if _classes(path)), None)


def _notes(folder: Path, train: Path) -> list[str]:
    """Parts by their name that hold no classes, beside a part that does."""
    return [
        f"{folder / name}: no folder of images for each class in it; it was not read"
        for name in (*TEST, *VALIDATION)
        if train is not folder and (folder / name).is_dir() and not _classes(folder / name)
    ]


def _strangers(part: Path) -> list[str]:
    """Files beside the images that are none by their name."""
    others = [
        path
        for each in _classes(part)
        for path in each.iterdir()
        if path.is_file() and path.name[0] != "." and path.suffix.lower() not in SUFFIXES
    ]
    if not others:
        return []
    kinds = ", ".join(sorted({path.suffix.lower() or "no suffix" for path in others}))
    count = "1 file" if len(others) == 1 else f"{len(others):,} files"
    return [f"{part}: not read: {count} that by name hold no image ({kinds})"]


def _classes(folder: Path) -> list[Path]:
    """Folders that hold an image, in the order of their names."""
    found = (path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
    return sorted(path for path in found if any(True for _ in _images(path)))


def _images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and path.name[0] != "." and path.is_file()
    )
