"""Models of images, and how images are changed while a model learns."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from attnlab import MECHANISMS
from attnlab.models import ConvNet, ConvNetConfig, ViT, ViTConfig
from attnlab.models.vision import POSITIONS, matched_convnet
from attnlab.run_folder import StartMode
from attnlab.tasks.vision._augmentation import (
    RECIPES,
    Augmentation,
    augment,
    find_recipe,
    mix_images,
)
from attnlab.tasks.vision._dataset import Dataset, Images
from attnlab.tasks.vision._open_data import open_data
from attnlab.tasks.vision._task import VisionTask, to_float
from attnlab.tasks.vision._training import (
    VisionSettings,
    choose_augmentation,
    default_sizes,
    make_model,
    pixel_statistics,
)
from tests.support.image_files import pixels, write_folders, write_npz
from tests.support.vision_runs import QUICK, trained

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


def test_pixel_statistics() -> None:
    images = Images(pixels(7, 3, 5), torch.zeros(7, dtype=torch.int64))
    mean, deviation = pixel_statistics(images)
    values = to_float(images.pixels).double()
    assert mean == pytest.approx(float(values.mean()), abs=1e-5)
    assert deviation == pytest.approx(float(values.std(correction=0)), abs=1e-5)


@pytest.mark.parametrize("axis", [2, 3])
def test_without_positions_the_order_of_patches_does_not_matter(axis: int) -> None:
    """The two rows of patches swapped, or the two columns."""
    for position in POSITIONS:
        torch.manual_seed(0)
        model = ViT(ViTConfig(3, 6, 1, 3, 8, 2, 2, position=position)).eval()
        image = torch.rand(1, 1, 6, 6)
        moved = image.roll(3, axis)
        same = torch.allclose(model(image), model(moved), atol=1e-5)
        assert same == (position == "none"), position


def test_two_dimensional_positions_by_hand() -> None:
    """Width 8: sine and cosine of the row, of a tenth of it, and of the column likewise."""
    for pooling, first in (("class", 1), ("mean", 0)):
        config = ViTConfig(3, 10, 1, 2, 8, 1, 2, position="sinusoidal-2d", pooling=pooling)
        code = ViT(config).position()[0]
        assert code.shape == (25 + first, 8)
        # the third row and second column of five
        assert code[first + 2 * 5 + 1].tolist() == pytest.approx(
            [0.909297, -0.416147, 0.198669, 0.980067, 0.841471, 0.540302, 0.099833, 0.995004],
            abs=1e-6,
        )
        assert (code[:first] == 0).all()  # of the class token
        assert len(code[first:].unique(dim=0)) == 25
        rows, columns = code[first:].view(5, 5, 2, 4).unbind(2)
        assert torch.equal(rows, columns.transpose(0, 1))


@pytest.mark.parametrize("parameters", [18_000, 27_000, 200_000, 5_000_000])
@pytest.mark.parametrize("stages", [2, 3])
def test_a_convnet_matches_any_size(parameters: int, stages: int) -> None:
    config = matched_convnet(parameters, classes=10, channels=3, stages=stages)
    assert abs(ConvNet(config).parameter_count() / parameters - 1) <= 0.05


def test_an_impossible_convnet_size() -> None:
    with pytest.raises(ValueError, match="is nearest"):
        matched_convnet(150, classes=10, channels=3)
    with pytest.raises(ValueError, match="cannot be halved 2 times"):
        ConvNet(ConvNetConfig(3, 1, 4))(torch.rand(1, 1, 3, 3))
    with pytest.raises(ValueError, match=r"takes \(batch, 1, height"):
        ConvNet(ConvNetConfig(3, 1, 4))(torch.rand(1, 3, 8, 8))


def test_explicit_blocks_are_kept() -> None:
    """Without them a small network may get others than two; asked for, they are had or refused."""
    assert matched_convnet(18_000, classes=10, channels=3).blocks != 2
    with pytest.raises(ValueError, match="of 3 stages with 2 blocks in each has about 18,000"):
        matched_convnet(18_000, classes=10, channels=3, blocks=2)
    assert matched_convnet(200_000, classes=10, channels=3, blocks=5).blocks == 5


@pytest.mark.parametrize(
    ("size", "along"),
    [(2, 2), (3, 3), (8, 4), (10, 5), (26, 13), (28, 7), (29, 29), (31, 31), (32, 8), (34, 17),
     (64, 8), (96, 16), (224, 14)],
)  # fmt: skip
def test_default_patches_tile_the_image(size: int, along: int) -> None:
    patch = default_sizes(size)["patch"]
    assert size % patch == 0
    assert size // patch == along


def test_images_without_default_patches() -> None:
    """Of 53 pixels: patches of one would be 2,809, a patch of all is none."""
    images = Images(pixels(4, 1, 53), torch.arange(4) % 2)
    dataset = Dataset("prime", ["a", "b"], images)
    with pytest.raises(ValueError, match=r"^prime: .* images of 53 pixels; give --patch 1 or 53$"):
        make_model("vit", dataset, images, "softmax", {})
    model = make_model("vit", dataset, images, "softmax", {"patch": 53})
    assert model(torch.rand(1, 1, 53, 53)).shape == (1, 2)
    net = make_model("convnet", dataset, images, "softmax", {})
    assert net(torch.rand(1, 1, 53, 53)).shape == (1, 2)


def test_sizes_that_do_not_fit_name_the_data(tmp_path: Path) -> None:
    """And what would fit: only images of a folder may get another size."""
    path = write_npz(tmp_path / "six.npz", side=6)
    folder = write_folders(tmp_path / "set")
    for source, size, more in ((path, None, ""), (folder, 6, ", or another --image-size")):
        dataset = open_data(source, size)
        for model, sizes, message in (
            ("vit", {"patch": 4}, "patches of 4 do not tile images of 6 pixels; give --patch "
                                  "1 or 2 or 3 or 6"),
            ("convnet", {"stages": 4}, "images of 6 pixels cannot be halved 3 times; give "
                                       "--stages 3 or fewer"),
        ):  # fmt: skip
            with pytest.raises(ValueError, match="give --") as error:
                make_model(model, dataset, dataset.train, "softmax", sizes)
            assert str(error.value) == f"{source}: {message}{more}"


def test_images_of_one_pixel() -> None:
    """The usual ConvNet halves them as often as they can be."""
    images = Images(pixels(4, 1, 1), torch.arange(4) % 2)
    dataset = Dataset("dots", ["a", "b"], images)
    for model in ("vit", "convnet"):
        made = make_model(model, dataset, images, "softmax", {})
        assert made(torch.rand(1, 1, 1, 1)).shape == (1, 2)


def test_every_mechanism_learns_images(tmp_path: Path) -> None:
    """On another machine's budget: one step of each is enough to see that it can."""
    for name, kind in MECHANISMS.items():
        if not kind.card.bidirectional:
            continue
        text = {"bigbird": "bigbird:block=2", "linformer": "linformer:rank=3"}.get(name, name)
        metrics = trained(
            tmp_path, attention=text, training={**QUICK, "steps": 1}, start=StartMode.OVERWRITE
        )
        assert math.isfinite(metrics["loss"])


