"""look with vision models: the page shows the image that the model reads, and token names."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnlab._image_files import open_rgb_image
from attnlab.interpret._look import look
from attnlab.models import ViT, ViTConfig
from tests.support.command_line import run
from tests.support.small_transformers import transformers
from tests.support.transformers_with_tokenizers import word_tokenizer

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
def wide_image(tmp_path: Path) -> Path:
    """30 x 20 pixels, red to the left, blue to the right."""
    image = images.new("RGB", (30, 20), (250, 0, 10))
    image.paste((10, 0, 250), (15, 0, 30, 20))
    image.save(tmp_path / "wide_image.png")
    return tmp_path / "wide_image.png"


def patched_image(result: Any) -> Any:
    (sequence,) = result.panels[0].sequences
    assert sequence.image is not None
    return sequence.image


def look_and_record(model: Any, path: Path, image_processor: Any) -> tuple[Any, torch.Tensor]:
    """The result of `look`, and the model's last input."""
    inputs: list[torch.Tensor] = []

    def listen(*arguments: Any) -> None:
        inputs.append(arguments[2]["pixel_values"])

    handle = model.register_forward_pre_hook(listen, with_kwargs=True)
    result = look(model, image=path, tokenizer=image_processor, control=False)
    handle.remove()
    return result, inputs[-1]


@pytest.mark.parametrize("kind", ["ViT", "CLIP", "DeiT"])
def test_page_shows_the_image_that_the_model_reads(kind: str, wide_image: Path) -> None:
    """Resized or cropped, as the processor does it."""
    sizes = {
        "ViT": {"size": {"height": 12, "width": 12}},
        "CLIP": {"size": {"shortest_edge": 12}, "crop_size": {"height": 12, "width": 12}},
        "DeiT": {
            "size": {"height": 16, "width": 16},
            "crop_size": {"height": 12, "width": 12},
        },
    }
    image_processor = getattr(transformers, f"{kind}ImageProcessor")(**sizes[kind])
    result, values = look_and_record(vit(), wide_image, image_processor)
    mean, std = (
        torch.tensor(x)[:, None, None]
        for x in (image_processor.image_mean, image_processor.image_std)
    )
    normalized = (patched_image(result).pixels.permute(2, 0, 1) / 255 - mean) / std
    assert torch.allclose(normalized, values[0], atol=1e-5)
    image = open_rgb_image(wide_image)
    assert torch.equal(values, image_processor(images=image, return_tensors="pt")["pixel_values"])


def test_exif_orientation(tmp_path: Path) -> None:
    """A quarter turn: the left of the file is the top of the image."""
    image = images.new("RGB", (24, 12), (255, 0, 0))
    image.paste((0, 0, 255), (12, 0, 24, 12))
    exif = image.getexif()
    exif[0x0112] = 6  # rotated to the right
    image.save(tmp_path / "a.png", exif=exif)
    assert open_rgb_image(tmp_path / "a.png").size == (12, 24)
    own = ViT(ViTConfig(classes=5, image_size=12, patch=4, width=24, layers=1, heads=3))
    for model, image_processor in ((vit(), processor()), (own, None)):
        pixels = patched_image(
            look(model, image=tmp_path / "a.png", tokenizer=image_processor)
        ).pixels
        assert pixels[0].float().mean(0).argmax() == 0  # red
        assert pixels[-1].float().mean(0).argmax() == 2


def test_images_that_are_not_square(wide_image: Path) -> None:
    result = look(vit(image_size=(8, 12)), image=wide_image, tokenizer=processor(8, 12))
    image = patched_image(result)
    assert (image.rows, image.columns, image.first) == (2, 3, 1)
    assert image.pixels.shape == (8, 12, 3)
    assert result.panels[0].sequences[0].texts[-1] == "2,3"


def test_names_of_tokens_before_the_patches(wide_image: Path) -> None:
    sizes = {**SIZES, "image_size": 12, "patch_size": 4}
    deit = transformers.DeiTForImageClassificationWithTeacher(transformers.DeiTConfig(**sizes))
    registers = transformers.Dinov2WithRegistersModel(
        transformers.Dinov2WithRegistersConfig(**sizes, num_register_tokens=2)
    )
    clip = transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**sizes))
    siglip = transformers.SiglipVisionModel(transformers.SiglipVisionConfig(**sizes))
    cases = [
        (deit, ["[class]", "[distillation]"]),
        (registers, ["[class]", "[register 1]", "[register 2]"]),
        (clip, ["[class]"]),
        (siglip, []),
    ]
    for model, names in cases:
        result = look(model.eval(), image=wide_image, tokenizer=processor(), control=False)
        (sequence,) = result.panels[0].sequences
        assert sequence.texts == [*names, *(f"{r},{c}" for r in (1, 2, 3) for c in (1, 2, 3))]
        assert sequence.special == [True] * len(names) + [False] * 9
        assert patched_image(result).first == len(names)


