"""Kernel attention with a learned feature map for each head.

Letters: H query heads, C features, D head size.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab._argument_checks import check_size
from attnlab.mechanism import Card, Mechanism, repeat_heads
from attnlab.mechanisms._scan import Features
from attnlab.mechanisms.kernel import CHUNK, Chunk, Kernel

FeatureCount = Annotated[int | None, "Even number of features of each head. Default: 2 head_dim."]


class Hedgehog(Kernel):
    """phi(x) = softmax([W x, -W x]): spiky like softmax, and trained to imitate it."""

    name = "hedgehog"
    card = Card(
        summary="kernel attention with the learned feature map softmax([Wx, -Wx])",
        paper="Zhang et al. 2024",
        arxiv="2402.04347",
        time="N C D",
        memory="N C",
        constant_state=True,
        learned=True,
    )
    trials = ({"chunk": 3}, {"features": 6, "chunk": 64})
    size_option = "features"

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        features: FeatureCount = None,
        chunk: Chunk = CHUNK,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length, chunk=chunk)
        self.directions = create_directions(self, features)

    def expand(self, x: Tensor) -> Tensor:
        return repeat_heads(x, self.heads)

    def phi(self, x: Tensor) -> Features:
        return Features(None, log_features(x, self.directions))


def create_directions(mechanism: Mechanism, features: int | None) -> nn.Parameter:
    """W of each head (H, D, C/2). It starts as the identity, as published."""
    count = 2 * mechanism.head_dim if features is None else features
    check_size(mechanism, features=count)
    if count % 2:
        raise ValueError(f"{mechanism.name}: features is {count}; give an even number: Wx and -Wx")
    return nn.Parameter(torch.eye(mechanism.head_dim, count // 2).repeat(mechanism.heads, 1, 1))


def log_features(x: Tensor, directions: Tensor) -> Tensor:
    """log softmax([W x, -W x]) of queries or keys (B, H, T, D): (B, H, T, C)."""
    along = x @ directions.to(x.dtype)  # (B, H, T, C/2)
    return F.log_softmax(torch.cat([along, -along], dim=-1), dim=-1)
