"""Sigmoid attention: each key gets its own weight, and the weights do not compete."""

from __future__ import annotations

from torch import Tensor

from attnlab.mechanism import Card
from attnlab.mechanisms._by_scores import ByScores


class Sigmoid(ByScores):
    name = "sigmoid"
    card = Card(
        summary="each key gets its own weight: the sigmoid of its score minus log n",
        paper="Ramapuram et al. 2024",
        arxiv="2409.04431",
        time="N^2 D",
        memory="N",
        rows_sum_to_one=False,
    )

    def normalize(self, scores: Tensor, allowed: Tensor) -> Tensor:
        visible = allowed.sum(-1, keepdim=True).clamp(min=1)  # n: so decoding equals forward
        return (scores - visible.to(scores.dtype).log()).sigmoid().masked_fill(~allowed, 0)
