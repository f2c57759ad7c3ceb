"""Readers of image sets: what they read, and what they refuse by name."""

from __future__ import annotations

import gzip
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab._image_files import encode_png
from attnlab.tasks.vision import _idx_files as idx
from attnlab.tasks.vision._dataset import Dataset, Images, digest, split_dataset, take_fraction
from attnlab.tasks.vision._open_data import DIGITS_FILE, open_data
from tests.support.examples import examples
from tests.support.image_files import (
    labels,
    pixels,
    write_cifar_binary,
    write_folders,
    write_idx,
    write_idx_folder,
    write_npz,
    write_sheets,
)


def test_digits_are_included() -> None:
    dataset = open_data()
    assert dataset.train.pixels.shape == (1797, 1, 8, 8)
    assert dataset.classes == list("0123456789")
    assert torch.bincount(dataset.train.labels).tolist() == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180,
    ]  # fmt: skip
    # the first digit as scikit-learn shows it, 0 to 16
    first = (dataset.train.pixels[0, 0].float() * 16 / 255).round().int()
    assert first[0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert DIGITS_FILE.stat().st_size < 100_000
    assert not dataset.can_be_mirrored


Writer = Callable[[Path], Path]


@pytest.mark.parametrize(
    ("write", "train", "test", "shape", "classes"),
    [
        (write_idx_folder, 40, 10, (1, 6, 6), ["0", "1"]),
        (write_cifar_binary, 40, 10, (3, 32, 32), ["dark", "light"]),
        (write_sheets, 40, 10, (3, 32, 32), None),
        (write_folders, 24, None, (3, 32, 32), ["dark", "light"]),
    ],
)
def test_sources(
    write: Writer, train: int, test: int | None, shape: Any, classes: Any, tmp_path: Path
) -> None:
    dataset = open_data(write(tmp_path / "set"))
    assert len(dataset.train) == train
    assert (dataset.test and len(dataset.test)) == test
    assert dataset.train.pixels.shape[1:] == shape
    assert classes is None or dataset.classes == classes
    bright = [float(dataset.train.pixels[dataset.train.labels == k].float().mean()) for k in (0, 1)]
    assert bright[1] - bright[0] > 90  # images and labels still belong together


def test_pixels_keep_their_positions(tmp_path: Path) -> None:
    """The same bytes by every way that keeps them."""
    wanted = pixels(40, 3, 32, 40)
    for write in (write_cifar_binary, write_sheets):
        assert torch.equal(open_data(write(tmp_path / write.__name__)).train.pixels, wanted)
    gray = open_data(write_idx_folder(tmp_path / "idx"))
    assert torch.equal(gray.train.pixels, pixels(40, 1, 6, 40))
    for shape in ("n h w", "n h w c", "n c h w"):
        x = pixels(40, 1 if shape == "n h w" else 3, 6)
        stored = x[:, 0] if shape == "n h w" else x.permute(0, 2, 3, 1) if shape[-1] == "c" else x
        test: dict[str, Any] = {"x_test": stored[:10].numpy(), "x_train": stored.numpy()}
        path = write_npz(tmp_path / f"{shape[-1]}{len(shape)}.npz", **test)
        assert torch.equal(open_data(path).train.pixels, x), shape


def test_float_pixels_and_arbitrary_labels(tmp_path: Path) -> None:
    x = pixels(40, 1, 6)[:, 0].numpy()
    path = write_npz(
        tmp_path / "a.npz", x_train=x / 255.0, y_train=np.array(labels(40))[:, None] * 7 + 3,
        y_test=np.array(labels(10)) * 7 + 3,
    )  # fmt: skip
    dataset = open_data(path)
    assert dataset.classes == ["3", "10"]
    assert torch.equal(dataset.train.pixels[:, 0], torch.from_numpy(x))
    assert dataset.train.labels.tolist() == labels(40)


def test_fashion_is_read_from_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idx, "FASHION", tmp_path / "fashion-mnist")
    with pytest.raises(ValueError, match="apt install dataset-fashion-mnist"):
        open_data("fashion")
    write_idx_folder(tmp_path / "fashion-mnist")
    dataset = open_data("fashion")
    assert (dataset.source, dataset.classes[0], len(dataset.classes)) == ("fashion", "T-shirt", 10)
    assert dataset.can_be_mirrored


