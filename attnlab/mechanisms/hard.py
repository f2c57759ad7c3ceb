"""Hard attention: all weight on the best key.

Letters: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, Mechanism, repeat_heads
from attnlab.mechanisms.softmax import inverse_temperature, masked_softmax, scaled_scores


class Hard(Mechanism):
    """One-hot weights; the backward pass uses the gradient of softmax (straight-through)."""

    name = "hard"
    by_scores = True
    card = Card(
        summary="all weight on the key of the largest score (the first, if several)",
        paper="straight-through gradient: Bengio et al. 2013",
        arxiv="1308.3432",
        time="N^2 D",
        memory="N^2",
        continuous=False,
    )

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        beta: Annotated[
            float | None, "Inverse temperature of the backward softmax. Default: 1/sqrt(head_dim)."
        ] = None,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        self.beta = inverse_temperature(self, beta)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        if k.shape[2] == 0:
            return q.new_zeros(*q.shape[:3], 0)
        scores, allowed = self._scores(q, k, mask)
        one_hot = torch.zeros_like(scores).scatter(-1, _best(scores, allowed), 1)
        if allowed is not None:
            one_hot = one_hot.masked_fill(~allowed, 0)
        if not scores.requires_grad:
            return one_hot
        soft = masked_softmax(scores, allowed)
        return one_hot + (soft - soft.detach())

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        scores, allowed = self._scores(q, k, mask)
        if scores.requires_grad or k.shape[2] == 0:
            return self.weights(q, k, mask) @ repeat_heads(v, self.heads)
        best = _best(scores, allowed).expand(-1, -1, -1, v.shape[3])  # (B, H, T, M)
        out = repeat_heads(v, self.heads).gather(2, best)
        return out if allowed is None else out.masked_fill(~allowed.any(-1, keepdim=True), 0)

    def _scores(self, q: Tensor, k: Tensor, mask: Mask) -> tuple[Tensor, Tensor | None]:
        return scaled_scores(q, k, self.beta), mask.allowed(q.shape[2], k.shape[2], q.device)


def _best(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """(B, H, T, 1): the first allowed key of the largest score."""
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    return scores.argmax(-1, keepdim=True)
