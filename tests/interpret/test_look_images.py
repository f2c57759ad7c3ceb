"""Look at models of images: what is shown is what the model read, and tokens have their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab._image_files import open_picture
from attnlab.interpret._look import look
from attnlab.models import ViT, ViTConfig
from tests.support.command_line import run
from tests.support.small_transformers import transformers

images: Any = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "num_labels": 5,
}


def vit(**changes: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.ViTConfig(**{**SIZES, "image_size": 12, "patch_size": 4, **changes})
    return transformers.ViTForImageClassification(config).eval()


def processor(height: int = 12, width: int = 12) -> Any:
    return transformers.ViTImageProcessor(size={"height": height, "width": width})


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """30 x 20 pixels, red to the left, blue to the right."""
    picture = images.new("RGB", (30, 20), (250, 0, 10))
    picture.paste((10, 0, 250), (15, 0, 30, 20))
    picture.save(tmp_path / "wide.png")
    return tmp_path / "wide.png"


def shown(found: Any) -> Any:
    (sequence,) = found.sides[0].sequences
    assert sequence.picture is not None
    return sequence.picture


def read_by(model: Any, path: Path, reader: Any) -> tuple[Any, torch.Tensor]:
    """What is shown of a look, and what the model got."""
    got: list[torch.Tensor] = []

    def listen(*given: Any) -> None:
        got.append(given[2]["pixel_values"])

    handle = model.register_forward_pre_hook(listen, with_kwargs=True)
    found = look(model, image=path, tokenizer=reader, control=False)
    handle.remove()
    return found, got[-1]


@pytest.mark.parametrize("kind", ["ViT", "CLIP", "DeiT"])
def test_what_is_shown_is_what_was_read(kind: str, wide: Path) -> None:
    """A whole image pressed into a square, or its middle: as the processor says."""
    sizes = {
        "ViT": {"size": {"height": 12, "width": 12}},
        "CLIP": {"size": {"shortest_edge": 12}, "crop_size": {"height": 12, "width": 12}},
        "DeiT": {
            "size": {"height": 16, "width": 16},
            "crop_size": {"height": 12, "width": 12},
        },
    }
    reader = getattr(transformers, f"{kind}ImageProcessor")(**sizes[kind])
    found, values = read_by(vit(), wide, reader)
    mean, std = (
        torch.tensor(each)[:, None, None] for each in (reader.image_mean, reader.image_std)
    )
    again = (shown(found).pixels.permute(2, 0, 1) / 255 - mean) / std
    assert torch.allclose(again, values[0], atol=1e-5)
    image = open_picture(wide)
    assert torch.equal(values, reader(images=image, return_tensors="pt")["pixel_values"])


def test_cameras_turn_pictures_by_a_note(tmp_path: Path) -> None:
    """A quarter turn: what is to the left in the file is on top."""
    picture = images.new("RGB", (24, 12), (255, 0, 0))
    picture.paste((0, 0, 255), (12, 0, 24, 12))
    exif = picture.getexif()
    exif[0x0112] = 6  # turned to the right
    picture.save(tmp_path / "a.png", exif=exif)
    assert open_picture(tmp_path / "a.png").size == (12, 24)
    own = ViT(ViTConfig(classes=5, image_size=12, patch=4, width=24, layers=1, heads=3))
    for model, reader in ((vit(), processor()), (own, None)):
        pixels = shown(look(model, image=tmp_path / "a.png", tokenizer=reader)).pixels
        assert pixels[0].float().mean(0).argmax() == 0  # red
        assert pixels[-1].float().mean(0).argmax() == 2


def test_images_that_are_no_squares(wide: Path) -> None:
    found = look(vit(image_size=(8, 12)), image=wide, tokenizer=processor(8, 12))
    picture = shown(found)
    assert (picture.rows, picture.columns, picture.first) == (2, 3, 1)
    assert picture.pixels.shape == (8, 12, 3)
    assert found.sides[0].sequences[0].texts[-1] == "2,3"


def test_names_of_tokens_before_the_patches(wide: Path) -> None:
    sizes = {**SIZES, "image_size": 12, "patch_size": 4}
    deit = transformers.DeiTForImageClassificationWithTeacher(transformers.DeiTConfig(**sizes))
    registers = transformers.Dinov2WithRegistersModel(
        transformers.Dinov2WithRegistersConfig(**sizes, num_register_tokens=2)
    )
    clip = transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**sizes))
    siglip = transformers.SiglipVisionModel(transformers.SiglipVisionConfig(**sizes))
    wanted = [
        (deit, ["[class]", "[distillation]"]),
        (registers, ["[class]", "[register 1]", "[register 2]"]),
        (clip, ["[class]"]),
        (siglip, []),
    ]
    for model, names in wanted:
        found = look(model.eval(), image=wide, tokenizer=processor(), control=False)
        (sequence,) = found.sides[0].sequences
        assert sequence.texts == [*names, *(f"{r},{c}" for r in (1, 2, 3) for c in (1, 2, 3))]
        assert sequence.special == [True] * len(names) + [False] * 9
        assert shown(found).first == len(names)


def test_half_precision(wide: Path) -> None:
    """Pixels come in the model's precision, and so does the model that it is compared with."""
    model = vit().to(torch.bfloat16)
    found, values = read_by(model, wide, processor())
    assert values.dtype == torch.bfloat16
    two = look(model, image=wide, tokenizer=processor(), untrained=True)
    assert len(two.sides) == 2
    assert found.difference is not None


