"""Random directions for feature maps.

Letters: C directions, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sample_directions(count: int, size: int, seed: int, orthogonal: bool) -> Tensor:
    """(C, D) float64, each row distributed as N(0, I).

    With `orthogonal`, the rows of each block of D are orthogonal. QR alone does not give a
    uniformly distributed basis, because it fixes the signs of R's diagonal; multiplying them back
    in does. Lengths are those of independent Gaussian vectors (chi-distributed, D degrees).
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int) -> Tensor:
        return torch.randn(rows, size, generator=generator, dtype=torch.float64)

    if not orthogonal:
        return normal(count)
    directions = torch.empty(count, size, dtype=torch.float64)
    for first in range(0, count, size):
        basis, upper = torch.linalg.qr(normal(size))
        basis = basis * upper.diagonal().sign()
        rows = min(size, count - first)
        directions[first : first + rows] = basis.T[:rows] * normal(rows).norm(dim=1, keepdim=True)
    return directions
