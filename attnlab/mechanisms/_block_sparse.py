"""Block-sparse softmax: each block of queries looks at a few blocks of keys, at linear cost.

Letters: B batch, H query heads, T queries, S keys, D head size, M value size;
L block size, Q query blocks, W key blocks that a query block looks at.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.mask import Mask
from attnlab.mechanism import repeat_heads
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms.softmax import attend


@dataclass(frozen=True)
class Reach:
    """Which keys of the blocks in sight a query may look at."""

    causal: bool
    window: int | None = None
    """Keys at most window - 1 steps away; None: any."""
    compiled: bool = True
    """False: computed in PyTorch alone, to compare."""

    def allows(self, query_at: Tensor, key_at: Tensor) -> Tensor:
        """On positions that broadcast."""
        distance = query_at - key_at
        least = 0 if self.causal else None if self.window is None else 1 - self.window
        allowed = (
            torch.ones_like(distance, dtype=torch.bool) if least is None else distance >= least
        )
        return allowed if self.window is None else allowed & (distance < self.window)


def attend_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor | None,
    table: Tensor,
    reach: Reach,
    block: int,
    beta: float,
    dropout: float,
) -> Tensor:
    """q, k, v of one length, starting at position 0; `table` (Q, W) names the key blocks of each
    query block, -1 for none and no block twice; `reach` then decides token by token."""
    B, H, S, _ = q.shape
    if S == 0:
        return q.new_zeros(B, H, 0, v.shape[3])
    Q, W = table.shape
    k, v = repeat_heads(k, H), repeat_heads(v, H)
    if reach.compiled and not dropout and compiled.serves(q) and q.dtype == k.dtype == v.dtype:
        return compiled.attend_blocks(
            q, k, v, keys, table, block, reach.causal, reach.window or 0, beta
        )
    steps = torch.arange(block, device=q.device)
    query_at = torch.arange(Q, device=q.device)[:, None] * block + steps  # (Q, L)
    key_at = (table[..., None] * block + steps).view(Q, W * block)  # (Q, W*L)
    real = (key_at >= 0) & (key_at < S)
    allowed = (
        reach.allows(query_at[:, :, None], key_at[:, None, :]) & real[:, None, :]
    )  # (Q, L, W*L)
    allowed = allowed[None].expand(B if keys is not None else 1, -1, -1, -1)
    if keys is not None:
        allowed = allowed & keys[:, key_at.clamp(0, S - 1)][:, :, None, :]  # (B, Q, L, W*L)
    elif B > 1:
        allowed = allowed.expand(B, -1, -1, -1)
    picks = table.clamp(min=0).flatten()

    def cut(x: Tensor) -> Tensor:
        """(B, H, S, D) -> (B, Q, L, H, D)"""
        x = F.pad(x, (0, 0, 0, Q * block - S)).transpose(1, 2)
        return x.reshape(B, Q, block, H, x.shape[-1])

    def gather(x: Tensor) -> Tensor:
        """(B, H, S, D) -> (B*Q, H, W*L, D)"""
        x = cut(x).index_select(1, picks)  # (B, Q*W, L, H, D)
        return x.view(B * Q, W * block, H, x.shape[-1]).transpose(1, 2)

    out = attend(
        cut(q).flatten(0, 1).transpose(1, 2),  # (B*Q, H, L, D)
        gather(k),
        gather(v),
        allowed.flatten(0, 1)[:, None],  # (B*Q, 1, L, W*L)
        beta,
        dropout,
    )  # (B*Q, H, L, M)
    out = out.transpose(1, 2).reshape(B, Q * block, H, v.shape[-1])[:, :S]
    return out.transpose(1, 2)  # (B, H, S, M)


def spread(q: Tensor, S: int, mask: Mask) -> Tensor:
    """Queries (B, H, T, D) laid out over all S positions, zeros where there is none."""
    if mask.from_zero and q.shape[2] == S:
        return q
    T = q.shape[2]
    if T == 0:
        return q.new_zeros(len(q), q.shape[1], S, q.shape[3])
    start = mask.positions(1, q.device)  # (B or 1, 1)
    source = torch.arange(S, device=q.device) - start  # (B or 1, S)
    here = ((source >= 0) & (source < T))[:, None, :, None]
    source = source.clamp(0, T - 1)[:, None, :, None].expand(len(q), q.shape[1], S, q.shape[3])
    return q.gather(2, source).masked_fill(~here, 0)


def collect(out: Tensor, T: int, mask: Mask) -> Tensor:
    """The inverse of `spread`: the outputs (B, H, T, M) at the queries' own positions."""
    if mask.from_zero and out.shape[2] == T:
        return out
    B, H, S, M = out.shape
    position = mask.positions(T, out.device)  # (B or 1, T)
    inside = ((position >= 0) & (position < S))[:, None, :, None]
    if S == 0:
        return out.new_zeros(B, H, T, M)
    index = position.clamp(0, S - 1)[:, None, :, None].expand(B, H, T, M)
    return out.gather(2, index).masked_fill(~inside, 0)