def test_half_precision(wide_image: Path) -> None:
    """Pixels and the untrained model have the model's precision."""
    model = vit().to(torch.bfloat16)
    result, values = look_and_record(model, wide_image, processor())
    assert values.dtype == torch.bfloat16
    two = look(model, image=wide_image, tokenizer=processor(), untrained=True)
    assert len(two.panels) == 2
    assert result.difference is not None


def swin(kind: str, window: int) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        image_size=16, patch_size=4, embed_dim=8, depths=[2, 1], num_heads=[2, 2],
        window_size=window, num_labels=5,
    )  # fmt: skip
    return getattr(transformers, f"{kind}ForImageClassification")(config).eval()


def test_merged_patches_and_windows(wide_image: Path) -> None:
    """Swin attends to windows: here the first is the whole image, then patches are merged."""
    result = look(swin("Swinv2", 4), image=wide_image, tokenizer=processor(16, 16))
    panel = result.panels[0]
    grids = [each.image and (each.image.rows, each.image.columns) for each in panel.sequences]
    assert grids == [(4, 4), (2, 2)]
    assert panel.sequence_indices == [(0, 0), (1, 1)]
    assert panel.control is not None
    assert len(panel.control) == 2
    assert result.packed[0]["sides"][0]["layers"]
    for kind in ("Swin", "Swinv2"):  # windows of 2 x 2 patches are not patches of the image
        small = look(swin(kind, 2), image=wide_image, tokenizer=processor(16, 16), control=False)
        first = small.panels[0].sequences[small.panels[0].sequence_indices[0][0]]
        assert (first.name, first.image, len(first.texts)) == ("part of 4", None, 4)


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


def test_stages_and_tokens_after_the_patches(wide_image: Path) -> None:
    """Segformer's stages have grids of their own, and reduce the keys; Yolos adds the tokens of
    what it detects after the patches."""
    panel = look(segformer().eval(), image=wide_image, tokenizer=processor(16, 16)).panels[0]
    pairs = [[panel.sequences[index].image for index in pair] for pair in panel.sequence_indices]
    grids = [[each and (each.rows, each.columns) for each in pair] for pair in pairs]
    assert grids == [[(4, 4), (2, 2)], [(2, 2), (2, 2)]]
    result = look(yolos().eval(), image=wide_image, tokenizer=processor())
    sequence = result.panels[0].sequences[0]
    assert sequence.image is not None
    assert (sequence.image.first, sequence.texts[:2]) == (1, ["[class]", "1,1"])
    assert sequence.texts[9:12] == ["3,3", "[1]", "[2]"]
    assert sequence.special[9:11] == [False, True]


def test_patches_in_random_order_are_positions(wide_image: Path) -> None:
    """A masked autoencoder keeps a random part of the patches."""
    config = transformers.ViTMAEConfig(
        **SIZES, image_size=16, patch_size=4, mask_ratio=0.75, decoder_num_hidden_layers=1,
        decoder_hidden_size=24, decoder_num_attention_heads=2, decoder_intermediate_size=8,
    )  # fmt: skip
    model = transformers.ViTMAEModel(config).eval()
    panel = look(model, image=wide_image, tokenizer=processor(16, 16)).panels[0]
    assert [(each.name, each.image) for each in panel.sequences] == [("positions", None)]


def test_image_encoder_with_a_text_decoder(wide_image: Path) -> None:
    words = word_tokenizer(20)
    options: dict[str, Any] = {"image": wide_image, "pair": "w5 w6", "control": False}
    with pytest.raises(ValueError, match="has no tokenizer"):
        look(both().eval(), tokenizer=processor(), **options)
    model = both()
    model.config.decoder_start_token_id = 1
    given = SimpleNamespace(tokenizer=words, image_processor=processor())
    result = look(model.eval(), tokenizer=given, **options)
    panel = result.panels[0]
    assert [each.name for each in panel.sequences] == ["target", "patches"]
    pairs = {
        (layer.stack, layer.kind): pair
        for layer, pair in zip(panel.layers, panel.sequence_indices, strict=True)
    }
    assert pairs == {
        ("encoder", "self"): (1, 1), ("decoder", "self"): (0, 0), ("decoder", "cross"): (0, 1)
    }  # fmt: skip
    assert result.difference is not None
    assert result.difference < 1e-4


def test_vision_models_take_no_text(
    tmp_path: Path,
    wide_image: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    vit().save_pretrained("vit")
    settings = {"image_processor_type": "ViTImageProcessor", "size": {"height": 12, "width": 12}}
    Path("vit/preprocessor_config.json").write_text(json.dumps(settings))
    capsys.readouterr()
    for extra in ("--text a", "--compare-text a", "--pair a"):
        code, _, error = run(f"look vit --image {wide_image.name} {extra} --out a.html", capsys)
        assert code == 2
        assert error.count("\n") == 1
        assert "omit --" in error
    assert run(f"look vit --image {wide_image.name} --out a.html", capsys)[0] == 0
