"""Synthesizers: attention that never compares a query with a key.

Letters: B batch, H heads, T queries, S keys, N max_length, R rank, D head size.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab._argument_checks import check_size
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, Mechanism, repeat_heads
from attnlab.mechanisms.softmax import (
    Dropout,
    attend_masked,
    dropout_rate,
    fast_dropout,
    masked_softmax,
)

SMALL = 0.001  # tables start near zero, so that every key gets about the same weight


class SynthesizerBase(Mechanism):
    """Softmax over scores that do not depend on the keys, only on their positions."""

    def __init__(
        self, *, head_dim: int, heads: int, max_length: int | None, dropout: float
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        self.dropout = dropout_rate(self, dropout)

    @abstractmethod
    def scores(self, q: Tensor, position: Tensor, S: int) -> Tensor:
        """(B or 1, H, T, S) for queries at `position` (B or 1, T)."""

    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        (B, H, T, _), S = q.shape, k.shape[2]
        scores = self.scores(q, mask.positions(T, q.device), S).expand(B, H, T, S)
        return masked_softmax(scores.to(q.dtype), mask.allowed(T, S, q.device))

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        weights = fast_dropout(self.weights(q, k, mask), self.dropout if self.training else 0.0)
        return weights @ repeat_heads(v, self.heads)

    def _attend(self, query: Tensor, column: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """Softmax attention, for scores that are a product of two thin matrices."""
        dropout = self.dropout if self.training else 0.0
        return attend_masked(query, column, v, mask, 1.0, dropout)


class Synthesizer(SynthesizerBase):
    """Dense: scores = relu(q) @ table + bias, one table for all heads."""

    name = "synthesizer"
    card = Card(
        summary="dense synthesizer: scores from the query alone, relu(q) @ table + bias",
        paper="Tay et al. 2021",
        arxiv="2005.00743",
        time="N^2 D",
        memory="N",
        learned=True,
        needs_length=True,
        uses_key=False,
    )

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length, dropout=dropout)
        assert max_length is not None
        self.table = nn.Parameter(torch.empty(head_dim, max_length).uniform_(-SMALL, SMALL))
        self.bias = nn.Parameter(torch.zeros(max_length))

    def scores(self, q: Tensor, position: Tensor, S: int) -> Tensor:
        del position
        return q.relu() @ self.table[:, :S].to(q.dtype) + self.bias[:S].to(q.dtype)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """Softmax attention whose keys are the columns of the table."""
        query = F.pad(q.relu(), (0, 1), value=1.0)  # (B, H, T, D+1): the 1 multiplies the bias
        column = torch.cat([self.table, self.bias[None]])[:, : k.shape[2]].to(q.dtype)
        column = column.T.contiguous()  # (S, D+1); the fused kernel needs contiguous rows
        return self._attend(query, column.expand(*v.shape[:2], -1, -1), v, mask)


class PositionTable(SynthesizerBase):
    """A table with a row for each query position. A query beyond the table is an error."""

    def check_rows(self, position: Tensor) -> Tensor:
        limit = self.max_length
        assert limit is not None
        if torch.compiler.is_compiling():  # values are unknown
            return position
        if position.numel() and not 0 <= int(position.min()) <= int(position.max()) < limit:
            raise ValueError(
                f"{self.name}: queries at positions {int(position.min())} to "
                f"{int(position.max())} exceed max_length={limit}; "
                "shorten the input or create the mechanism with a larger max_length"
            )
        return position


class SynthesizerRandom(PositionTable):
    """A learned table of scores for each head, independent of the input."""

    name = "synthesizer_random"
    card = replace(
        Synthesizer.card,
        summary="random synthesizer: a learned table of scores per head, no input at all",
        memory="N^2",
        uses_query=False,
    )

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length, dropout=dropout)
        assert max_length is not None
        table = torch.empty(heads, max_length, max_length)
        self.table = nn.Parameter(table.uniform_(-SMALL, SMALL))

    def scores(self, q: Tensor, position: Tensor, S: int) -> Tensor:
        del q
        return self.table[:, self.check_rows(position), :S].transpose(0, 1)  # (B or 1, H, T, S)


class SynthesizerFactorized(PositionTable):
    """The random synthesizer's table as a product of two thin ones."""

    name = "synthesizer_factorized"
    card = replace(
        SynthesizerRandom.card,
        summary="factorized random synthesizer: that table as a product of two thin ones",
        time="N^2 (D+R)",
        memory="N",
    )
    trials = ({"rank": 3},)

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        rank: Annotated[int, "Rank of the table of scores: the width of its two factors."] = 8,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length, dropout=dropout)
        check_size(self, rank=rank)
        assert max_length is not None
        small = SMALL**0.5
        self.rows = nn.Parameter(torch.empty(heads, max_length, rank).uniform_(-small, small))
        self.columns = nn.Parameter(torch.empty(heads, max_length, rank).uniform_(-small, small))

    def scores(self, q: Tensor, position: Tensor, S: int) -> Tensor:
        del q
        return self._rows(position) @ self.columns[:, :S].mT  # (B or 1, H, T, S)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """Softmax attention between the two tables."""
        query = self._rows(mask.positions(q.shape[2], q.device)).to(v.dtype)
        column = self.columns[:, : k.shape[2]].to(v.dtype)
        query, column = (x.expand(len(v), -1, -1, -1) for x in (query, column))
        return self._attend(query, column, repeat_heads(v, self.heads), mask)

    def _rows(self, position: Tensor) -> Tensor:
        return self.rows[:, self.check_rows(position)].transpose(0, 1)  # (B or 1, H, T, R)
