"""A folder of images for each class, read by Pillow. What cannot be read is named and left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from attnlab._image_files import (
    SUFFIXES,
    UnreadableImageError,
    center_crop,
    open_rgb_image,
    to_channels,
)
from attnlab.tasks.vision._dataset import MOST_BYTES, Dataset, Images, checked, legible, no_test

# in small letters; a folder may have capitals
TRAIN, TEST = ("train", "training"), ("test", "testing")
VALIDATION = ("val", "valid", "validation")
USUAL_SIZE = 32
NAMED = 3  # of many, in a note
NO_CLASSES = "no folder of images for each class in it"


def is_image_folder(folder: Path) -> bool:
    return bool(_classes(folder))


def read_folders(folder: Path, size: int | None = None, channels: int = 3) -> Dataset:
    """FOLDER/class/image, or FOLDER/train/class/image; test and validation beside either.

    What lies in folders within a class's folder is of that class, too. Every image is cut to its
    middle square and resized to `size` pixels.
    """
    size = size or USUAL_SIZE
    layout = _layout(folder)
    train, classes = layout.train, [path.name for path in layout.classes]
    _check_classes(layout)
    skipped: list[str] = []
    notes = list(layout.notes)
    parts: list[Images | None] = []
    for part in (train, layout.test, layout.validation):
        if part is None:
            parts.append(None)
            continue
        strange = [path for path in _classes(part) if path.name not in classes]
        if strange and part is not train:
            raise ValueError(
                f"{strange[0]}: no class of this name in {train}; name it as one of them, or take "
                "it away"
            )
        notes += _told(part, classes)
        parts.append(_read(part, classes, size, channels, skipped))
    assert parts[0] is not None
    for number, name in enumerate(classes):
        if not bool((parts[0].labels == number).any()):
            raise ValueError(
                f"{train / name}: no image that can be read ({_first_of(skipped, train / name)})"
            )
    skipped, notes, names = (list(map(legible, each)) for each in (skipped, notes, classes))
    return checked(Dataset(str(folder), names, parts[0], parts[1], parts[2], skipped, notes))


def _read(part: Path, classes: list[str], size: int, channels: int, skipped: list[str]) -> Images:
    pixels: list[Tensor] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        for path in _images(part / name):
            if (len(pixels) + 1) * channels * size * size > MOST_BYTES:
                raise ValueError(f"{part}: more images than fit into {MOST_BYTES:,} bytes")
            try:
                square = _square(path, size)  # (size, size, 3)
            except UnreadableImageError as error:
                skipped.append(str(error))
                continue
            values = to_channels(square, channels) * 255
            pixels.append(values.round().to(torch.uint8))
            labels.append(number)
    if not pixels:
        raise ValueError(f"{part}: no image that can be read ({_first_of(skipped, part)})")
    return Images(torch.stack(pixels), torch.tensor(labels), str(part), str(part))


def _square(path: Path, size: int) -> Tensor:
    if not path.is_file():
        link, folder = path.is_symlink(), path.is_dir()
        what = "a folder" if folder else "a link to nothing" if link else "not a file"
        raise UnreadableImageError(f"{path}: no image that can be read (it is {what})")
    return center_crop(open_rgb_image(path), size)


def _first_of(skipped: list[str], folder: Path) -> str:
    return next((each for each in skipped if each.startswith(f"{folder}/")), "there is none")


# Which folders are classes


@dataclass(frozen=True)
class _Layout:
    train: Path
    """Where the folders of classes lie."""
    classes: list[Path]
    test: Path | None = None
    validation: Path | None = None
    notes: list[str] = field(default_factory=list)


def _layout(folder: Path) -> _Layout:
    """A part of the set is known by its name and the folders of classes in it: a class may be
    called train, too."""
    train, test, validation = (_part(folder, names) for names in (TRAIN, TEST, VALIDATION))
    found = [part for part in (train, test, validation) if part]
    others = [path for path in _folders(folder) if path not in found]
    held = [path for path in _classes(folder) if path not in found]
    classes = [path for path in held if path.name.lower() not in (*TEST, *VALIDATION)]
    if train:
        notes = _unread(others)
        notes += _counted(folder, classes, "folder", f"of images beside {train.name}, not read")
        notes += _counted(folder, loose_images(folder), "image", "in no class's folder, not read")
        notes += [] if test else _no_test(folder, others)
        return _Layout(train, _classes(train), test, validation, notes)
    if len(classes) < 2:
        classes = held
    unread = [path for path in held if path not in classes]
    notes = _unread(unread)
    notes += _no_test(folder, unread) if (validation or unread) and not test else []
    notes += [
        f"{path}: holds images without classes, so it is read as a class itself"
        for path in classes
        if path.name.lower() in (*TRAIN, *TEST, *VALIDATION)
    ]
    return _Layout(folder, classes, test, validation, notes)


def _part(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The first by the order of the names that has folders of classes."""
    found = [path for path in _folders(folder) if path.name.lower() in names and _classes(path)]
    return min(found, key=lambda path: names.index(path.name.lower()), default=None)


