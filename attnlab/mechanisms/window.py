"""Sliding-window attention: softmax over the nearest keys.

Letters: B batch, H heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from attnlab._argument_checks import check_read, check_size
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, Mechanism
from attnlab.mechanisms._block_sparse import (
    WindowMask,
    attend_blocks,
    gather_outputs,
    scatter_queries,
)
from attnlab.mechanisms.softmax import (
    Beta,
    Dropout,
    attend,
    attend_dense,
    dropout_rate,
    inverse_temperature,
    masked_softmax,
    scaled_scores,
)
from attnlab.state import KeyValues, State

SMALLEST_BLOCK = 32  # narrower windows use blocks of this size too: tiny products are slow


class Window(Mechanism):
    """Query i attends to key j if |i - j| < window (causal: i - window < j <= i)."""

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
    compilable = True
    trials = ({"window": 1}, {"window": 3}, {"window": 40})
    size_option = "window"
    shift_invariant = True

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        window: Annotated[
            int, "Number of visible keys on each side, including the query's own."
        ] = 128,
        beta: Beta = None,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        check_size(self, window=window)
        self.window = window
        self.beta = inverse_temperature(self, beta)
        self.dropout = dropout_rate(self, dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        position = mask.positions(q.shape[2], q.device)[:, None, :, None]  # (B or 1, 1, T, 1)
        near = WindowMask(mask.causal, self.window).allows(
            position, torch.arange(k.shape[2], device=q.device)
        )
        real = mask.allowed(q.shape[2], k.shape[2], q.device)
        allowed = near if real is None else near & real
        return masked_softmax(scaled_scores(q, k, self.beta), allowed)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        T, S = q.shape[2], k.shape[2]
        block = max(min(self.window, S), SMALLEST_BLOCK)
        own = torch.arange(-(-S // block), device=q.device)[:, None]  # (Q, 1)
        neighbors = min(1, max(0, len(own) - 1))  # blocks in each direction within the window
        offsets = torch.arange(-neighbors, 1 if mask.causal else neighbors + 1, device=q.device)
        table = own + offsets  # (Q, 1 to 3)
        table = table.masked_fill(table >= len(own), -1)
        allowed = WindowMask(mask.causal, self.window, self.use_compiled)
        dropout = self.dropout if self.training else 0.0
        placed = scatter_queries(q, S, mask)
        out = attend_blocks(placed, k, v, mask.keys, table, allowed, block, self.beta, dropout)
        return gather_outputs(out, T, mask)

    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        k, v = self.prepare_memory(k, v, keys, state)
        return self.state_to_extend(k, v, state).append(k, v, keys, keep=self.window - 1)

    def signature(self) -> tuple[Any, ...]:
        return (*super().signature(), self.window)

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        check_read(self, q, state, start)
        own = self.as_own_state(state, KeyValues)
        T = q.shape[2]
        if own.recent < T:
            raise ValueError(
                f"window: read got {T} queries, but the last absorb had {own.recent} tokens; give "
                "only queries for those tokens, because older keys were dropped"
            )
        k, v, keys = own.tensors_to_read()
        query_position = Mask(start=start).positions(T, q.device)[
            :, None, :, None
        ]  # (B or 1, 1, T, 1)
        key_position = torch.arange(own.first, own.first + own.slots, device=q.device)
        allowed = WindowMask(False, self.window).allows(
            query_position, key_position
        )  # (B or 1, 1, T, S)
        if keys is not None:
            allowed = allowed & keys[:, None, None, :]
        return attend(q, k, v, allowed, self.beta, self.dropout if self.training else 0.0)

    def attend_dense(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, start: int | Tensor, dropout: float
    ) -> Tensor:
        query_position = Mask(start=start).positions(q.shape[2], q.device)[:, None, :, None]
        key_position = torch.arange(k.shape[2], device=q.device)
        near = WindowMask(False, self.window).allows(
            query_position, key_position
        )  # (B or 1, 1, T, S)
        return attend_dense(q, k, v, allowed & near, self.beta, dropout)

    def visible_keys(self, tokens: int, causal: bool) -> int:
        return min(tokens, self.window if causal else 2 * self.window - 1)

    def covers_all(self, tokens: int, causal: bool) -> bool:
        del causal
        return self.window >= tokens

    @classmethod
    def short_options(cls, tokens: int) -> dict[str, Any]:
        return {"window": -(-tokens // 8)}
