"""Small random models of every architecture that attnlab imports, with weights that all matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

transformers: Any = pytest.importorskip(
    "transformers", reason="Hugging Face models need the transformers package"
)
V = 61
SIZES = {
    "vocab_size": V,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 100.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "rope_theta": 1e3, "factor": 3.0}
BIASED = {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}
LAYERS = ["full_attention", "sliding_attention", "full_attention"]
WINDOWS = {"use_sliding_window": True, "sliding_window": 4, "layer_types": LAYERS}
GPT2 = {"vocab_size": V, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 32}
BERT = {**SIZES, "num_attention_heads": 3, "type_vocab_size": 2}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", {**GPT2, "eos_token_id": 2, "bos_token_id": 2}),
    "gpt2-untied": (
        "GPT2",
        {**GPT2, "n_inner": 40, "activation_function": "relu", "tie_word_embeddings": False},
    ),
    "llama": ("Llama", {**SIZES, "rms_norm_eps": 1e-3}),
    "llama-3": ("Llama", {**SIZES, **BIASED, "head_dim": 8, "rope_parameters": LLAMA3}),
    "llama-linear": ("Llama", {**SIZES, "rope_parameters": LINEAR}),
    "llama-yarn": ("Llama", {**SIZES, "head_dim": 16, "rope_parameters": YARN}),
    "mistral": ("Mistral", {**SIZES, "sliding_window": 5, "head_dim": 8}),
    "qwen2": ("Qwen2", {**SIZES, **WINDOWS}),
    "qwen3": ("Qwen3", {**SIZES, "head_dim": 8, "tie_word_embeddings": True}),
    "gemma": ("Gemma", {**SIZES, "head_dim": 8, "num_key_value_heads": 1}),
    "bert": ("Bert", BERT),
}
HEADS = {"GPT2": "GPT2LMHeadModel", "Bert": "BertForMaskedLM"}


def tiny(case: str) -> Any:
    """A model whose every parameter is random, so that none can be left out unseen."""
    name, settings = CASES[case]
    config = getattr(transformers, f"{name}Config")(**settings)
    torch.manual_seed(3)
    model = getattr(transformers, HEADS.get(name, f"{name}ForCausalLM"))(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def write_word_tokenizer(folder: Path) -> None:
    """Words w0 to w57 after <pad>, <s>, </s>; adds <s> to a text."""
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, **{f"w{n}": n + 3 for n in range(V - 3)}}
    tokenizer = Tokenizer(models.WordLevel(words, "<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens(["<pad>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "</s>", "pad_token": "<pad>"}')
