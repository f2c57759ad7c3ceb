"""Linformer: keys and values projected along the sequence to a few rows, then softmax.

Letters: B batch, H query heads, G key heads, T queries, S keys, N max_length, R rank, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from attnlab._argument_checks import check_read, check_size
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, Mechanism, full_precision, repeat_heads
from attnlab.mechanisms.softmax import Beta, attend, inverse_temperature
from attnlab.state import State, advance


@dataclass(frozen=True, eq=False)
class ProjectedState(State):
    """The projections so far: sums over positions, constant size, float32 or better."""

    k: Tensor  # (B, G, R, D)
    v: Tensor  # (B, G, R, M)


class Linformer(Mechanism):
    """weights = softmax(beta q (E k)^T) F with learned E and F (R, N), shared by the heads."""

    name = "linformer"
    card = Card(
        summary="softmax over learned projections of keys and values along the sequence",
        paper="Wang et al. 2020",
        arxiv="2006.04768",
        time="N R D",
        memory="N R",
        causal=False,
        constant_state=True,
        rows_sum_to_one=False,
        signed=True,
        learned=True,
        needs_length=True,
        packs=False,
    )
    trials = ({"rank": 5},)
    size_option = "rank"

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        rank: Annotated[int, "Number of rows that keys and values are projected to."] = 64,
        beta: Beta = None,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        check_size(self, rank=rank)
        assert max_length is not None
        self.beta = inverse_temperature(self, beta)
        # N(0, 1/N): a projected key then has about the norm of a key
        self.key_projection = nn.Parameter(torch.randn(rank, max_length) * max_length**-0.5)
        self.value_projection = nn.Parameter(torch.randn(rank, max_length) * max_length**-0.5)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        S = k.shape[2]
        projected = repeat_heads(self.key_projection[:, :S].to(k.dtype) @ k, self.heads)
        to_rows = (self.beta * (q @ projected.mT)).softmax(-1)  # (B, H, T, R)
        weights = to_rows @ self.value_projection[:, :S].to(q.dtype)  # (B, H, T, S)
        return weights if mask.keys is None else weights * mask.keys[:, None, None, :]

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        del mask  # padding is already zero and adds nothing to a projection
        return self._read(q, *self._project(k, v, 0))

    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        k, v = self.prepare_memory(k, v, keys, state)
        counts, origin = advance(state, k.shape[2], keys), self.origin(k, v)
        if state is None:
            k_rows, v_rows = self._project(k, v, 0)
            return ProjectedState(origin, **counts, k=k_rows, v=v_rows)
        old = self.as_own_state(state, ProjectedState)
        k_rows, v_rows = self._project(k, v, old.length)
        return ProjectedState(origin, **counts, k=old.k + k_rows, v=old.v + v_rows)

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        check_read(self, q, state, start)
        own = self.as_own_state(state, ProjectedState)
        return self._read(q, own.k, own.v)

    @full_precision
    def _project(self, k: Tensor, v: Tensor, start: int | Tensor) -> tuple[Tensor, Tensor]:
        """Project k and v, whose positions begin at `start`, with their columns of E and F."""
        dtype = torch.promote_types(k.dtype, torch.float32)
        columns = Mask(start=start).positions(k.shape[2], k.device)  # (B or 1, S)

        def project(projection: Tensor, x: Tensor) -> Tensor:
            matrix = projection.to(dtype)[:, columns].transpose(0, 1)  # (B or 1, R, S)
            return matrix[:, None] @ x.to(dtype)  # (B, G, R, D)

        return project(self.key_projection, k), project(self.value_projection, v)

    @classmethod
    def short_options(cls, tokens: int) -> dict[str, Any]:
        return {"rank": -(-tokens // 4)}

    def _read(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k.to(q.dtype), v.to(q.dtype), None, self.beta)
