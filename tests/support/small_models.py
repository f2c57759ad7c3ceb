"""Small attnlab models whose attention is worth looking at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab import MECHANISMS
from attnlab.interpret._recorder import Seen
from tests.support.small_training import VOCABULARY, make

KINDS = ("decoder", "encoder", "seq2seq", "vit")


def models() -> list[tuple[str, str]]:
    """Every mechanism in every model that can use it."""
    return [
        (kind, name)
        for name, mechanism in MECHANISMS.items()
        for kind in KINDS
        if (kind != "decoder" or mechanism.card.causal)
        and (kind != "seq2seq" or mechanism.card.cross)
    ]


def model_of(kind: str, name: str = "softmax", **changes: Any) -> Any:
    """With weights so large that attention is far from even."""
    _, model = make(kind, name, **changes)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(5)
    return model.eval()


def inputs_of(kind: str) -> tuple[Tensor, ...]:
    """Three rows, one of them padded."""
    draws = torch.Generator().manual_seed(3)
    ids = torch.randint(2, VOCABULARY, (3, 9), generator=draws)
    keys = torch.arange(9) < torch.tensor([[9], [6], [9]])
    if kind == "seq2seq":
        return ids, ids[:, :5], keys
    if kind == "vit":
        return (torch.randn(3, 1, 8, 8, generator=draws),)
    return ids, keys


def check_equal(one: Seen, other: Seen) -> None:
    assert len(one.layers) == len(other.layers) > 0
    for mine, yours in zip(one.layers, other.layers, strict=True):
        assert mine.weights is not None
        assert yours.weights is not None
        assert torch.equal(mine.weights, yours.weights)
        assert mine.name == yours.name
