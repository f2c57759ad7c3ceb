"""Kernel attention with the second-order Taylor expansion of exp.

Letters: B batch, H query heads, T queries, S keys, D head size, P projected size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab._argument_checks import check_size
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, full_precision, repeat_heads
from attnlab.mechanisms._scan import Features
from attnlab.mechanisms.kernel import CHUNK, Chunk, Kernel
from attnlab.mechanisms.softmax import inverse_temperature

FeatureDim = Annotated[
    int | None,
    "Project queries and keys to this size first (learned): P numbers need (P + 1)(P + 2)/2 "
    "features. Default: no projection; layers of models use 16.",
]
FeatureBeta = Annotated[
    float | None,
    "Inverse temperature. Default: 1/sqrt(feature_dim), or 1/sqrt(head_dim) without it.",
]


class Based(Kernel):
    """phi(q).phi(k) = 1 + s + s^2/2 with s = beta q.k, which is at least 1/2.

    Features are computed in float64, because products of both signs cancel.
    """

    name = "based"
    layer_defaults: ClassVar[Mapping[str, Any]] = {"feature_dim": 16}
    card = Card(
        summary="kernel attention with 1 + s + s^2/2, the expansion of exp(s)",
        paper="Arora et al. 2024",
        arxiv="2402.18668",
        time="N C D",
        memory="N C",
        constant_state=True,
    )
    trials = ({"chunk": 3}, {"feature_dim": 3, "chunk": 64})

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        feature_dim: FeatureDim = None,
        beta: FeatureBeta = None,
        chunk: Chunk = CHUNK,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length, chunk=chunk)
        self.projections: nn.Parameter | None = None
        if feature_dim is not None:
            check_size(self, feature_dim=feature_dim)
            self.card = replace(self.card, learned=True)
            self.projections = nn.Parameter(torch.randn(heads, head_dim, feature_dim))
            self.projections.data *= head_dim**-0.5
        if beta is None and feature_dim is not None:
            self.beta = feature_dim**-0.5
        else:
            self.beta = inverse_temperature(self, beta)

    def expand(self, x: Tensor) -> Tensor:
        return x if self.projections is None else repeat_heads(x, self.heads)

    def _project(self, x: Tensor) -> Tensor:
        x = x * self.beta**0.5
        return x if self.projections is None else x @ self.projections.to(x.dtype)

    @full_precision
    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        """Directly from the scores: unlike a sum of signed products, this cannot cancel."""
        q, k = self.prepare_weights(q, k, mask)
        wide = torch.promote_types(q.dtype, torch.float32)
        key = self._project(repeat_heads(k, self.heads).to(wide))
        scores = self._project(q.to(wide)) @ key.mT  # (B, H, T, S)
        allowed = mask.allowed(q.shape[2], k.shape[2], q.device)
        terms = 0.5 + (1 + scores).square() / 2  # 1 + s + s^2/2
        terms = terms if allowed is None else terms.masked_fill(~allowed, 0)
        total = terms.sum(-1, keepdim=True)
        return (terms / total.masked_fill(total == 0, 1)).to(q.dtype)

    def phi(self, x: Tensor) -> Features:
        x = self._project(x if x.device.type == "mps" else x.double())  # mps has no float64
        largest = x.detach().abs().amax(-1, keepdim=True).clamp(min=1)
        unit = x / largest
        products = [2**0.5 * unit[..., :1] * unit[..., 1:]] if x.shape[-1] > 1 else []
        products += [
            2**0.5 * unit[..., a : a + 1] * unit[..., a + 1 :] for a in range(1, x.shape[-1] - 1)
        ]
        squares = torch.cat([unit * unit, *products], dim=-1) * 2**-0.5
        linear, one = unit / largest, 1 / largest.square()
        return Features(torch.cat([one, linear, squares], dim=-1), 2 * largest.log())

    def prefers_matrix(self, tokens: int) -> bool:
        return self.projections is None and self.head_dim**2 > tokens
