"""Where a token stands: learned, sinusoidal and rotary positions.

Letters: B batch, H heads, T tokens, W width, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Learned(nn.Module):
    """A vector for each position, learned."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(length, width))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, position: Tensor) -> Tensor:
        """(B or 1, T) -> (B or 1, T, W)"""
        return self.table[position]


class Sinusoidal(nn.Module):
    """Sines and cosines in turn, of wavelengths from 2 pi to 20,000 pi; position 0 comes first."""

    frequencies: Tensor  # (W/2,)

    def __init__(self, width: int, base: float = 10_000.0) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"sinusoidal positions: width is {width}; give an even number")
        steps = torch.arange(0, width, 2, dtype=torch.float64) / width
        # float64: a float32 angle is off by 1e-3 at position 10,000
        self.register_buffer("frequencies", base**-steps, persistent=False)

    def forward(self, position: Tensor) -> Tensor:
        """(B or 1, T) -> (B or 1, T, W)"""
        angles = position[..., None] * self.frequencies.double()  # (B, T, W/2)
        code = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
        return code.to(torch.get_default_dtype())

    def shift_matrix(self, steps: int = 1) -> Tensor:
        """(W, W) float64: the one rotation M with code(t + steps) = M code(t) for every t."""
        angles = steps * self.frequencies.double()
        matrix = torch.zeros(2 * len(angles), 2 * len(angles), dtype=torch.float64)
        for i, (sine, cosine) in enumerate(zip(angles.sin(), angles.cos(), strict=True)):
            matrix[2 * i, 2 * i : 2 * i + 2] = torch.stack([cosine, sine])
            matrix[2 * i + 1, 2 * i : 2 * i + 2] = torch.stack([-sine, cosine])
        return matrix


class Rotary(nn.Module):
    """Each pair of a query's or key's numbers turned by an angle that grows with position, so that
    their product depends on the distance alone. Pairs are (i, i + D/2)."""

    frequencies: Tensor  # (D/2,)
    cosines: Tensor  # (positions, D)
    sines: Tensor

    def __init__(self, head_dim: int, base: float = 10_000.0, length: int = 1024) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"rotary positions: head size is {head_dim}; give an even number")
        steps = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        self.register_buffer("frequencies", base**-steps, persistent=False)
        self._grow(length)

    def _grow(self, length: int) -> None:
        angles = torch.arange(length, device=self.frequencies.device)[:, None] * (
            self.frequencies.double()
        )
        angles = torch.cat([angles, angles], dim=-1)  # (positions, D)
        half = len(self.frequencies)
        sign = torch.ones_like(angles)
        sign[:, :half] = -1  # so that turning is one product with the halves swapped
        dtype = torch.get_default_dtype()
        self.register_buffer("cosines", angles.cos().to(dtype), persistent=False)
        self.register_buffer("sines", (sign * angles.sin()).to(dtype), persistent=False)

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        """Turn (B, H, T, D) by `position` (B or 1, T)."""
        if not torch.compiler.is_compiling() and position.numel():  # compiled: fixed lengths
            longest = int(position.max()) + 1
            if longest > len(self.cosines):
                self._grow(2 * longest)
        cosines = self.cosines[position][:, None].to(x.dtype)  # (B or 1, 1, T, D)
        sines = self.sines[position][:, None].to(x.dtype)
        half = x.shape[-1] // 2
        swapped = torch.cat([x[..., half:], x[..., :half]], dim=-1)
        return x * cosines + swapped * sines


POSITIONS = ("learned", "sinusoidal", "rotary", "none")
