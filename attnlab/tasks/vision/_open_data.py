"""Any of the sources that attnlab reads, told apart by what a file or folder holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from attnlab.tasks.vision._cifar_files import (
    is_cifar_folder,
    is_sheet_folder,
    read_cifar,
    read_sheets,
    sheets_fit,
)
from attnlab.tasks.vision._dataset import Dataset
from attnlab.tasks.vision._idx_files import fashion_folder, is_idx_folder, read_idx_folder
from attnlab.tasks.vision._image_folders import is_image_folder, loose_images, read_folders
from attnlab.tasks.vision._npz_files import read_npz

DIGITS, FASHION = "digits", "fashion"
# E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI 1998 (CC BY 4.0): the
# 1,797 of its test set as scikit-learn has them, counts from 0 to 16 here from 0 to 255
SHIPPED = Path(__file__).parent / "digits.npz"
KINDS = (
    "an .npz file, idx files, CIFAR batches, PNG sheets with labels, or a folder of images for "
    "each class"
)


def _holds_sheets(folder: Path) -> bool:
    """Beside folders of images a preview and a list of labels may lie: then they must fit."""
    return is_sheet_folder(folder) and (not is_image_folder(folder) or sheets_fit(folder))


READERS = (
    (is_idx_folder, read_idx_folder),
    (is_cifar_folder, read_cifar),
    (_holds_sheets, read_sheets),
)


def open_data(source: str | Path | None = None, image_size: int | None = None) -> Dataset:
    """By name (digits, which come with attnlab, or fashion), or a file or folder.

    `image_size`: what images of a folder are resized to; other sources have a size of their own.
    """
    source = DIGITS if source is None else source
    if is_resized(source):
        return _images(Path(source), image_size)
    dataset = _of_its_size(source)
    if image_size is not None and dataset.train.size != image_size:
        raise ValueError(
            f"{source}: images of {dataset.train.size} pixels; --image-size is for folders of "
            "images"
        )
    return dataset


def source_of(data: str | Path | None) -> str:
    """How a run remembers its data: by name, or by a path that holds wherever one stands."""
    name = DIGITS if data is None else str(data)
    return name if name in (DIGITS, FASHION) else str(Path(name).resolve())


def is_resized(source: str | Path) -> bool:
    """A folder of images, which may have any size."""
    path = Path(source)
    return source not in (DIGITS, FASHION) and path.is_dir() and _reader(path) is None


def _reader(folder: Path) -> Callable[[Path], Dataset] | None:
    return next((read for fits, read in READERS if fits(folder)), None)


def _images(path: Path, size: int | None) -> Dataset:
    if not is_image_folder(path):
        if loose_images(path):
            raise ValueError(f"{path}: images without classes; give a folder of them for each")
        raise ValueError(f"{path}: no images here that attnlab reads; give {KINDS}")
    if size is not None and not 4 <= size <= 1024:
        raise ValueError(f"--image-size {size}; give from 4 to 1,024 pixels")
    return read_folders(path, size)


def _of_its_size(source: str | Path) -> Dataset:
    path = Path(source)
    if source == DIGITS:
        return replace(read_npz(SHIPPED), source=DIGITS)
    if source == FASHION:
        return replace(read_idx_folder(fashion_folder()), source=FASHION)
    if path.is_dir():
        read = _reader(path)
        assert read is not None  # otherwise a folder of images
        found = read(path)
        if not is_image_folder(path):
            return found
        return replace(found, notes=[*found.notes, f"{path}: its folders of images are not read"])
    if not path.exists():
        raise ValueError(f"{path}: is not there; give digits, fashion, {KINDS}")
    if path.suffix == ".npz":
        return read_npz(path)
    if _reader(path.parent) is not None:
        raise ValueError(f"{path}: is one file of several; give their folder, {path.parent}")
    packed = path.suffix in (".gz", ".tgz", ".zip", ".tar")
    raise ValueError(f"{path}: {'unpack it first' if packed else f'give {KINDS}'}")
