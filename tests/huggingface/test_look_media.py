"""look with images beside texts, with sounds, and with tensors, on tiny random models."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnlab.interpret._look import look
from tests.support.command_line import run
from tests.support.media_models import (
    SQUARE,
    TEXT,
    VISION,
    image_id,
    llava,
    series,
    wav2vec2,
    words,
    write_tone,
)
from tests.support.small_transformers import transformers
from tests.support.transformers_with_tokenizers import word_tokenizer

images: Any = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """60 x 40 pixels, a red square on gray."""
    image = images.new("RGB", (60, 40), (200, 200, 200))
    image.paste((250, 60, 20), (20, 10, 40, 30))
    image.save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    write_tone(tmp_path / "tone.wav")
    return tmp_path / "tone.wav"


def paligemma() -> tuple[Any, Any]:
    torch.manual_seed(0)
    config = transformers.PaliGemmaConfig(
        text_config={"model_type": "gemma", **TEXT}, projection_dim=24,
        vision_config={"model_type": "siglip_vision_model", **VISION},
    )  # fmt: skip
    pictures = transformers.SiglipImageProcessor(size=SQUARE)
    pictures.image_seq_length = 16
    processor = transformers.PaliGemmaProcessor(image_processor=pictures, tokenizer=words())
    config.image_token_id = processor.image_token_id
    return transformers.PaliGemmaForConditionalGeneration(config).eval(), processor


def gemma3() -> tuple[Any, Any]:
    torch.manual_seed(0)
    names = {"boi": "<boi>", "eoi": "<eoi>", "image": "<img>"}
    tokenizer = word_tokenizer(90, *names.values())
    for name, token in names.items():
        setattr(tokenizer, f"{name}_token", token)
        setattr(tokenizer, f"{name}_token_id", tokenizer.convert_tokens_to_ids(token))
    config = transformers.Gemma3Config(
        text_config=TEXT, vision_config=VISION, mm_tokens_per_image=4,
        image_token_index=tokenizer.image_token_id, boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
    )  # fmt: skip
    processor = transformers.Gemma3Processor(
        image_processor=transformers.Gemma3ImageProcessor(size=SQUARE), tokenizer=tokenizer,
        image_seq_length=4,
    )  # fmt: skip
    return transformers.Gemma3ForConditionalGeneration(config).eval(), processor


def qwen2_vl() -> tuple[Any, Any]:
    """Its processor needs torchvision for videos, so this one does by hand what it does."""
    torch.manual_seed(0)
    tokenizer = word_tokenizer(90, "<|image_pad|>", "<|vision_start|>", "<|vision_end|>")
    names = ("<|image_pad|>", "<|vision_start|>", "<|vision_end|>")
    pad, start, end = map(tokenizer.convert_tokens_to_ids, names)
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
    config = transformers.Qwen2VLConfig(
        text_config={**TEXT, "rope_parameters": rope}, image_token_id=pad,
        vision_start_token_id=start, vision_end_token_id=end, video_token_id=98,
        vision_config={"depth": 1, "embed_dim": 24, "num_heads": 3, "hidden_size": 24,
                       "patch_size": 8, "spatial_merge_size": 2},
    )  # fmt: skip
    pictures = transformers.Qwen2VLImageProcessor(
        patch_size=8, merge_size=2, min_pixels=32 * 32, max_pixels=64 * 64
    )

    def encode(text: str, images: Any, return_tensors: str) -> dict[str, Any]:  # noqa: ARG001
        seen = pictures(images=images, return_tensors="pt")
        count = int(seen["image_grid_thw"].prod()) // 4
        ids = [start, *[pad] * count, end, *tokenizer(text)["input_ids"]]
        kinds = torch.tensor([[int(index == pad) for index in ids]])
        return {"input_ids": torch.tensor([ids]), "mm_token_type_ids": kinds, **seen}

    class Processor(SimpleNamespace):
        def __call__(self, **given: Any) -> dict[str, Any]:
            return encode(**given)

    model = transformers.Qwen2VLForConditionalGeneration(config).eval()
    return model, Processor(tokenizer=tokenizer, image_processor=pictures)


@pytest.mark.filterwarnings("ignore:__array__ implementation")
@pytest.mark.parametrize(
    ("make", "first", "grid"),
    [(llava, 0, (4, 4)), (paligemma, 0, (4, 4)), (gemma3, 1, (2, 2)), (qwen2_vl, 1, (2, 4))],
)
def test_patches_in_a_text(make: Any, first: int, grid: tuple[int, int], picture: Path) -> None:
    """The text's tokens include the patches, so that attention to them is drawn over the image."""
    model, processor = make()
    result = look(model, "w7 w8", image=picture, tokenizer=processor, control=False)
    panel = result.panels[0]
    text = panel.sequences[0]
    assert text.image is not None
    assert (text.image.first, text.image.rows, text.image.columns) == (first, *grid)
    patches = text.texts[first : first + grid[0] * grid[1]]
    assert patches == [f"{r + 1},{c + 1}" for r in range(grid[0]) for c in range(grid[1])]
    assert [word for word in text.texts if word.startswith("w")] == ["w7", "w8"]
    middle = text.image.pixels[text.image.pixels.shape[0] // 2, text.image.pixels.shape[1] // 2]
    assert middle[0] > 220 > 100 > middle[2]  # red
    for layer, (queries, keys) in zip(panel.layers, panel.sequence_indices, strict=True):
        assert layer.weights is not None
        lengths = [len(panel.sequences[index].texts) for index in (queries, keys)]
        assert list(layer.weights.shape[1:]) == lengths
        assert (queries == 0) == ("language_model" in layer.name)
    assert result.difference is not None
    assert result.difference < 1e-4


def test_an_image_needs_its_text(picture: Path) -> None:
    model, processor = llava()
    with pytest.raises(ValueError, match=r"reads a text .*; give --text"):
        look(model, image=picture, tokenizer=processor)


def test_two_towers(picture: Path) -> None:
    text = {**TEXT, "max_position_embeddings": 30, "eos_token_id": 2, "bos_token_id": 1}
    del text["num_key_value_heads"], text["head_dim"]
    torch.manual_seed(0)
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=16)
    pictures = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=SQUARE)
    processor = transformers.CLIPProcessor(image_processor=pictures, tokenizer=words())
    result = look(
        transformers.CLIPModel(config).eval(), "w7 w8", image=picture, tokenizer=processor,
        control=False,
    )  # fmt: skip
    panel = result.panels[0]
    assert [each.name for each in panel.sequences] == ["text", "patches"]
    towers = [(layer.name.split(".")[0], pair) for layer, pair in
              zip(panel.layers, panel.sequence_indices, strict=True)]  # fmt: skip
    assert towers == [("vision_model", (1, 1))] * 2 + [("text_model", (0, 0))]


