"""The vision task: evaluation, classification, comparison."""

from __future__ import annotations

import itertools
import json
import math
import re
import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from attnlab.tasks.vision.meeting import crossings, in_words, meeting
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from attnlab.interpret.api import look
from attnlab.interpret.page import render
from attnlab.interpret.records import Side
from attnlab.layers import Block
from attnlab.models import ViT
from attnlab.pictures import open_picture, pixels_of, png
from attnlab.report import Figure, Gallery, Heatmap, render_page
from attnlab.run_folder import StartMode
from attnlab.tasks.vision import compare as comparing
from attnlab.tasks.vision.classify import classify, classify_test
from attnlab.tasks.vision.score_report import score_report
from attnlab.tasks.vision.scoring import confusions, score
from attnlab.tasks.vision.task import VisionTask
from attnlab.training import Run, loop
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


def test_a_page_of_pictures() -> None:
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
    assert "Only the 24 classes with most mistakes of 30 are drawn" in matrix.note
    assert len(matrix.plot.rows) == 24
    assert not matrix.plot.written
    assert "not the test images" in made.sections[0].findings[-1]
    page = render_page(made)
    assert "img-src data:" in page
    assert "<b>" not in page
    perfect = score_report({**report, **score(F.one_hot(labels, 30) * 9.0, labels, names)})
    assert perfect.sections[2].findings == ["It made no mistake."]


def test_evaluating_a_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(f"vision evaluate {runs / 'vit'} --overwrite", capsys)
    assert code == 0
    assert "10 of 10 test images were named rightly: 100.0%" in out
    assert 'id="attnlab-report"' in (runs / "vit" / "test.html").read_text()
    report = json.loads((runs / "vit" / "test.json").read_text())
    assert report["confusion"] == [[5, 0], [0, 5]]
    code, _, error = run(f"vision evaluate {runs / 'vit'}", capsys)
    assert code == 2
    assert "is there already" in error
    code, _, error = run(f"vision evaluate {runs / 'vit'} --part all", capsys)
    assert "there are test, validation, train" in error
    code, _, error = run(f"vision evaluate {runs}", capsys)
    assert "not a run folder" in error


