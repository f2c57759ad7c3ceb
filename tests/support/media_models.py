"""Tiny random models that read images with texts, sounds and series, with their processors."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.support.transformers_with_tokenizers import transformers, word_tokenizer

TEXT = {
    "vocab_size": 99, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 1,
    "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 8,
}  # fmt: skip
VISION = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip
SQUARE = {"height": 32, "width": 32}


def words() -> Any:
    return word_tokenizer(90, "<image>")


def image_id() -> int:
    return int(words().convert_tokens_to_ids("<image>"))


def llava() -> tuple[Any, Any]:
    torch.manual_seed(0)
    config = transformers.LlavaConfig(
        text_config=transformers.LlamaConfig(**TEXT),
        vision_config=transformers.CLIPVisionConfig(**VISION), image_token_index=image_id(),
    )  # fmt: skip
    processor = transformers.LlavaProcessor(
        image_processor=transformers.CLIPImageProcessor(
            size={"shortest_edge": 32}, crop_size=SQUARE
        ),
        tokenizer=words(), patch_size=8, vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )  # fmt: skip
    return transformers.LlavaForConditionalGeneration(config).eval(), processor


def wav2vec2() -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = transformers.Wav2Vec2Model(
        transformers.Wav2Vec2Config(
            hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=40,
            conv_dim=[8, 8], conv_stride=[20, 16], conv_kernel=[20, 16], num_feat_extract_layers=2,
            num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, vocab_size=20,
        )
    ).eval()  # fmt: skip
    return model, transformers.Wav2Vec2FeatureExtractor()


def series() -> tuple[Any, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    model = transformers.PatchTSTModel(
        transformers.PatchTSTConfig(
            num_input_channels=2, context_length=24, patch_length=4, patch_stride=4, d_model=24,
            num_hidden_layers=1, num_attention_heads=3, ffn_dim=40,
        )
    ).eval()  # fmt: skip
    return model, {"past_values": torch.randn(1, 24, 2)}


def write_tone(path: Path) -> None:
    """Half a second of a tone, in stereo."""
    samples = (np.sin(np.arange(4000) / 20) * 20000).astype("<i2").repeat(2)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(samples.tobytes())
