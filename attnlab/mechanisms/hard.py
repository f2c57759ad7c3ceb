"""Hard attention: all weight on the best key.

Letters: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from attnlab.mask import Mask
from attnlab.mechanism import Card, Mechanism, repeat_heads
from attnlab.mechanisms.softmax import inverse_temperature, masked_softmax


class Hard(Mechanism):
    """One-hot weights; backward goes straight through to the softmax that they round."""

    name = "hard"
    card = Card(
        summary="all weight on the key of the largest score (the first, if several)",
        paper="straight-through gradient: Bengio et al. 2013",
        arxiv="1308.3432",
        time="N^2 D",
        memory="N^2",
    )

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        beta: Annotated[
            float | None, "inverse temperature of the softmax in backward; default 1/sqrt(head_dim)"
        ] = None,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        self.beta = inverse_temperature(self, beta)

    def weights(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        if k.shape[2] == 0:
            return q.new_zeros(*q.shape[:3], 0)
        scores = self.beta * (q @ repeat_heads(k, self.heads).mT)  # (B, H, T, S)
        allowed = mask.allowed(q.shape[2], k.shape[2], q.device)
        best = scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)
        one_hot = torch.zeros_like(scores).scatter(-1, best.argmax(-1, keepdim=True), 1)
        if allowed is not None:
            one_hot = one_hot.masked_fill(~allowed, 0)
        soft = masked_softmax(scores, allowed)
        return one_hot + (soft - soft.detach())
