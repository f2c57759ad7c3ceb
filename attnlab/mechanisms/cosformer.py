"""Kernel attention with relu features and weights that fall with the cosine of the distance.

Letters: B batch, T tokens, D head size.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlab.mask import Mask
from attnlab.mechanism import Card
from attnlab.mechanisms._scan import LOG_ZERO, Features
from attnlab.mechanisms.kernel import Kernel


class Cosformer(Kernel):
    """relu(q_i).relu(k_j) cos(pi/2 (i - j)/N), with N = max_length. The cosine of a difference is a
    product of features."""

    name = "cosformer"
    card = Card(
        summary="kernel attention with relu features and weights that fall with the distance",
        paper="Qin et al. 2022",
        arxiv="2202.08791",
        time="N D^2",
        memory="N D",
        cross=False,
        constant_state=True,
        needs_length=True,
    )
    trials = ({"chunk": 3}, {"chunk": 64})

    def phi(self, x: Tensor) -> Features:
        raise NotImplementedError("cosformer's features depend on positions: use `features`")

    def features(self, x: Tensor, keys: Tensor | None = None, start: int | Tensor = 0) -> Features:
        assert self.max_length is not None
        x = x.to(torch.promote_types(x.dtype, torch.float32)).relu()
        position = Mask(start=start).positions(x.shape[2], x.device)[:, None, :, None]
        angle = position.to(x.dtype) * (math.pi / 2 / self.max_length)  # (B or 1, 1, T, 1)
        largest = x.detach().amax(-1, keepdim=True)  # (B, H, T, 1)
        zero = largest == 0
        unit = x / largest.masked_fill(zero, 1)
        log = largest.masked_fill(zero, 1).log().masked_fill(zero, LOG_ZERO)
        waves = torch.cat([unit * angle.cos(), unit * angle.sin()], dim=-1)  # (B, H, T, 2D)
        return self._masked(Features(waves, log), keys)
