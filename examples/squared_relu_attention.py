"""Your own mechanism in one file: squared ReLU attention (Hua et al. 2022, arXiv 2202.10447).

Each key gets its own weight, max(0, score)^2. The weights do not compete: they need not sum to 1,
and a key with a negative score has no weight at all.

    attnlab mechanisms check examples/squared_relu_attention.py
    attnlab --extension examples/squared_relu_attention.py tour

Letters: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from typing import Annotated

from torch import Tensor

from attnlab import Card, Mask, Mechanism, register_mechanism
from attnlab.mechanism import repeat_heads


@register_mechanism
class SquaredRelu(Mechanism):
    name = "squared_relu"
    card = Card(
        summary="each key gets its own weight: relu(q.k/sqrt(D) + bias)^2",
        paper="Hua et al. 2022",
        arxiv="2202.10447",
        time="N^2 D",
        memory="N^2",
        rows_sum_to_one=False,
    )
    trials = ({}, {"bias": 1.5})

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        bias: Annotated[float, "added to every score; below 0, fewer keys have weight"] = 0.0,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        self.bias = bias

    def weights(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)  # checks sizes and clears padding
        scores = q @ repeat_heads(k, self.heads).mT * self.head_dim**-0.5  # (B, H, T, S)
        allowed = mask.allowed(q.shape[2], k.shape[2], q.device)
        weights = (scores + self.bias).relu().square()
        return weights if allowed is None else weights.masked_fill(~allowed, 0)
