"""What the tests of mechanisms in Hugging Face models share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab.huggingface import register
from attnlab.huggingface._layer_mechanisms import without_parameters
from tests.support.small_transformers import transformers

register()
SMALL = {
    "favor": "favor:features=32",
    "fourier": "fourier:features=32",
    "window": "window:window=2",
    "bigbird": "bigbird:block=2,random_blocks=1",
    "groups": "1*window:window=3+3*elu+2*softmax",
}
SPECS = [SMALL.get(name, name) for name in (*without_parameters(), "groups")]
register(*SPECS)


def text(B: int, T: int, seed: int = 0) -> Tensor:
    return torch.randint(5, 60, (B, T), generator=torch.Generator().manual_seed(seed))


def run(model: Any, given: dict[str, Tensor]) -> Tensor:
    found = model(**given)
    out: Tensor = found.logits if "logits" in found else found[0]
    return out


def real_part(out: Tensor, given: dict[str, Tensor]) -> Tensor:
    """Without what padding gives: eager functions spread its weight, attnlab's give zeros."""
    mask = given.get("attention_mask")
    if mask is None or "decoder_input_ids" in given:
        return out
    return out[mask.bool()]


def attention_of(model: Any, layer: int) -> Any:
    return model.model.layers[layer].self_attn


def call(implementation: str, module: Any, *qkv: Tensor, **options: Any) -> Tensor:
    function = transformers.AttentionInterface._global_mapping[implementation]
    out: Tensor = function(module, *qkv, None, **options)[0]
    return out.transpose(1, 2)
