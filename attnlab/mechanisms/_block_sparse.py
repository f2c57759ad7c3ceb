"""Block-sparse softmax: each block of queries attends to a few blocks of keys, at linear cost.

Letters: B batch, H query heads, T queries, S keys, D head size, M value size;
L block size, Q query blocks, W key blocks that a query block attends to.
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
class WindowMask:
    """Which keys of its blocks a query may attend to."""

    causal: bool
    window: int | None = None
    """Only keys at most window - 1 positions away; None means any distance."""
    compiled: bool = True
    """Set it to False to compute in PyTorch, for comparison."""
    sinks: int = 0
    """The first keys are visible beyond the window too."""

    def allows(self, query_position: Tensor, key_position: Tensor) -> Tensor:
        """True where the query may attend to the key; the positions broadcast."""
        distance = query_position - key_position
        if self.window is None:
            return distance >= 0 if self.causal else torch.ones_like(distance, dtype=torch.bool)
        allowed = distance < self.window
        if not self.causal:
            allowed = allowed & (distance > -self.window)
        if self.sinks:
            allowed = allowed | (key_position < self.sinks)
        return allowed & (distance >= 0) if self.causal else allowed


def attend_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor | None,
    table: Tensor,
    window_mask: WindowMask,
    block: int,
    beta: float,
    dropout: float,
    bounds: Tensor | None = None,
) -> Tensor:
    """Attention of q, k, v of one length from position 0 on. `table` (Q, W) lists the key blocks of
    each query block, none twice, -1 for an empty entry. `window_mask` then decides per token, and
    `bounds` (B, S, 2), the first key of each query's document and the first after it."""
    B, H, S, _ = q.shape
    if S == 0:
        return q.new_zeros(B, H, 0, v.shape[3])
    Q, W = table.shape
    k, v = repeat_heads(k, H), repeat_heads(v, H)
    if (
        window_mask.compiled
        and not dropout
        and compiled.can_run(q)
        and q.dtype == k.dtype == v.dtype
    ):
        window = window_mask.window or 0
        options = (block, window_mask.causal, window, beta, window_mask.sinks)
        return compiled.attend_blocks(q, k, v, keys, table, *options, bounds)
    steps = torch.arange(block, device=q.device)
    query_position = torch.arange(Q, device=q.device)[:, None] * block + steps  # (Q, L)
    key_position = (table[..., None] * block + steps).view(Q, W * block)  # (Q, W*L)
    real = (key_position >= 0) & (key_position < S)
    allowed = (
        window_mask.allows(query_position[:, :, None], key_position[:, None, :]) & real[:, None, :]
    )  # (Q, L, W*L)
    allowed = allowed[None].expand(B if keys is not None else 1, -1, -1, -1)
    if keys is not None:
        allowed = allowed & keys[:, key_position.clamp(0, S - 1)][:, :, None, :]  # (B, Q, L, W*L)
    elif B > 1:
        allowed = allowed.expand(B, -1, -1, -1)
    if bounds is not None:
        first, last = F.pad(bounds, (0, 0, 0, Q * block - S)).view(B, Q, block, 1, 2).unbind(-1)
        keys_of_block = key_position[:, None, :]  # (Q, 1, W*L)
        allowed = allowed & (keys_of_block >= first) & (keys_of_block < last)
    blocks = table.clamp(min=0).flatten()

    def split_blocks(x: Tensor) -> Tensor:
        """(B, H, S, D) -> (B, Q, L, H, D)"""
        x = F.pad(x, (0, 0, 0, Q * block - S)).transpose(1, 2)
        return x.reshape(B, Q, block, H, x.shape[-1])

    def gather(x: Tensor) -> Tensor:
        """(B, H, S, D) -> (B*Q, H, W*L, D)"""
        x = split_blocks(x).index_select(1, blocks)  # (B, Q*W, L, H, D)
        return x.view(B * Q, W * block, H, x.shape[-1]).transpose(1, 2)

    out = attend(
        split_blocks(q).flatten(0, 1).transpose(1, 2),  # (B*Q, H, L, D)
        gather(k),
        gather(v),
        allowed.flatten(0, 1)[:, None],  # (B*Q, 1, L, W*L)
        beta,
        dropout,
    )  # (B*Q, H, L, M)
    out = out.transpose(1, 2).reshape(B, Q * block, H, v.shape[-1])[:, :S]
    return out.transpose(1, 2)  # (B, H, S, M)


def scatter_queries(q: Tensor, S: int, mask: Mask) -> Tensor:
    """Queries (B, H, T, D) placed at their positions among all S; zeros elsewhere."""
    if mask.from_zero and q.shape[2] == S:
        return q
    T = q.shape[2]
    if T == 0:
        return q.new_zeros(len(q), q.shape[1], S, q.shape[3])
    start = mask.positions(1, q.device)  # (B or 1, 1)
    source = torch.arange(S, device=q.device) - start  # (B or 1, S)
    present = ((source >= 0) & (source < T))[:, None, :, None]
    source = source.clamp(0, T - 1)[:, None, :, None].expand(len(q), q.shape[1], S, q.shape[3])
    return q.gather(2, source).masked_fill(~present, 0)


def gather_outputs(out: Tensor, T: int, mask: Mask) -> Tensor:
    """The inverse of `scatter_queries`: the outputs (B, H, T, M) at the queries' positions."""
    if mask.from_zero and out.shape[2] == T:
        return out
    B, H, S, M = out.shape
    position = mask.positions(T, out.device)  # (B or 1, T)
    inside = ((position >= 0) & (position < S))[:, None, :, None]
    if S == 0:
        return out.new_zeros(B, H, T, M)
    index = position.clamp(0, S - 1)[:, None, :, None].expand(B, H, T, M)
    return out.gather(2, index).masked_fill(~inside, 0)
