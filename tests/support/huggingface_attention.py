"""Shared by the tests of mechanisms in Hugging Face models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab.huggingface import register
from attnlab.huggingface._layer_mechanisms import parameter_free_mechanisms
from tests.support.small_transformers import transformers

register()
SMALL = {
    "favor": "favor:features=32",
    "fourier": "fourier:features=32",
    "window": "window:window=2",
    "bigbird": "bigbird:block=2,random_blocks=1",
    "groups": "1*window:window=3+3*elu+2*softmax",
}
SPECS = [SMALL.get(name, name) for name in (*parameter_free_mechanisms(), "groups")]
register(*SPECS)


def text(B: int, T: int, seed: int = 0) -> Tensor:
    return torch.randint(5, 60, (B, T), generator=torch.Generator().manual_seed(seed))


def run(model: Any, batch: dict[str, Tensor]) -> Tensor:
    result = model(**batch)
    out: Tensor = result.logits if "logits" in result else result[0]
    return out


def real_part(out: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """The output without padding: there eager functions give uniform weights, attnlab zeros."""
    mask = batch.get("attention_mask")
    if mask is None or "decoder_input_ids" in batch:
        return out
    return out[mask.bool()]


def attention_of(model: Any, layer: int) -> Any:
    return model.model.layers[layer].self_attn


def call(implementation: str, module: Any, *qkv: Tensor, **options: Any) -> Tensor:
    function = transformers.AttentionInterface._global_mapping[implementation]
    out: Tensor = function(module, *qkv, None, **options)[0]
    return out.transpose(1, 2)
