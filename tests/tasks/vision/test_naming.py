"""Image sets: an error names the file that is wrong, and what is left out is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnlab._image_files import encode_png
from attnlab.tasks.vision._cifar_files import CIFAR10_CLASSES, sort_by_number
from attnlab.tasks.vision._dataset import split_dataset
from attnlab.tasks.vision._open_data import open_data
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


def refused(source: Path, file: Path, message: str) -> None:
    """One line that begins with the file."""
    with pytest.raises(ValueError, match=message) as error:
        split_dataset(open_data(source))
    assert str(error.value).startswith(f"{file}: "), error.value
    assert "\n" not in str(error.value)


# Sheets


def sheet(path: Path, images: torch.Tensor) -> None:
    path.write_bytes(encode_png(images.flatten(2).permute(1, 0, 2)))


def test_sheets_are_sorted_by_number(tmp_path: Path) -> None:
    for number in range(1, 12):
        image = torch.full((2, 3, 32, 32), 10 * number, dtype=torch.uint8)
        sheet(tmp_path / f"data_batch_{number}.png", image)
    numbers = [number for number in range(1, 12) for _ in range(2)]
    (tmp_path / "labels.json").write_text(json.dumps(numbers))
    dataset = open_data(tmp_path)
    shades = dataset.train.pixels[:, 0, 0, 0].tolist()
    named = [int(dataset.classes[k]) for k in dataset.train.labels.tolist()]
    assert shades == [10 * each for each in named]
    mixed = [Path(name) for name in ("b", "a10", "a2", "a2b1", "2", "a٣")]
    assert [path.name for path in sort_by_number(mixed)] == ["2", "a2", "a2b1", "a٣", "a10", "b"]


def test_a_sheet_without_labels_or_labels_without_a_sheet(tmp_path: Path) -> None:
    folder = write_sheets(tmp_path / "s")
    saved = (folder / "test_lables.json").read_text()
    (folder / "test_lables.json").unlink()
    refused(folder, folder / "test_batch.png", "has no file of labels")
    (folder / "test_lables.json").write_text(saved)
    (folder / "test_batch.png").unlink()
    refused(folder, folder / "test_lables.json", "has labels, but no sheet")


def test_sheets_of_different_kinds(tmp_path: Path) -> None:
    for name, channels, side in (("narrow", 3, 30), ("gray", 1, 32)):
        folder = write_sheets(tmp_path / name)
        sheet(folder / "data_batch_2.png", pixels(5, channels, side))
        (folder / "train_lables.json").write_text(json.dumps(labels(45)))
        refused(folder, folder / "data_batch_2.png", "images are .* those of .*data_batch_1.png 32")
    folder = write_sheets(tmp_path / "test")
    sheet(folder / "test_batch.png", pixels(10, 3, 31))
    refused(folder, folder / "test_batch.png", "images are 31 x 31 color")


def test_sheet_labels_name_their_file(tmp_path: Path) -> None:
    folder = write_sheets(tmp_path / "s")
    (folder / "test_lables.json").write_text(json.dumps([10, *labels(9)]))
    refused(folder, folder / "test_lables.json", "label 10 does not occur in the training images")
    (folder / "classes.txt").write_text("dark\nlight\n")
    refused(folder, folder / "test_lables.json", "label 10; there are 2 classes, from 0 to 1")
    (folder / "train_lables.json").write_text(json.dumps([0] * 40))
    (folder / "test_lables.json").write_text(json.dumps([0] * 10))
    refused(folder, folder / "train_lables.json", r"all images have one class \(dark\)")


def test_only_cifar_gets_its_class_names(tmp_path: Path) -> None:
    """Two classes are not airplanes and automobiles; nor are ten in other files."""
    folder = write_sheets(tmp_path / "s")
    assert open_data(folder).classes == ["0", "1"]
    (folder / "classes.txt").write_text("night\nday\n")
    assert open_data(folder).classes == ["night", "day"]
    (folder / "classes.txt").unlink()
    ten = json.dumps([i % 10 for i in range(40)])
    (folder / "train_lables.json").write_text(ten)
    assert open_data(folder).classes == CIFAR10_CLASSES
    (folder / "data_batch_1.png").rename(folder / "house_numbers.png")
    dataset = open_data(folder)
    assert dataset.classes == list("0123456789")
    assert not dataset.can_be_mirrored


# idx, CIFAR, npz


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    """Windows' Notepad writes one; it is no part of the first name or number."""
    folder = write_idx_folder(tmp_path / "idx")
    (folder / "classes.txt").write_text("zero\none\n", encoding="utf-8-sig")
    assert open_data(folder).classes == ["zero", "one"]
    folder = write_sheets(tmp_path / "sheets")
    (folder / "train_lables.json").write_text(json.dumps(labels(40)), encoding="utf-8-sig")
    assert open_data(folder).train.labels.tolist() == labels(40)


