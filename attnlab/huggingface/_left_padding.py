"""Turns left padding into right padding, for mechanisms that depend on positions.

A row with left padding starts at a later position, so the blocks of BigBird would lie differently
than without padding. Each row is rotated so that its first token is at position 0.

Letters: B batch, H heads, T queries, S keys, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.mask import Mask


class RightPadded:
    """Queries, keys and values without left padding."""

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> None:
        self.q, self.k, self.v, self.mask = q, k, v, mask
        self.lead: Tensor | None = None  # (B,) padding tokens before each row's first token
        self.has_all_queries = q.shape[2] == k.shape[2]
        if mask.keys is None:
            return
        lead = mask.keys.int().argmax(1)  # 0 for a row that is all padding
        if not bool(lead.any()):
            return
        self.lead = lead
        keys = _rotate(mask.keys[:, None, :, None], lead)[:, 0, :, 0]
        self.k, self.v = _rotate(k, lead), _rotate(v, lead)
        if self.has_all_queries:  # rotate queries with their keys
            self.q, self.mask = _rotate(q, lead), Mask(mask.causal, keys, mask.start)
            return
        start = torch.as_tensor(mask.start, device=lead.device) - lead
        if bool((start < 0).any()):
            raise ValueError(
                "the first part of the prompt has a row of padding only, so positions in that row "
                "are unknown; give the whole prompt at once"
            )
        self.mask = Mask(mask.causal, keys, start)

    def restore(self, out: Tensor) -> Tensor:
        """(B, H, T, M): each query's output back at its original position."""
        if self.lead is None or not self.has_all_queries:
            return out
        return _rotate(out, -self.lead)

    def restore_weights(self, weights: Tensor) -> Tensor:
        """(B, H, T, S): queries and keys back at their original positions."""
        weights = self.restore(weights)
        return weights if self.lead is None else _rotate(weights.mT, -self.lead).mT


def _rotate(x: Tensor, by: Tensor) -> Tensor:
    """(B, H, S, D): rotate row b to the left by `by[b]` (B,) positions."""
    S = x.shape[2]
    index = (torch.arange(S, device=x.device) + by[:, None]) % S  # (B, S)
    return x.gather(2, index[:, None, :, None].expand_as(x))
