"""Read a folder of images for each class with Pillow. Unreadable images are skipped and listed."""

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
from attnlab.tasks.vision._dataset import (
    MAX_BYTES,
    Dataset,
    Images,
    check_dataset,
    escape_unprintable,
    no_test_note,
)

# lower case; the folder names may have capitals
TRAIN, TEST = ("train", "training"), ("test", "testing")
VALIDATION = ("val", "valid", "validation")
DEFAULT_SIZE = 32
MAX_LISTED = 3  # names in a note
NO_CLASSES = "has no folder of images for each class"


def is_image_folder(folder: Path) -> bool:
    return bool(_class_folders(folder))


def read_folders(folder: Path, size: int | None = None, channels: int = 3) -> Dataset:
    """Read FOLDER/class/image or FOLDER/train/class/image, with test and validation next to either.

    Images in subfolders of a class's folder belong to that class too. Every image is cut to its
    middle square and resized to `size` pixels.
    """
    size = size or DEFAULT_SIZE
    layout = _find_layout(folder)
    train, classes = layout.train, [path.name for path in layout.classes]
    _check_classes(layout)
    skipped: list[str] = []
    notes = list(layout.notes)
    parts: list[Images | None] = []
    for part in (train, layout.test, layout.validation):
        if part is None:
            parts.append(None)
            continue
        unknown = [path for path in _class_folders(part) if path.name not in classes]
        if unknown and part is not train:
            raise ValueError(
                f"{unknown[0]}: {train} has no class of this name; rename the folder, or remove it"
            )
        notes += _part_notes(part, classes)
        parts.append(_read_part(part, classes, size, channels, skipped))
    assert parts[0] is not None
    for number, name in enumerate(classes):
        if not bool((parts[0].labels == number).any()):
            raise ValueError(
                f"{train / name}: has no readable image ({_first_problem(skipped, train / name)})"
            )
    skipped, notes, names = (
        list(map(escape_unprintable, texts)) for texts in (skipped, notes, classes)
    )
    return check_dataset(Dataset(str(folder), names, parts[0], parts[1], parts[2], skipped, notes))


def _read_part(
    part: Path, classes: list[str], size: int, channels: int, skipped: list[str]
) -> Images:
    pixels: list[Tensor] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        for path in _find_images(part / name):
            if (len(pixels) + 1) * channels * size * size > MAX_BYTES:
                raise ValueError(
                    f"{part}: has more images than fit into {MAX_BYTES:,} bytes; choose a "
                    "smaller --image-size"
                )
            try:
                square = _read_square(path, size)  # (size, size, 3)
            except UnreadableImageError as error:
                skipped.append(str(error))
                continue
            values = to_channels(square, channels) * 255
            pixels.append(values.round().to(torch.uint8))
            labels.append(number)
    if not pixels:
        raise ValueError(f"{part}: has no readable image ({_first_problem(skipped, part)})")
    return Images(torch.stack(pixels), torch.tensor(labels), str(part), str(part))


def _read_square(path: Path, size: int) -> Tensor:
    if not path.is_file():
        link, folder = path.is_symlink(), path.is_dir()
        problem = "a folder" if folder else "a link to nothing" if link else "not a file"
        raise UnreadableImageError(f"{path}: is not a readable image (it is {problem})")
    return center_crop(open_rgb_image(path), size)


def _first_problem(skipped: list[str], folder: Path) -> str:
    return next((line for line in skipped if line.startswith(f"{folder}/")), "there is none")


# Which folders are classes


@dataclass(frozen=True)
class _Layout:
    """Which folders hold the parts of a data set and its classes."""

    train: Path
    """The folder that holds the class folders."""
    classes: list[Path]
    test: Path | None = None
    validation: Path | None = None
    notes: list[str] = field(default_factory=list)


def _find_layout(folder: Path) -> _Layout:
    """A folder is a part of the set if its name says so and it holds class folders. A class may be
    called train too."""
    train, test, validation = (_find_part(folder, names) for names in (TRAIN, TEST, VALIDATION))
    parts = [part for part in (train, test, validation) if part]
    others = [path for path in _folders(folder) if path not in parts]
    candidates = [path for path in _class_folders(folder) if path not in parts]
    classes = [path for path in candidates if path.name.lower() not in (*TEST, *VALIDATION)]
    if train:
        notes = _unread_notes(others)
        notes += _count_note(folder, classes, "folder", f"of images next to {train.name}, not read")
        notes += _count_note(
            folder, loose_images(folder), "image", "outside the class folders, not read"
        )
        notes += [] if test else _missing_test_note(folder, others)
        return _Layout(train, _class_folders(train), test, validation, notes)
    if len(classes) < 2:
        classes = candidates
    unread = [path for path in candidates if path not in classes]
    notes = _unread_notes(unread)
    notes += _missing_test_note(folder, unread) if (validation or unread) and not test else []
    notes += [
        f"{path}: holds images without class folders, so it is read as a class"
        for path in classes
        if path.name.lower() in (*TRAIN, *TEST, *VALIDATION)
    ]
    return _Layout(folder, classes, test, validation, notes)


