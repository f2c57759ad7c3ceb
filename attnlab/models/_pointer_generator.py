"""Copying: a word of the source may be written as it stands (a pointer-generator).

    p(w) = g softmax(logits)(w) + (1 - g) (sum of the weights on source tokens that are w)

The weights are those of a cross-attention of its own, the mean over its heads, whose keys see the
token before too; the gate g is learned. A mechanism whose weights can be negative makes no
probabilities, so it is refused.

Letters: B batch, S source tokens, T target tokens, W width, H heads, D head size, V vocabulary,
n targets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab._create_mechanism import create_attention
from attnlab.mask import Mask
from attnlab.models._stack import DecodingState


@dataclass(frozen=True, eq=False)
class CopyMemory:
    """The source as the copy head reads it."""

    k: Tensor  # (B, H, S, D)
    source: Tensor  # (B, S)
    keys: Tensor | None  # (B, S)
    first: Tensor  # (B, S) where each token stands first in its row

    def select(self, rows: Tensor) -> CopyMemory:
        keys = None if self.keys is None else self.keys[rows]
        return CopyMemory(self.k[rows], self.source[rows], keys, self.first[rows])


@dataclass(frozen=True, eq=False)
class CopyingState:
    """What a model that copies remembers while decoding."""

    decoder: DecodingState
    memory: CopyMemory

    def select(self, rows: Tensor) -> CopyingState:
        return CopyingState(self.decoder.select(rows), self.memory.select(rows))

    def overwritable(self) -> CopyingState:
        """Each step may write over what grows; the source stays as it is."""
        return CopyingState(self.decoder.overwritable(), self.memory)


class CopyKeys(nn.Module):
    """Each source token together with the one before it.

    After a part of a word was copied, its next part is then found by what stands before it; that
    would else take layers to learn.
    """

    def __init__(self, memory_width: int, width: int) -> None:
        super().__init__()
        self.here = nn.Linear(memory_width, width, bias=False)
        self.before = nn.Linear(memory_width, width, bias=False)

    def forward(self, memory: Tensor) -> Tensor:
        """(B, S, memory width) -> (B, S, W)"""
        return self.here(memory) + F.pad(self.before(memory[:, :-1]), (0, 0, 1, 0))


class CopyHead(nn.Module):
    """Where to copy from, and whether to."""

    def __init__(
        self, width: int, memory_width: int, heads: int, attention: str, length: int
    ) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        self.mechanism = create_attention(
            attention, head_dim=self.head_dim, heads=heads, max_length=length
        )
        card = self.mechanism.card
        if card.signed or not (card.cross and card.uses_query and card.uses_key):
            raise ValueError(
                f"copy: the weights of {attention} can be negative or ignore the text, so they are "
                "no probabilities; use cross-attention softmax, favor, elu or relu, or no copy head"
            )
        self.query = nn.Linear(width, width, bias=False)
        self.key = CopyKeys(memory_width, width)
        self.gate = nn.Linear(width, 1)

    def absorb(self, memory: Tensor, source: Tensor, keys: Tensor | None) -> CopyMemory:
        """The encoder's output (B, S, memory width) and its ids (B, S)."""
        same = source[:, None] == source[:, :, None]  # (B, S, S)
        return CopyMemory(self.split(self.key(memory)), source, keys, same.int().argmax(-1))

    def weights(self, x: Tensor, memory: CopyMemory) -> Tensor:
        """Where each of (B, T, W) would copy from: (B, T, S), zero for padding."""
        q = self.split(self.query(x))  # (B, H, T, D)
        return self.mechanism.weights(q, memory.k, Mask(keys=memory.keys)).mean(1)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, W) -> (B, H, T, D)"""
        return x.unflatten(2, (self.heads, self.head_dim)).transpose(1, 2)

    def shares(self, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of how much is written and how much copied, for (..., W): (...) each.

        Where the text has no weight at all (nothing but padding), all is written.
        """
        copied = F.logsigmoid(-self.gate(x)[..., 0])
        some = weights.detach().sum(-1) > 0
        written = F.logsigmoid(self.gate(x)[..., 0])
        return written.masked_fill(~some, 0), copied.masked_fill(~some, -math.inf)

    def mixed(self, x: Tensor, logits: Tensor, memory: CopyMemory) -> Tensor:
        """Log-probabilities of all tokens (B, T, V), after x (B, T, W) and its logits.

        Only those of source tokens are worked on, each where it stands first; the others are
        written or not at all.
        """
        weights = self.weights(x, memory)  # (B, T, S)
        written, copied = self.shares(x, weights)  # (B, T)
        first = memory.first[:, None].expand_as(weights)  # (B, T, S)
        sums = torch.zeros_like(weights).scatter_add(2, first, weights)  # (B, T, S) else 0
        own = logits.log_softmax(-1) + written[..., None]  # (B, T, V)
        places = memory.source[:, None].expand_as(weights)  # (B, T, S)
        alone = own.gather(2, places)  # (B, T, S)
        both = _add(alone, _log(sums.to(own.dtype)) + copied[..., None])  # (B, T, S)
        return own.scatter_add(2, places, both - alone)

    def mixed_at(self, x: Tensor, own: Tensor, memory: CopyMemory, labels: Tensor) -> Tensor:
        """Log-probabilities (n,) of the labels (B, T) that are not negative alone.

        `own` (n,) are those of being written. Equals `mixed`, without a table of the vocabulary.
        """
        counted = labels >= 0  # (B, T)
        weights = self.weights(x, memory)  # (B, T, S)
        same = memory.source[:, None] == labels[..., None]  # (B, T, S)
        sums = (weights * same).sum(-1)[counted]  # (n,)
        written, copied = self.shares(x[counted], weights[counted])  # (n,)
        return _add(own + written, _log(sums) + copied)


def _log(x: Tensor) -> Tensor:
    """log x, with a gradient of 0 where x is 0."""
    some = x > 0
    return torch.where(some, x, 1).log().masked_fill(~some, -math.inf)


def _add(one: Tensor, other: Tensor) -> Tensor:
    """log(exp(one) + exp(other)); `other` may be -inf."""
    return torch.where(other > -math.inf, torch.logaddexp(one, other), one)