def test_idx_errors_name_the_file(tmp_path: Path) -> None:
    folder = write_idx_folder(tmp_path / "idx")
    kinds = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    files = [folder / f"{kind}-ubyte{'' if kind[:5] == 'train' else '.gz'}" for kind in kinds]
    images, numbers, test_images, test_numbers = files
    for gone, left in ((0, 1), (1, 0), (2, 3), (3, 2)):
        saved = files[gone].read_bytes()
        files[gone].unlink()
        refused(folder, files[left], f"has no {kinds[gone]}-ubyte beside it")
        files[gone].write_bytes(saved)
    write_idx(test_images, pixels(10, 1, 7)[:, 0])
    refused(folder, test_images, "images are 7 x 7 gray, those of .*train-images")
    write_idx(test_images, pixels(10, 1, 6)[:, 0])
    write_idx(images, pixels(40, 1, 6)[:, 0, :5])
    refused(folder, images, "images have 6 x 5 pixels")
    write_idx(images, pixels(40, 1, 6)[:0, 0])
    write_idx(numbers, torch.zeros(0))
    refused(folder, images, "has no train images")
    write_idx(images, pixels(40, 1, 6)[:, 0])
    write_idx(numbers, torch.zeros(40))
    write_idx(test_numbers, torch.zeros(10))
    refused(folder, numbers, "all images have one class")
    for content, message in (("", "names no class"), ("a\n", "names one class"), ("a\na", "twice")):
        (folder / "classes.txt").write_text(content)
        refused(folder, folder / "classes.txt", message)
    (folder / "classes.txt").write_text("a\nb\n")
    write_idx(numbers, torch.tensor(labels(40)))
    write_idx(test_numbers, torch.full((10,), 2))
    refused(folder, test_numbers, "label 2; there are 2 classes")


def write_letters(folder: Path, name: str = "emnist-letters-") -> Path:
    """EMNIST's: labels begin at 1."""
    folder.mkdir(exist_ok=True)
    for part, count in (("train", 60), ("test", 20)):
        write_idx(folder / f"{name}{part}-images-idx3-ubyte.gz", pixels(count, 1, 6)[:, 0])
        numbers = torch.arange(count) % 2 + 1
        write_idx(folder / f"{name}{part}-labels-idx1-ubyte.gz", numbers)
    return folder


def test_files_may_begin_with_the_name_of_the_set(tmp_path: Path) -> None:
    folder = write_letters(tmp_path / "letters")
    dataset = open_data(folder)
    assert (len(dataset.train), dataset.test and len(dataset.test)) == (60, 20)
    assert dataset.classes == ["1", "2"]
    assert torch.equal(dataset.train.pixels, pixels(60, 1, 6))  # not turned
    assert dataset.notes == [
        f"{folder}: EMNIST stores its images transposed; they are not turned back"
    ]
    (folder / "classes.txt").write_text("a\nb\n")
    refused(folder, folder / "emnist-letters-train-labels-idx1-ubyte.gz", "label 2; there are 2")
    (folder / "classes.txt").unlink()
    for path in folder.glob("*test*"):
        path.unlink()
    wanted = folder / "emnist-letters-test-images-idx3-ubyte"
    assert open_data(folder).notes[0].startswith(f"{wanted}: does not exist; a fifth")
    gone = folder / "emnist-letters-train-labels-idx1-ubyte.gz"
    gone.unlink()
    images = folder / "emnist-letters-train-images-idx3-ubyte.gz"
    refused(folder, images, f"has no {gone.name[:-3]} beside it")


def test_several_sets_in_one_folder_are_listed(tmp_path: Path) -> None:
    folder = write_letters(write_letters(tmp_path / "two"), "emnist-digits-")
    listed = "emnist-digits-train-images, emnist-letters-train-images"
    refused(folder, folder, rf"several sets \({listed}\); give a folder with one")
    folder = write_idx_folder(tmp_path / "tests")
    for path in folder.glob("t10k*"):
        path.with_name(path.name.replace("t10k", "test")).write_bytes(path.read_bytes())
    refused(folder, folder / "test-images-idx3-ubyte.gz", "a second test set beside .*t10k")


def test_too_few_images_name_the_file(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "few.npz", 4)
    refused(path, path, "too few images")
    folder = write_folders(tmp_path / "set", 1)
    refused(folder, folder, "too few images")