# Folders


def test_broken_images_are_skipped_and_listed(tmp_path: Path) -> None:
    folder = write_folders(tmp_path / "set")
    (folder / "dark" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    cut = (folder / "dark" / "1.png").read_bytes()[:-30]
    (folder / "dark" / "cut.png").write_bytes(cut)
    (folder / "dark" / "notes.txt").write_text("not an image, and not meant to be")
    dataset = open_data(folder, 8)
    assert len(dataset.train) == 24
    assert dataset.train.size == 8
    assert len(dataset.skipped) == 2
    assert all("cannot be read as an image" in each for each in dataset.skipped)
    assert {"broken.png", "cut.png"} == {Path(s.split(":")[0]).name for s in dataset.skipped}


def test_a_folder_with_train_and_test(tmp_path: Path) -> None:
    for part, each in (("train", 12), ("test", 3), ("val", 4)):
        write_folders(tmp_path / part, each)
    dataset = open_data(tmp_path, 8)
    assert [len(p) for p in (dataset.train, dataset.test, dataset.validation) if p] == [24, 6, 8]
    write_folders(tmp_path / "test", 3).joinpath("dark").rename(tmp_path / "test" / "green")
    with pytest.raises(ValueError, match=r"green: .* has no class of this name"):
        open_data(tmp_path, 8)


def test_decompression_bombs_are_refused(tmp_path: Path) -> None:
    """A PNG that says it has a hundred million pixels and more, in a few bytes."""
    folder = write_folders(tmp_path / "set")
    small = bytearray(encode_png(pixels(1, 1, 4)[0]))
    small[16:24] = struct.pack(">II", 20_000, 6_000)
    small[29:33] = struct.pack(">I", zlib.crc32(bytes(small[12:29])))
    (folder / "dark" / "bomb.png").write_bytes(bytes(small))
    dataset = open_data(folder)
    (message,) = dataset.skipped
    assert "20000 x 6000 pixels are too many" in message
    assert "bomb.png" in message


# Mistakes, each named


def refused(source: Path, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        open_data(source)
    assert "\n" not in str(error.value)
    assert str(source.name) in str(error.value) or str(source) in str(error.value)


def test_idx_errors(tmp_path: Path) -> None:
    folder = write_idx_folder(tmp_path / "idx")
    images, numbers = (folder / f"train-{k}-ubyte" for k in ("images-idx3", "labels-idx1"))
    whole = images.read_bytes()
    for content, message in (
        (whole[:-1], "says 1,440 bytes; it has 1,439"),
        (whole + b"x", "has more"),
        (whole[:10], "ends inside its header"),
        (b"", "not an idx file"),
        (b"\0\0\x0d\x03" + whole[4:], "type 0x0d"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "2,147,483,648 is the limit"),
    ):
        images.write_bytes(content)
        with pytest.raises(ValueError, match=message) as error:
            open_data(folder)
        assert str(images) in str(error.value)
    write_idx(images, pixels(40, 1, 6)[:, 0, :5])
    refused(folder, "images have 6 x 5 pixels")
    write_idx(images, pixels(40, 1, 6)[:, 0])
    write_idx(numbers, torch.tensor(labels(39)))
    with pytest.raises(ValueError, match="39 labels for 40 images") as error:
        open_data(folder)
    assert str(numbers) in str(error.value)
    write_idx(numbers, torch.zeros(40))
    write_idx(folder / "t10k-labels-idx1-ubyte.gz", torch.zeros(10))
    refused(folder, "one class")
    write_idx(numbers, torch.tensor(labels(40)))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"not gzip")
    with pytest.raises(ValueError, match=r"t10k-labels.*cannot be read"):
        open_data(folder)


def test_labels_out_of_range(tmp_path: Path) -> None:
    folder = write_idx_folder(tmp_path / "fashion")
    write_idx(folder / "train-labels-idx1-ubyte", torch.arange(40) % 11)
    refused(folder, "label 10; there are 10 classes")
    binary = write_cifar_binary(tmp_path / "binary")
    content = bytearray((binary / "test_batch.bin").read_bytes())
    content[0] = 9
    (binary / "test_batch.bin").write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"test_batch.bin: has label 9"):
        open_data(binary)


