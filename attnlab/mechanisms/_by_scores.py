"""Mechanisms whose weights are a function of each query's scores.

Letters: B batch, H query heads, T queries, S keys.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Mechanism, full_precision
from attnlab.mechanisms.softmax import Beta, inverse_temperature, recompute, scaled_scores

BLOCK = 256  # queries at once


class ByScores(Mechanism):
    """Subclasses define `normalize`."""

    by_scores = True
    trials = ({}, {"beta": 2.5})

    def __init__(
        self, *, head_dim: int, heads: int, max_length: int | None = None, beta: Beta = None
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        self.beta = inverse_temperature(self, beta)

    @abstractmethod
    def normalize(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """The weights of scores (B, H, T, S) where allowed (B or 1, 1, T or 1, S); 0 elsewhere."""

    @full_precision
    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        allowed = mask.allowed(q.shape[2], k.shape[2], q.device)
        if allowed is None:
            allowed = torch.ones(1, 1, 1, k.shape[2], dtype=torch.bool, device=q.device)
        if k.shape[2] == 0:
            return q.new_zeros(*q.shape[:3], 0)
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = scaled_scores(q.to(wide), k.to(wide), self.beta)
        return self.normalize(scores, allowed).to(q.dtype)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """Block by block: memory for some queries only, and no work on later keys."""
        T = q.shape[2]
        if T <= BLOCK:
            return self._apply_weights(q, k, v, mask, {})
        outs, attend = [], recompute(self._apply_weights)
        for first in range(0, T, BLOCK):
            last, S = min(first + BLOCK, T), k.shape[2]
            if mask.causal and not isinstance(mask.start, Tensor):
                S = max(0, min(S, mask.start + last))
            keys = None if mask.keys is None else mask.keys[:, :S]
            part = Mask(mask.causal, keys, mask.start + first)
            outs.append(attend(q[:, :, first:last], k[:, :, :S], v[:, :, :S], part, {}))
        return torch.cat(outs, dim=2)
