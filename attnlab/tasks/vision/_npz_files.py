"""Images and labels in an .npz file. numpy opens it, pickles refused, if it is not too large."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.tasks.vision._dataset import MOST_BYTES, Dataset, Images, checked, no_test

Array = np.ndarray[Any, Any]
# how others call them: Keras, MedMNIST, attnlab
NAMES = {
    "train": (("x_train", "y_train"), ("train_images", "train_labels"), ("images", "labels")),
    "validation": (("x_val", "y_val"), ("val_images", "val_labels")),
    "test": (("x_test", "y_test"), ("test_images", "test_labels")),
}
CLASSES = "classes"


def read_npz(path: Path) -> Dataset:
    """x_train and y_train, train_images and train_labels, or images and labels; tests likewise.

    Optional: `classes`, their names.
    """
    arrays = _arrays(path)
    parts = {name: _part(arrays, pairs, path) for name, pairs in NAMES.items()}
    train = parts["train"]
    if train is None:
        wanted = ", or ".join(" and ".join(pair) for pair in NAMES["train"])
        raise ValueError(f"{path}: has {', '.join(arrays) or 'nothing'}; give {wanted}")
    classes = _names(arrays[CLASSES], path) if CLASSES in arrays else []
    notes = [] if parts["test"] else _no_test(arrays, path)
    return checked(
        Dataset(str(path), classes, train, parts["test"], parts["validation"], notes=notes)
    )


def _no_test(arrays: dict[str, Array], path: Path) -> list[str]:
    """`images` and `labels` are a whole set, of which nobody expects a test part."""
    both = zip(NAMES["train"], NAMES["test"], strict=False)
    missing = [test for (train, _), (test, _) in both if train in arrays]
    return [no_test(f"{path}: {name}") for name in missing[:1]]


def _names(array: Array, path: Path) -> list[str]:
    if array.ndim != 1 or array.dtype.kind != "U" or not len(array):
        raise ValueError(f"{path}: {CLASSES} must be names in one row, two or more")
    names: list[str] = array.tolist()
    if len(set(names)) < len(names):
        raise ValueError(f"{path}: {CLASSES} names a class twice; give different names")
    return names


def _arrays(path: Path) -> dict[str, Array]:
    """Those that have a meaning here, if all together are not too large to open."""
    known = {name for pairs in NAMES.values() for pair in pairs for name in pair} | {CLASSES}
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(each.file_size for each in archive.infolist())
        if total > MOST_BYTES:
            raise ValueError(f"opens to {total:,} bytes; {MOST_BYTES:,} at most")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if name in known}
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    except MemoryError:
        raise ValueError(f"{path}: an array says it is larger than the file") from None
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _part(
    arrays: dict[str, Array], pairs: tuple[tuple[str, str], ...], path: Path
) -> Images | None:
    for images, labels in pairs:
        if (images in arrays) != (labels in arrays):
            missing = labels if images in arrays else images
            raise ValueError(f"{path}: has {images if images in arrays else labels}, no {missing}")
        if images in arrays:
            files = f"{path}: {images}", f"{path}: {labels}"
            pixels = _pixels(arrays[images], files[0])
            return Images(pixels, _labels(arrays[labels], len(pixels), files[1]), *files)
    return None


def _pixels(array: Array, where: str) -> Tensor:
    """(N, C, height, width) uint8"""
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array.size and (array.min() < 0 or array.max() > 1)):
            raise ValueError(f"{where}: numbers beyond 0 to 1; give bytes, or shares from 0 to 1")
        array = np.round(array * 255).astype(np.uint8)
    if array.dtype != np.uint8:
        raise ValueError(f"{where}: of {array.dtype}; give uint8, or floats from 0 to 1")
    pixels = torch.from_numpy(np.array(array))
    if pixels.dim() == 3:
        return pixels[:, None]
    if pixels.dim() == 4 and pixels.shape[-1] in (1, 3):
        return pixels.permute(0, 3, 1, 2).contiguous()
    if pixels.dim() == 4 and pixels.shape[1] in (1, 3):
        return pixels
    raise ValueError(f"{where}: of shape {tuple(array.shape)}; give (N, height, width [, 1 or 3])")


def _labels(array: Array, count: int, where: str) -> Tensor:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "ui":
        raise ValueError(f"{where}: {array.dtype} of shape {array.shape}; give one whole number "
                         "for each image")  # fmt: skip
    if len(array) != count:
        raise ValueError(f"{where}: {len(array)} labels for {count} images")
    if len(array) and (int(array.min()) < 0 or int(array.max()) >= 2**31):
        wrong = int(array.min()) if int(array.min()) < 0 else int(array.max())
        raise ValueError(f"{where}: label {wrong} is out of range; give numbers from 0 on")
    return torch.from_numpy(array.astype(np.int64))