def _check_classes(layout: _Layout) -> None:
    """Two or more, and no parts of a set by another name."""
    train, classes = layout.train, layout.classes
    inner = [[each.name for each in _classes(path)] for path in classes]
    if len(classes) == 1 and len(inner[0]) > 1:
        raise ValueError(
            f"{train}: only one folder of images, {classes[0].name}; give {classes[0]}, if its "
            f"folders are the classes ({_some(inner[0])})"
        )
    if len(classes) < 2:
        raise ValueError(
            f"{train}: {'only one class, ' + classes[0].name if classes else 'no class'}; give a "
            "folder of images for each of two classes or more"
        )
    alike = all(each == inner[0] for each in inner) and len(inner[0]) > 1
    if alike and not any(loose_images(path) for path in classes):
        raise ValueError(
            f"{train}: {_some([path.name for path in classes])} all hold the same folders "
            f"({_some(inner[0])}); name the parts of a set train, test and val, or give one of them"
        )


def _classes(folder: Path) -> list[Path]:
    """Folders that hold an image, in the order of their names."""
    return [path for path in _folders(folder) if any(True for _ in _images(path))]


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")


# What is in a folder


def _images(folder: Path) -> Iterator[Path]:
    """By their names: a link to nothing and an empty folder may have such names, too."""
    return (path for path in _files(folder) if _is_image(path))


def loose_images(folder: Path) -> list[Path]:
    """Images in the folder itself."""
    return [path for path in folder.iterdir() if _is_image(path) and not path.is_dir()]


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.name[0] != "."


def _files(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """All that are not hidden, also in the folders below; none if the folder is not there."""
    real = folder.resolve()
    if not folder.is_dir() or any(each.is_relative_to(real) for each in above):
        return  # a link that leads back would never end
    for path in sorted(folder.iterdir()):
        if path.name[0] == ".":
            continue
        if not path.is_dir():
            yield path
            continue
        below = list(_files(path, (*above, real)))
        yield from below or ([path] if _is_image(path) else [])


# What is told


def _told(part: Path, classes: list[str]) -> list[str]:
    """What of a part is not read, or not as it lies there."""
    files = [(part / name, path) for name in classes for path in _files(part / name)]
    others = [path for _, path in files if not _is_image(path)]
    below = [path for top, path in files if _is_image(path) and path.parent != top]
    missing = [part / name for name in classes if not (part / name).is_dir()]
    empty = [path for path in _folders(part) if not any(True for _ in _images(path))]
    notes = _counted(part, loose_images(part), "image", "in no class's folder, not read")
    notes += _counted(part, empty, "folder", "without an image")
    notes += _counted(part, missing, "class", "without a folder")
    if below:
        held = sorted({str(path.parent.relative_to(part)) for path in below})
        count = _count(len(below), "image")
        notes.append(f"{part}: {count} in folders within a class's, read with it ({_some(held)})")
    if others:
        kinds = ", ".join(sorted({path.suffix.lower() or "no suffix" for path in others}))
        count = _count(len(others), "file")
        notes.append(f"{part}: not read: {count} that by name hold no image ({kinds})")
    return notes


def _unread(paths: Iterable[Path]) -> list[str]:
    """Of folders that are called as parts of a set, and are none."""
    return [
        f"{path}: {'a second part of its kind' if _classes(path) else NO_CLASSES}; it was not read"
        for path in paths
        if path.name.lower() in (*TEST, *VALIDATION)
    ]


def _no_test(folder: Path, unread: Sequence[Path]) -> list[str]:
    there = any(path.name.lower() in TEST for path in unread)
    return [no_test(folder, "no test set was read") if there else no_test(folder / TEST[0])]


def _counted(folder: Path, paths: Sequence[Path], what: str, how: str) -> list[str]:
    """A note, where there is something to tell."""
    names = _some(sorted(path.name for path in paths))
    return [f"{folder}: {_count(len(paths), what)} {how} ({names})"] if paths else []


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 'es' if what.endswith('s') else 's'}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