def _find_part(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The folder with one of these names that holds class folders; the first name wins."""
    matches = [
        path for path in _folders(folder) if path.name.lower() in names and _class_folders(path)
    ]
    return min(matches, key=lambda path: names.index(path.name.lower()), default=None)


def _check_classes(layout: _Layout) -> None:
    """Require two or more classes. Refuse classes that look like the parts of a data set."""
    train, classes = layout.train, layout.classes
    inner = [[folder.name for folder in _class_folders(path)] for path in classes]
    if len(classes) == 1 and len(inner[0]) > 1:
        raise ValueError(
            f"{train}: has only one folder of images, {classes[0].name}; give {classes[0]} if its "
            f"folders are the classes ({_list_some(inner[0])})"
        )
    if len(classes) < 2:
        raise ValueError(
            f"{train}: has {'only one class, ' + classes[0].name if classes else 'no class'}; give "
            "a folder of images for each of two or more classes"
        )
    alike = all(names == inner[0] for names in inner) and len(inner[0]) > 1
    if alike and not any(loose_images(path) for path in classes):
        raise ValueError(
            f"{train}: {_list_some([path.name for path in classes])} all hold the same folders "
            f"({_list_some(inner[0])}); call the parts of a data set train, test and val, or "
            "give one of them"
        )


def _class_folders(folder: Path) -> list[Path]:
    """Folders that hold an image, sorted by name."""
    return [path for path in _folders(folder) if any(True for _ in _find_images(path))]


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")


# What is in a folder


def _find_images(folder: Path) -> Iterator[Path]:
    """Files with the name of an image. A broken link or an empty folder may have such a name
    too."""
    return (path for path in _find_files(folder) if _is_image(path))


def loose_images(folder: Path) -> list[Path]:
    """Images in the folder itself."""
    return [path for path in folder.iterdir() if _is_image(path) and not path.is_dir()]


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.name[0] != "."


def _find_files(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """All files that are not hidden, also in subfolders; none if the folder does not exist."""
    real = folder.resolve()
    if not folder.is_dir() or any(parent.is_relative_to(real) for parent in above):
        return  # a link that leads back up would never end
    for path in sorted(folder.iterdir()):
        if path.name[0] == ".":
            continue
        if not path.is_dir():
            yield path
            continue
        below = list(_find_files(path, (*above, real)))
        yield from below or ([path] if _is_image(path) else [])


# Notes about what was not read


def _part_notes(part: Path, classes: list[str]) -> list[str]:
    """Notes about files of a part that are not read, or read in an unexpected way."""
    files = [(part / name, path) for name in classes for path in _find_files(part / name)]
    others = [path for _, path in files if not _is_image(path)]
    below = [path for top, path in files if _is_image(path) and path.parent != top]
    missing = [part / name for name in classes if not (part / name).is_dir()]
    empty = [path for path in _folders(part) if not any(True for _ in _find_images(path))]
    notes = _count_note(part, loose_images(part), "image", "outside the class folders, not read")
    notes += _count_note(part, empty, "folder", "without an image")
    notes += _count_note(part, missing, "class", "without a folder")
    if below:
        folders = sorted({str(path.parent.relative_to(part)) for path in below})
        count = _count_text(len(below), "image")
        notes.append(
            f"{part}: {count} in subfolders of a class, read as part of it ({_list_some(folders)})"
        )
    if others:
        kinds = ", ".join(sorted({path.suffix.lower() or "no suffix" for path in others}))
        count = _count_text(len(others), "file")
        notes.append(f"{part}: skipped {count} without the ending of an image ({kinds})")
    return notes


def _unread_notes(paths: Iterable[Path]) -> list[str]:
    """Notes about folders that have the name of a part but were not used as one."""
    return [
        f"{path}: {'is a second part of its kind' if _class_folders(path) else NO_CLASSES}; it "
        "was not read"
        for path in paths
        if path.name.lower() in (*TEST, *VALIDATION)
    ]


def _missing_test_note(folder: Path, unread: Sequence[Path]) -> list[str]:
    has_test = any(path.name.lower() in TEST for path in unread)
    return [
        no_test_note(folder, "no test set was read") if has_test else no_test_note(folder / TEST[0])
    ]


def _count_note(folder: Path, paths: Sequence[Path], noun: str, description: str) -> list[str]:
    """A note with the number of paths and some of their names, if there are any."""
    names = _list_some(sorted(path.name for path in paths))
    return [f"{folder}: {_count_text(len(paths), noun)} {description} ({names})"] if paths else []


def _count_text(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


def _list_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more
