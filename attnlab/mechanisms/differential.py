"""Differential attention: the difference of two softmaxes, which cancels what both see.

Letters: B batch, H query heads, T queries, S keys, D head size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab._argument_checks import check_number
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, Mechanism
from attnlab.mechanisms.softmax import (
    attend_masked,
    inverse_temperature,
    masked_softmax,
    scaled_scores,
)

HalfBeta = Annotated[float | None, "Inverse temperature. Default: 1/sqrt(head_dim/2)."]
Start = Annotated[float, "The factor of the second softmax before training, for every head."]


class Differential(Mechanism):
    """softmax(q1 k1) - lambda softmax(q2 k2), where 1 and 2 are the halves of each head."""

    name = "differential"
    layer_defaults: ClassVar[Mapping[str, Any]] = {"head_norm": True}
    card = Card(
        summary="the difference of two softmaxes over the halves of each head",
        paper="Ye et al. 2024",
        arxiv="2410.05258",
        time="N^2 D",
        memory="N",
        rows_sum_to_one=False,
        signed=True,
        learned=True,
    )
    trials = ({}, {"beta": 2.5})

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        beta: HalfBeta = None,
        start: Start = 0.8,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        if head_dim % 2:
            raise ValueError(
                f"differential: head_dim is {head_dim}; give an even number: each half of a head "
                "has a softmax"
            )
        check_number(self, "start", start, "a number", math.isfinite)
        self.beta = (head_dim // 2) ** -0.5 if beta is None else inverse_temperature(self, beta)
        self.factor = nn.Parameter(torch.full((heads,), float(start)))

    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        allowed = mask.allowed(q.shape[2], k.shape[2], q.device)
        halves = zip(q.chunk(2, dim=-1), k.chunk(2, dim=-1), strict=True)
        first, second = (masked_softmax(scaled_scores(*h, self.beta), allowed) for h in halves)
        return first - self.factor[:, None, None].to(q.dtype) * second

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        halves = zip(q.chunk(2, dim=-1), k.chunk(2, dim=-1), strict=True)
        first, second = (attend_masked(*h, v, mask, self.beta) for h in halves)
        return first - self.factor[:, None, None].to(v.dtype) * second
