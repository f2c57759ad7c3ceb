"""Kernel attention with phi(x) = relu(x)."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.mechanism import Card
from attnlab.mechanisms._scan import LOG_ZERO, Features
from attnlab.mechanisms.kernel import Kernel


class Relu(Kernel):
    """A query that shares no positive feature with any key gets zero weights."""

    name = "relu"
    card = Card(
        summary="kernel attention with relu(x) as feature map; rows with no overlap are zero",
        paper="Choromanski et al. 2021 (Performer-ReLU)",
        arxiv="2009.14794",
        time="N D^2",
        memory="N D",
        constant_state=True,
    )
    trials = ({"chunk": 3}, {"chunk": 64})

    def phi(self, x: Tensor) -> Features:
        positive = x > 0
        return Features(None, torch.where(positive, x, 1).log().masked_fill(~positive, LOG_ZERO))
