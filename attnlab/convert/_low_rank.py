"""Low-rank adapters (LoRA) around the projections of attention.

Each linear layer computes with W + scale U D, where W stays as it is. Queries, keys and values come
from one matrix, so its rows have a D of their own for each of the three.

Letters: N rows of a matrix, W columns, P parts of its rows, R rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from attnlab.layers import MultiHead

SCALE = 2.0  # alpha / rank, as published
WEIGHT = "weight"


class LowRank(nn.Module):
    """W -> W + scale U D. It starts as W itself, because U is 0."""

    def __init__(self, weight: Tensor, parts: Sequence[int], rank: int) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.parts = list(parts)
        options: dict[str, Any] = {"dtype": weight.dtype, "device": weight.device}
        self.down = nn.Parameter(torch.randn(len(parts), rank, columns, **options) / columns**0.5)
        self.up = nn.Parameter(torch.zeros(rows, rank, **options))

    def forward(self, weight: Tensor) -> Tensor:
        ups = self.up.split(self.parts)  # each (N of the part, R)
        change = torch.cat([up @ down for up, down in zip(ups, self.down, strict=True)])  # (N, W)
        return weight + SCALE * change


def add_adapters(layer: MultiHead, rank: int) -> list[LowRank]:
    """Put adapters around the projections of a layer, whose own weights learn no more."""
    adapters = []
    for linear, parts in ((layer.project, layer.sizes), (layer.out, [layer.out.out_features])):
        adapter = LowRank(linear.weight, parts, rank)
        linear.requires_grad_(False)
        parametrize.register_parametrization(linear, WEIGHT, adapter)
        adapters.append(adapter)
    return adapters


def merge_adapters(layer: MultiHead) -> None:
    """Make the weights what the adapters made of them."""
    for linear in (layer.project, layer.out):
        parametrize.remove_parametrizations(linear, WEIGHT, leave_parametrized=True)


def remove_adapters(layer: MultiHead) -> None:
    """Leave the weights as they were before."""
    for linear in (layer.project, layer.out):
        parametrize.remove_parametrizations(linear, WEIGHT, leave_parametrized=False)
