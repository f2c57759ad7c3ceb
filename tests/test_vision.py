"""The vision task: augmentation, training end to end, evaluation, classification, comparison."""

from __future__ import annotations

import json
import math
import statistics
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnlab import MECHANISMS
from attnlab.looking.api import look
from attnlab.models import ConvNet, ConvNetConfig, ViT, ViTConfig
from attnlab.models.vision import matched_convnet
from attnlab.pictures import open_picture, pixels_of, png
from attnlab.tasks.vision import compare as comparing
from attnlab.tasks.vision.augment import RECIPES, Augmentation, augment, mixed, recipe_named
from attnlab.tasks.vision.classify import classify, classify_test
from attnlab.tasks.vision.images import Images, divided
from attnlab.tasks.vision.meeting import crossing, in_words, meeting
from attnlab.tasks.vision.opening import open_data
from attnlab.tasks.vision.recipe import (
    VisionSettings,
    load_vision,
    parts_of,
    scale_of,
    train_vision,
    usual_sizes,
)
from attnlab.tasks.vision.score_page import score_page
from attnlab.tasks.vision.scoring import confusions, evaluate, score
from attnlab.tasks.vision.task import VisionTask, as_floats
from attnlab.training import InterruptedTraining, Run
from tests.commands import run
from tests.test_charts import check_page
from tests.vision_files import pixels, write_folders, write_npz

TINY: dict[str, Any] = {"width": 16, "layers": 1, "heads": 2}
QUICK: dict[str, Any] = {"steps": 40, "batch_rows": 16, "device": "cpu"}


def trained(folder: Path, model: str = "vit", **changes: Any) -> dict[str, float]:
    """On dark and light squares, in a second."""
    data = folder / "set.npz"
    if not data.exists():
        write_npz(data, 60)
    settings: dict[str, Any] = {
        "out": folder / model, "model": model, "quiet": True,
        "sizes": TINY if model == "vit" else {"width": 4, "blocks": 1}, "training": QUICK,
    }  # fmt: skip
    return train_vision(data, **{**settings, **changes})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vision")
    for model in ("vit", "convnet"):
        assert trained(folder, model)["accuracy"] == 1.0
    return folder


# Models


def test_pixels_are_scaled_inside_the_model() -> None:
    images = torch.rand(5, 1, 6, 6)
    vit: dict[str, Any] = {"image_size": 6, "patch": 3, "width": 8, "heads": 2, "layers": 1}
    kinds: list[tuple[Any, dict[str, Any]]] = [(ViT, vit), (ConvNet, {"width": 4})]
    for kind, config in kinds:
        settings = {"classes": 3, "channels": 1, **config}
        torch.manual_seed(0)
        plain = kind(kind.config_class(**settings))
        torch.manual_seed(0)
        scaled = kind(kind.config_class(**settings, mean=0.3, deviation=0.5))
        assert torch.allclose(scaled(images), plain((images - 0.3) / 0.5), atol=1e-6)
        assert not torch.allclose(scaled(images), plain(images), atol=1e-4)
    with pytest.raises(ValueError, match="deviation 0"):
        ViTConfig(classes=3, deviation=0.0)


def test_scale_is_that_of_all_pixels() -> None:
    images = Images(pixels(7, 3, 5), torch.zeros(7, dtype=torch.int64))
    mean, deviation = scale_of(images)
    values = as_floats(images.pixels).double()
    assert mean == pytest.approx(float(values.mean()), abs=1e-5)
    assert deviation == pytest.approx(float(values.std(correction=0)), abs=1e-5)


def test_without_positions_the_order_of_patches_is_nothing() -> None:
    for position, same in (("none", True), ("learned", False), ("sinusoidal-2d", False)):
        torch.manual_seed(0)
        model = ViT(ViTConfig(3, 6, 1, 3, 8, 2, 2, position=position)).eval()
        image = torch.rand(1, 1, 6, 6)
        moved = torch.cat([image[:, :, 3:], image[:, :, :3]], 2)  # the two rows of patches swapped
        assert torch.allclose(model(image), model(moved), atol=1e-5) == same, position


