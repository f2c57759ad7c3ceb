"""The vision task: a run measured on other data than its own, and what it has seen of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab.run_folder import StartMode
from attnlab.tasks.vision._dataset import Images, split_dataset
from attnlab.tasks.vision._open_data import open_data
from attnlab.tasks.vision._scoring import evaluate, prepare_scoring
from attnlab.tasks.vision._seen_images import image_digests, was_seen_by
from attnlab.tasks.vision._training import VisionSettings
from attnlab.tasks.vision.kind import SEEN
from tests.support.command_line import run
from tests.support.image_files import labels, pixels, write_npz
from tests.support.vision_runs import QUICK, trained

SHORT = {**QUICK, "steps": 2}


def write_plain(path: Path, count: int = 60, first: int = 0, seed: int = 0) -> Path:
    """Images without a test part of their own; those before `first` are missing."""
    images = pixels(count, 1, 6, seed)[first:, 0].numpy()
    np.savez_compressed(path, images=images, labels=np.array(labels(count)[first:]))
    return path


def rows_of(images: Images) -> list[bytes]:
    return [bytes(row) for row in images.pixels.flatten(1).numpy()]


def test_digests_depend_on_the_pixels_alone() -> None:
    one = Images(pixels(5, 3, 4), torch.arange(5), "a")
    other = Images(one.pixels.flip(0), torch.zeros(5, dtype=torch.long), "b")
    assert image_digests(one).tolist() == image_digests(other).flip(0).tolist()
    assert len(image_digests(one).unique()) == 5
    changed = one.pixels.clone()
    changed[2, 1, 3, 0] ^= 1
    same = image_digests(one) == image_digests(Images(changed, one.labels))
    assert same.tolist() == [True, True, False, True, True]


def test_training_images_are_left_out_of_the_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One image less, and the whole set is divided anew."""
    write_plain(tmp_path / "set.npz")
    trained(tmp_path, training=SHORT)
    parts = split_dataset(open_data(tmp_path / "set.npz"))
    learned = {*rows_of(parts.train), *rows_of(parts.validation)}
    less = write_plain(tmp_path / "less.npz", first=1)
    leaked = [row in learned for row in rows_of(split_dataset(open_data(less)).test)]
    assert sum(leaked) > 5  # the division by itself would measure these
    scoring_input = prepare_scoring(tmp_path / "vit", less)
    assert not learned & set(rows_of(scoring_input.images))
    whole = open_data(less).train
    assert [rows_of(whole)[i] for i in scoring_input.numbers.tolist()] == rows_of(
        scoring_input.images
    )
    left_out = sum(row in learned for row in rows_of(whole))
    page = tmp_path / "less.html"
    code, out, error = run(f"vision evaluate {tmp_path / 'vit'} --data {less} --out {page}", capsys)
    assert code == 0, error
    sentence = f"{left_out} images were left out, because the run was trained or validated on them"
    assert sentence in " ".join(out.split())
    assert sentence in page.read_text()
    assert json.loads((tmp_path / "less.json").read_text())["left_out"] == left_out


def test_error_if_all_images_were_used_in_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plain(tmp_path / "set.npz")
    trained(tmp_path, training=SHORT)
    own = split_dataset(open_data(tmp_path / "set.npz"))
    known = own.train.select(torch.arange(12))
    np.savez(tmp_path / "k.npz", images=known.pixels[:, 0].numpy(), labels=known.labels.numpy())
    code, _, error = run(f"vision evaluate {tmp_path / 'vit'} --data {tmp_path / 'k.npz'}", capsys)
    assert code == 2
    assert "k.npz: the run was trained or validated on all 12 images" in error
    assert error.count("\n") == 1
    assert not list((tmp_path / "vit").glob("*.html"))


def test_report_of_a_run_without_digests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path, training=SHORT)
    seen = tmp_path / "vit" / SEEN
    seen.write_bytes(b"cut")
    other = write_plain(tmp_path / "other.npz", seed=9)
    with pytest.raises(ValueError, match=r"seen\.safetensors: is damaged .* --resume"):
        evaluate(tmp_path / "vit", other)
    seen.unlink()
    page = tmp_path / "o.html"
    code, out, error = run(
        f"vision evaluate {tmp_path / 'vit'} --data {other} --out {page}", capsys
    )
    assert code == 0, error
    assert "cannot check whether the run was trained on" in " ".join(out.split())
    assert "cannot check whether" in page.read_text()
    assert 'id="attnlab-report"' in page.read_text()
    assert json.loads(page.with_suffix(".json").read_text())["left_out"] is None
    trained(
        tmp_path, training={**SHORT, "steps": 3}, start=StartMode.RESUME
    )  # knows its images again
    assert evaluate(tmp_path / "vit", other)[0]["left_out"] == 0


