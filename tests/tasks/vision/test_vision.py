"""The vision task: training end to end, and the command line."""

from __future__ import annotations

import copy
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from attnlab._create_mechanism import create_attention
from attnlab.layers import Block
from attnlab.models import ViT, ViTConfig
from attnlab.run_folder import StartMode
from attnlab.tasks.vision._augmentation import Augmentation
from attnlab.tasks.vision._dataset import Images, split_dataset
from attnlab.tasks.vision._equals_softmax import softmax_notes
from attnlab.tasks.vision._open_data import open_data
from attnlab.tasks.vision._scoring import evaluate
from attnlab.tasks.vision._task import VisionTask
from attnlab.tasks.vision._training import VisionSettings, load_vision
from attnlab.training import Run
from tests.support.command_line import run
from tests.support.image_files import pixels, write_folders, write_npz
from tests.support.vision_runs import QUICK, trained

COVERS = "covers all 37 tokens, so it equals softmax"

# Training


@pytest.mark.parametrize("count", [5, 16, 40])
def test_every_step_has_the_same_number_of_images(count: int) -> None:
    images = Images(pixels(count, 1, 4), torch.arange(count))
    task = VisionTask(images, images, augmentation=Augmentation(), batch=16)
    assert len(task.lengths(0)) % 16 == 0
    left_out = set()
    for epoch in range(8):
        seen = task.collate(range(len(task.lengths(epoch))), epoch)["target"].tolist()
        assert len(set(seen)) == min(count, len(seen))
        assert torch.equal(torch.tensor(seen), task.collate(range(len(seen)), epoch)["target"])
        left_out |= set(range(count)) - set(seen)
    assert (len(left_out) > 8) == (count == 40)  # others each time


def test_run_folder_contains_the_settings(tmp_path: Path) -> None:
    assert trained(tmp_path)["accuracy"] == 1.0
    config = Run(tmp_path / "vit").config()
    task = config["task"]
    assert (task["name"], task["headline"], task["better"]) == ("vision", "accuracy", "higher")
    assert task["classes"] == ["0", "1"]
    assert (task["images"], task["validation"], task["test"]) == (54, 6, 10)
    model, _ = load_vision(tmp_path / "vit")
    assert model.config.mean == pytest.approx(0.43, abs=0.1)
    rows = Run(tmp_path / "vit").metrics()
    assert len(rows) == 40
    assert sum("validation" in row for row in rows) == 10


def test_resuming_ends_in_the_same_weights(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"vision": VisionSettings(augmentation="strong")}
    trained(tmp_path, **changes)
    whole = (tmp_path / "vit" / "model.safetensors").read_bytes()
    stopped = {**QUICK, "save_every": 7, "evaluate_every": 4}
    _interrupted(tmp_path, stopped, **changes)
    trained(tmp_path, training={**QUICK}, start=StartMode.RESUME, **changes)
    assert (tmp_path / "vit" / "model.safetensors").read_bytes() == whole


def test_more_steps_keep_the_warmup_that_the_run_began_with(tmp_path: Path) -> None:
    for steps in (20, 40):
        start = StartMode.RESUME if steps > 20 else StartMode.NEW
        trained(tmp_path, training={**QUICK, "steps": steps}, start=start)
        assert Run(tmp_path / "vit").config()["training"]["warmup_steps"] == 4
    assert len(Run(tmp_path / "vit").metrics()) == 40
    with pytest.raises(ValueError, match="the run has warmup_steps 4, not 8"):  # asked for
        trained(tmp_path, training={**QUICK, "warmup_steps": 8}, start=StartMode.RESUME)


def test_an_unfinished_run_is_not_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _interrupted(tmp_path, {**QUICK, "save_every": 7})
    folder = tmp_path / "vit"
    code, _, error = run(f"vision evaluate {folder}", capsys)
    assert code == 2
    assert error == (
        f"attnlab: {folder}: its training is not finished; continue it with vision train --resume, "
        "then evaluate\n"
    )
    assert not list(folder.glob("test.*"))
    trained(tmp_path, start=StartMode.RESUME)
    assert run(f"vision evaluate {folder}", capsys)[0] == 0


def _interrupted(tmp_path: Path, training: dict[str, Any], **changes: Any) -> None:
    before = VisionTask.collate
    count = 0

    def collate(self: VisionTask, rows: Any, epoch: int) -> Any:
        nonlocal count
        count += 1
        if count == 30:
            raise RuntimeError("pulled the plug")
        return before(self, rows, epoch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VisionTask, "collate", collate)
        with pytest.raises(RuntimeError, match="plug"):
            trained(tmp_path, training=training, start=StartMode.OVERWRITE, **changes)