def test_learned_queries_are_no_patches(picture: Path) -> None:
    """BLIP-2 gives its text model four queries, which are no part of the image."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
    config = transformers.Blip2Config(
        vision_config=VISION, num_query_tokens=4, image_token_index=image_id(),
        qformer_config={**sizes, "intermediate_size": 40, "encoder_hidden_size": 24,
                        "vocab_size": 99},
        text_config={"model_type": "opt", "vocab_size": 99, "hidden_size": 24, "ffn_dim": 40,
                     "num_hidden_layers": 1, "num_attention_heads": 3, "word_embed_proj_dim": 24},
    )  # fmt: skip
    processor = transformers.Blip2Processor(
        image_processor=transformers.BlipImageProcessor(size=SQUARE), tokenizer=words(),
        num_query_tokens=4,
    )  # fmt: skip
    model = transformers.Blip2ForConditionalGeneration(config).eval()
    panel = look(model, "w7", image=picture, tokenizer=processor, control=False).panels[0]
    assert [each.name for each in panel.sequences] == ["text", "patches", "positions"]
    assert panel.sequences[0].image is None
    pairs = {layer.name: pair for layer, pair in
             zip(panel.layers, panel.sequence_indices, strict=True)}  # fmt: skip
    assert pairs["qformer.encoder.layer.0.crossattention.attention"] == (2, 1)
    assert pairs["qformer.encoder.layer.1.attention.attention"] == (2, 2)


def whisper() -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=99, d_model=24, encoder_layers=1, decoder_layers=1, num_mel_bins=16,
            encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=40,
            decoder_ffn_dim=40, max_source_positions=50, max_target_positions=30,
            decoder_start_token_id=1, bos_token_id=1, eos_token_id=2, pad_token_id=0,
        )
    ).eval()  # fmt: skip
    extractor = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=1)
    return model, SimpleNamespace(feature_extractor=extractor, tokenizer=word_tokenizer(90))


def test_sound_and_its_text(sound: Path) -> None:
    model, processor = whisper()
    result = look(model, sound=sound, pair="w7 w8", tokenizer=processor)
    panel = result.panels[0]
    assert panel.sequences[0].texts == ["<s>", "w7", "w8"]
    times = panel.sequences[1]
    assert (times.name, len(times.texts), times.texts[-1]) == ("sound", 50, "0.98s")
    assert panel.sequence_indices == [(1, 1), (0, 0), (0, 1)]
    assert panel.next_tokens is not None
    assert panel.control is not None
    assert any("lasts 0.50 s" in note for note in result.capture.notes)
    assert result.capture.title.endswith(": tone.wav")
    assert result.difference is not None
    assert result.difference < 1e-4
    written = look(model, sound=sound, generate=3, tokenizer=processor, control=False)
    target = written.panels[0].sequences[0]
    assert target.texts[0] == "<s>"
    assert target.prompt == 1


def test_sound_alone(sound: Path) -> None:
    model, extractor = wav2vec2()
    panel = look(model, sound=sound, tokenizer=extractor, control=False).panels[0]
    (times,) = panel.sequences
    assert times.texts[:3] == ["0.00s", "0.02s", "0.04s"]
    assert len(times.texts) == 25  # half a second, 16,000 samples each, 320 samples apart


def test_whisper_with_attnlab_softmax(sound: Path) -> None:
    """Capture and replacement of a model of sound: weights and outputs are the same."""
    import attnlab.huggingface

    attnlab.huggingface.register()
    model, processor = whisper()
    options = {"sound": sound, "pair": "w7 w8", "tokenizer": processor, "control": False}
    before = look(model, **options).panels[0]
    model.set_attn_implementation("attnlab-softmax")
    after = look(model, **options).panels[0]
    for one, other in zip(before.layers, after.layers, strict=True):
        assert one.weights is not None
        assert other.weights is not None
        torch.testing.assert_close(one.weights, other.weights, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"RIFF", "is no WAV file"), (b"", "is no WAV file"), (None, "does not exist")],
)
def test_broken_sounds(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.wav"
    if content is not None:
        path.write_bytes(content)
    model, processor = whisper()
    with pytest.raises(ValueError, match=message) as error:
        look(model, sound=path, pair="w7", tokenizer=processor)
    assert "\n" not in str(error.value)


def test_folder_of_whisper(tmp_path: Path, sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, processor = whisper()
    folder = tmp_path / "whisper"
    model.save_pretrained(folder)
    processor.tokenizer.save_pretrained(folder)
    processor.feature_extractor.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    capsys.readouterr()
    command = f"look {folder} --sound {sound} --pair w7 --out {tmp_path}/a.html"
    code, _, error = run(command, capsys)
    assert (code, error) == (0, "")
    for bad in ("--text a", "--image a.png --pair w7", "--sound a.wav --image a.png --pair w7"):
        code, _, error = run(f"look {folder} {bad} --out {tmp_path}/b.html", capsys)
        assert code == 2
        assert error.count("\n") == 1


def test_tensors_in_place_of_a_text(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    model, inputs = series()
    with pytest.raises(ValueError, match=r"reads time series .*--inputs FILE.safetensors"):
        look(model, "a", tokenizer=word_tokenizer(20))
    result = look(model, inputs=inputs, control=False)
    save_file(inputs, tmp_path / "series.safetensors")
    again = look(model, inputs=tmp_path / "series.safetensors", control=False)
    for one, other in zip(result.panels[0].layers, again.panels[0].layers, strict=True):
        assert one.weights is not None
        assert other.weights is not None
        assert torch.equal(one.weights, other.weights)
    assert result.panels[0].sequences[0].texts[:2] == ["1", "2"]
    assert again.capture.title.endswith(": series.safetensors")
    result.save(tmp_path / "series.html")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "give a dict of tensors"),
        ({"past_values": [1]}, "is no tensor"),
        (Path("missing.safetensors"), "does not exist"),
        ({"past_values": torch.zeros(1, 3)}, "doesn't match model configuration"),
    ],
)
def test_bad_tensors(inputs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        look(series()[0], inputs=inputs, control=False)
    assert "\n" not in str(error.value)


def test_text_among_the_tensors() -> None:
    """Texts are words with a tokenizer, and numbers without one."""
    model, _ = llava()
    inputs = {"input_ids": torch.tensor([[7, 8, 9]])}
    named = look(model, inputs=inputs, tokenizer=words(), control=False).panels[0]
    plain = look(model, inputs=inputs, control=False).panels[0]
    assert named.sequences[0].texts == ["w7", "w8", "w9"]
    assert plain.sequences[0].texts == ["7", "8", "9"]
    with pytest.raises(ValueError, match="omit --text"):
        look(model, "w7", inputs=inputs)