def test_cifar_errors(tmp_path: Path) -> None:
    for name in ("data_batch_1", "test_batch", "batches.meta"):
        (tmp_path / name).write_bytes(b"\x80\x02}q\x00.")
    refused(tmp_path, "pickles, which attnlab never opens; give the binary version")
    binary = write_cifar_binary(tmp_path / "binary")
    with (binary / "data_batch_1.bin").open("ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match=r"data_batch_1.bin: .* records of 3073"):
        open_data(binary)


def test_sheet_errors(tmp_path: Path) -> None:
    folder = write_sheets(tmp_path / "s")
    (folder / "train_lables.json").write_text("[0, 1]")
    with pytest.raises(ValueError, match=r"train_lables.json: has 2 labels for 40 images"):
        open_data(folder)
    (folder / "train_lables.json").write_text("{}")
    with pytest.raises(ValueError, match=r"train_lables.json: is not a list"):
        open_data(folder)
    (folder / "data_batch_1.png").write_bytes(encode_png(pixels(1, 3, 30)[0]))
    with pytest.raises(ValueError, match=r"data_batch_1.png: its rows have 30 pixels"):
        open_data(folder)
    (folder / "data_batch_1.png").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"data_batch_1.png: cannot be read as an image"):
        open_data(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": np.array([{}] * 40)}, "Object arrays cannot be loaded"),
        ({"x_train": np.zeros((40, 6))}, r"has shape \(40, 6\)"),
        ({"x_train": np.full((40, 6, 6), 2.0)}, "outside 0 to 1"),
        ({"x_train": np.zeros((40, 6, 6), np.int32)}, "is int32"),
        ({"y_train": np.array([-1] * 40)}, "label -1 is out of range"),
        ({"y_train": np.array([0.5] * 40)}, "one whole number"),
        ({"y_train": np.zeros(40, int)}, "label 1 does not occur in the training images"),
        ({"y_train": np.zeros(40, int), "y_test": np.zeros(10, int)}, "one class"),
        ({"y_train": np.zeros(39, int)}, "39 labels for 40 images"),
        (
            {"x_test": np.zeros((10, 5, 5), np.uint8)},
            r"x_test: images are 5 x 5 gray, those of .*x_train 6 x 6",
        ),
        ({"classes": np.array(["a", "b"]), "y_test": np.array([0, 2] * 5)}, "label 2; there are 2"),
        ({"classes": np.array(["a", "a"])}, "different names"),
        ({"classes": np.array(["a", "b"], object)}, "Object arrays cannot be loaded"),
        ({"classes": np.array([b"a", b"b"])}, "two or more names"),
        ({"classes": np.array([], "U3")}, "two or more names"),
        (
            {"x_train": np.zeros((0, 6, 6), np.uint8), "y_train": np.zeros(0, int)},
            "x_train: has no",
        ),
        ({"x_train": np.zeros((40, 0, 0), np.uint8)}, "x_train: has no train images"),
        ({"x_test": np.zeros((0, 6, 6), np.uint8), "y_test": np.zeros(0, int)}, "no test images"),
    ],
)
def test_npz_errors(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    arrays = {**dict(np.load(write_npz(path))), **changes}
    np.savez(path, allow_pickle=True, **arrays)
    refused(path, message)


def test_an_npz_with_a_false_size(tmp_path: Path) -> None:
    """numpy would reserve what the header says before it looks."""
    path = tmp_path / "a.npz"
    head = "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999, 6, 6)}"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) + 1) + head.encode() + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x_train.npy", array + b"\0" * 100)
    refused(path, "does not fit into memory|EOF")
    path.write_bytes(b"PK not a zip")
    refused(path, "cannot be read")