@pytest.mark.parametrize("parameters", [18_000, 27_000, 200_000, 5_000_000])
@pytest.mark.parametrize("stages", [2, 3])
def test_a_convnet_of_any_size_is_found(parameters: int, stages: int) -> None:
    config = matched_convnet(parameters, classes=10, channels=3, stages=stages)
    assert abs(ConvNet(config).parameter_count() / parameters - 1) <= 0.05


def test_a_size_that_no_convnet_has() -> None:
    with pytest.raises(ValueError, match="is nearest"):
        matched_convnet(150, classes=10, channels=3)
    with pytest.raises(ValueError, match="cannot be halved 2 times"):
        ConvNet(ConvNetConfig(3, 1, 4))(torch.rand(1, 1, 3, 3))
    with pytest.raises(ValueError, match=r"takes \(batch, 1, height"):
        ConvNet(ConvNetConfig(3, 1, 4))(torch.rand(1, 3, 8, 8))


@pytest.mark.parametrize("size", [8, 10, 28, 32, 64, 96, 224])
def test_usual_patches_tile_the_image(size: int) -> None:
    patch = usual_sizes(size)["patch"]
    assert size % patch == 0
    assert 4 <= size // patch <= 16


def test_every_mechanism_learns_images(tmp_path: Path) -> None:
    """On another machine's budget: one step of each is enough to see that it can."""
    for name in MECHANISMS:
        text = {"bigbird": "bigbird:block=2", "linformer": "linformer:rank=3"}.get(name, name)
        found = trained(tmp_path, attention=text, training={**QUICK, "steps": 1}, overwrite=True)
        assert math.isfinite(found["loss"])


# Augmentation


def images_of(count: int = 64, side: int = 9) -> torch.Tensor:
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(1))


