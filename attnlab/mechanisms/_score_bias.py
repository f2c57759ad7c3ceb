"""Biases of the scores that depend only on the distance between query and key.

Letters: B batch, H query heads, T queries, S keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnlab.mechanism import Mechanism

BUCKETS, FARTHEST = 32, 128  # of the relative bias, as in T5


def position_bias(mechanism: Mechanism, kind: object, two_sided: bool) -> nn.Module | None:
    """The bias of this name: a module that maps (positions of queries, S) to (B or 1, H, T, S)."""
    if kind is None:
        return None
    kinds: dict[object, Callable[[], nn.Module]] = {
        "alibi": lambda: AlibiBias(mechanism.heads),
        "relative": lambda: RelativeBias(mechanism.heads, two_sided),
    }
    if kind not in kinds:
        raise ValueError(f"{mechanism.name}: bias is {kind!r}; give {' or '.join(map(str, kinds))}")
    return kinds[kind]()


def distances(position: Tensor, S: int) -> Tensor:
    """Key position minus query position: (B or 1, T, S)."""
    return torch.arange(S, device=position.device) - position[..., None]


class AlibiBias(nn.Module):
    """-slope * distance, with a slope for each head (Press et al. 2021)."""

    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def forward(self, position: Tensor, S: int) -> Tensor:
        far = distances(position, S).abs()[:, None]  # (B or 1, 1, T, S)
        return -self.slopes[:, None, None] * far.to(self.slopes.dtype)


def alibi_slopes(heads: int) -> Tensor:
    """2^(-8/H), 2^(-16/H), ... for a power of two; else those of the next lower power, then every
    second one of the next higher power."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    slopes += [2 ** (-4 * (2 * h + 1) / power) for h in range(heads - power)]
    return torch.tensor(slopes)


class RelativeBias(nn.Module):
    """A learned number for each head and range of distances (Raffel et al. 2020)."""

    def __init__(self, heads: int, two_sided: bool) -> None:
        super().__init__()
        self.two_sided = two_sided
        self.table = nn.Parameter(torch.zeros(BUCKETS, heads))

    def forward(self, position: Tensor, S: int) -> Tensor:
        bucket = distance_bucket(distances(position, S), self.two_sided)
        return self.table[bucket].permute(0, 3, 1, 2)  # (B or 1, H, T, S)


def distance_bucket(distance: Tensor, two_sided: bool) -> Tensor:
    """One bucket for each short distance, ranges of growing width for longer ones. One-sided, all
    later keys share a bucket."""
    buckets = BUCKETS // 2 if two_sided else BUCKETS
    later = (distance > 0).long() * buckets if two_sided else 0
    far = distance.abs() if two_sided else (-distance).clamp(min=0)
    exact = buckets // 2
    ratio = (far.clamp(min=exact) / exact).log() / math.log(FARTHEST / exact)
    wide = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return later + torch.where(far < exact, far, wide)
