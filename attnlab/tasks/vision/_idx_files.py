"""Read idx files, the format of MNIST, plain or gzipped. The size in a header is not trusted."""

from __future__ import annotations

import gzip
import math
import re
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from attnlab.tasks.vision._dataset import MAX_BYTES, Dataset, Images, check_dataset, no_test_note

# Debian's package dataset-fashion-mnist
FASHION = Path("/usr/share/datasets/fashion-mnist")
FASHION_CLASSES = [
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
    "ankle boot",
]  # fmt: skip
PIECE = 2**20
BYTE_TYPE = 0x08  # the only number type of images
KINDS, TESTS = ("images-idx3", "labels-idx1"), ("t10k", "test")
# the set's name, if any, its part and its kind; some use a full stop instead of a hyphen
FILE = re.compile(
    r"(|[^.].*[-_. ])(train|t10k|test)-(images[-.]idx3|labels[-.]idx1)-ubyte(?:\.gz)?"
)
Files = dict[tuple[str, str], Path]  # the files of one set, by part and kind
NAMES = "classes.txt"  # class names, one per line, in the same folder


def read_idx(path: Path) -> Tensor:
    """A tensor of bytes with the shape that the header gives."""
    open_file = gzip.open if path.suffix == ".gz" else open
    try:
        with open_file(path, "rb") as file:
            start = file.read(4)
            if len(start) < 4 or start[:2] != b"\0\0" or not 1 <= start[3] <= 4:
                raise ValueError(
                    f"{path}: is not an idx file (it begins with {start.hex() or '-'})"
                )
            if start[2] != BYTE_TYPE:
                raise ValueError(
                    f"{path}: has numbers of type 0x{start[2]:02x}; only bytes (0x08) can be read"
                )
            axes = file.read(4 * start[3])
            if len(axes) < 4 * start[3]:
                raise ValueError(f"{path}: ends inside its header")
            shape = struct.unpack(f">{start[3]}I", axes)
            size = math.prod(shape)
            if size > MAX_BYTES:
                raise ValueError(
                    f"{path}: its header says {size:,} bytes; {MAX_BYTES:,} is the limit"
                )
            content = _read_at_most(file, size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    if len(content) != size:
        actual = "more" if len(content) > size else f"{len(content):,}"
        raise ValueError(f"{path}: its header says {size:,} bytes; it has {actual}")
    return torch.frombuffer(content or bytearray(1), dtype=torch.uint8)[:size].view(shape)


def _read_at_most(file: BinaryIO | gzip.GzipFile, size: int) -> bytearray:
    """Piece by piece, because a header may give a size that the file does not have."""
    content = bytearray()
    while len(content) < size:
        piece = file.read(min(PIECE, size - len(content)))
        if not piece:
            break
        content += piece
    return content


def read_idx_folder(folder: Path) -> Dataset:
    """Read a folder with train-images-idx3-ubyte and so on. The t10k or test pair is the test set.

    A set's name may come first: emnist-letters-train-images-idx3-ubyte.
    """
    sets = _find_sets(folder)
    if len(sets) > 1:
        listed = ", ".join(f"{name}train-images" for name in sorted(sets))
        raise ValueError(
            f"{folder}: has idx files of several sets ({listed}); give a folder with one set"
        )
    name, files = next(iter(sets.items()), ("", {}))
    train = _read_pair(files, "train", name)
    if train is None:
        raise ValueError(f"{folder}: has no {name}train-images-idx3-ubyte, plain or .gz")
    tests = [test for test in (_read_pair(files, part, name) for part in TESTS) if test]
    if len(tests) > 1:
        raise ValueError(f"{tests[1].file}: is a second test set beside {tests[0].file}; give one")
    fashion = "fashion" in folder.resolve().name.lower()
    classes = read_folder_classes(folder) or (FASHION_CLASSES if fashion else [])
    notes = [] if tests else [no_test_note(folder / f"{name}{TESTS[bool(name)]}-images-idx3-ubyte")]
    if "emnist" in name.lower():
        notes.append(f"{folder}: EMNIST stores its images transposed; they are not turned back")
    return check_dataset(
        Dataset(str(folder), classes, train, tests[0] if tests else None, notes=notes)
    )


def read_folder_classes(folder: Path) -> list[str]:
    """The names in classes.txt, if the folder has one."""
    return read_class_names(folder / NAMES) if (folder / NAMES).exists() else []


def _read_pair(files: Files, part: str, name: str) -> Images | None:
    images, labels = (files.get((part, kind)) for kind in KINDS)
    if images is None and labels is None:
        return None
    if labels is None:
        raise ValueError(f"{images}: has no {name}{part}-{KINDS[1]}-ubyte beside it, plain or .gz")
    if images is None:
        raise ValueError(f"{labels}: has no {name}{part}-{KINDS[0]}-ubyte beside it, plain or .gz")
    pixels, numbers = read_idx(images), read_idx(labels)
    if pixels.dim() != 3:
        raise ValueError(f"{images}: has {pixels.dim()} axes; images need 3")
    if numbers.dim() != 1:
        raise ValueError(f"{labels}: has {numbers.dim()} axes; labels need 1")
    if len(pixels) != len(numbers):
        raise ValueError(
            f"{labels}: has {len(numbers)} labels for {len(pixels)} images; give one for each"
        )
    return Images(pixels[:, None], numbers.long(), str(images), str(labels))


def _find_sets(folder: Path) -> dict[str, Files]:
    """The files of each set, by the set's name. A plain file is preferred to its .gz."""
    sets: dict[str, Files] = {}
    for path in sorted(folder.iterdir(), key=lambda path: (path.suffix == ".gz", path.name)):
        parsed = FILE.fullmatch(path.name)
        if parsed:
            name, part, kind = parsed.groups()
            sets.setdefault(name, {}).setdefault((part, kind.replace(".", "-")), path)
    return sets


def is_idx_folder(folder: Path) -> bool:
    return bool(_find_sets(folder))


def read_class_names(path: Path) -> list[str]:
    try:
        # some editors on Windows write a byte-order mark, which is not part of the first name
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    names = [line.strip() for line in lines if line.strip()]
    if len(names) < 2:
        raise ValueError(
            f"{path}: names {'one' if names else 'no'} class; give two or more, one per line"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"{path}: names a class twice; give different names")
    return names


def fashion_folder() -> Path:
    if not FASHION.is_dir():
        raise ValueError(
            "Fashion-MNIST is not installed; run apt install dataset-fashion-mnist, or give a "
            "folder with its four files"
        )
    return FASHION