def test_only_the_training_fraction_counts_as_seen(tmp_path: Path) -> None:
    write_plain(tmp_path / "set.npz")
    parts = split_dataset(open_data(tmp_path / "set.npz"))
    for share, start in ((1.0, StartMode.NEW), (0.5, StartMode.OVERWRITE)):
        how = VisionSettings(fraction=share)
        trained(tmp_path, training=SHORT, vision=how, start=start)
        seen = was_seen_by(tmp_path / "vit", parts.train)
        assert seen is not None
        assert int(seen.sum()) == round(share * len(parts.train))
        chosen = was_seen_by(tmp_path / "vit", parts.validation)
        assert chosen is not None
        assert bool(chosen.all())
        tested = was_seen_by(tmp_path / "vit", parts.test)
        assert tested is not None
        assert not bool(tested.any())


@pytest.mark.parametrize("tested", [False, True])
def test_reports_name_other_data(
    tested: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path, training=SHORT)
    folder, other = tmp_path / "vit", tmp_path / "the other.npz"
    if tested:
        write_npz(other, 30)
    else:
        write_plain(other, 30, seed=8)
    command = f"vision evaluate {folder}"
    code, own, error = run(command, capsys)
    assert code == 0, error
    assert f"Trainedon:54(imagesof{tmp_path / 'set.npz'})" in "".join(own.split())
    page = (folder / "test.html").read_bytes()
    code, out, error = run(f"{command} --data '{other}'", capsys)
    assert code == 0, error
    assert (folder / "test.html").read_bytes() == page  # the run's own report
    report = json.loads((folder / "test-the-other.json").read_text())
    count = 10 if tested else 30
    assert (report["images"], report["left_out"]) == (count, 0)
    assert (report["trained_on"], report["trained_data"]) == (54, str(tmp_path / "set.npz"))
    assert (report["data"], report["foreign"]) == (str(other), True)
    for text in (out, (folder / "test-the-other.html").read_text()):
        joined = "".join(text.split())  # a line may be broken anywhere in a long path
        assert f"of{count}{'test' if tested else ''}imagesof" in joined
        assert re.search(r"Trainedon\W+(value\W+)?54\b", joined)  # a tile, in the page as JSON
        assert f"imagesof{tmp_path / 'set.npz'}" in joined
        assert ("owntestsetisscored" if tested else "soallitsimagesarescored") in joined
    code, _, error = run(f"{command} --data '{other}' --split validation --overwrite", capsys)
    assert code == 2
    assert "the run was not trained on it, so it has no validation images" in error


def test_moved_data_are_recognized(tmp_path: Path) -> None:
    trained(tmp_path, training=SHORT)
    moved = (tmp_path / "set.npz").rename(tmp_path / "moved.npz")
    scoring_input = prepare_scoring(tmp_path / "vit", moved, "validation")
    assert (
        scoring_input.name,
        scoring_input.description["foreign"],
        len(scoring_input.images),
    ) == (
        "validation",
        False,
        6,
    )


def test_overwriting_a_run_removes_old_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path, training=SHORT)
    folder = tmp_path / "vit"
    other = write_plain(tmp_path / "other.npz", 30, seed=8)
    for options in ("", f" --data {other}", " --split train"):
        assert run(f"vision evaluate {folder}{options}", capsys)[0] == 0
    user_files = {
        "mine.html": "a",
        "test-mine.html": "b",
        "test-notes.json": "[1]",
        "test-x.json": "no",
    }
    for name, text in user_files.items():
        (folder / name).write_text(text)
    trained(tmp_path, training=SHORT, start=StartMode.OVERWRITE)
    left = {path.name for path in folder.iterdir() if path.suffix in (".html", ".json")}
    assert left == {"config.json", *user_files}
    assert {name: (folder / name).read_text() for name in user_files} == user_files
    code, _, error = run(f"vision evaluate {folder}", capsys)
    assert code == 0, error
