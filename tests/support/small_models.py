"""Small attnlab models for tests of captures."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab import MECHANISMS
from attnlab.interpret._recorder import CapturedAttention
from tests.support.small_training import VOCABULARY, make

KINDS = ("decoder", "encoder", "seq2seq", "vit")


def models() -> list[tuple[str, str]]:
    """Every mechanism in every model that can use it."""
    return [
        (kind, name)
        for name, mechanism in MECHANISMS.items()
        for kind in KINDS
        if (mechanism.card.causal if kind == "decoder" else mechanism.card.bidirectional)
        and (kind != "seq2seq" or mechanism.card.cross)
    ]


def model_of(kind: str, name: str = "softmax", **changes: Any) -> Any:
    """A model with weights so large that attention is far from uniform."""
    _, model = make(kind, name, **changes)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(5)
    return model.eval()


def inputs_of(kind: str) -> tuple[Tensor, ...]:
    """Three rows, one of them padded."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(2, VOCABULARY, (3, 9), generator=generator)
    keys = torch.arange(9) < torch.tensor([[9], [6], [9]])
    if kind == "seq2seq":
        return ids, ids[:, :5], keys
    if kind == "vit":
        return (torch.randn(3, 1, 8, 8, generator=generator),)
    return ids, keys


def check_equal(one: CapturedAttention, other: CapturedAttention) -> None:
    assert len(one.layers) == len(other.layers) > 0
    for layer, expected in zip(one.layers, other.layers, strict=True):
        assert layer.weights is not None
        assert expected.weights is not None
        assert torch.equal(layer.weights, expected.weights)
        assert layer.name == expected.name
