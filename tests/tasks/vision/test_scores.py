"""The vision task: evaluation, classification."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlab._image_files import encode_png, image_to_tensor, open_rgb_image
from attnlab.interpret._look import look
from attnlab.interpret._page import render
from attnlab.interpret._records import CapturePanel
from attnlab.layers import Block
from attnlab.models import ViT
from attnlab.report import Figure, Gallery, Heatmap, render_page
from attnlab.tasks.vision import _classify as classify_module
from attnlab.tasks.vision import _known_labels as known_labels_module
from attnlab.tasks.vision._classify import classify, classify_test
from attnlab.tasks.vision._score_report import score_report
from attnlab.tasks.vision._scoring import confusions, score
from attnlab.tasks.vision._training import open_run_data
from attnlab.training import Run
from tests.support.command_line import run
from tests.support.image_files import pixels, write_idx_folder, write_npz
from tests.support.vision_runs import trained


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vision")
    for model in ("vit", "convnet"):
        assert trained(folder, model)["accuracy"] == 1.0
    return folder


# Evaluation


def test_scores_by_hand() -> None:
    logits = torch.tensor([[2.0, 0, 0], [0, 3, 0], [0, 1, 0], [5, 0, 0], [0, 0, 1]])
    report = score(logits, torch.tensor([0, 1, 0, 1, 2]), ["a", "b", "c"])
    assert report["right"] == 3
    assert report["accuracy"] == pytest.approx(0.6)
    assert report["interval"] == pytest.approx([0.2307, 0.8824], abs=1e-3)
    assert report["confusion"] == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert [each["number"] for each in report["mistakes"]] == [3, 2]  # the surest first
    worst = report["mistakes"][0]
    assert (worst["label"], worst["said"]) == ("b", "a")
    assert worst["confidence"] == pytest.approx(math.exp(5) / (math.exp(5) + 2))
    assert report["classes"][0]["precision"] == pytest.approx(0.5)
    assert confusions(report) == [("a", "b", 1, 2), ("b", "a", 1, 2)]
    wanted = statistics.fmean(
        -float(F.log_softmax(row, -1)[k]) for row, k in zip(logits, [0, 1, 0, 1, 2], strict=True)
    )
    assert report["loss"] == pytest.approx(wanted, rel=1e-6)
    json.dumps(report)


def test_page_with_pictures() -> None:
    torch.manual_seed(0)
    names = [f"<b>{k}" for k in range(30)]
    logits, labels = torch.randn(400, 30), torch.arange(400) % 30
    report = score(logits, labels, names)
    report |= {"run": "a", "model": "vit", "parameters": 5, "data": "d", "part": "validation"}
    report |= {"trained_on": 7, "left_out": 0, "foreign": False, "trained_data": "d"}
    images = [pixels(1, 3, 6, k)[0] for k in range(len(report["mistakes"]))]
    made = score_report(report, images)
    gallery = next(b for s in made.sections for b in s.blocks if isinstance(b, Gallery))
    assert len(gallery.pictures) == 48
    assert all(each.png.startswith(b"\x89PNG") for each in gallery.pictures)
    matrix = made.sections[1].blocks[0]
    assert isinstance(matrix, Figure)
    assert isinstance(matrix.plot, Heatmap)
    assert "It shows the 24 classes with most mistakes, of 30" in matrix.note
    assert len(matrix.plot.rows) == 24
    assert not matrix.plot.written
    assert "not test images" in made.sections[0].findings[-1]
    page = render_page(made)
    assert "img-src data:" in page
    assert "<b>" not in page
    perfect = score_report({**report, **score(F.one_hot(labels, 30) * 9.0, labels, names)})
    assert perfect.sections[2].findings == ["The model made no mistake."]


def test_evaluate_a_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(f"vision evaluate {runs / 'vit'} --overwrite", capsys)
    assert code == 0
    assert "10 of 10 test images were classified correctly: 100.0%" in out
    assert 'id="attnlab-report"' in (runs / "vit" / "test.html").read_text()
    report = json.loads((runs / "vit" / "test.json").read_text())
    assert report["confusion"] == [[5, 0], [0, 5]]
    code, _, error = run(f"vision evaluate {runs / 'vit'}", capsys)
    assert code == 2
    assert "already exists" in error
    code, _, error = run(f"vision evaluate {runs / 'vit'} --split all", capsys)
    assert "choose from test, validation, train" in error
    code, _, error = run(f"vision evaluate {runs}", capsys)
    assert "not a run folder" in error


def test_evaluate_keeps_the_files_of_the_run(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = (runs / "vit" / "config.json").read_bytes()
    command = f"vision evaluate {runs / 'vit'} --out"
    for options in ("", " --overwrite"):
        code, _, error = run(f"{command} {runs / 'vit' / 'config.html'}{options}", capsys)
        assert code == 2
        assert "config.json: would replace the settings of a run" in error
    assert (runs / "vit" / "config.json").read_bytes() == config
    assert not (runs / "vit" / "config.html").exists()
    (tmp_path / "notes.json").write_text("mine")
    code, _, error = run(f"{command} {tmp_path / 'notes.html'}", capsys)
    assert code == 2
    assert "notes.json: already exists; give --overwrite" in error
    assert not (tmp_path / "notes.html").exists()  # before anything is measured
    assert (tmp_path / "notes.json").read_text() == "mine"
    code, _, error = run(f"{command} {tmp_path / 'notes.html'} --overwrite", capsys)
    assert code == 0, error
    assert json.loads((tmp_path / "notes.json").read_text())["right"] == 10


def test_other_data_of_another_size(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_idx_folder(tmp_path / "idx", side=7)
    code, _, error = run(f"vision evaluate {runs / 'vit'} --data {folder} --overwrite", capsys)
    assert code == 2
    assert (
        "has 2 classes, 7 pixels and 1 channels; the run has 2 classes, 6 pixels and 1 channels"
        in error
    )
    assert "--image-size" not in error


def test_other_data_of_other_names(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_npz(tmp_path / "b.npz", classes=np.array(["0", "uno"]))
    code, _, error = run(f"vision evaluate {runs / 'vit'} --data {path}", capsys)
    assert code == 2
    assert "b.npz: class 2 is 'uno', but '1' in the run; give images with the same" in error


# Classification


def test_classify_files(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, shade in (("dark", 30), ("light", 200)):
        image = torch.full((3, 20, 30), shade, dtype=torch.uint8)
        (tmp_path / f"{name}.png").write_bytes(encode_png(image))
    paths = [tmp_path / "dark.png", tmp_path / "light.png"]
    predictions = classify(runs / "vit", paths)
    assert [each.probabilities[0][0] for each in predictions] == ["0", "1"]
    assert all(
        sum(c for _, c in each.probabilities) == pytest.approx(1, abs=1e-5) for each in predictions
    )
    listed = " ".join(map(str, paths))
    code, out, _ = run(f"vision classify {runs / 'convnet'} {listed} --json", capsys)
    assert code == 0
    assert [next(iter(each["chances"])) for each in json.loads(out)] == ["0", "1"]
    (tmp_path / "none.png").write_text("no image")
    for what, message in (
        (f"{tmp_path / 'none.png'}", "none.png: cannot be read as an image"),
        (f"{tmp_path / 'nowhere.png'}", "nowhere.png: does not exist"),
        ("", "no images; give image files"),
        ("--test 10", "give 0 to 9"),
        ("--test -1", "give 0 to 9"),
    ):
        code, _, error = run(f"vision classify {runs / 'vit'} {what}", capsys)
        assert code == 2, what
        assert message in error
    page = tmp_path / "p.html"
    for rest in ("", f"{paths[1]}"):
        code, _, error = run(f"vision classify {paths[0]} {rest} --explain {page}", capsys)
        assert code == 2
        assert "dark.png: is a file; give the folder of a run first, then images" in error


def test_explain(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    code, out, _ = run(f"vision classify {runs / 'vit'} --test 3 4 --explain {page}", capsys)
    assert code == 0
    assert "test image 3: 1 " in out
    assert "(it is 1)" in out
    predictions, pictures = classify_test(runs / "vit", [3, 4])
    for number in (3, 4):  # each page is what look says of that very image
        file = tmp_path / f"test-{number}.png"
        file.write_bytes(encode_png(pictures[number - 3]))
        name, chance = predictions[number - 3].probabilities[0]
        assert name == str(number % 2)
        title = f"vit: test-{number}.png is classified as {name} ({chance:.0%}), and its label is"
        title += f" {name}"
        seen = look(str(runs / "vit"), image=file, title=title)
        seen = seen.open_at("image")
        assert (tmp_path / f"page-{number - 2}.html").read_text() == render(*seen.packed)
        assert f"<title>{title}" in render(*seen.packed)
        assert any(f"predicts: {name} {chance:.1%}" in note for note in seen.capture.notes)
        assert seen.panels[0].flow.target == f"the logit of class {name!r}"
        _check_attention(seen.panels[0], runs / "vit", pictures[number - 3])
    code, _, error = run(f"vision classify {runs / 'convnet'} --test 3 --explain {page}", capsys)
    assert code == 2
    assert "has no attention" in error


def test_explain_shows_the_label_that_the_model_missed(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def mislabeled(folder: Path, numbers: Sequence[int]) -> Any:
        predictions, pictures = classify_test(folder, numbers)
        return [replace(each, label="5") for each in predictions], pictures

    monkeypatch.setattr(classify_module, "classify_test", mislabeled)
    page = tmp_path / "page.html"
    code, _, _ = run(f"vision classify {runs / 'vit'} --test 3 --explain {page}", capsys)
    assert code == 0
    assert re.search(
        r"<title>vit: test-3.png is classified as 1 \(\d+%\), but its label is 5", page.read_text()
    )


def test_an_image_of_the_data_has_its_label(runs: Path, tmp_path: Path) -> None:
    """Found by its pixels, in whatever file; another image has no label."""
    _, (picture,) = classify_test(runs / "vit", [3])
    (tmp_path / "same.png").write_bytes(encode_png(picture))
    (tmp_path / "other.png").write_bytes(encode_png(255 - picture))
    same, other = classify(runs / "vit", [tmp_path / "same.png", tmp_path / "other.png"])
    assert (same.label, other.label) == ("1", None)
    assert not same.is_wrong
    assert same.describe().endswith("%), and its label is 1")
    assert "label" not in other.describe()
    wrong = replace(same, label="0")
    assert wrong.is_wrong
    assert wrong.describe().endswith("%), but its label is 0")


def test_labels_that_contradict_each_other_are_not_shown(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Run(runs / "vit").config()
    dataset, _ = open_run_data(config)
    doubled = replace(dataset, test=replace(dataset.train, labels=1 - dataset.train.labels))
    monkeypatch.setattr(known_labels_module, "open_matching_data", lambda *_: doubled)
    assert known_labels_module.known_labels(config) == {}
    config["task"]["data"] = str(tmp_path / "gone")
    monkeypatch.undo()
    assert known_labels_module.known_labels(config) == {}


def _check_attention(side: CapturePanel, folder: Path, pixels: torch.Tensor) -> None:
    """Weights of the one layer and rollout, by hand from the run's own weights."""
    model = Run(folder).model()
    assert isinstance(model, ViT)
    (layer,), picture = side.layers, side.sequences[0].image
    assert picture is not None
    assert torch.equal(picture.pixels.permute(2, 0, 1), pixels.expand(3, -1, -1))
    assert (picture.rows, picture.columns, picture.first) == (6, 6, 1)  # the class token first
    with torch.no_grad():
        block = model.blocks[0]
        assert isinstance(block, Block)
        image = (pixels[None] / 255 - model.config.mean) / model.config.deviation
        x = model.patches(image).flatten(2).mT
        assert model.class_token is not None
        x = torch.cat([model.class_token, x], 1) + model.position()  # (1, 37, 16)
        q, k, _ = block.attention.project(block.attention_norm(x))[0].split(16, -1)
        q, k = (each.view(37, 2, 8).transpose(0, 1) for each in (q, k))  # (2, 37, 8)
        weights = (q @ k.mT / math.sqrt(8)).softmax(-1)
    assert layer.weights is not None
    assert torch.allclose(layer.weights, weights, atol=1e-5)
    assert side.flow.rollout is not None
    half = (weights.mean(0) + torch.eye(37)) / 2
    assert torch.allclose(side.flow.rollout[0], half, atol=1e-5)


def test_png_keeps_the_pixels() -> None:
    import tempfile

    for channels in (1, 3):
        image = pixels(1, channels, 7)[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.png"
            path.write_bytes(encode_png(image))
            read = image_to_tensor(open_rgb_image(path)).permute(2, 0, 1)
        assert torch.equal(read, image.expand(3, -1, -1))
    with pytest.raises(ValueError, match="1 or 3"):
        encode_png(torch.zeros(2, 4, 4, dtype=torch.uint8))
