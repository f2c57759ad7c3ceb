"""FAVOR+: the softmax kernel by positive random features.

Letters: C features, D head size.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import torch
from torch import Tensor

from attnlab._argument_checks import check_seed, check_size
from attnlab.mechanism import Card
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms._random_directions import sample_directions
from attnlab.mechanisms._scan import Features
from attnlab.mechanisms.kernel import CHUNK, Chunk, Kernel
from attnlab.mechanisms.softmax import Beta, inverse_temperature

Orthogonal = Annotated[bool, "Use orthogonal random directions, which reduces the variance."]
Seed = Annotated[int, "Random seed for the random directions."]


class RandomFeatures(Kernel):
    """A kernel whose features use random directions w ~ N(0, I), saved with the model."""

    size_option = "features"
    draws: Tensor  # (directions, D)
    redraws: Tensor

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None,
        directions: int,
        orthogonal: bool,
        seed: int,
        beta: float | None,
        chunk: int,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length, chunk=chunk)
        check_size(self, features=directions)
        check_seed(self, seed)
        self.beta = inverse_temperature(self, beta)
        self.orthogonal = orthogonal
        self.seed = seed
        draws = sample_directions(directions, head_dim, seed, orthogonal)
        self.register_buffer("draws", draws.to(torch.get_default_dtype()))
        self.register_buffer("redraws", torch.zeros((), dtype=torch.int64))

    def redraw(self) -> None:
        """Sample new directions from this seed. States made with the old ones become invalid."""
        self.redraws += 1
        seed = self.seed + 1_000_003 * int(self.redraws)
        draws = sample_directions(len(self.draws), self.head_dim, seed, self.orthogonal)
        self.draws.copy_(draws)

    def signature(self) -> tuple[Any, ...]:
        directions = (self.seed, self.orthogonal, len(self.draws), int(self.redraws))
        return (*super().signature(), self.beta, *directions)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """w.x and |x|^2/2 of the inputs scaled so that exp(q.k) is the kernel exp(beta q.k)."""
        half_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() * (self.beta / 2)
        return self.along(x), half_square

    def along(self, x: Tensor) -> Tensor:
        """w.x of the scaled inputs."""
        return x @ self.scaled_draws(x).T

    def scaled_draws(self, x: Tensor) -> Tensor:
        """The directions (C, D) for inputs like x. Scaled, because inputs are more numerous."""
        return math.sqrt(self.beta) * self.draws.to(x.dtype)


class Favor(RandomFeatures):
    """phi(x)_c = exp(w_c.x - |x|^2/2) / sqrt(C), so that E phi(q).phi(k) = exp(q.k)."""

    name = "favor"
    card = Card(
        summary="FAVOR+: softmax approximated by positive random features",
        paper="Choromanski et al. 2021 (Performer)",
        arxiv="2009.14794",
        time="N C D",
        memory="N C",
        constant_state=True,
    )
    trials = (
        {"features": 13, "chunk": 3},
        {"features": 5, "orthogonal": False, "seed": 3, "beta": 0.5, "chunk": 64},
    )

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        features: Annotated[
            int, "Number of random features. More are closer to softmax, but slower."
        ] = 256,
        orthogonal: Orthogonal = True,
        seed: Seed = 0,
        beta: Beta = None,
        chunk: Chunk = CHUNK,
    ) -> None:
        super().__init__(
            head_dim=head_dim,
            heads=heads,
            max_length=max_length,
            directions=features,
            orthogonal=orthogonal,
            seed=seed,
            beta=beta,
            chunk=chunk,
        )

    def phi(self, x: Tensor) -> Features:
        along, half_square = self.project(x)  # (..., C), (..., 1)
        return Features(None, along.sub_(half_square + math.log(len(self.draws)) / 2))

    def query_features(self, q: Tensor, start: int | Tensor = 0) -> Features:
        """Without |q|^2/2, which cancels."""
        del start
        return Features(None, self.along(q.to(torch.promote_types(q.dtype, torch.float32))))

    def _causal(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None) -> Tensor:
        """In C with the feature map: its logs stay in the cache, and none are kept for backward."""
        q, k, v = (x.to(torch.promote_types(k.dtype, torch.float32)) for x in (q, k, v))
        known = type(self) is Favor and not self.draws.requires_grad  # not another feature map
        if not (known and self.use_compiled and compiled.can_run(k)):
            return super()._causal(q, k, v, keys)
        return compiled.causal_projected(q, k, v, self.scaled_draws(k), keys, self.beta / 2)
