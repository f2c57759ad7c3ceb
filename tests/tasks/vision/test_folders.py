"""Folders of images: however they lie there, each is read as it is meant, or told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from attnlab._image_files import encode_png
from attnlab.tasks.vision._dataset import Dataset
from attnlab.tasks.vision._open_data import open_data
from attnlab.tasks.vision._training import VisionSettings, train_vision
from attnlab.tasks.vision.kind import SKIPPED
from tests.support.image_files import pixels, write_folders, write_idx_folder, write_sheets


def some_images(folder: Path, count: int = 3) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(pixels(count, 3, 10)):
        (folder / f"{number}.png").write_bytes(encode_png(image))
    return folder


def sizes(dataset: Dataset) -> tuple[int, int, int]:
    """Of train, test and validation."""
    parts = (dataset.train, dataset.test, dataset.validation)
    train, test, validation = (len(part) if part else 0 for part in parts)
    return train, test, validation


def refused(folder: Path, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        open_data(folder, 8)
    assert str(error.value).startswith(str(folder))
    assert "\n" not in str(error.value)


# Parts


def test_a_test_set_next_to_the_classes(tmp_path: Path) -> None:
    folder = write_folders(tmp_path / "set")
    write_folders(folder / "test", 3)
    write_folders(folder / "val", 2)
    dataset = open_data(folder, 8)
    assert dataset.classes == ["dark", "light"]
    assert sizes(dataset) == (24, 6, 4)
    assert dataset.notes == []
    (folder / "test").rename(tmp_path / "test")
    (note,) = open_data(folder, 8).notes
    assert note.startswith(f"{folder / 'test'}: does not exist")
    (tmp_path / "test").rename(folder / "test")
    (folder / "test" / "dark").rename(folder / "test" / "green")
    refused(folder, f"test/green: {folder} has no class of this name; rename the folder")


@pytest.mark.parametrize("name", ["Test", "val"])
def test_a_part_without_class_folders(name: str, tmp_path: Path) -> None:
    folder = write_folders(tmp_path / "set")
    some_images(folder / name)
    dataset = open_data(folder, 8)
    assert dataset.classes == ["dark", "light"]
    assert sizes(dataset) == (24, 0, 0)
    fifth = "a fifth of the training images becomes the test set"
    assert dataset.notes == [
        f"{folder / name}: has no folder of images for each class; it was not read",
        f"{folder}: no test set was read; {fifth}"
        if name == "Test"
        else f"{folder / 'test'}: does not exist; {fifth}",
    ]


@pytest.mark.parametrize(
    "names", [("Train", "Test", "Val"), ("TRAINING", "Testing", "VALID"), ("train", "TEST", "val")]
)
def test_parts_may_have_capitals(names: tuple[str, str, str], tmp_path: Path) -> None:
    for name, each in zip(names, (12, 3, 2), strict=True):
        write_folders(tmp_path / name, each)
    dataset = open_data(tmp_path, 8)
    assert dataset.classes == ["dark", "light"]
    assert sizes(dataset) == (24, 6, 4)
    assert dataset.notes == []


def test_notes_about_folders_next_to_train(tmp_path: Path) -> None:
    write_folders(tmp_path / "train")
    write_folders(tmp_path / "test", 3)
    write_folders(tmp_path / "testing", 2)
    some_images(tmp_path / "bus")
    (tmp_path / "preview.png").write_bytes(b"anything")
    dataset = open_data(tmp_path, 8)
    assert sizes(dataset) == (24, 6, 0)
    assert dataset.notes == [
        f"{tmp_path / 'testing'}: is a second part of its kind; it was not read",
        f"{tmp_path}: 1 folder of images next to train, not read (bus)",
        f"{tmp_path}: 1 image outside the class folders, not read (preview.png)",
    ]


def test_parts_with_other_names_are_refused(tmp_path: Path) -> None:
    """Folders within a class's are read with it: of parts that would be quite wrong."""
    for name in ("first", "second"):
        write_folders(tmp_path / name, 2)
    refused(tmp_path, r"first, second all hold the same folders \(dark, light\); call the parts")
    for path in sorted((tmp_path / "second").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    refused(tmp_path, f"only one folder of images, first; give {tmp_path / 'first'} if its")


# Classes


def test_subfolders_belong_to_their_class(tmp_path: Path) -> None:
    folder = write_folders(tmp_path / "set")
    some_images(folder / "bird" / "sub", 5)
    some_images(folder / "dark" / "more" / "still", 3)
    dataset = open_data(folder, 8)
    assert dataset.classes == ["bird", "dark", "light"]
    assert dataset.train.labels.bincount().tolist() == [5, 15, 12]
    note = "8 images in subfolders of a class, read as part of it (bird/sub, dark/more/still)"
    assert dataset.notes == [f"{folder}: {note}"]


def test_a_cyclic_link_ends(tmp_path: Path) -> None:
    folder = write_folders(tmp_path / "set")
    (folder / "dark" / "all").symlink_to(folder)
    (folder / "dark" / "self").symlink_to(folder / "dark")
    assert sizes(open_data(folder, 8)) == (24, 0, 0)


def test_a_class_without_images_is_reported(tmp_path: Path) -> None:
    folder = write_folders(tmp_path / "set")
    for name in ("cow", "eel", "fox", "hen"):
        (folder / name).mkdir()
    dataset = open_data(folder, 8)
    assert dataset.classes == ["dark", "light"]
    assert dataset.notes == [f"{folder}: 4 folders without an image (cow, eel, fox and 1 more)"]
    parts = tmp_path / "parts"
    write_folders(parts / "train")
    some_images(parts / "test" / "dark")
    assert open_data(parts, 8).notes == [f"{parts / 'test'}: 1 class without a folder (light)"]


def test_files_that_only_have_the_name_of_an_image(tmp_path: Path) -> None:
    folder = write_folders(tmp_path / "set")
    (folder / "dark" / "link.png").symlink_to(folder / "nowhere.png")
    (folder / "dark" / "dir.png").mkdir()
    os.mkfifo(folder / "dark" / "pipe.png")  # nobody writes into it: reading would never end
    dataset = open_data(folder, 8)
    assert len(dataset.train) == 24
    assert dataset.skipped == [
        f"{folder / 'dark' / name}: is not a readable image (it is {what})"
        for name, what in (
            ("dir.png", "a folder"),
            ("link.png", "a link to nothing"),
            ("pipe.png", "not a file"),
        )
    ]


def test_images_without_any_class(tmp_path: Path) -> None:
    refused(some_images(tmp_path / "flat"), "images without classes; put the images of each class")


def test_file_names_that_are_not_text(tmp_path: Path) -> None:
    """Of Latin-1 and with line breaks: shown by their numbers, and training goes on."""
    folder = write_folders(tmp_path / "set")
    for name in (b"\xe8.png", b"a\nb.png", "ü.png".encode()):
        (folder / "dark" / os.fsdecode(name)).write_bytes(b"broken")
    some_images(folder / "light" / os.fsdecode(b"\xe9"))
    (folder / "light").rename(folder / os.fsdecode(b"caf\xe9"))
    out = tmp_path / "run"
    train_vision(
        folder, out=out, vision=VisionSettings(image_size=8), training={"steps": 1},
        sizes={"layers": 1, "width": 16, "heads": 2}, quiet=True,
    )  # fmt: skip
    lines = (out / SKIPPED).read_text(encoding="utf-8").splitlines()
    starts = [f"{folder}/dark/{name}: cannot be read" for name in (r"a\x0ab.png", "ü.png")]
    starts.append(rf"{folder}/dark/\xe8.png: cannot be read")
    assert [line.startswith(start) for line, start in zip(lines, starts, strict=True)] == [True] * 3
    dataset = open_data(folder, 8)
    assert dataset.classes == [r"caf\xe9", "dark"]
    assert dataset.notes[0].endswith(r"read as part of it (caf\xe9/\xe9)")
    for text in (*dataset.notes, *dataset.skipped, *dataset.classes):
        assert text.encode("utf-8")
        assert "\n" not in text


# Other kinds in the same folder


def test_a_preview_with_labels_is_not_a_sheet(tmp_path: Path) -> None:
    folder = write_folders(tmp_path / "set")
    (folder / "preview.png").write_bytes(encode_png(pixels(1, 3, 40)[0]))
    (folder / "labels.txt").write_text("dark\nlight\n")
    dataset = open_data(folder, 8)
    assert dataset.classes == ["dark", "light"]
    assert dataset.notes == [f"{folder}: 1 image outside the class folders, not read (preview.png)"]


def test_a_readable_sheet_wins(tmp_path: Path) -> None:
    folder = write_sheets(write_folders(tmp_path / "set"))
    dataset = open_data(folder)
    assert sizes(dataset) == (40, 10, 0)
    assert dataset.notes == [f"{folder}: its folders of images were not read"]
    (folder / "train_lables.json").write_text(json.dumps([0, 1]))
    assert open_data(folder, 8).classes == ["dark", "light"]


def test_idx_files_next_to_folders_of_images(tmp_path: Path) -> None:
    folder = write_idx_folder(write_folders(tmp_path / "set"))
    assert open_data(folder).notes == [f"{folder}: its folders of images were not read"]
