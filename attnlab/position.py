"""Position encodings: learned, sinusoidal and rotary.

Letters: B batch, H heads, T tokens, W width, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LearnedPositions(nn.Module):
    """A learned vector for each position."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(length, width))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, position: Tensor) -> Tensor:
        """(B or 1, T) -> (B or 1, T, W)"""
        return self.table[position]


class SinusoidalPositions(nn.Module):
    """Alternating sines and cosines of wavelengths from 2 pi to 20,000 pi, from position 0 on."""

    def __init__(self, width: int, base: float = 10_000.0) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"sinusoidal positions: width is {width}; give an even number")
        steps = torch.arange(0, width, 2, dtype=torch.float64) / width
        # on the CPU in float64: a float32 angle is off by 1e-3 at position 10,000
        self.frequencies = base**-steps  # (W/2,)

    def forward(self, position: Tensor) -> Tensor:
        """(B or 1, T) -> (B or 1, T, W)"""
        angles = position.cpu()[..., None] * self.frequencies  # (B, T, W/2)
        code = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
        return code.to(torch.get_default_dtype()).to(position.device)

    def shift_matrix(self, steps: int = 1) -> Tensor:
        """(W, W) float64: the one rotation M with code(t + steps) = M code(t) for every t."""
        angles = steps * self.frequencies
        matrix = torch.zeros(2 * len(angles), 2 * len(angles), dtype=torch.float64)
        for i, (sine, cosine) in enumerate(zip(angles.sin(), angles.cos(), strict=True)):
            matrix[2 * i, 2 * i : 2 * i + 2] = torch.stack([cosine, sine])
            matrix[2 * i + 1, 2 * i : 2 * i + 2] = torch.stack([-sine, cosine])
        return matrix


FIRST_NUMBERS = 2**22  # of a table; longer texts let it grow


class RotaryPositions(nn.Module):
    """Rotates each pair (i, i + D/2) of a query or key by an angle that grows with position. The
    dot product then depends only on the distance."""

    cosines: Tensor  # (positions, D)
    sines: Tensor

    def __init__(self, head_dim: int, base: float = 10_000.0, length: int = 1024) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"rotary positions: head size is {head_dim}; give an even number")
        steps = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        self.head_dim, self.base = head_dim, base
        self.frequencies = base**-steps  # (D/2,) float64, on the CPU
        self._grow(min(length, 1 + FIRST_NUMBERS // head_dim), torch.device("cpu"))

    def resized(self, head_dim: int) -> RotaryPositions:
        """The same for heads of another size."""
        return RotaryPositions(head_dim, self.base, len(self.cosines))

    def _grow(self, length: int, device: torch.device) -> None:
        for name, table in zip(("cosines", "sines"), self._tables(length), strict=True):
            self.register_buffer(name, table.to(device), persistent=False)

    def _tables(self, length: int) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines, each (length, D)."""
        angles = torch.arange(length)[:, None] * self.frequencies
        angles = torch.cat([angles, angles], dim=-1)  # (positions, D)
        sign = torch.ones_like(angles)
        # rotating is then one product with the halves swapped
        sign[:, : len(self.frequencies)] = -1
        dtype = torch.get_default_dtype()
        return angles.cos().to(dtype), (sign * angles.sin()).to(dtype)

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        """Rotate (B, H, T, D) by `position` (B or 1, T)."""
        cosines, sines = self._tables_for(position)
        cosines = cosines[position][:, None].to(x.dtype)  # (B or 1, 1, T, D)
        sines = sines[position][:, None].to(x.dtype)
        half = x.shape[-1] // 2
        swapped = torch.cat([x[..., half:], x[..., :half]], dim=-1)
        return x * cosines + swapped * sines

    def _tables_for(self, position: Tensor) -> tuple[Tensor, Tensor]:
        if torch.compiler.is_compiling():  # in training, where positions begin at 0
            if position.shape[-1] <= len(self.cosines):
                return self.cosines, self.sines
            cosines, sines = self._tables(position.shape[-1])
            return cosines.to(position.device), sines.to(position.device)
        longest = int(position.max()) + 1 if position.numel() else 0
        if longest > len(self.cosines):
            self._grow(2 * longest, self.cosines.device)
        return self.cosines, self.sines


POSITIONS = ("learned", "sinusoidal", "rotary", "none")