def changed(how: Augmentation, seed: int = 0, images: torch.Tensor | None = None) -> torch.Tensor:
    images = images_of() if images is None else images
    return augment(images, how, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_seed_repeats_a_change(name: str) -> None:
    how = RECIPES[name]
    one = changed(how)
    assert torch.equal(one, changed(how))
    assert one.shape == images_of().shape
    assert 0 <= float(one.min()) <= float(one.max()) <= 1
    assert torch.equal(one, images_of()) == (name == "none")
    assert torch.equal(one, changed(how, seed=1)) == (name == "none")


def test_moved_images_are_the_same_pixels() -> None:
    """Each by its own way: every result is the padded image seen through one of 5 x 5 windows."""
    images = images_of(20)
    found = changed(Augmentation(crop=2 / 9), images=images)
    padded = F.pad(images, (2,) * 4)
    ways = set()
    for image, result in zip(padded, found, strict=True):
        at = [
            (r, c)
            for r in range(5)
            for c in range(5)
            if torch.equal(image[:, r : r + 9, c : c + 9], result)
        ]
        assert len(at) == 1
        ways.update(at)
    assert len(ways) > 8


def test_mirrored_half_of_the_time() -> None:
    images = images_of(200)
    found = changed(Augmentation(flip=True), images=images)
    same = [torch.equal(a, b) for a, b in zip(images, found, strict=True)]
    mirrored = [torch.equal(a.flip(-1), b) for a, b in zip(images, found, strict=True)]
    assert all(a != b for a, b in zip(same, mirrored, strict=True))
    assert 70 < sum(same) < 130


def test_turned_by_nothing_is_the_image() -> None:
    assert torch.allclose(changed(Augmentation(turn=1e-6)), images_of(), atol=1e-4)
    square = torch.zeros(50, 1, 9, 9)
    square[:, :, 4, 4] = 1.0  # the middle stays the brightest
    found = changed(Augmentation(turn=45, zoom=0.2), images=square)
    assert (found.flatten(1).argmax(1) == 40).all()


def test_cutout_hides_one_square() -> None:
    images = images_of()
    found = changed(Augmentation(cutout=1 / 3), images=images)
    for before, after in zip(images, found, strict=True):
        hidden = (before != after).any(0)
        rows, columns = hidden.any(1).nonzero()[:, 0], hidden.any(0).nonzero()[:, 0]
        assert 1 <= len(rows) <= 3
        assert 1 <= len(columns) <= 3
        assert hidden[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        assert torch.allclose(after[:, hidden], before.mean())


def test_colour_leaves_grey_grey() -> None:
    grey = images_of()[:, :1].expand(-1, 3, -1, -1)
    found = changed(Augmentation(colour=0.5), images=grey)
    assert torch.allclose(found[:, 0], found[:, 2], atol=1e-6)


def test_mixup_mixes_images_and_targets_alike() -> None:
    images = images_of(500, 4)
    found, order, share = mixed(images, 0.2, torch.Generator().manual_seed(0))
    s = share[:, None, None, None]
    assert torch.allclose(found, s * images + (1 - s) * images[order])
    assert float(share.min()) >= 0.5
    # the larger of b and 1 - b of Beta(0.2, 0.2): mean 1/2 + E|b - 1/2| = 0.8842
    assert float(share.mean()) == pytest.approx(0.884, abs=0.02)
    task = VisionTask(
        Images(pixels(8, 1, 4), torch.arange(8) % 2),
        Images(pixels(8, 1, 4), torch.arange(8) % 2),
        augmentation=Augmentation(mixup=0.2),
    )
    batch = task.collate(range(8), 0)
    logits = torch.randn(8, 2)
    loss = task.loss(lambda _: logits, batch)
    one = F.one_hot(batch["target"], 2) * batch["share"][:, None]
    one = one + F.one_hot(batch["other"], 2) * (1 - batch["share"])[:, None]
    assert torch.allclose(loss, -(one * logits.log_softmax(-1)).sum(), atol=1e-5)


def test_digits_are_never_mirrored() -> None:
    assert recipe_named("light", flip=True).flip
    assert not recipe_named("strong", flip=False).flip
    assert not recipe_named("none", flip=True).flip
    with pytest.raises(ValueError, match="there are none, light, strong"):
        recipe_named("heavy", flip=True)


# Training


@pytest.mark.parametrize("count", [5, 16, 40])
def test_every_step_has_as_many_images(count: int) -> None:
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


def test_the_run_explains_itself(runs: Path) -> None:
    config = Run(runs / "vit").config()
    task = config["task"]
    assert (task["name"], task["headline"], task["better"]) == ("vision", "accuracy", "higher")
    assert task["classes"] == ["0", "1"]
    assert (task["images"], task["validation"], task["test"]) == (54, 6, 10)
    model, _ = load_vision(runs / "vit")
    assert model.config.mean == pytest.approx(0.43, abs=0.1)
    rows = Run(runs / "vit").metrics()
    assert len(rows) == 40
    assert sum("validation" in row for row in rows) == 10


def test_resuming_ends_in_the_same_weights(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"vision": VisionSettings(augmentation="strong")}
    trained(tmp_path, **changes)
    whole = (tmp_path / "vit" / "model.safetensors").read_bytes()
    stopped = {**QUICK, "save_every": 7, "evaluate_every": 4}
    _interrupted(tmp_path, stopped, **changes)
    trained(tmp_path, training={**QUICK}, resume=True, **changes)
    assert (tmp_path / "vit" / "model.safetensors").read_bytes() == whole


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
            trained(tmp_path, training=training, overwrite=True, **changes)
    assert InterruptedTraining is not None


def test_the_weights_that_validated_best_are_kept(tmp_path: Path) -> None:
    """Also when the run was stopped after them and went on from a checkpoint."""
    told = iter([0.2, 0.9, 0.9, 0.5, 0.4])
    seen: list[dict[str, torch.Tensor]] = []

    def tell(self: VisionTask, model: nn.Module) -> dict[str, float]:
        del self
        seen.append({name: p.detach().clone() for name, p in model.named_parameters()})
        return {"accuracy": next(told, 0.9), "loss": 1.0}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VisionTask, "evaluate", tell)
        training = {**QUICK, "steps": 10, "evaluate_every": 2, "save_every": 3}
        trained(tmp_path, training=training)
        kept = dict(Run(tmp_path / "vit").model().named_parameters())
        assert all(torch.equal(kept[name], seen[2][name]) for name in kept)  # the later of two
        told = iter([0.3])
        trained(tmp_path, training={**training, "steps": 12}, resume=True)
        again = dict(Run(tmp_path / "vit").model().named_parameters())
        assert all(torch.equal(again[name], kept[name]) for name in kept)
        told = iter([0.2, 0.9, 0.5])
        trained(tmp_path, training={**training, "steps": 6, "best": False}, overwrite=True)
        last = dict(Run(tmp_path / "vit").model().named_parameters())
        assert all(torch.equal(last[name], seen[-1][name]) for name in last)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "cnn"}, "there are vit, convnet"),
        ({"model": "convnet", "attention": "favor"}, "--attention is for a vit"),
        ({"model": "convnet", "sizes": {"patch": 2}}, "--patch is no setting of a convnet"),
        ({"sizes": {"stages": 2}}, "--stages is no setting of a vit"),
        ({"sizes": {"patch": 5}}, "do not tile"),
        ({"training": {"batch_tokens": 5}}, "--batch-rows"),
        ({"training": {"steps": 5}, "epochs": 2.0}, "give one of them"),
        ({"epochs": -1.0, "training": {}}, "above 0"),
        ({"vision": VisionSettings(fraction=0.0)}, "give a share"),
        ({"vision": VisionSettings(augmentation="mild")}, "there are none, light"),
        ({"vision": VisionSettings(smoothing=1.0)}, "smoothing 1.0"),
        ({"resume": True, "overwrite": True}, "give one of them"),
    ],
)
def test_mistakes(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        trained(tmp_path, **{"sizes": {}, **changes})
    assert not list(tmp_path.glob("*/model.safetensors"))


def test_other_data_than_the_run_learned(tmp_path: Path) -> None:
    trained(tmp_path, training={**QUICK, "steps": 2})
    write_npz(tmp_path / "set.npz", 80)
    with pytest.raises(ValueError, match="is not what the run was trained on"):
        evaluate(tmp_path / "vit")
    with pytest.raises(ValueError, match="resume with the same settings"):
        trained(tmp_path, training={**QUICK, "steps": 4}, resume=True)
    _, config = load_vision(tmp_path / "vit")
    assert parts_of(config, tmp_path / "set.npz")[2] == str(tmp_path / "set.npz")
    with pytest.raises(ValueError, match="10 classes of 8 pixels"):
        parts_of(config, "digits")


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
    report |= {"trained_on": 7}
    images = [pixels(1, 3, 6, k)[0] for k in range(len(report["mistakes"]))]
    text = score_page(report, images)
    read = check_page(text)
    assert read.tags.count("img") == 48
    assert "img-src data:" in text
    assert "Only the 24 classes with most mistakes of 30 are drawn" in text
    assert "not the test images" in text
    perfect = score(F.one_hot(labels, 30) * 9.0, labels, names)
    check_page(score_page({**report, **perfect}, []))


def test_evaluating_a_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(f"vision evaluate {runs / 'vit'} --overwrite", capsys)
    assert code == 0
    assert "10 of 10 test images were named rightly: 100.0%" in out
    check_page((runs / "vit" / "test.html").read_text())
    report = json.loads((runs / "vit" / "test.json").read_text())
    assert report["confusion"] == [[5, 0], [0, 5]]
    code, _, error = run(f"vision evaluate {runs / 'vit'}", capsys)
    assert code == 2
    assert "is there already" in error
    code, _, error = run(f"vision evaluate {runs / 'vit'} --part all", capsys)
    assert "there are test, validation, train" in error
    code, _, error = run(f"vision evaluate {runs}", capsys)
    assert "not a run folder" in error


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
    ):
        code, _, error = run(f"vision classify {runs / 'vit'} {what}", capsys)
        assert code == 2, what
        assert said in error


