"""Open a data set of any supported format. The content of a file or folder decides the format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from attnlab._short_repr import short_repr
from attnlab.tasks.vision._cifar_files import (
    can_read_sheets,
    is_cifar_folder,
    is_sheet_folder,
    read_cifar,
    read_sheets,
)
from attnlab.tasks.vision._dataset import Dataset
from attnlab.tasks.vision._idx_files import fashion_folder, is_idx_folder, read_idx_folder
from attnlab.tasks.vision._image_folders import is_image_folder, loose_images, read_folders
from attnlab.tasks.vision._npz_files import read_npz

DIGITS, FASHION = "digits", "fashion"
# E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI 1998 (CC BY 4.0): the
# 1,797 test images, as in scikit-learn, with the values 0 to 16 scaled to 0 to 255
DIGITS_FILE = Path(__file__).parent / "digits.npz"
SUPPORTED = (
    "an .npz file, idx files, CIFAR batches, PNG sheets with labels, or a folder of images for "
    "each class"
)


def _holds_sheets(folder: Path) -> bool:
    """Whether the folder holds PNG sheets. Next to folders of images, a PNG and a list of labels
    may be something else, so try to read them."""
    return is_sheet_folder(folder) and (not is_image_folder(folder) or can_read_sheets(folder))


READERS = (
    (is_idx_folder, read_idx_folder),
    (is_cifar_folder, read_cifar),
    (_holds_sheets, read_sheets),
)


def open_data(source: str | Path | None = None, image_size: int | None = None) -> Dataset:
    """Open a data set: digits (which come with attnlab), fashion, a file or a folder.

    Images in a folder are resized to `image_size`. Other sources have a fixed size.

    >>> from attnlab.tasks.vision import open_data
    >>> digits = open_data("digits")  # come with attnlab
    >>> list(digits.classes)
    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']
    """
    source = DIGITS if source is None else source
    if is_resized(source):
        return _open_image_folder(Path(source), image_size)
    dataset = _open_fixed_size(source)
    if image_size is not None and dataset.train.size != image_size:
        raise ValueError(
            f"{source}: has images of {dataset.train.size} pixels; --image-size only works with "
            "folders of images"
        )
    return dataset


def source_of(data: str | Path | None) -> str:
    """What a run stores as its data: a name or an absolute path."""
    name = DIGITS if data is None else str(data)
    return name if name in (DIGITS, FASHION) else str(Path(name).resolve())


def is_resized(source: str | Path) -> bool:
    """Whether the source is a folder of images, which are resized."""
    path = Path(source)
    return source not in (DIGITS, FASHION) and path.is_dir() and _reader(path) is None


def _reader(folder: Path) -> Callable[[Path], Dataset] | None:
    return next((reader for matches, reader in READERS if matches(folder)), None)


def _open_image_folder(path: Path, size: int | None) -> Dataset:
    if not is_image_folder(path):
        if loose_images(path):
            raise ValueError(
                f"{path}: has images without classes; put the images of each class into a folder"
            )
        raise ValueError(f"{path}: has no images that attnlab can read; give {SUPPORTED}")
    if size is not None and not 4 <= size <= 1024:
        raise ValueError(f"--image-size is {size}; give from 4 to 1,024 pixels")
    return read_folders(path, size)


def _open_fixed_size(source: str | Path) -> Dataset:
    path = Path(source)
    if source == DIGITS:
        return replace(read_npz(DIGITS_FILE), source=DIGITS)
    if source == FASHION:
        return replace(read_idx_folder(fashion_folder()), source=FASHION)
    if path.is_dir():
        reader = _reader(path)
        assert reader is not None  # otherwise it is a folder of images
        dataset = reader(path)
        if not is_image_folder(path):
            return dataset
        return replace(
            dataset, notes=[*dataset.notes, f"{path}: its folders of images were not read"]
        )
    if not path.exists():
        # the name may come from someone else's run, and contain line breaks
        name = source if str(source).isprintable() else short_repr(str(source))
        raise ValueError(f"{name}: does not exist; give digits, fashion, {SUPPORTED}")
    if path.suffix == ".npz":
        return read_npz(path)
    if _reader(path.parent) is not None:
        raise ValueError(f"{path}: is only one file of a data set; give its folder, {path.parent}")
    packed = path.suffix in (".gz", ".tgz", ".zip", ".tar")
    raise ValueError(f"{path}: {'unpack it first' if packed else f'give {SUPPORTED}'}")
