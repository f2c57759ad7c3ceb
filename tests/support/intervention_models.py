"""Small models for tests of interventions, and whether any hook is left in one."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from tests.support.small_models import model_of

NAMES = [
    "gpt2", "llama", "decoder softmax", "decoder favor", "decoder gated_delta", "encoder softmax",
    "seq2seq softmax", "vit softmax",
]  # fmt: skip
ONE_TEXT = [name for name in NAMES if name.split()[0] not in ("vit", "seq2seq")]
CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}


@cache
def model_and_inputs(name: str) -> tuple[Any, dict[str, Tensor]]:
    random = torch.Generator().manual_seed(3)
    if " " not in name:
        from tests.support.small_transformers import small

        return small(name), {"ids": torch.randint(5, 60, (2, 7), generator=random)}
    kind, mechanism = name.split()
    model = model_of(kind, mechanism)
    ids = torch.randint(2, 9, (2, 9), generator=random)
    if kind == "seq2seq":
        return model, {"source": ids, "target": ids[:, :5]}
    if kind == "vit":
        return model, {"images": torch.randn(2, 1, 8, 8, generator=random)}
    return model, {"ids": ids}


def hooks_of(model: Any) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) + ("forward" in vars(module))
        + ("weights" in vars(module)) + ("read" in vars(module))
        for module in model.modules()
    )  # fmt: skip
