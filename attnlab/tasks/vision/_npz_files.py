"""Read images and labels from an .npz file. Pickles and files that are too large are refused."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab._short_repr import one_line
from attnlab.tasks.vision._dataset import MAX_BYTES, Dataset, Images, check_dataset, no_test_note

Array = np.ndarray[Any, Any]
# array names of Keras, MedMNIST and attnlab
NAMES = {
    "train": (("x_train", "y_train"), ("train_images", "train_labels"), ("images", "labels")),
    "validation": (("x_val", "y_val"), ("val_images", "val_labels")),
    "test": (("x_test", "y_test"), ("test_images", "test_labels")),
}
CLASSES = "classes"


def read_npz(path: Path) -> Dataset:
    """Read x_train and y_train, train_images and train_labels, or images and labels, and the test
    arrays in the same way.

    An optional array `classes` has the class names.
    """
    arrays = _read_arrays(path)
    parts = {name: _read_part(arrays, pairs, path) for name, pairs in NAMES.items()}
    train = parts["train"]
    if train is None:
        expected = ", or ".join(" and ".join(pair) for pair in NAMES["train"])
        raise ValueError(f"{path}: has {', '.join(arrays) or 'nothing'}; give {expected}")
    classes = _class_names(arrays[CLASSES], path) if CLASSES in arrays else []
    notes = [] if parts["test"] else _missing_test_note(arrays, path)
    return check_dataset(
        Dataset(str(path), classes, train, parts["test"], parts["validation"], notes=notes)
    )


def _missing_test_note(arrays: dict[str, Array], path: Path) -> list[str]:
    """A note, except for `images` and `labels`: a set with these names has no test part."""
    both = zip(NAMES["train"], NAMES["test"], strict=False)
    missing = [test for (train, _), (test, _) in both if train in arrays]
    return [no_test_note(f"{path}: {name}") for name in missing[:1]]


def _class_names(array: Array, path: Path) -> list[str]:
    if array.ndim != 1 or array.dtype.kind != "U" or not len(array):
        raise ValueError(f"{path}: {CLASSES} must be a one-dimensional array of two or more names")
    names: list[str] = array.tolist()
    if len(set(names)) < len(names):
        raise ValueError(f"{path}: {CLASSES} names a class twice; give different names")
    return names


def _read_arrays(path: Path) -> dict[str, Array]:
    """The arrays with a known name, unless the file is too large to open."""
    known_names = {name for pairs in NAMES.values() for pair in pairs for name in pair} | {CLASSES}
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
        if total > MAX_BYTES:
            raise ValueError(f"unpacks to {total:,} bytes; {MAX_BYTES:,} is the limit")
        with np.load(path, allow_pickle=False) as arrays:
            read = {name: arrays[name] for name in arrays.files if name in known_names}
    except MemoryError:
        raise ValueError(
            f"{path}: the header of an array gives a size that does not fit into memory"
        ) from None
    except ValueError as error:
        raise ValueError(f"{path}: {one_line(error)}") from None
    except Exception as error:  # numpy and zipfile raise all kinds on broken files
        raise ValueError(f"{path}: cannot be read ({one_line(error)})") from None
    for name, array in read.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{path}: {name} is not an array; its header is damaged")
    return read


def _read_part(
    arrays: dict[str, Array], pairs: tuple[tuple[str, str], ...], path: Path
) -> Images | None:
    for images, labels in pairs:
        if (images in arrays) != (labels in arrays):
            missing = labels if images in arrays else images
            raise ValueError(
                f"{path}: has {images if images in arrays else labels}, but no {missing}; give both"
            )
        if images in arrays:
            files = f"{path}: {images}", f"{path}: {labels}"
            pixels = _to_pixels(arrays[images], files[0])
            return Images(pixels, _to_labels(arrays[labels], len(pixels), files[1]), *files)
    return None


def _to_pixels(array: Array, source: str) -> Tensor:
    """(N, C, height, width) uint8"""
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array.size and (array.min() < 0 or array.max() > 1)):
            raise ValueError(
                f"{source}: has numbers outside 0 to 1; give bytes, or floats from 0 to 1"
            )
        array = np.round(array * 255).astype(np.uint8)
    if array.dtype != np.uint8:
        raise ValueError(f"{source}: is {array.dtype}; give uint8, or floats from 0 to 1")
    pixels = torch.from_numpy(np.array(array))
    if pixels.dim() == 3:
        return pixels[:, None]
    if pixels.dim() == 4 and pixels.shape[-1] in (1, 3):
        return pixels.permute(0, 3, 1, 2).contiguous()
    if pixels.dim() == 4 and pixels.shape[1] in (1, 3):
        return pixels
    raise ValueError(
        f"{source}: has shape {tuple(array.shape)}; give (N, height, width [, 1 or 3])"
    )


def _to_labels(array: Array, count: int, source: str) -> Tensor:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "ui":
        raise ValueError(
            f"{source}: is {array.dtype} of shape {array.shape}; "
            "give one whole number for each image"
        )
    if len(array) != count:
        raise ValueError(f"{source}: has {len(array)} labels for {count} images; give one for each")
    if len(array) and (int(array.min()) < 0 or int(array.max()) >= 2**31):
        wrong = int(array.min()) if int(array.min()) < 0 else int(array.max())
        raise ValueError(
            f"{source}: label {wrong} is out of range; give whole numbers of 0 or more"
        )
    return torch.from_numpy(array.astype(np.int64))
