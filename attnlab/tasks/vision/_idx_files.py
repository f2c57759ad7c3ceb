"""MNIST's format: idx files, plain or gzipped. Bounded: what a header promises is not believed."""

from __future__ import annotations

import gzip
import math
import re
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

from attnlab.tasks.vision._dataset import MOST_BYTES, Dataset, Images, checked, no_test

# Debian's package dataset-fashion-mnist
FASHION = Path("/usr/share/datasets/fashion-mnist")
FASHION_CLASSES = [
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
    "ankle boot",
]  # fmt: skip
BYTES = 0x08  # the only kind of number that images come in
KINDS, TESTS = ("images-idx3", "labels-idx1"), ("t10k", "test")
# a set's name, if any; its part; its kind: some write a full stop where others write a hyphen
FILE = re.compile(
    r"(|[^.].*[-_. ])(train|t10k|test)-(images[-.]idx3|labels[-.]idx1)-ubyte(?:\.gz)?"
)
Files = dict[tuple[str, str], Path]  # of one set, by part and kind
NAMES = "classes.txt"  # one name in each line, beside the files


def read_idx(path: Path) -> Tensor:
    """A tensor of bytes, of the shape that its header says."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            start = file.read(4)
            if len(start) < 4 or start[:2] != b"\0\0" or not 1 <= start[3] <= 4:
                raise ValueError(f"{path}: not an idx file (it begins with {start.hex() or '-'})")
            if start[2] != BYTES:
                raise ValueError(f"{path}: numbers of kind 0x{start[2]:02x}; only bytes are read")
            axes = file.read(4 * start[3])
            if len(axes) < 4 * start[3]:
                raise ValueError(f"{path}: ends within its header")
            shape = struct.unpack(f">{start[3]}I", axes)
            size = math.prod(shape)
            if size > MOST_BYTES:
                raise ValueError(f"{path}: says it holds {size:,} bytes; {MOST_BYTES:,} at most")
            content = file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    if len(content) != size:
        have = "more" if len(content) > size else f"{len(content):,}"
        raise ValueError(f"{path}: its header says {size:,} bytes; it has {have}")
    return torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)[:size].view(shape)


def read_idx_folder(folder: Path) -> Dataset:
    """train-images-idx3-ubyte and its like; the t10k or test pair is the test set.

    The set's name may stand before: emnist-letters-train-images-idx3-ubyte.
    """
    sets = _sets(folder)
    if len(sets) > 1:
        listed = ", ".join(f"{name}train-images" for name in sorted(sets))
        raise ValueError(f"{folder}: idx files of several sets ({listed}); give a folder with one")
    name, files = next(iter(sets.items()), ("", {}))
    train = _pair(files, "train", name)
    if train is None:
        raise ValueError(f"{folder}: has no {name}train-images-idx3-ubyte, plain or .gz")
    tests = [test for test in (_pair(files, part, name) for part in TESTS) if test]
    if len(tests) > 1:
        raise ValueError(f"{tests[1].file}: a second test set beside {tests[0].file}; give one")
    fashion = "fashion" in folder.resolve().name.lower()
    classes = named_classes(folder) or (FASHION_CLASSES if fashion else [])
    notes = [] if tests else [no_test(folder / f"{name}{TESTS[bool(name)]}-images-idx3-ubyte")]
    if "emnist" in name.lower():
        notes.append(f"{folder}: EMNIST keeps its images transposed; they are read as they are")
    return checked(Dataset(str(folder), classes, train, tests[0] if tests else None, notes=notes))


def named_classes(folder: Path) -> list[str]:
    """What stands in classes.txt, where there is one."""
    return read_names(folder / NAMES) if (folder / NAMES).exists() else []


def _pair(files: Files, part: str, name: str) -> Images | None:
    images, labels = (files.get((part, kind)) for kind in KINDS)
    if images is None and labels is None:
        return None
    if labels is None:
        raise ValueError(f"{images}: has no {name}{part}-{KINDS[1]}-ubyte beside it, plain or .gz")
    if images is None:
        raise ValueError(f"{labels}: has no {name}{part}-{KINDS[0]}-ubyte beside it, plain or .gz")
    pixels, numbers = read_idx(images), read_idx(labels)
    if pixels.dim() != 3:
        raise ValueError(f"{images}: {pixels.dim()} axes; images have 3")
    if numbers.dim() != 1:
        raise ValueError(f"{labels}: {numbers.dim()} axes; labels have 1")
    if len(pixels) != len(numbers):
        raise ValueError(f"{labels}: {len(numbers)} labels for {len(pixels)} images")
    return Images(pixels[:, None], numbers.long(), str(images), str(labels))


def _sets(folder: Path) -> dict[str, Files]:
    """By the name that stands before; of two that say the same the plain one, not .gz."""
    found: dict[str, Files] = {}
    for path in sorted(folder.iterdir(), key=lambda path: (path.suffix == ".gz", path.name)):
        parsed = FILE.fullmatch(path.name)
        if parsed:
            name, part, kind = parsed.groups()
            found.setdefault(name, {}).setdefault((part, kind.replace(".", "-")), path)
    return found


def is_idx_folder(folder: Path) -> bool:
    return bool(_sets(folder))


def read_names(path: Path) -> list[str]:
    try:
        # some editors of Windows begin a text with a mark, which is no part of the first name
        found = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    names = [line.strip() for line in found if line.strip()]
    if len(names) < 2:
        raise ValueError(
            f"{path}: names {'one' if names else 'no'} class; give two or more, a line each"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"{path}: names a class twice")
    return names


def fashion_folder() -> Path:
    if not FASHION.is_dir():
        raise ValueError(
            "Fashion-MNIST is not installed: apt install dataset-fashion-mnist, or give a folder "
            "that holds its four files"
        )
    return FASHION
