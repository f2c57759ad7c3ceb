"""Left padding made right padding, for mechanisms that count positions.

A row that is padded on the left begins somewhere in its batch; blocks of BigBird would then begin
elsewhere than if it were alone. Each row is turned so that its first token stands at 0.

Letters: B batch, H heads, T queries, S keys, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.mask import Mask


class Rolled:
    """Queries, keys and values as if no row had padding on its left."""

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> None:
        self.q, self.k, self.v, self.mask = q, k, v, mask
        self.lead: Tensor | None = None  # (B,) tokens of padding before each row's first
        self.whole = q.shape[2] == k.shape[2]
        if mask.keys is None:
            return
        lead = mask.keys.int().argmax(1)  # 0 for a row that is all padding
        if not bool(lead.any()):
            return
        self.lead = lead
        keys = _turned(mask.keys[:, None, :, None], lead)[:, 0, :, 0]
        self.k, self.v = _turned(k, lead), _turned(v, lead)
        if self.whole:  # queries turn with their keys
            self.q, self.mask = _turned(q, lead), Mask(mask.causal, keys, mask.start)
            return
        start = torch.as_tensor(mask.start, device=lead.device) - lead
        if bool((start < 0).any()):
            raise ValueError(
                "a prompt in parts, of which the first has a row of nothing but padding: positions "
                "in such a row are unknown; give the prompt at once"
            )
        self.mask = Mask(mask.causal, keys, start)

    def back(self, out: Tensor) -> Tensor:
        """(B, H, T, M), each query's output at its own place again."""
        return _turned(out, -self.lead) if self.lead is not None and self.whole else out

    def back_weights(self, weights: Tensor) -> Tensor:
        """(B, H, T, S)"""
        weights = self.back(weights)
        return weights if self.lead is None else _turned(weights.mT, -self.lead).mT


def _turned(x: Tensor, by: Tensor) -> Tensor:
    """(B, H, S, D): row b begins with its number `by[b]` (B,), and what was before is at the end"""
    S = x.shape[2]
    at = (torch.arange(S, device=x.device) + by[:, None]) % S  # (B, S)
    return x.gather(2, at[:, None, :, None].expand_as(x))
