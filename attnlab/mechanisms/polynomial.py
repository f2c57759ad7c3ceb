"""Kernel attention with the kernel (q.k)^2, exactly.

Letters: B batch, H heads, T queries, S keys, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, full_precision, repeat_heads
from attnlab.mechanisms._scan import LOG_ZERO, LOWEST, Features, divide
from attnlab.mechanisms.kernel import Kernel


class Polynomial(Kernel):
    """phi(x) holds all products x_a x_b, those of a < b times sqrt(2), so phi(q).phi(k) = (q.k)^2.

    Computed in float64: products of both signs cancel, and in float32 the first tokens of a text,
    which see few keys, were wrong by up to 0.003. Using each pair only once makes up for the cost.
    """

    name = "polynomial"
    card = Card(
        summary="kernel attention with (q.k)^2, by features for each pair of entries",
        paper="Kacham et al. 2023 (PolySketchFormer)",
        arxiv="2310.01655",
        time="N D^3",
        memory="N D^2",
        constant_state=True,
    )
    trials = ({"chunk": 3}, {"chunk": 64})

    @full_precision
    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        """Directly from the kernel: unlike a sum of signed products, a square cannot cancel."""
        q, k = self.prepare_weights(q, k, mask)
        if k.shape[2] == 0:
            return q.new_zeros(*q.shape[:3], 0)
        dtype = torch.promote_types(q.dtype, torch.float32)
        (q_unit, _), (k_unit, log) = _scaled(q.to(dtype)), _scaled(k.to(dtype))
        products = q_unit @ repeat_heads(k_unit, self.heads).mT  # (B, H, T, S)
        log = repeat_heads(log, self.heads).mT  # (B, H, 1, S)
        allowed = mask.allowed(q.shape[2], k.shape[2], q.device)
        if allowed is not None:
            log = torch.where(allowed, log, LOG_ZERO)
        largest = log.amax(-1, keepdim=True).clamp(min=LOWEST)
        squares = products.square() * (log - largest).exp()
        return divide(squares, squares.sum(-1, keepdim=True)).to(q.dtype)

    def phi(self, x: Tensor) -> Features:
        unit, log = _scaled(x if x.device.type == "mps" else x.double())  # mps has no float64
        twice = 2**0.5 * unit
        pairs = [twice[..., a : a + 1] * unit[..., a + 1 :] for a in range(x.shape[-1] - 1)]
        return Features(torch.cat([unit * unit, *pairs], -1), log)  # (..., D(D+1)/2)

    def prefers_matrix(self, tokens: int) -> bool:
        return self.head_dim**2 > tokens


def _scaled(x: Tensor) -> tuple[Tensor, Tensor]:
    """x divided by its largest entry, so that no product overflows, and the log of its square."""
    largest = x.detach().abs().amax(-1, keepdim=True)  # (..., 1)
    zero = largest == 0
    scale = largest.masked_fill(zero, 1)
    return x / scale, (2 * scale.log()).masked_fill(zero, LOG_ZERO)