def swin(kind: str, window: int) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        image_size=16, patch_size=4, embed_dim=8, depths=[2, 1], num_heads=[2, 2],
        window_size=window, num_labels=5,
    )  # fmt: skip
    return getattr(transformers, f"{kind}ForImageClassification")(config).eval()


def test_layers_of_merged_patches_are_left_out(wide: Path) -> None:
    """Swin attends to windows: here the first is the whole image, then patches are merged."""
    found = look(swin("Swinv2", 4), image=wide, tokenizer=processor(16, 16))
    side = found.sides[0]
    assert [layer.weights.shape for layer in side.layers if layer.weights is not None] == [
        (2, 16, 16)
    ]
    assert side.control is not None
    assert len(side.control) == 1
    assert any("1 of 2 layers are left out" in note for note in found.capture.notes)
    assert found.packed[0]["sides"][0]["layers"]
    for kind in ("Swin", "Swinv2"):
        with pytest.raises(ValueError, match="no layer attends from all tokens"):
            look(swin(kind, 2), image=wide, tokenizer=processor(16, 16))


def segformer() -> Any:
    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], hidden_sizes=[8, 8], num_attention_heads=[1, 2],
        sr_ratios=[2, 1], patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2],
    )  # fmt: skip
    return transformers.SegformerForImageClassification(config)


def yolos() -> Any:
    config = transformers.YolosConfig(**SIZES, image_size=[12, 12], patch_size=4)
    return transformers.YolosForObjectDetection(config)


def both() -> Any:
    text = transformers.BertConfig(
        **SIZES, vocab_size=20, is_decoder=True, add_cross_attention=True, bos_token_id=1
    )
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        vit().config, text
    )
    return transformers.VisionEncoderDecoderModel(config)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (segformer, "no patches of one size"),
        (yolos, "cannot be told"),
        (both, "goes on with a decoder"),
    ],
)
def test_what_cannot_be_shown_is_told(make: Any, said: str, wide: Path) -> None:
    with pytest.raises(ValueError, match=said) as error:
        look(make().eval(), image=wide, tokenizer=processor())
    assert "\n" not in str(error.value)


def test_texts_are_not_for_models_of_images(
    tmp_path: Path, wide: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    vit().save_pretrained("vit")
    settings = {"image_processor_type": "ViTImageProcessor", "size": {"height": 12, "width": 12}}
    Path("vit/preprocessor_config.json").write_text(json.dumps(settings))
    capsys.readouterr()
    for extra in ("--text a", "--compare-text a", "--pair a"):
        code, _, error = run(f"look vit --image {wide.name} {extra} --out a.html", capsys)
        assert code == 2
        assert error.count("\n") == 1
        assert "leave --" in error
    assert run(f"look vit --image {wide.name} --out a.html", capsys)[0] == 0
