"""What a layer has besides softmax(scale q k^T + mask) v: a soft cap, a bias, a learned sink.

Letters: B batch, H heads, T queries, S keys, M value size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.huggingface._mask_arguments import MASKED
from attnlab.mechanism import repeat_heads
from attnlab.mechanisms.softmax import (
    attend_biased,
    fast_dropout,
    masked_softmax,
    scaled_scores,
)


@dataclass(frozen=True)
class ScoreTerms:
    """Applied in this order: scores are capped, the bias is added, the sink takes its weight."""

    softcap: float | None = None
    bias: Tensor | None = None  # (B or 1, H or 1, T, S)
    sink: Tensor | None = None  # (H,)

    def describe(self) -> str:
        """What the layer does; "" if its scores are plain."""
        if self.softcap is not None:
            return "caps its scores"
        if self.bias is not None:
            return "adds a bias to its scores"
        if self.sink is not None:
            return "gives a part of each row's weight to a learned sink"
        return ""

    def row(self, row: int) -> ScoreTerms:
        if self.bias is None or len(self.bias) == 1:
            return self
        return replace(self, bias=self.bias[row : row + 1])

    def cut(self, length: int) -> ScoreTerms:
        """Without the free slots of a cache."""
        return replace(self, bias=None if self.bias is None else self.bias[..., :length])

    def weights(self, q: Tensor, k: Tensor, allowed: Tensor | None, beta: float) -> Tensor:
        """(B, H, T, S)"""
        scores = scaled_scores(q, k, beta)
        if self.softcap is not None:
            scores = self.softcap * (scores / self.softcap).tanh()
        if self.bias is not None:
            scores = scores + self.bias.to(scores.dtype)
        if self.sink is None:
            return masked_softmax(scores, allowed)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        sink = self.sink.to(scores.dtype)[:, None, None].expand(*scores.shape[:3], 1)
        return torch.cat([scores, sink], dim=-1).softmax(-1)[..., :-1]

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, beta: float, dropout: float
    ) -> Tensor:
        """(B, H, T, M)"""
        H, T, S = q.shape[1], q.shape[2], k.shape[2]
        if self.bias is None or self.softcap is not None or self.sink is not None or dropout:
            weights = fast_dropout(self.weights(q, k, allowed, beta), dropout)
            return weights @ repeat_heads(v, H)
        if allowed is None:
            allowed = torch.ones(1, 1, T, S, dtype=torch.bool, device=q.device)
        return attend_biased(q, k, v, self.bias.to(q.dtype), allowed, beta)


PLAIN = ScoreTerms()


def read_terms(
    module: nn.Module, options: dict[str, Any], mask_bias: Tensor | None
) -> tuple[ScoreTerms, Tensor | None]:
    """The terms of one call, and where its bias hides keys (some models put their mask there):
    (B or 1, H or 1, T, S), True where a query may attend."""
    cap, sink = options.get("softcap"), options.get("s_aux")
    sink = getattr(module, "sinks", None) if sink is None else sink
    bias, visible = options.get("position_bias"), None
    if bias is not None:
        bias = bias[None] if bias.dim() == 3 else bias  # (H, T, S)
        shown = bias > MASKED
        if not bool(shown.all()):
            visible, bias = shown, bias.masked_fill(~shown, 0)
        if not bool(bias.detach().any()) and not bias.requires_grad:
            bias = None
    if mask_bias is not None:
        bias = mask_bias if bias is None else bias + mask_bias
    flat = sink.reshape(-1) if isinstance(sink, Tensor) else None
    return ScoreTerms(None if cap is None else float(cap), bias, flat), visible
