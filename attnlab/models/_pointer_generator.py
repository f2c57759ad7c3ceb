"""A pointer-generator: the decoder may copy tokens of the source.

    p(w) = g softmax(logits)(w) + (1 - g) (sum of the weights on source tokens that are w)

The weights come from a separate cross-attention, averaged over its heads, whose keys also see the
token before; the gate g is learned. A mechanism whose weights can be negative is refused, because
they would not be probabilities.

Letters: B batch, S source tokens, T target tokens, W width, H heads, D head size, V vocabulary,
n targets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab._create_mechanism import create_attention, split_layer_options
from attnlab.mask import Mask
from attnlab.models._stack import StackState


@dataclass(frozen=True, eq=False)
class CopyMemory:
    """The source as the copy head reads it."""

    k: Tensor  # (B, H, S, D)
    source: Tensor  # (B, S)
    keys: Tensor | None  # (B, S)
    first: Tensor  # (B, S) the position where each token first occurs in its row

    def select(self, rows: Tensor) -> CopyMemory:
        keys = None if self.keys is None else self.keys[rows]
        return CopyMemory(self.k[rows], self.source[rows], keys, self.first[rows])


@dataclass(frozen=True, eq=False)
class CopyingState:
    """The decoding state of a model with a copy head."""

    decoder: StackState
    memory: CopyMemory

    def select(self, rows: Tensor) -> CopyingState:
        return CopyingState(self.decoder.select(rows), self.memory.select(rows))

    def overwritable(self) -> CopyingState:
        """Each step may overwrite the growing part; the source stays unchanged."""
        return CopyingState(self.decoder.overwritable(), self.memory)


class CopyKeys(nn.Module):
    """Keys made from each source token and the one before it.

    After copying a part of a word, the model finds the next part by the token before it. Without
    this, that would take several layers to learn.
    """

    def __init__(self, memory_width: int, width: int) -> None:
        super().__init__()
        self.here = nn.Linear(memory_width, width, bias=False)
        self.before = nn.Linear(memory_width, width, bias=False)

    def forward(self, memory: Tensor) -> Tensor:
        """(B, S, memory width) -> (B, S, W)"""
        return self.here(memory) + F.pad(self.before(memory[:, :-1]), (0, 0, 1, 0))


class CopyHead(nn.Module):
    """Decides whether to copy, and from which source token."""

    def __init__(
        self, width: int, memory_width: int, heads: int, attention: str, length: int
    ) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        spec, _ = split_layer_options(attention, {}, False)
        self.mechanism = create_attention(
            spec, head_dim=self.head_dim, heads=heads, max_length=length
        )
        card = self.mechanism.card
        compares_tokens = card.cross and card.uses_query and card.uses_key
        if card.signed or not (card.rows_sum_to_one and compares_tokens) or self.mechanism.gates:
            raise ValueError(
                f"copy: weights of {attention} are not probabilities of the text's tokens; use "
                "cross-attention softmax, favor, elu or relu, or no copy head"
            )
        self.query = nn.Linear(width, width, bias=False)
        self.key = CopyKeys(memory_width, width)
        self.gate = nn.Linear(width, 1)

    def absorb(self, memory: Tensor, source: Tensor, keys: Tensor | None) -> CopyMemory:
        """The memory for the encoder's output (B, S, memory width) and its ids (B, S)."""
        same = source[:, None] == source[:, :, None]  # (B, S, S)
        return CopyMemory(self.split(self.key(memory)), source, keys, same.int().argmax(-1))

    def weights(self, x: Tensor, memory: CopyMemory) -> Tensor:
        """The probability of copying from each source token (B, T, S), for x (B, T, W)."""
        q = self.split(self.query(x))  # (B, H, T, D)
        return self.mechanism.weights(q, memory.k, Mask(keys=memory.keys)).mean(1)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, W) -> (B, H, T, D)"""
        return x.unflatten(2, (self.heads, self.head_dim)).transpose(1, 2)

    def gate_log_probabilities(self, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of generating and of copying, for x (..., W): (...) each.

        Where the source has no weight at all (only padding), everything is generated.
        """
        copied = F.logsigmoid(-self.gate(x)[..., 0])
        some = weights.detach().sum(-1) > 0
        generated = F.logsigmoid(self.gate(x)[..., 0])
        return generated.masked_fill(~some, 0), copied.masked_fill(~some, -math.inf)

    def log_probabilities(self, x: Tensor, logits: Tensor, memory: CopyMemory) -> Tensor:
        """Log-probabilities of all tokens (B, T, V), from x (B, T, W) and its logits.

        Copying adds only to source tokens, each at its first occurrence.
        """
        weights = self.weights(x, memory)  # (B, T, S)
        generated, copied = self.gate_log_probabilities(x, weights)  # (B, T)
        first = memory.first[:, None].expand_as(weights)  # (B, T, S)
        sums = torch.zeros_like(weights).scatter_add(2, first, weights)  # (B, T, S) else 0
        log_p = logits.log_softmax(-1) + generated[..., None]  # (B, T, V)
        tokens = memory.source[:, None].expand_as(weights)  # (B, T, S)
        before = log_p.gather(2, tokens)  # (B, T, S)
        after = _log_add(before, _log(sums.to(log_p.dtype)) + copied[..., None])  # (B, T, S)
        return log_p.scatter_add(2, tokens, after - before)

    def label_log_probabilities(
        self, x: Tensor, generated_log_p: Tensor, memory: CopyMemory, labels: Tensor
    ) -> Tensor:
        """Log-probabilities (n,) of the labels (B, T) that are not negative.

        `generated_log_p` (n,) are those of generating them. Equals `log_probabilities` at the
        labels, without computing all tokens of the vocabulary.
        """
        counted = labels >= 0  # (B, T)
        weights = self.weights(x, memory)  # (B, T, S)
        same = memory.source[:, None] == labels[..., None]  # (B, T, S)
        sums = (weights * same).sum(-1)[counted]  # (n,)
        generated, copied = self.gate_log_probabilities(x[counted], weights[counted])  # (n,)
        return _log_add(generated_log_p + generated, _log(sums) + copied)


def _log(x: Tensor) -> Tensor:
    """log x, with a gradient of 0 where x is 0."""
    some = x > 0
    return torch.where(some, x, 1).log().masked_fill(~some, -math.inf)


def _log_add(one: Tensor, other: Tensor) -> Tensor:
    """log(exp(one) + exp(other)); `other` may be -inf."""
    return torch.where(other > -math.inf, torch.logaddexp(one, other), one)