def test_evaluating_replaces_nothing_of_the_run(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = (runs / "vit" / "config.json").read_bytes()
    command = f"vision evaluate {runs / 'vit'} --out"
    for options in ("", " --overwrite"):
        code, _, error = run(f"{command} {runs / 'vit' / 'config.html'}{options}", capsys)
        assert code == 2
        assert "config.json: is how a run is known" in error
    assert (runs / "vit" / "config.json").read_bytes() == config
    assert not (runs / "vit" / "config.html").exists()
    (tmp_path / "notes.json").write_text("mine")
    code, _, error = run(f"{command} {tmp_path / 'notes.html'}", capsys)
    assert code == 2
    assert "notes.json: is there already; give --overwrite" in error
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
    assert "idx: 2 classes of 7 pixels with 1 channels; the run has 2, 6 and 1" in error
    assert "--image-size" not in error


def test_other_data_of_other_names(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_npz(tmp_path / "b.npz", classes=np.array(["0", "uno"]))
    code, _, error = run(f"vision evaluate {runs / 'vit'} --data {path}", capsys)
    assert code == 2
    assert "b.npz: class 2 is 'uno', that of the run '1'; give images of the same" in error


# Classification


def test_classify_files(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, shade in (("dark", 30), ("light", 200)):
        image = torch.full((3, 20, 30), shade, dtype=torch.uint8)
        (tmp_path / f"{name}.png").write_bytes(png(image))
    paths = [tmp_path / "dark.png", tmp_path / "light.png"]
    found = classify(runs / "vit", paths)
    assert [each.chances[0][0] for each in found] == ["0", "1"]
    assert all(sum(c for _, c in each.chances) == pytest.approx(1, abs=1e-5) for each in found)
    listed = " ".join(map(str, paths))
    code, out, _ = run(f"vision classify {runs / 'convnet'} {listed} --json", capsys)
    assert code == 0
    assert [next(iter(each["chances"])) for each in json.loads(out)] == ["0", "1"]
    (tmp_path / "none.png").write_text("no image")
    for what, said in (
        (f"{tmp_path / 'none.png'}", "none.png: no image that can be read"),
        (f"{tmp_path / 'nowhere.png'}", "nowhere.png: is not there"),
        ("", "give images"),
        ("--test 10", "there are 0 to 9"),
        ("--test -1", "there are 0 to 9"),
    ):
        code, _, error = run(f"vision classify {runs / 'vit'} {what}", capsys)
        assert code == 2, what
        assert said in error
    page = tmp_path / "p.html"
    for rest in ("", f"{paths[1]}"):
        code, _, error = run(f"vision classify {paths[0]} {rest} --explain {page}", capsys)
        assert code == 2
        assert "dark.png: a file; the folder of a run comes first, then images" in error


def test_explaining(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    code, out, _ = run(f"vision classify {runs / 'vit'} --test 3 4 --explain {page}", capsys)
    assert code == 0
    assert "test image 3: 1 " in out
    assert "(it is 1)" in out
    found, pictures = classify_test(runs / "vit", [3, 4])
    for number in (3, 4):  # each page is what look says of that very image
        file = tmp_path / f"test-{number}.png"
        file.write_bytes(png(pictures[number - 3]))
        name, chance = found[number - 3].chances[0]
        assert name == str(number % 2)
        title = f"vit: test-{number}.png is {name} ({chance:.0%})"
        seen = look(str(runs / "vit"), image=file, title=title)
        seen = seen.opening("image")
        assert (tmp_path / f"page-{number - 2}.html").read_text() == render(*seen.packed)
        assert f"<title>{title}" in render(*seen.packed)
        assert any(f"says: {name} {chance:.1%}" in note for note in seen.capture.notes)
        assert seen.sides[0].flow.target == f"the logit of class {name!r}"
        _check_attention(seen.sides[0], runs / "vit", pictures[number - 3])
    code, _, error = run(f"vision classify {runs / 'convnet'} --test 3 --explain {page}", capsys)
    assert code == 2
    assert "no attention to look at" in error


def _check_attention(side: Side, folder: Path, pixels: torch.Tensor) -> None:
    """Weights of the one layer and rollout, by hand from the run's own weights."""
    model = Run(folder).model()
    assert isinstance(model, ViT)
    (layer,), picture = side.layers, side.sequences[0].picture
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


def test_a_picture_is_written_as_it_is() -> None:
    import tempfile

    for channels in (1, 3):
        image = pixels(1, channels, 7)[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.png"
            path.write_bytes(png(image))
            read = pixels_of(open_picture(path)).permute(2, 0, 1)
        assert torch.equal(read, image.expand(3, -1, -1))
    with pytest.raises(ValueError, match="1 or 3"):
        png(torch.zeros(2, 4, 4, dtype=torch.uint8))


# Comparison


def test_where_lines_cross() -> None:
    assert crossings([10, 1000], [1.0, -1.0]) == pytest.approx([100])
    both = crossings([10, 100, 1000], [1.0, -1.0, 1.0])
    assert both == pytest.approx([10 * 10**0.5, 100 * 10**0.5])
    assert crossings([10, 1000], [1.0, 2.0]) == []
    assert crossings([10, 1000], [1.0, 0.0]) == [1000]
    assert crossings([10, 100, 1000], [1.0, 0.0, 2.0]) == [100]  # touched, not crossed
    assert crossings([10, 100, 1000, 2000], [1.0, 0.0, 0.0, -1.0]) == [100]  # a level stretch
    assert crossings([10, 100], [0.0, 0.0]) == []
    assert crossings([10, 100, 1000], [0.0, 0.0, 1.0]) == []  # level at first, and then apart
    assert crossings([10, 100, 1000], [0.0, 1.0, 0.0]) == [1000]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=7))
def test_a_place_for_every_change_of_sign(values: list[int]) -> None:
    sizes = [10 * 3**i for i in range(len(values))]
    places = crossings(sizes, values)
    assert places == sorted(places)
    signs = [value > 0 for value in values if value]
    changes = sum(a != b for a, b in itertools.pairwise(signs))
    assert changes <= len(places) <= changes + values.count(0)
    for place in places:  # on the line through the values there is nothing left
        line = np.interp(math.log(place), np.log(sizes), values)
        assert line == pytest.approx(0, abs=1e-9)


def test_how_sure_a_meeting_is() -> None:
    sizes = [10, 100, 1000]
    clear = meeting(sizes, [[0.2, 0.21, 0.19], [0.1, 0.11, 0.09], [-0.1, -0.11, -0.09]])
    assert clear.at == pytest.approx(100 * 10**0.5)
    assert clear.share == pytest.approx(1, abs=0.01)
    low, high = clear.low or 0.0, clear.high or 0.0
    assert 200 < low < 100 * 10**0.5 < high < 500
    never = meeting(sizes, [[0.3, 0.31], [0.3, 0.31], [0.3, 0.31]])
    assert never.at is None
    vague = meeting(sizes, [[0.2, -0.2], [0.1, -0.2], [-0.2, 0.1]])
    assert vague.low is not None
    assert vague.low < 50
    one = meeting([10, 1000], [[0.1], [-0.1]])
    assert one.at == pytest.approx(100)
    assert one.share is None


def words(sizes: list[int], differences: list[list[float]]) -> str:
    return " ".join(in_words(sizes, differences, ("A", "B")))


def test_the_meeting_in_words() -> None:
    said = words([10, 1000], [[0.118, 0.122], [-0.118, -0.122]])
    assert "With 10 images A is 12.0 points ahead of B" in said
    assert "With 1,000 images B is 12.0 points ahead of A" in said
    assert "meet at about 100 training images; of draws" in said
    alone = words([10, 1000], [[0.1], [0.2]])
    assert "do not meet: A is ahead" in alone
    assert "With one seed nothing" in alone
    assert "cannot be told apart" in words([10, 100], [[0.1, -0.1], [0.1, 0.1]])


def test_who_leads_between_the_ends_is_told_where_it_is_sure() -> None:
    unsure, for_a, for_b = [0.1, -0.1], [0.2, 0.201], [-0.2, -0.201]
    said = words([10, 20, 30, 4000, 5000, 6000], [unsure, for_a, for_b, unsure, for_b, unsure])
    assert (
        "). Between them, by their 95% intervals, A is ahead with 20 and B is ahead with 30 and "
        "5,000. The curves" in said
    )
    assert "Between them" not in words([10, 20, 30], [unsure, unsure, for_b])
    assert "Between them" not in words([10, 20, 30], [[0.1], [0.2], [0.1]])


def test_words_where_little_differs() -> None:
    level = words([10, 100], [[0.0, 0.0, 0.0]] * 2)
    assert level == (
        "With 10 images the two are level. With 100 images the two are level. "
        "The curves are level at every size that was tried."
    )
    assert words([100], [[0.1, 0.12, 0.11]]).endswith(
        "ahead of B (95% interval 8.5 to 13.5). One size does not show where the curves meet."
    )
    same = words([10, 1000], [[0.1, 0.1], [-0.1, -0.1]])
    assert "100% meet, the middle 95% of them at 100." in same
    balanced = words([10, 100], [[0.3, -0.2, -0.1], [0.1, 0.1, 0.1]])
    assert "With 10 images the two cannot be told apart (level in the mean, 95%" in balanced
    hardly = words([10, 100], [[0.0002, 0.0002], [0.0002, -0.0001]])
    assert "A is less than 0.1 points ahead of B" in hardly
    assert "(A less than 0.1 points ahead, 95%" in hardly
    none = words([10, 1000], [[0.1, 0.1], [0.2, 0.2]])
    assert none.endswith(
        "every size that was tried; of draws from the spread of the seeds none meet."
    )


def test_a_level_beginning_is_no_meeting() -> None:
    said = words([22, 100, 1000], [[0.0, 0.0], [-0.1, -0.1], [-0.1, -0.1]])
    assert "With 22 images the two are level." in said
    assert "do not meet after 22 images, where they are level: B is ahead at every larger" in said
    assert "meet at about" not in said
    both = words([10, 20, 100], [[0.0], [0.0], [0.1]])
    assert "do not meet after 20 images, where they are level: A is ahead" in both


def test_every_crossing_is_told() -> None:
    said = words([10, 100, 1000], [[0.1, 0.11], [-0.1, -0.11], [0.1, 0.11]])
    assert "The curves meet 2 times, at about 32 and 316 training images" in said
    assert "the middle 95% of them for the last time between" in said
    three = words([10, 100, 1000, 10_000], [[0.1], [-0.1], [0.1], [-0.1]])
    assert "meet 3 times, at about 32, 316 and 3,162 training images. With one seed" in three


@given(st.lists(st.lists(st.integers(-4, 4), min_size=3, max_size=3), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_words_never_say_nothing(points: list[list[int]]) -> None:
    sizes = [10 * 3**i for i in range(len(points))]
    said = words(sizes, [[each / 1000 for each in seeds] for seeds in points])
    assert " 0.0 points ahead" not in said
    assert "-0.0" not in said
    low, _, high = (re.findall(r"between (\S+) (and) (\S+)\.$", said) or [("0", "", "1")])[0]
    assert low != high
    assert ("meet" not in said) == (len(points) > 1 and not any(map(sum, points)))


def test_comparing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_npz(tmp_path / "set.npz", 60)
    out = tmp_path / "out"
    command = (
        f"vision compare {tmp_path / 'set.npz'} --fractions 0.2 1 --seeds 2 --steps 6 "
        f"--width 24 --layers 1 --out {out}"
    )
    code, text, error = run(command, capsys)
    assert code == 0, error
    assert "Each run had 6 steps of" in text
    report = json.loads((out / "compare.json").read_text())
    assert [each["images"] for each in report["curves"]["vit"]] == [10, 54]
    assert len(report["runs"]) == 8
    sizes = report["parameters"]
    assert abs(sizes["convnet"] / sizes["vit"] - 1) <= 0.05
    assert 'id="attnlab-report"' in (out / "compare.html").read_text()
    seen = {Run(path.parent).metrics()[-1]["tokens"] for path in out.glob("*/config.json")}
    assert seen == {6 * report["batch"]}  # 10 images or 54: as many were seen
    assert "<svg" in (out / "compare.svg").read_text()
    for model in ("vit", "convnet"):
        rights = [
            r["right"] / 10 for r in report["runs"] if (r["model"], r["images"]) == (model, 54)
        ]
        assert report["curves"][model][1]["accuracy"] == pytest.approx(statistics.fmean(rights))
    code, _, error = run(command, capsys)
    assert (code, "holds a comparison already" in error) == (2, True)
    with pytest.MonkeyPatch.context() as patch:  # a finished comparison is not measured again
        patch.setattr(comparing, "logits_of", None)
        code, _, error = run(f"{command} --resume", capsys)
    assert code == 0, error
    assert json.loads((out / "compare.json").read_text()) == report
    assert "--fraction " not in run("vision compare --help", capsys)[1]
    for wrong, said in (
        ("--fraction 0.5", "Unknown option: --fraction. Did you mean --fractions?"),
        ("--fractions 2", "--fractions 2; give shares"),
        ("--fractions nan", "--fractions nan; give shares"),
        ("--fractions 1 nan", "give shares"),
        ("--fractions 0.001 0.005 1", "of 1,295 these differ: 0.001 (10), 1 (1,295)"),
        ("--seeds 0", "give 1 or more"),
    ):
        code, _, error = run(f"vision compare {wrong} --out {tmp_path / 'b'}", capsys)
        assert code == 2
        assert said in error
        assert not (tmp_path / "b").exists()


def test_one_comparison_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_npz(tmp_path / "set.npz", 60)
    out = tmp_path / "out"
    short = f"vision compare {path} --steps 1 --seeds 1 --width 24 --layers 1 --out {out}"
    code, _, error = run(f"{short} --fractions 0.2 1", capsys)
    assert code == 0, error
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for options, said in (
        ("--fractions 0.5", "holds a comparison already; give --resume"),
        ("--fractions 0.5 --resume", "holds another comparison (convnet-0.2-0); give the same"),
        ("--fractions 0.2 --resume", "holds another comparison (convnet-1-0); give the same"),
        ("--fractions 0.2 1 --seed 4 --resume", "holds another comparison (convnet-0.2-0)"),
        ("--fractions 0.1 0.2 1 --rate 0.5 --resume", "the run has rate 0.002, not 0.5"),
    ):
        code, _, error = run(f"{short} {options}", capsys)
        assert (code, said in error) == (2, True), error
        now = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        assert now == before, options
    # all that was, and more
    code, _, error = run(f"{short} --fractions 0.1 0.2 1 --resume", capsys)
    assert code == 0, error
    report = json.loads((out / "compare.json").read_text())
    assert [each["images"] for each in report["curves"]["vit"]] == [6, 10, 54]
    (out / "vit-1-0" / "mine.txt").write_text("mine")
    code, _, error = run(f"{short} --fractions 0.5 --overwrite", capsys)
    assert code == 0, error
    left = {path.name for path in out.iterdir() if path.is_dir()}
    assert left == {"vit-0.5-0", "convnet-0.5-0", "vit-1-0"}
    assert [path.name for path in (out / "vit-1-0").iterdir()] == ["mine.txt"]
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "compare.json").write_text("{}")  # of a comparison of other things
    for options in ("", "--resume"):
        code, _, error = run(f"{short.replace(str(out), str(texts))} {options}", capsys)
        assert (code, "texts: holds a" in error) == (2, True)


def test_the_convnet_is_matched_to_the_vit_of_the_comparison(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "set.npz", 60)
    report = comparing.compare(
        path, out=tmp_path / "o", fractions=[1.0], seeds=1, sizes={"width": 32, "layers": 2},
        training={"steps": 1, "device": "cpu"}, quiet=True,
    )  # fmt: skip
    assert report["parameters"]["vit"] > 20_000
    assert abs(report["parameters"]["convnet"] / report["parameters"]["vit"] - 1) <= 0.05


def test_comparing_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All get the same minute: by this clock a step of the ViT lasts 7 s, of the ConvNet 13 s."""
    path = write_npz(tmp_path / "set.npz", 60)
    now = 0.0

    def loss(task: VisionTask, forward: Any, batch: Any) -> torch.Tensor:
        nonlocal now
        now += 7 if forward.kind == "vit" else 13
        return before(task, forward, batch)

    before = VisionTask.loss
    monkeypatch.setattr(VisionTask, "loss", loss)
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: now))
    report = comparing.compare(
        path, out=tmp_path / "m", fractions=[0.2, 1.0], seeds=1, sizes={"width": 24, "layers": 1},
        training={"minutes": 1.0, "device": "cpu"}, quiet=True,
    )  # fmt: skip
    found = {(each["model"], each["images"]): each["steps"] for each in report["runs"]}
    assert found == {("vit", 10): 9, ("vit", 54): 9, ("convnet", 10): 5, ("convnet", 54): 5}
    assert report["seconds"] == {"vit": 2 * 63, "convnet": 2 * 65}
    assert "Each run had the same minutes (5 to 9 steps)" in comparing.comparison_page(report)
    monkeypatch.setattr(comparing, "logits_of", None)
    again = comparing.compare(
        path, out=tmp_path / "m", fractions=[0.2, 1.0], seeds=1, sizes={"width": 24, "layers": 1},
        training={"minutes": 1.0, "device": "cpu"}, quiet=True, start=StartMode.RESUME,
    )  # fmt: skip
    assert again == report
