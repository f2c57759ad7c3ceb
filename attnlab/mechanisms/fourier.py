"""The softmax kernel by random sines and cosines.

Letters: C features (half of them cosines, half sines), D head size.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from attnlab.mechanism import Card
from attnlab.mechanisms._scan import Features
from attnlab.mechanisms.favor import Orthogonal, RandomFeatures, Seed
from attnlab.mechanisms.kernel import CHUNK, Chunk
from attnlab.mechanisms.softmax import Beta


class Fourier(RandomFeatures):
    """exp(q.k) = exp(|q|^2/2) E[cos w.(q - k)] exp(|k|^2/2), and the cosine of a difference is a
    product of features. Weights and denominators can be negative or tiny; they are not clamped."""

    name = "fourier"
    card = Card(
        summary="softmax approximated by random sines and cosines; weights can be negative",
        paper="Rahimi & Recht 2007; Peng et al. 2021",
        arxiv="2103.02143",
        time="N C D",
        memory="N C",
        constant_state=True,
        signed=True,
    )
    trials = (
        {"features": 14, "chunk": 3},
        {"features": 6, "orthogonal": False, "seed": 3, "beta": 0.5, "chunk": 64},
    )

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        features: Annotated[int, "Even number of random features: half sines, half cosines."] = 256,
        orthogonal: Orthogonal = True,
        seed: Seed = 0,
        beta: Beta = None,
        chunk: Chunk = CHUNK,
    ) -> None:
        if not isinstance(features, int) or features % 2:
            raise ValueError(
                f"fourier: features is {features!r}; give an even number: a sine for each cosine"
            )
        super().__init__(
            head_dim=head_dim,
            heads=heads,
            max_length=max_length,
            directions=features // 2,
            orthogonal=orthogonal,
            seed=seed,
            beta=beta,
            chunk=chunk,
        )

    def phi(self, x: Tensor) -> Features:
        along, half_square = self.project(x)  # (..., C/2), (..., 1)
        waves = torch.cat([along.cos(), along.sin()], dim=-1)  # (..., C)
        return Features(waves / math.sqrt(len(self.draws)), half_square)