def test_explaining(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    code, out, _ = run(f"vision classify {runs / 'vit'} --test 3 4 --explain {page}", capsys)
    assert code == 0
    assert "test image 3: 1 " in out
    assert "(it is 1)" in out
    for number in (1, 2):
        text = (tmp_path / f"page-{number}.html").read_text()
        assert "data-block" in text
        assert f"<title>vit: test-{number + 2}.png is {number % 2} (" in text
    found, pictures = classify_test(runs / "vit", [3])
    (tmp_path / "a.png").write_bytes(png(pictures[0]))
    seen = look(str(runs / "vit"), image=tmp_path / "a.png")
    name, chance = found[0].chances[0]
    assert any(f"says: {name} {chance:.1%}" in note for note in seen.capture.notes)
    assert seen.sides[0].flow.target == f"the logit of class {name!r}"
    assert seen.sides[0].flow.rollout is not None
    code, _, error = run(f"vision classify {runs / 'convnet'} --test 3 --explain {page}", capsys)
    assert code == 2
    assert "no attention to look at" in error


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
    assert crossing([10, 1000], [1.0, -1.0]) == pytest.approx(100)
    assert crossing([10, 100, 1000], [1.0, -1.0, 1.0]) == pytest.approx(1000**0.5 * 10)
    assert crossing([10, 1000], [1.0, 2.0]) is None
    assert crossing([10, 1000], [1.0, 0.0]) == 1000


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


def test_the_meeting_in_words() -> None:
    said = " ".join(in_words([10, 1000], [[0.11, 0.11], [-0.11, -0.11]], ("A", "B")))
    assert "With 10 images A is 11.0 points ahead of B" in said
    assert "With 1,000 images B is 11.0 points ahead of A" in said
    assert "meet at about 100 training images" in said
    alone = " ".join(in_words([10, 1000], [[0.1], [0.2]], ("A", "B")))
    assert "do not meet: A is ahead" in alone
    assert "With one seed nothing" in alone
    unclear = in_words([10], [[0.1, -0.1]], ("A", "B"))[0]
    assert "cannot be told apart" in unclear


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
    check_page((out / "compare.html").read_text())
    seen = {Run(path.parent).metrics()[-1]["tokens"] for path in out.glob("*/config.json")}
    assert seen == {6 * report["batch"]}  # 10 images or 54: as many were seen
    assert (out / "compare.svg").read_text().startswith("<svg")
    for model in ("vit", "convnet"):
        rights = [
            r["right"] / 10 for r in report["runs"] if (r["model"], r["images"]) == (model, 54)
        ]
        assert report["curves"][model][1]["accuracy"] == pytest.approx(statistics.fmean(rights))
    code, _, error = run(command, capsys)
    assert (code, "holds a run already" in error) == (2, True)
    code, _, error = run(f"{command} --resume", capsys)
    assert code == 0, error
    again = json.loads((out / "compare.json").read_text())
    assert [r["right"] for r in again["runs"]] == [r["right"] for r in report["runs"]]
    for wrong, said in (("--fractions 2", "above 0, at most 1"), ("--seeds 0", "give 1 or more")):
        code, _, error = run(f"vision compare {wrong} --out {tmp_path / 'b'}", capsys)
        assert code == 2
        assert said in error


def test_the_convnet_is_matched_to_the_vit_of_the_comparison(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "set.npz", 60)
    report = comparing.compare(
        path, out=tmp_path / "o", fractions=[1.0], seeds=1, sizes={"width": 32, "layers": 2},
        training={"steps": 1, "device": "cpu"}, quiet=True,
    )  # fmt: skip
    clock = comparing.compare(
        path, out=tmp_path / "m", fractions=[1.0], seeds=1, sizes={"width": 32, "layers": 2},
        training={"minutes": 0.005, "device": "cpu"}, quiet=True,
    )  # fmt: skip
    assert all(each["steps"] >= 1 for each in clock["runs"])
    comparing.comparison_page(clock)
    assert report["parameters"]["vit"] > 20_000
    assert abs(report["parameters"]["convnet"] / report["parameters"]["vit"] - 1) <= 0.05


# The command line


def test_from_a_folder_of_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folders(tmp_path / "set")
    (folder / "dark" / "broken.jpg").write_text("broken")
    out = tmp_path / "run"
    code, text, error = run(
        f"vision train {folder} --image-size 12 --steps 3 --width 16 --layers 1 --heads 2 "
        f"--augmentation strong --out {out}",
        capsys,
    )
    assert code == 0, error
    assert "trained; validation accuracy" in text
    assert "broken.jpg: no image that can be read" in error
    assert "1 images left out" in error
    assert "images of 12 x 12 pixels, 2 classes" in error
    assert Run(out).config()["task"]["skipped"] == 1
    code, text, error = run(f"vision evaluate {out}", capsys)
    assert code == 0, error
    assert "of 4 test images" in text


@lru_cache
def _digits() -> Any:
    return divided(open_data())


def test_test_images_are_never_trained_on() -> None:
    parts = _digits()
    seen = {bytes(row) for row in parts.train.pixels.flatten(1).numpy()}
    seen |= {bytes(row) for row in parts.validation.pixels.flatten(1).numpy()}
    both = [bytes(row) in seen for row in parts.test.pixels.flatten(1).numpy()]
    assert sum(both) == 0
