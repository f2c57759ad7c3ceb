"""Small, randomly initialized models of the transformers library, and inputs for them."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.interpret._records import Layer

transformers: Any = pytest.importorskip(
    "transformers", reason="Hugging Face models need the transformers package"
)

WORDS = {"vocab_size": 60, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": None}
BERT = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 30,
}
GROUPED = {**BERT, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4}
BOTH = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 30,
    "decoder_ffn_dim": 30,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
}
IMAGE = {**BERT, "image_size": 12, "patch_size": 4}
GEMMA = {**WORDS, **GROUPED, "num_hidden_layers": 3, "sliding_window": 3, "head_dim": 16}
OSS = {**GEMMA, "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 4}

MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", "BertConfig", {**WORDS, **BERT}),
    "albert": ("AlbertModel", "AlbertConfig", {**WORDS, **BERT, "embedding_size": 8}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {**WORDS, "n_embd": 24, "n_layer": 2, "n_head": 3}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**WORDS, **GROUPED}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**WORDS, **GROUPED, "sliding_window": 3}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**GEMMA, "attn_logit_softcapping": 1.5}),
    "gemma3": (
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {**GEMMA, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    ),
    "gpt_oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        {**OSS, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {**WORDS, "d_model": 24, "d_kv": 8, "num_layers": 2, "num_heads": 3, "d_ff": 30}
        | {"decoder_start_token_id": 0},
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", {**WORDS, **BOTH}),
    "vit": ("ViTForImageClassification", "ViTConfig", IMAGE),
    "bloom": (
        "BloomForCausalLM",
        "BloomConfig",
        {**WORDS, "hidden_size": 24} | {"n_layer": 2, "n_head": 3},
    ),
    "falcon": ("FalconForCausalLM", "FalconConfig", {**WORDS, **BERT}),
    "gptj": (
        "GPTJForCausalLM",
        "GPTJConfig",
        {**WORDS, "n_embd": 24, "n_layer": 2, "n_head": 3, "rotary_dim": 4},
    ),
    "xlnet": (
        "XLNetLMHeadModel",
        "XLNetConfig",
        {**WORDS, "d_model": 24, "n_layer": 2, "n_head": 3, "d_inner": 30},
    ),
    "deberta": ("DebertaModel", "DebertaConfig", {**WORDS, **BERT}),
    "mpnet": ("MPNetModel", "MPNetConfig", {**WORDS, **BERT}),
    "mvp": ("MvpForConditionalGeneration", "MvpConfig", {**WORDS, **BOTH}),
    "data2vec_vision": ("Data2VecVisionModel", "Data2VecVisionConfig", IMAGE),
    "longformer": ("LongformerModel", "LongformerConfig", {**WORDS, **BERT, "attention_window": 4}),
    "swin": (
        "SwinModel",
        "SwinConfig",
        {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [2], "num_heads": [2]}
        | {"window_size": 4},
    ),
}


def small(name: str, attention: str | None = None) -> Any:
    """A model with the same weights at every call, so large that attention is far from uniform."""
    model_class, config_class, settings = MODELS[name]
    config = getattr(transformers, config_class)(**settings)
    options = {} if attention is None else {"attn_implementation": attention}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = getattr(transformers, model_class)._from_config(deepcopy(config), **options)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return model.eval()


def write_tokenizer(folder: Path) -> None:
    """Write the files of a BERT tokenizer with eight words."""
    words = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "ran"]
    (folder / "vocab.txt").write_text("\n".join(words))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')


def inputs(name: str) -> dict[str, torch.Tensor]:
    """Three rows: without padding, padded on the right, padded on the left."""
    generator = torch.Generator().manual_seed(7)
    model_class, _, settings = MODELS[name]
    if "image_size" in settings:
        size = settings["image_size"]
        return {"pixel_values": torch.randn(3, 3, size, size, generator=generator)}
    mask = torch.ones(3, 7, dtype=torch.long)
    mask[1, 5:] = 0
    mask[2, :2] = 0
    batch = {
        "input_ids": torch.randint(5, 60, (3, 7), generator=generator),
        "attention_mask": mask,
    }
    if "ConditionalGeneration" in model_class:
        batch["decoder_input_ids"] = torch.randint(5, 60, (3, 5), generator=generator)
    return batch


FIELDS = ("encoder_attentions", "attentions", "decoder_attentions", "cross_attentions")


def eager_attentions(name: str, batch: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """The model's own attentions (B, H, T, S): the encoder's, then all self, then all cross."""
    model = small(name, "eager")
    with torch.no_grad():
        out = model(**batch, output_attentions=True)
    return [weights for field in FIELDS for weights in out.get(field) or ()]


def like_attentions(layers: list[Any]) -> list[Any]:
    """Layers in the order of `eager_attentions`."""
    order = [("encoder", "self"), ("decoder", "self"), ("decoder", "cross")]
    return sorted(layers, key=lambda layer: order.index((layer.stack, layer.kind)))


def visible(layer: Layer) -> Tensor:
    """(T,): queries with at least one key. Eager functions give the others uniform weights."""
    assert layer.weights is not None
    if layer.allowed is None:
        return torch.ones(layer.weights.shape[1], dtype=torch.bool)
    return layer.allowed.any(-1)