def test_the_best_weights_are_kept(tmp_path: Path) -> None:
    """Also when the run was stopped after them and went on from a checkpoint."""
    accuracies = iter([0.2, 0.9, 0.9, 0.5, 0.4])
    seen: list[dict[str, torch.Tensor]] = []

    def fake_evaluate(self: VisionTask, model: nn.Module) -> dict[str, float]:
        del self
        seen.append({name: p.detach().clone() for name, p in model.named_parameters()})
        return {"accuracy": next(accuracies, 0.9), "loss": 1.0}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VisionTask, "evaluate", fake_evaluate)
        training = {**QUICK, "steps": 10, "evaluate_every": 2, "save_every": 3}
        trained(tmp_path, training=training)
        kept = dict(Run(tmp_path / "vit").model().named_parameters())
        assert all(torch.equal(kept[name], seen[2][name]) for name in kept)  # the later of two
        accuracies = iter([0.3])
        trained(tmp_path, training={**training, "steps": 12}, start=StartMode.RESUME)
        again = dict(Run(tmp_path / "vit").model().named_parameters())
        assert all(torch.equal(again[name], kept[name]) for name in kept)
        accuracies = iter([0.2, 0.9, 0.5])
        trained(
            tmp_path,
            training={**training, "steps": 6, "keep_best": False},
            start=StartMode.OVERWRITE,
        )
        last = dict(Run(tmp_path / "vit").model().named_parameters())
        assert all(torch.equal(last[name], seen[-1][name]) for name in last)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "cnn"}, "choose from vit, convnet"),
        ({"model": "convnet", "attention": "favor"}, "--attention is for a vit"),
        ({"model": "convnet", "sizes": {"patch": 2}}, "--patch is not a setting of a convnet"),
        ({"sizes": {"stages": 2}}, "--stages is not a setting of a vit"),
        ({"sizes": {"patch": 5}}, "do not tile"),
        ({"sizes": {"width": -32}}, "width is -32; give 1 or more"),
        ({"sizes": {"width": 0}}, "width is 0; give 1 or more"),
        ({"sizes": {"layers": 0}}, "layers is 0; give 1 or more"),
        ({"sizes": {"layers": -2}}, "layers is -2; give 1 or more"),
        ({"sizes": {"heads": 0}}, "heads is 0; give 1 or more"),
        ({"model": "convnet", "sizes": {"blocks": 0}}, "blocks is 0; give 1 or more"),
        ({"model": "convnet", "sizes": {"blocks": -3}}, "blocks is -3; give 1 or more"),
        ({"model": "convnet", "sizes": {"stages": 0}}, "stages is 0; give 1 or more"),
        ({"model": "convnet", "sizes": {"stages": 9}}, "cannot be halved 8 times"),
        ({"training": {"batch_tokens": 5}}, "--batch-size"),
        ({"training": {"steps": 5}, "epochs": 2.0}, "give one of them"),
        ({"epochs": -1.0, "training": {}}, "above 0"),
        ({"vision": VisionSettings(fraction=0.0)}, "give a number above 0"),
        ({"vision": VisionSettings(augmentation="mild")}, "choose from none, mirror, light"),
        ({"vision": VisionSettings(smoothing=1.0)}, "smoothing is 1.0"),
        ({"start": "overwirte"}, "start is 'overwirte'; choose from new, resume, overwrite"),
    ],
)
def test_errors(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        trained(tmp_path, **{"sizes": {}, **changes})
    assert not list(tmp_path.glob("*/model.safetensors"))


def test_changed_data_are_refused(tmp_path: Path) -> None:
    trained(tmp_path, training={**QUICK, "steps": 2})
    write_npz(tmp_path / "set.npz", 80)
    with pytest.raises(ValueError, match="has changed since the run was trained on it"):
        evaluate(tmp_path / "vit")
    with pytest.raises(ValueError, match="resume with the same settings"):
        trained(tmp_path, training={**QUICK, "steps": 4}, start=StartMode.RESUME)
    with pytest.raises(ValueError, match="10 classes, 8 pixels"):
        evaluate(tmp_path / "vit", "digits")


@pytest.mark.parametrize(
    ("attention", "notes"),
    [
        ("window", [f"window: its window of 128 {COVERS}; try window:window=5"]),
        ("window:window=37", [f"window: its window of 37 {COVERS}; try window:window=5"]),
        ("window:window=36", []),
        ("bigbird", [f"bigbird: its block of 64 {COVERS}; try bigbird:block=3"]),
        ("bigbird:block=4", []),
        ("1*window+1*softmax", [f"window: its window of 128 {COVERS}; try window:window=5"]),
        ("favor", []),
    ],
)
def test_note_about_mechanisms_that_equal_softmax(attention: str, notes: list[str]) -> None:
    sizes: dict[str, Any] = {"channels": 1, "patch": 1, "width": 16, "layers": 2, "heads": 2}
    model = ViT(ViTConfig(2, 6, attention=attention, **sizes))
    assert softmax_notes(model) == notes
    same = copy.deepcopy(model)
    for block in same.blocks:
        assert isinstance(block, Block)
        block.attention.mechanism = create_attention("softmax", head_dim=8, heads=2)
    images = torch.rand(3, 1, 6, 6)
    equal = torch.allclose(model.eval()(images), same.eval()(images), atol=1e-5)
    assert equal == bool(notes)


def test_the_note_is_printed_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = "--steps 1 --width 16 --layers 1 --heads 2 --attention window"
    note = (
        "window: its window of 128 covers all 17 tokens, so it equals softmax; "
        "try window:window=3\n"
    )
    code, _, error = run(f"vision train {small} --out {tmp_path / 'a'}", capsys)
    assert (code, error.count(note)) == (0, 1)
    code, _, error = run(
        f"compare vision {small} --fractions 0.01 --seeds 1 --out {tmp_path / 'b'}", capsys
    )
    assert (code, error.count(note)) == (0, 1)
    code, text, _ = run("vision train --help", capsys)
    assert "favor:features=64" in text


# The command line


def test_from_a_folder_of_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folders(tmp_path / "set")
    (folder / "dark" / "broken.jpg").write_text("broken")
    (folder / "light" / "notes.TXT").write_text("no image")
    out = tmp_path / "run"
    code, text, error = run(
        f"vision train {folder} --image-size 12 --steps 3 --width 16 --layers 1 --heads 2 "
        f"--augmentation strong --out {out}",
        capsys,
    )
    assert code == 0, error
    assert "trained; validation accuracy" in text
    assert "broken.jpg: cannot be read as an image" in error
    assert "1 image could not be read\n" in error
    assert "images of 12 x 12 pixels, 2 classes" in error
    assert "set: skipped 1 file without the ending of an image (.txt)" in error
    assert Run(out).config()["task"]["skipped"] == 1
    code, text, error = run(f"vision evaluate {out}", capsys)
    assert code == 0, error
    assert "of 4 test images" in text
    assert "broken.jpg: cannot be read as an image" in error


@pytest.mark.parametrize(("option", "flip"), [("", True), ("--no-flip", False), ("--flip", True)])
def test_mirroring_can_be_turned_off(
    option: str, flip: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = write_folders(tmp_path / "set"), tmp_path / "run"
    small = "--image-size 8 --steps 1 --width 16 --layers 1 --heads 2 --augmentation light"
    code, _, error = run(f"vision train {folder} {small} {option} --out {out}", capsys)
    assert code == 0, error
    assert Run(out).config()["task"]["augmentation"]["flip"] is flip


def test_every_broken_image_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folders(tmp_path / "set")
    for number in range(5):
        (folder / "dark" / f"broken-{number}.png").write_bytes(b"no")
    small = "--image-size 8 --steps 1 --width 24 --layers 1 --heads 2"
    train = f"vision train {folder} {small} --out {tmp_path / 'run'}"
    code, _, error = run(train, capsys)
    assert code == 0, error
    assert (
        "5 images could not be read; the first 3 are listed above; all in skipped.txt of the run"
        in error
    )
    listed = (tmp_path / "run" / "skipped.txt").read_text().splitlines()
    assert [Path(line.split(":")[0]).name for line in listed] == [
        f"broken-{number}.png" for number in range(5)
    ]
    code, _, error = run(f"vision evaluate {tmp_path / 'run'}", capsys)
    assert code == 0, error
    assert "5 images could not be read; the first 3 are listed above; all in " in error
    assert len(json.loads((tmp_path / "run" / "test.json").read_text())["skipped"]) == 5
    code, _, error = run(
        f"compare vision --data {folder} {small} --fractions 1 --seeds 1 --out {tmp_path / 'c'}",
        capsys,
    )
    assert code == 0, error
    assert (
        error.count("5 images could not be read; the first 3 are listed above; all in skipped.txt")
        == 1
    )
    assert (
        len((tmp_path / "c" / "softmax-1-rate1-seed0" / "skipped.txt").read_text().splitlines())
        == 5
    )
    for number in range(5):
        (folder / "dark" / f"broken-{number}.png").unlink()
    code, _, error = run(f"{train} --overwrite", capsys)
    assert code == 0, error
    assert not (tmp_path / "run" / "skipped.txt").exists()


@lru_cache
def _digits() -> Any:
    return split_dataset(open_data())


def test_test_images_are_never_trained_on() -> None:
    parts = _digits()
    seen = {bytes(row) for row in parts.train.pixels.flatten(1).numpy()}
    seen |= {bytes(row) for row in parts.validation.pixels.flatten(1).numpy()}
    both = [bytes(row) in seen for row in parts.test.pixels.flatten(1).numpy()]
    assert sum(both) == 0