def test_unsupported_sources(tmp_path: Path) -> None:
    for name, message in (("a.tar.gz", "unpack it first"), ("a.csv", "give an .npz file")):
        (tmp_path / name).write_text("x")
        refused(tmp_path / name, message)
    refused(tmp_path, "no images that attnlab can read")
    refused(tmp_path / "nowhere", "does not exist")
    folder = write_folders(tmp_path / "set")
    for path in (folder / "light").iterdir():
        path.unlink()
    refused(folder, "only one class, dark")
    with pytest.raises(ValueError, match="--image-size only works with folders"):
        open_data("digits", 16)


# Division


def some(count: int, classes: int = 3) -> Dataset:
    numbers = torch.arange(count) % classes
    images = Images(torch.arange(count, dtype=torch.int64)[:, None, None, None].to(torch.uint8)
                    .expand(-1, 1, 4, 4), numbers)  # fmt: skip
    return Dataset("some", [str(k) for k in range(classes)], images)


def test_split_is_by_class_and_deterministic() -> None:
    dataset = some(240)
    parts, again = split_dataset(dataset), split_dataset(dataset)
    each = (parts.train, parts.validation, parts.test)
    assert [len(part) for part in each] == [174, 18, 48]
    values = torch.cat([part.pixels[:, 0, 0, 0] for part in each])
    assert len(values.unique()) == 240  # nobody twice
    for part, other in zip(each, (again.train, again.validation, again.test), strict=True):
        assert torch.equal(part.pixels, other.pixels)
        assert torch.bincount(part.labels).unique().numel() == 1  # as many of each class
    assert digest(*each) == digest(again.train, again.validation, again.test)
    assert digest(parts.train) != digest(parts.test)
    with pytest.raises(ValueError, match="some: too few images"):
        split_dataset(some(6))


@examples(40)
@given(small=st.floats(0.01, 1), large=st.floats(0.01, 1), seed=st.integers(0, 50))
def test_a_larger_fraction_contains_a_smaller_one(small: float, large: float, seed: int) -> None:
    small, large = sorted((small, large))
    images = some(90).train
    inner, outer = take_fraction(images, small, seed), take_fraction(images, large, seed)
    inside, outside = (set(p.pixels[:, 0, 0, 0].tolist()) for p in (inner, outer))
    assert inside <= outside
    assert len(inner.labels.unique()) == 3
    assert abs(len(outer) - 90 * large) <= 3


def test_fractions_depend_on_the_seed() -> None:
    images = some(90).train
    one, other = (take_fraction(images, 0.3, seed).pixels for seed in (0, 1))
    assert not torch.equal(one, other)
    assert torch.equal(one, take_fraction(images, 0.3, 0).pixels)
    for wrong in (0, 1.5, -1):
        with pytest.raises(ValueError, match="give a number above 0"):
            take_fraction(images, wrong, 0)


def test_gzip_bomb(tmp_path: Path) -> None:
    """Zeros without end behind a header that asks for few."""
    folder = write_idx_folder(tmp_path / "idx")
    path = folder / "t10k-images-idx3-ubyte.gz"
    head = struct.pack(">BBBB3I", 0, 0, 8, 3, 10, 6, 6)
    path.write_bytes(gzip.compress(head + b"\0" * 20_000_000))
    with pytest.raises(ValueError, match="says 360 bytes; it has more"):
        open_data(folder)
