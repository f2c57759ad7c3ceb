"""Exact attention: softmax(beta q k^T).

Letters: B batch, H query heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from attnlab._argument_checks import check_number
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import (
    Card,
    Mechanism,
    needs_definition_gradients,
    repeat_heads,
    zero_padding,
)
from attnlab.mechanisms._score_bias import position_bias

Beta = Annotated[float | None, "Inverse temperature. Default: 1/sqrt(head_dim)."]
Dropout = Annotated[float, "Fraction of the weights set to zero in training."]
Bias = Annotated[
    str | None,
    "What is added to the scores: alibi (falls with the distance) or relative (a learned table of "
    "distances, as in T5).",
]
TwoSided = Annotated[
    bool, "The relative bias tells earlier keys from later ones. Set it to false in a decoder."
]
Softcap = Annotated[float | None, "Scores s become softcap * tanh(s / softcap)."]
Sink = Annotated[
    str | float | None,
    "The score of a key without a value, which takes up weight: learned (for each head), or a "
    "number. 0 is off-by-one softmax.",
]
BLOCK = 256  # queries at once, where PyTorch has no fused kernel


class Softmax(Mechanism):
    name = "softmax"
    by_scores = True
    card = Card(
        summary="exact attention, a softmax over all keys",
        paper="Vaswani et al. 2017",
        arxiv="1706.03762",
        time="N^2 D",
        memory="N",
    )
    trials = (
        {},
        {"beta": 2.5},
        {"bias": "alibi", "sink": "learned"},
        {"bias": "relative", "two_sided": False, "softcap": 3.0},
        {"bias": "relative", "sink": 0},
    )
    sink: Tensor | None

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        beta: Beta = None,
        dropout: Dropout = 0.0,
        bias: Bias = None,
        two_sided: TwoSided = True,
        softcap: Softcap = None,
        sink: Sink = None,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        self.beta = inverse_temperature(self, beta)
        self.dropout = dropout_rate(self, dropout)
        self.bias = position_bias(self, bias, two_sided)
        if softcap is not None:
            check_number(self, "softcap", softcap, "a number above 0", lambda x: 0 < x < math.inf)
        self.softcap = softcap
        if sink not in (None, "learned"):
            allowed = "a number, or learned"
            check_number(self, "sink", sink, allowed, math.isfinite)
        if sink == "learned":
            self.sink = nn.Parameter(torch.zeros(heads))
        else:
            fixed = None if sink is None else torch.full((heads,), float(sink))
            self.register_buffer("sink", fixed, persistent=False)
        self.plain = self.bias is None and softcap is None and sink is None
        learned = bool(list(self.parameters()))
        self.card = replace(self.card, learned=learned, rows_sum_to_one=sink is None)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        T, S = q.shape[2], k.shape[2]
        return self._weights(q, k, mask.allowed(T, S, q.device), mask.positions(T, q.device))

    def _weights(self, q: Tensor, k: Tensor, allowed: Tensor | None, position: Tensor) -> Tensor:
        """The weights of queries at `position` (B or 1, T)."""
        scores = scaled_scores(q, k, self.beta)
        if self.softcap is not None:
            scores = self.softcap * (scores / self.softcap).tanh()
        if self.bias is not None:
            scores = scores + self.bias(position, k.shape[2]).to(scores.dtype)
        if self.sink is None or scores.shape[-1] == 0:
            return masked_softmax(scores, allowed)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        sink = self.sink.to(scores.dtype)[:, None, None].expand(*scores.shape[:3], 1)
        return torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1]

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        if self.plain:
            return attend_masked(q, k, v, mask, self.beta, dropout)

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
            T = q.shape[2]
            allowed = mask.allowed(T, k.shape[2], q.device)
            return self._attend(q, k, v, allowed, mask.positions(T, q.device), dropout)

        T, outs = q.shape[2], []
        attend_block = recompute(attend) if T > BLOCK else attend
        for first in range(0, T, BLOCK):  # memory for some queries only
            count = min(BLOCK, T - first)
            part = Mask(mask.causal, mask.keys, mask.start + first)
            S = k.shape[2]
            if mask.causal and not isinstance(mask.start, Tensor):  # later keys are not visible
                S = max(0, min(S, mask.start + first + count))
                part = replace(part, keys=None if mask.keys is None else mask.keys[:, :S])
            here = q[:, :, first : first + count]
            outs.append(attend_block(here, k[:, :, :S], v[:, :, :S], part))
        return torch.cat(outs, dim=2) if outs else q.new_zeros(*q.shape[:3], v.shape[3])

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, position: Tensor,
        dropout: float,
    ) -> Tensor:  # fmt: skip
        (_, H, T, _), S = q.shape, k.shape[2]
        if dropout or self.softcap is not None or S == 0:
            weights = fast_dropout(self._weights(q, k, allowed, position), dropout)
            return weights @ repeat_heads(v, H)
        bias = q.new_zeros(1, H, T, S) if self.bias is None else self.bias(position, S).to(q.dtype)
        visible = torch.ones_like(bias, dtype=torch.bool) if allowed is None else allowed
        if self.sink is not None:  # a key of zeros with its own score and no value
            sink = self.sink.to(q.dtype)[None, :, None, None].expand(*bias.shape[:3], 1)
            bias, k, v = torch.cat([bias, sink], -1), F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
            visible = F.pad(visible, (0, 1), value=True)
        return attend_biased(q, k, v, bias, visible, self.beta)

    def signature(self) -> tuple[Any, ...]:
        return super().signature() if self.plain else (*super().signature(), "biased")

    def attend_dense(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, start: int | Tensor, dropout: float
    ) -> Tensor:
        if self.plain:
            return attend_dense(q, k, v, allowed, self.beta, dropout)
        keys = allowed.flatten(1, 2).any(1)  # (B or 1, S)
        k, v = zero_padding(k, keys), zero_padding(v, keys)
        position = Mask(start=start).positions(q.shape[2], q.device)
        return self._attend(q, k, v, allowed, position, dropout)


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


def attend_biased(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, allowed: Tensor, beta: float
) -> Tensor:
    """softmax(beta q k^T + bias) v where allowed; zeros for a query without visible keys."""
    B, H, T, _ = q.shape
    if k.shape[2] == 0 or T == 0 or B == 0:
        return q.new_zeros(B, H, T, v.shape[3])
    some = allowed.any(-1, keepdim=True)
    bias = bias.masked_fill(~(allowed | ~some), -torch.inf)
    out = _fused(q, repeat_heads(k, H), repeat_heads(v, H), beta, attn_mask=bias)
    return out.masked_fill(~some, 0)


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
    out = F.scaled_dot_product_attention(q, k, v, scale=beta, **options)
    return out[..., :M] if M < D else out


def recompute(attend: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`attend` that saves only its inputs for the backward pass, which then calls it again.

    Training in blocks of queries then needs memory for one block of the matrix, not for all of it.
    """
    if not torch.is_grad_enabled() or needs_definition_gradients():  # torch.func allows no hooks
        return attend
    return partial(checkpoint, attend, use_reentrant=False)


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
