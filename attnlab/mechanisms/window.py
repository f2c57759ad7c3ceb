"""Sliding-window attention: softmax over the nearest keys.

Letters: B batch, H heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from attnlab.checks import check_read, check_size
from attnlab.mask import Mask
from attnlab.mechanism import Card, Mechanism, repeat_heads
from attnlab.mechanisms.blocks import attend_blocks, collect, spread
from attnlab.mechanisms.softmax import (
    Beta,
    Dropout,
    attend,
    inverse_temperature,
    masked_softmax,
    share,
)
from attnlab.state import KeyValues, State

SMALLEST_BLOCK = 32  # a narrower window still computes blocks of this size: tiny products are slow


class Window(Mechanism):
    """Query i looks at key j if |i - j| < window (causal: i - window < j <= i)."""

    name = "window"
    card = Card(
        summary="softmax over the nearest keys, computed in blocks",
        paper="Beltagy et al. 2020 (Longformer)",
        arxiv="2004.05150",
        time="N W D",
        memory="N W",
        cross=False,
        constant_state=True,
    )
    trials = ({"window": 1}, {"window": 3}, {"window": 40})

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        window: Annotated[int, "keys in sight on each side, the query's own included"] = 128,
        beta: Beta = None,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        check_size(self, window=window)
        self.window = window
        self.beta = inverse_temperature(self, beta)
        self.dropout = share(self, dropout)

    def near(self, causal: bool, query_at: Tensor, key_at: Tensor) -> Tensor:
        """The definition's rule, on positions that broadcast."""
        distance = query_at - key_at
        return (distance < self.window) & (distance > (-1 if causal else -self.window))

    def weights(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        scores = self.beta * (q @ repeat_heads(k, self.heads).mT)  # (B, H, T, S)
        position = mask.positions(q.shape[2], q.device)[:, None, :, None]  # (B or 1, 1, T, 1)
        near = self.near(mask.causal, position, torch.arange(k.shape[2], device=q.device))
        real = mask.allowed(q.shape[2], k.shape[2], q.device)
        return masked_softmax(scores, near if real is None else near & real)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        q, k, v = self.prepare(q, k, v, mask)
        T, S = q.shape[2], k.shape[2]
        block = max(self.window, SMALLEST_BLOCK)
        own = torch.arange(-(-S // block), device=q.device)[:, None]  # (Q, 1)
        side = min(1, len(own) - 1)  # blocks to each side that the window can reach
        reach = torch.arange(-side, 1 if mask.causal else side + 1, device=q.device)
        table = own + reach  # (Q, 1 to 3)
        table = table.masked_fill(table >= len(own), -1)
        rule = partial(self.near, mask.causal)
        dropout = self.dropout if self.training else 0.0
        spread_q = spread(q, S, mask)
        out = attend_blocks(spread_q, k, v, mask.keys, table, rule, block, self.beta, dropout)
        return collect(out, T, mask)

    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        k, v = self.prepare_memory(k, v, keys, state)
        known = KeyValues.empty(k, v) if state is None else self.own(state, KeyValues)
        return known.append(k, v, keys, keep=self.window - 1)

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        check_read(self, q, state, start)
        known = self.own(state, KeyValues)
        query_at = Mask(start=start).positions(q.shape[2], q.device)[:, None, :, None]
        key_at = torch.arange(known.first, known.first + known.slots, device=q.device)
        allowed = self.near(False, query_at, key_at)  # (B or 1, 1, T, S)
        if known.keys is not None:
            allowed = allowed & known.keys[:, None, None, :]
        dropout = self.dropout if self.training else 0.0
        return attend(q, known.k, known.v, allowed, self.beta, dropout)