def test_a_note_about_a_missing_test_set(tmp_path: Path) -> None:
    for write, name in ((write_cifar_binary, "test_batch.bin"),):
        folder = write(tmp_path / write.__name__)
        assert open_data(folder).notes == []
        (folder / name).unlink()
        dataset = open_data(folder)
        (note,) = dataset.notes
        assert note.startswith(f"{folder / name}: does not exist; a fifth")
        assert dataset.test is None
    folder = write_idx_folder(tmp_path / "idx")
    for path in folder.glob("t10k*"):
        path.unlink()
    assert (
        open_data(folder)
        .notes[0]
        .startswith(f"{folder / 't10k-images-idx3-ubyte'}: does not exist")
    )
    folder = write_sheets(tmp_path / "sheets")
    for path in folder.glob("test*"):
        path.unlink()
    expected_note = "does not exist; a fifth of the training images becomes the test set"
    assert open_data(folder).notes == [f"{folder}/test*.png: {expected_note}"]
    write_folders(tmp_path / "folders" / "train")
    assert open_data(tmp_path / "folders", 8).notes == [
        f"{tmp_path / 'folders' / 'test'}: {expected_note}"
    ]
    x, y = pixels(40, 1, 6)[:, 0].numpy(), np.array(labels(40))
    for images, numbers, test in (
        ("x_train", "y_train", "x_test"),
        ("train_images", "train_labels", "test_images"),
    ):
        path = tmp_path / f"{images}.npz"
        arrays: dict[str, Any] = {images: x, numbers: y}
        np.savez(path, **arrays)
        assert open_data(path).notes == [f"{path}: {test}: {expected_note}"]


def test_no_note_if_no_test_set_is_expected(tmp_path: Path) -> None:
    """It is not divided: nobody expects a part of it to be there."""
    path = tmp_path / "whole.npz"
    np.savez(path, images=pixels(40, 1, 6)[:, 0].numpy(), labels=np.array(labels(40)))
    for source in (path, write_folders(tmp_path / "set"), "digits"):
        assert open_data(source).notes == []


def test_cifar_100(tmp_path: Path) -> None:
    """Its records have two labels: the fine one counts. Without names, classes are numbers."""
    names = [f"thing {k}" for k in range(100)]
    for name, count in (("train", 120), ("test", 20)):
        fine = [(7 * i) % 100 for i in range(count)]
        two = torch.tensor([[k // 5 for k in fine], fine], dtype=torch.uint8).T
        rows = pixels(count, 3, 32, 3).flatten(1)
        (tmp_path / f"{name}.bin").write_bytes(torch.cat([two, rows], 1).numpy().tobytes())
    assert open_data(tmp_path).classes == [str(k) for k in range(100)]
    (tmp_path / "fine_label_names.txt").write_text("\n".join(names))
    dataset = open_data(tmp_path)
    assert dataset.classes == names
    assert dataset.train.labels.tolist() == [(7 * i) % 100 for i in range(120)]
    assert dataset.test is not None
    assert dataset.test.labels.tolist() == [(7 * i) % 100 for i in range(20)]
    assert torch.equal(dataset.train.pixels, pixels(120, 3, 32, 3))
    assert dataset.can_be_mirrored
    record = bytearray((tmp_path / "test.bin").read_bytes())
    record[1] = 100
    (tmp_path / "test.bin").write_bytes(bytes(record))
    refused(tmp_path, tmp_path / "test.bin", "label 100; there are 100 classes")
    (tmp_path / "test.bin").unlink()
    alone = open_data(tmp_path)
    assert alone.test is None
    assert alone.notes[0].startswith(f"{tmp_path / 'test.bin'}: does not exist; a fifth")


def test_a_file_called_train_next_to_folders_of_images(tmp_path: Path) -> None:
    folder = write_folders(tmp_path / "set")
    for name in ("train", "test"):
        (folder / name).write_text("dark/1.png")
    assert open_data(folder, 8).classes == ["dark", "light"]


def test_one_file_of_a_data_set(tmp_path: Path) -> None:
    folder = write_idx_folder(tmp_path / "idx")
    for path in folder.iterdir():
        refused(path, path, f"give its folder, {folder}")
    folder = write_cifar_binary(tmp_path / "cifar")
    path = folder / "data_batch_1.bin"
    refused(path, path, f"give its folder, {folder}")


# Folders


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    folder = write_folders(tmp_path / "set")
    (folder / "dark").rename(folder / "train")
    (folder / "light").rename(folder / "test")
    dataset = open_data(folder, 8)
    assert dataset.classes == ["test", "train"]
    assert len(dataset.train) == 24
    assert dataset.notes == [
        f"{folder / name}: holds images without class folders, so it is read as a class"
        for name in ("test", "train")
    ]


def test_notes_about_files_that_were_not_read(tmp_path: Path) -> None:
    write_folders(tmp_path / "train")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "1.png").write_bytes(
        encode_png(pixels(1, 3, 8)[0])
    )  # nobody says what it shows
    for name in ("a.avif", "b.AVIF", "notes"):
        (tmp_path / "train" / "dark" / name).write_bytes(b"something")
    (tmp_path / "train" / "dark" / ".hidden").write_bytes(b"something")
    assert open_data(tmp_path, 8).notes == [
        f"{tmp_path / 'test'}: has no folder of images for each class; it was not read",
        f"{tmp_path}: no test set was read; a fifth of the training images becomes the test set",
        f"{tmp_path / 'train'}: skipped 3 files without the ending of an image (.avif, no suffix)",
    ]
