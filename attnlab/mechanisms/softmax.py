"""Exact attention: softmax(beta q k^T).

Letters: B batch, H query heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab._argument_checks import check_number
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, Mechanism, repeat_heads, zero_padding

Beta = Annotated[float | None, "Inverse temperature. Default: 1/sqrt(head_dim)."]
Dropout = Annotated[float, "Fraction of the weights set to zero in training."]


class Softmax(Mechanism):
    name = "softmax"
    card = Card(
        summary="exact attention, a softmax over all keys",
        paper="Vaswani et al. 2017",
        arxiv="1706.03762",
        time="N^2 D",
        memory="N",
    )
    trials = ({}, {"beta": 2.5})

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        beta: Beta = None,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        self.beta = inverse_temperature(self, beta)
        self.dropout = dropout_rate(self, dropout)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        allowed = mask.allowed(q.shape[2], k.shape[2], q.device)
        return masked_softmax(scaled_scores(q, k, self.beta), allowed)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return attend_masked(q, k, v, mask, self.beta, dropout)

    def attend_dense(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, start: int | Tensor, dropout: float
    ) -> Tensor:
        del start
        return attend_dense(q, k, v, allowed, self.beta, dropout)


def attend_masked(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, beta: float, dropout: float = 0.0
) -> Tensor:
    """softmax(beta q k^T) v under a mask, without a mask tensor where PyTorch needs none."""
    if mask.causal and mask.keys is None and mask.from_zero and k.shape[2] and not dropout:
        k, v = repeat_heads(k, q.shape[1]), repeat_heads(v, q.shape[1])
        return _fused(q, k, v, beta, is_causal=True)
    return attend(q, k, v, mask.allowed(q.shape[2], k.shape[2], q.device), beta, dropout)


def attend(
    q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, beta: float, dropout: float = 0.0
) -> Tensor:
    """softmax(beta q k^T) v where allowed; zeros for a query without visible keys."""
    B, H, T, _ = q.shape
    G, S, M = k.shape[1], k.shape[2], v.shape[3]
    if S == 0 or T == 0 or B == 0:
        return q.new_zeros(B, H, T, M)
    if dropout:  # PyTorch has no fused kernel for it
        weights = fast_dropout(masked_softmax(scaled_scores(q, k, beta), allowed), dropout)
        return weights @ repeat_heads(v, H)
    some = None
    if allowed is not None:  # (B or 1, H or 1, T or 1, S)
        some = allowed.any(-1, keepdim=True)
        allowed = allowed | ~some  # the softmax of a row of -inf would be NaN
    if G < H and (allowed is None or allowed.shape[2] == 1):
        # All heads of a group read the same keys: stack them as queries instead of copying k and v.
        q = q.reshape(B, G, H // G * T, q.shape[3])  # (B, G, H/G*T, D)
    else:
        k, v = repeat_heads(k, H), repeat_heads(v, H)
    out = _fused(q, k, v, beta, attn_mask=allowed).reshape(B, H, T, M)
    return out if some is None else out.masked_fill(~some, 0)


def attend_dense(
    q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, beta: float, dropout: float
) -> Tensor:
    """`attend` for keys that may hold anything where no query sees them, with a mask per head."""
    keys = allowed.flatten(1, 2).any(1)  # (B or 1, S)
    k, v = zero_padding(k, keys), zero_padding(v, keys)
    if allowed.shape[1] > 1:  # heads that share keys do not share their mask
        k, v = (repeat_heads(x, q.shape[1]) for x in (k, v))
    return attend(q, k, v, allowed, beta, dropout)


def _fused(q: Tensor, k: Tensor, v: Tensor, beta: float, **options: Any) -> Tensor:
    """PyTorch's fused kernel needs one width; padding with zeros changes no product."""
    D, M = q.shape[3], v.shape[3]
    if D < M:
        q, k = F.pad(q, (0, M - D)), F.pad(k, (0, M - D))
    elif M < D:
        v = F.pad(v, (0, D - M))
    return F.scaled_dot_product_attention(q, k, v, scale=beta, **options)[..., :M]


def fast_dropout(x: Tensor, rate: float) -> Tensor:
    """Set each number to 0 with probability `rate`, and scale up the others.

    On a CPU, sampling one random number per element takes longer than a layer's arithmetic. There,
    one sample of 64 bits decides for four elements, 16 bits each, so `rate` is exact to 2**-16.
    """
    if not rate:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate)
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    threshold = round(rate * 2**16) - 2**15
    keep = (bits.view(torch.int16)[: x.numel()] >= threshold).view(x.shape)
    return x * (keep.to(x.dtype) / (1 - rate))


def scaled_scores(q: Tensor, k: Tensor, beta: float) -> Tensor:
    """beta q.k (B, H, T, S); scaled first, since q.k alone can overflow in float16."""
    return (beta * q) @ repeat_heads(k, q.shape[1]).mT


def masked_softmax(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Softmax over the allowed keys; zeros, with zero gradients, for a row that allows none."""
    if scores.shape[-1] == 0:
        return scores
    if allowed is None:
        return scores.softmax(-1)
    some = allowed.any(-1, keepdim=True)
    weights = scores.masked_fill(~(allowed | ~some), -torch.inf).softmax(-1)
    if not torch.compiler.is_compiling() and bool(some.all()):  # saves a pass over the matrix
        return weights
    return weights.masked_fill(~some, 0)


def inverse_temperature(mechanism: Mechanism, beta: float | None) -> float:
    if beta is None:
        return mechanism.head_dim**-0.5
    check_number(mechanism, "beta", beta, "a number above 0", lambda x: 0 < x < math.inf)
    return float(beta)


def dropout_rate(mechanism: Mechanism, dropout: float) -> float:
    check_number(mechanism, "dropout", dropout, "a number from 0 to below 1", lambda x: 0 <= x < 1)
    return float(dropout)
