"""Latent attention: all heads share one short key, from which each makes its own keys and values.

Letters: B batch, H heads, T tokens, D head size, R size of the latent key, E rotary size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnlab.position import RotaryPositions


class LatentKeys(nn.Module):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434), with folded projections.

    A token has one latent key c (R). Head h has the keys U_h c and the values V_h c. Neither is
    computed: q.(U_h c) = (U_h^T q).c, and a weighted sum of V_h c is V_h times that of c. So the
    mechanism sees one key head, which is also the value, and a state holds it once.

    Rotary positions would stand between q and U_h, so they have E extra numbers of their own.
    """

    def __init__(self, heads: int, head_dim: int, rank: int, rotary: RotaryPositions | None):
        super().__init__()
        self.head_dim, self.rank = head_dim, rank
        self.rotary = None if rotary is None else rotary.resized(max(2, head_dim // 4 * 2))
        self.rotary_dim = 0 if self.rotary is None else self.rotary.head_dim
        self.norm = nn.RMSNorm(rank)
        self.to_keys = nn.Parameter(0.02 * torch.randn(heads, head_dim, rank))
        self.to_values = nn.Parameter(0.02 * torch.randn(heads, rank, head_dim))

    @property
    def query_dim(self) -> int:
        """D + E, which the scores are scaled by, as if the heads had their own keys."""
        return self.head_dim + self.rotary_dim

    @property
    def key_dim(self) -> int:
        return self.rank + self.rotary_dim

    def queries(self, q: Tensor, position: Tensor | slice) -> Tensor:
        """(B, H, T, D + E) -> (B, H, T, R + E)"""
        content, rotated = q.split([self.head_dim, self.rotary_dim], dim=-1)
        folded = content @ self.to_keys.to(q.dtype)  # (B, H, T, R)
        return torch.cat([folded, self._rotate(rotated, position)], dim=-1)

    def keys(self, k: Tensor, position: Tensor | slice) -> Tensor:
        """(B, 1, T, R + E), normalized and rotated."""
        content, rotated = k.split([self.rank, self.rotary_dim], dim=-1)
        return torch.cat([self.norm(content), self._rotate(rotated, position)], dim=-1)

    def outputs(self, out: Tensor) -> Tensor:
        """(B, H, T, R + E) -> (B, H, T, D)"""
        return out[..., : self.rank] @ self.to_values.to(out.dtype)

    def _rotate(self, x: Tensor, position: Tensor | slice) -> Tensor:
        return x if self.rotary is None else self.rotary(x, position)
