"""Sliding-window attention: softmax over the nearest keys.

Letters: B batch, H heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor

from attnlab._argument_checks import all_finite, check_read, check_size
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, Mechanism, needs_definition_gradients
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
    """Query i attends to key j if |i - j| < window or j < sinks (causal: never to later keys)."""

    name = "window"
    by_scores = True
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
    trials = (
        {"window": 1},
        {"window": 3},
        {"window": 40},
        {"window": 1, "sinks": 5},
        {"window": 3, "sinks": 2},
    )
    size_option = "window"

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        window: Annotated[
            int, "Number of visible keys on each side, including the query's own."
        ] = 128,
        sinks: Annotated[
            int, "Number of first tokens that stay visible beyond the window, at their positions."
        ] = 0,
        beta: Beta = None,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        check_size(self, window=window)
        check_size(self, least=0, sinks=sinks)
        self.window, self.sinks = window, sinks
        self.shift_invariant = sinks == 0
        self.beta = inverse_temperature(self, beta)
        self.dropout = dropout_rate(self, dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        position = mask.positions(q.shape[2], q.device)[:, None, :, None]  # (B or 1, 1, T, 1)
        visible = self._visible(position, torch.arange(k.shape[2], device=q.device), mask.causal)
        real = mask.allowed(q.shape[2], k.shape[2], q.device)
        allowed = visible if real is None else visible & real
        return masked_softmax(scaled_scores(q, k, self.beta), allowed)

    def attend_packed(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        """All documents at once. Sinks are different for each, so they need one call each; so do
        infinity and NaN, which times 0 would reach the next document."""
        if self.sinks or needs_definition_gradients() or not all_finite(k, v):
            return super().attend_packed(q, k, v, mask, **gates)
        return self.compute(q, k, v, mask)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        T, S = q.shape[2], k.shape[2]
        block = max(min(self.window, S), SMALLEST_BLOCK)
        table = self._table(S, block, mask.causal).to(q.device)
        allowed = WindowMask(mask.causal, self.window, self.use_compiled, self.sinks)
        dropout = self.dropout if self.training else 0.0
        bounds = None if mask.segments is None else mask.document_bounds
        placed = scatter_queries(q, S, mask)
        out = attend_blocks(
            placed, k, v, mask.keys, table, allowed, block, self.beta, dropout, bounds
        )
        return gather_outputs(out, T, mask.row)

    def _table(self, S: int, block: int, causal: bool) -> Tensor:
        """(Q, W): the key blocks that each query block attends to, -1 for an empty entry."""
        own = torch.arange(-(-S // block))[:, None]  # (Q, 1)
        neighbors = min(1, max(0, len(own) - 1))  # blocks in each direction within the window
        near = own + torch.arange(-neighbors, 1 if causal else neighbors + 1)  # (Q, 1 to 3)
        near = near.masked_fill(near >= len(own), -1)
        if not self.sinks:
            return near
        first = torch.arange(-(-min(self.sinks, S) // block))
        listed = first >= own - neighbors if causal else (first - own).abs() <= neighbors
        return torch.cat([torch.where(listed, -1, first), near], dim=1)

    def _visible(self, query_position: Tensor, key_position: Tensor, causal: bool) -> Tensor:
        """Where a query may attend to a key; the positions broadcast."""
        mask = WindowMask(causal, self.window, sinks=self.sinks)
        return mask.allows(query_position, key_position)

    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        k, v = self.prepare_memory(k, v, keys, state)
        return self.state_to_extend(k, v, state).append(
            k, v, keys, keep=self.window - 1, pinned=self.sinks
        )

    def signature(self) -> tuple[Any, ...]:
        return (*super().signature(), self.window, self.sinks)

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
        position = Mask(start=start).positions(T, q.device)[:, None, :, None]  # (B or 1, 1, T, 1)
        allowed = self._visible(position, own.positions, False)
        if keys is not None:
            allowed = allowed & keys[:, None, None, :]
        return attend(q, k, v, allowed, self.beta, self.dropout if self.training else 0.0)

    def attend_dense(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, start: int | Tensor, dropout: float
    ) -> Tensor:
        position = Mask(start=start).positions(q.shape[2], q.device)[:, None, :, None]
        visible = self._visible(position, torch.arange(k.shape[2], device=q.device), False)
        return attend_dense(q, k, v, allowed & visible, self.beta, dropout)

    def visible_keys(self, tokens: int, causal: bool) -> int:
        near = self.window if causal else 2 * self.window - 1
        return min(tokens, near + self.sinks)

    def covers_all(self, tokens: int, causal: bool) -> bool:
        most = self.window + self.sinks if causal else max(self.window, self.sinks)
        return most >= tokens

    @classmethod
    def short_options(cls, tokens: int) -> dict[str, Any]:
        return {"window": -(-tokens // 8)}