# Augmentation


def images_of(count: int = 64, side: int = 9) -> torch.Tensor:
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(1))


def changed(how: Augmentation, seed: int = 0, images: torch.Tensor | None = None) -> torch.Tensor:
    images = images_of() if images is None else images
    return augment(images, how, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", list(RECIPES))
def test_augmentation_is_reproducible(name: str) -> None:
    how = RECIPES[name]
    one = changed(how)
    assert torch.equal(one, changed(how))
    assert one.shape == images_of().shape
    assert 0 <= float(one.min()) <= float(one.max()) <= 1
    assert torch.equal(one, images_of()) == (name == "none")
    assert torch.equal(one, changed(how, seed=1)) == (name == "none")


def test_shifted_images_keep_their_pixels() -> None:
    """Each by its own way: every result is the padded image seen through one of 5 x 5 windows."""
    images = images_of(20)
    shifted = changed(Augmentation(crop=2 / 9), images=images)
    padded = F.pad(images, (2,) * 4)
    ways = set()
    for image, result in zip(padded, shifted, strict=True):
        at = [
            (r, c)
            for r in range(5)
            for c in range(5)
            if torch.equal(image[:, r : r + 9, c : c + 9], result)
        ]
        assert len(at) == 1
        ways.update(at)
    assert len(ways) > 8


def test_half_of_the_images_are_mirrored() -> None:
    images = images_of(200)
    flipped = changed(Augmentation(flip=True), images=images)
    same = [torch.equal(a, b) for a, b in zip(images, flipped, strict=True)]
    mirrored = [torch.equal(a.flip(-1), b) for a, b in zip(images, flipped, strict=True)]
    assert all(a != b for a, b in zip(same, mirrored, strict=True))
    assert 70 < sum(same) < 130


def test_rotation_by_zero_is_the_identity() -> None:
    assert torch.allclose(changed(Augmentation(turn=1e-6)), images_of(), atol=1e-4)
    square = torch.zeros(50, 1, 9, 9)
    square[:, :, 4, 4] = 1.0  # the middle stays the brightest
    turned = changed(Augmentation(turn=45, zoom=0.2), images=square)
    assert (turned.flatten(1).argmax(1) == 40).all()


def test_cutout_hides_one_square() -> None:
    images = images_of()
    cut = changed(Augmentation(cutout=1 / 3), images=images)
    for before, after in zip(images, cut, strict=True):
        hidden = (before != after).any(0)
        rows, columns = hidden.any(1).nonzero()[:, 0], hidden.any(0).nonzero()[:, 0]
        assert 1 <= len(rows) <= 3
        assert 1 <= len(columns) <= 3
        assert hidden[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        assert torch.allclose(after[:, hidden], before.mean())


def test_color_changes_keep_gray_images_gray() -> None:
    gray = images_of()[:, :1].expand(-1, 3, -1, -1)
    colored = changed(Augmentation(color=0.5), images=gray)
    assert torch.allclose(colored[:, 0], colored[:, 2], atol=1e-6)


def test_mixup_mixes_images_and_targets_alike() -> None:
    images = images_of(500, 4)
    mixed, order, share = mix_images(images, 0.2, torch.Generator().manual_seed(0))
    s = share[:, None, None, None]
    assert torch.allclose(mixed, s * images + (1 - s) * images[order])
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
    one = F.one_hot(batch["target"], 2) * batch["weight"][:, None]
    one = one + F.one_hot(batch["other"], 2) * (1 - batch["weight"])[:, None]
    assert torch.allclose(loss, -(one * logits.log_softmax(-1)).sum(), atol=1e-5)


@pytest.mark.parametrize(
    ("classes", "mirrored"),
    [
        (["0", "1"], False),
        (["a", "b"], False),
        (["9", "10"], False),
        (["cat", "dog"], True),
        (["T-shirt", "x"], True),
    ],
)
def test_digits_and_letters_are_not_mirrored(classes: list[str], mirrored: bool) -> None:
    dataset = Dataset("x", classes, Images(pixels(2, 3, 32), torch.arange(2)))
    for name in RECIPES:
        vision = VisionSettings(augmentation=name)
        assert choose_augmentation(vision, dataset).flip == (mirrored and RECIPES[name].flip)
        for flip in (True, False):  # asked for, it is so of any recipe and any set
            result = choose_augmentation(VisionSettings(augmentation=name, flip=flip), dataset)
            assert result == replace(RECIPES[name], flip=flip)
    with pytest.raises(ValueError, match="choose from none, mirror, light, strong"):
        find_recipe("heavy")


def test_digits_are_mirrored_on_request() -> None:
    dataset = open_data("digits")
    assert not choose_augmentation(VisionSettings(), dataset).flip
    assert choose_augmentation(VisionSettings(flip=True), dataset).flip


@pytest.mark.parametrize(
    ("channels", "side", "wanted"), [(3, 32, "light"), (1, 28, "mirror"), (3, 8, "none")]
)
def test_default_augmentation_depends_on_size_and_color(
    channels: int, side: int, wanted: str
) -> None:
    images = Images(pixels(2, channels, side), torch.arange(2))
    dataset = Dataset("x", ["cat", "dog"], images)
    assert choose_augmentation(VisionSettings(), dataset) == RECIPES[wanted]
    assert choose_augmentation(VisionSettings(augmentation="strong"), dataset) == RECIPES["strong"]
    assert not choose_augmentation(VisionSettings(flip=False), dataset).flip
