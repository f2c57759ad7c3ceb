"""Kernel attention with phi(x) = elu(x) + 1."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.mechanism import Card
from attnlab.mechanisms._scan import Features
from attnlab.mechanisms.kernel import Kernel


class Elu(Kernel):
    name = "elu"
    card = Card(
        summary="kernel attention with elu(x) + 1 as feature map",
        paper="Katharopoulos et al. 2020",
        arxiv="2006.16236",
        time="N D^2",
        memory="N D",
        constant_state=True,
    )
    trials = ({"chunk": 3}, {"chunk": 64})

    def phi(self, x: Tensor) -> Features:
        # elu(x) + 1 is 1 + x above 0 and exp(x) below, whose log is x: no underflow at any x
        return Features(None, torch.where(x > 0, x.clamp(min=0).log1p(), x))
