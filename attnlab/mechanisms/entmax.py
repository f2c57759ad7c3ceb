"""Sparse alternatives to softmax: projections of the scores onto the simplex.

sparsemax is the nearest point of the simplex; entmax15 lies between softmax and sparsemax. Both set
most weights to exactly 0. With s = scores minus their largest, only keys with s > -1 (sparsemax) or
s/2 > -1 (entmax15) can have weight.

Letters: B batch, H query heads, T queries, S keys.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from attnlab.mechanism import Card
from attnlab.mechanisms._by_scores import ByScores


class OntoSimplex(ByScores):
    scale = 1.0
    """The scores are multiplied by it."""

    def normalize(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """In float64, because sums over many keys cancel."""
        x = self.scale * scores.double().masked_fill(~allowed, -torch.inf)
        largest = x.detach().amax(-1, keepdim=True).nan_to_num(neginf=0)
        x = (x - largest).clamp(min=-1)  # what is clamped has no weight: see above
        with torch.no_grad():
            ordered = x.sort(-1, descending=True).values
            smallest = ordered.gather(-1, self.support(ordered) - 1)  # that has weight
            inside = (x >= smallest) & (x > -1)
        excess = (x - self.threshold(x, inside)).clamp(min=0).masked_fill(~inside, 0)
        return self.weight(excess).to(scores.dtype)

    @abstractmethod
    def support(self, ordered: Tensor) -> Tensor:
        """How many of the ordered scores have weight: (..., 1)."""

    @abstractmethod
    def threshold(self, x: Tensor, inside: Tensor) -> Tensor:
        """The score from which on keys have weight, given which ones have: (..., 1)."""

    @abstractmethod
    def weight(self, excess: Tensor) -> Tensor:
        """The weight of a score that exceeds the threshold by this much."""


class Sparsemax(OntoSimplex):
    name = "sparsemax"
    card = Card(
        summary="the scores projected onto the simplex: most weights are exactly 0",
        paper="Martins and Astudillo 2016",
        arxiv="1602.02068",
        time="N^2 D",
        memory="N",
    )

    def support(self, ordered: Tensor) -> Tensor:
        counts = torch.arange(1, ordered.shape[-1] + 1, device=ordered.device)
        inside = 1 + counts * ordered > ordered.cumsum(-1)
        return inside.sum(-1, keepdim=True).clamp(min=1)

    def threshold(self, x: Tensor, inside: Tensor) -> Tensor:
        count = inside.sum(-1, keepdim=True).clamp(min=1)
        return (x.masked_fill(~inside, 0).sum(-1, keepdim=True) - 1) / count

    def weight(self, excess: Tensor) -> Tensor:
        return excess


class Entmax15(OntoSimplex):
    name = "entmax15"
    card = Card(
        summary="between softmax and sparsemax: small weights are exactly 0",
        paper="Peters et al. 2019",
        arxiv="1905.05702",
        time="N^2 D",
        memory="N",
    )
    scale = 0.5

    def support(self, ordered: Tensor) -> Tensor:
        counts = torch.arange(1, ordered.shape[-1] + 1, device=ordered.device)
        mean = ordered.cumsum(-1) / counts
        spread = ordered.square().cumsum(-1) - counts * mean.square()  # sum of (x - mean)^2
        threshold = mean - ((1 - spread) / counts).clamp(min=0).sqrt()
        return (threshold < ordered).sum(-1, keepdim=True).clamp(min=1)

    def threshold(self, x: Tensor, inside: Tensor) -> Tensor:
        count = inside.sum(-1, keepdim=True).clamp(min=1)
        mean = x.masked_fill(~inside, 0).sum(-1, keepdim=True) / count
        spread = (x - mean).masked_fill(~inside, 0).square().sum(-1, keepdim=True)
        return mean - ((1 - spread) / count).clamp(min=0).sqrt()

    def weight(self, excess: Tensor) -> Tensor:
        return excess.square()
