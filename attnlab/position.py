"""Position encodings: learned, sinusoidal and rotary.

Letters: B batch, H heads, T tokens, W width, D head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable

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

    def __init__(
        self,
        head_dim: int,
        base: float = 10_000.0,
        length: int = 1024,
        scaling: str | None = None,
    ) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"rotary positions: head size is {head_dim}; give an even number")
        steps = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        self.head_dim, self.base, self.scaling = head_dim, base, scaling
        self.frequencies = base**-steps  # (D/2,) float64, on the CPU
        self.amplitude = 1.0
        if scaling is not None:
            name, numbers = parse_scaling(scaling)
            scale = SCALINGS[name][0]
            self.frequencies, self.amplitude = scale(self.frequencies, base, numbers)
        self._grow(min(length, 1 + FIRST_NUMBERS // head_dim), torch.device("cpu"))

    def resized(self, head_dim: int) -> RotaryPositions:
        """The same for heads of another size."""
        return RotaryPositions(head_dim, self.base, len(self.cosines), self.scaling)

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
        cosines, sines = angles.cos(), sign * angles.sin()
        return (self.amplitude * cosines).to(dtype), (self.amplitude * sines).to(dtype)

    def forward(self, x: Tensor, position: Tensor | slice) -> Tensor:
        """Rotate (B, H, T, D) by `position` (B or 1, T), or by a slice for all rows."""
        return self.rotate(x, self.tables(position, x))

    @staticmethod
    def rotate(x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
        cosines, sines = tables
        swapped = x.roll(x.shape[-1] // 2, -1)  # the halves
        return x * cosines + swapped * sines

    def tables(self, position: Tensor | slice, like: Tensor) -> tuple[Tensor, Tensor]:
        """What `rotate` needs for tensors of this device and type."""
        cosines, sines = self._long_enough(position, like.device)
        cosines, sines = cosines[position], sines[position]  # (B or 1, T, D), or (T, D)
        if isinstance(position, Tensor):
            cosines, sines = cosines[:, None], sines[:, None]
        if cosines.dtype != like.dtype:
            cosines, sines = cosines.to(like.dtype), sines.to(like.dtype)
        return cosines, sines

    def _long_enough(self, position: Tensor | slice, device: torch.device) -> tuple[Tensor, Tensor]:
        cosines, sines = self.cosines, self.sines
        if isinstance(position, slice):
            longest = position.stop
        elif torch.compiler.is_compiling():  # in training, where positions begin at 0
            longest = position.shape[-1]
        else:
            longest = int(position.max()) + 1 if position.numel() else 0
        if longest <= cosines.shape[0]:
            return cosines, sines
        if torch.compiler.is_compiling():
            cosines, sines = self._tables(longest)
            return cosines.to(device), sines.to(device)
        self._grow(2 * longest, cosines.device)
        return self.cosines, self.sines


Scaled = tuple[Tensor, float]
"""The frequencies, and what cosines and sines are multiplied by."""


def _scale_linear(frequencies: Tensor, base: float, numbers: dict[str, float]) -> Scaled:
    del base
    return frequencies / numbers["factor"], 1.0


def _scale_llama3(frequencies: Tensor, base: float, numbers: dict[str, float]) -> Scaled:
    """Divides the frequencies that turn less than `low` times in `length` tokens, keeps those that
    turn more than `high` times, and mixes between them."""
    del base
    low, high = numbers["low"], numbers["high"]
    turns = numbers["length"] * frequencies / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / numbers["factor"]), 1.0


def _scale_yarn(frequencies: Tensor, base: float, numbers: dict[str, float]) -> Scaled:
    """YaRN (arXiv 2309.00071), with the border between the two kinds of frequencies as a ramp over
    their numbers, as transformers has it."""
    count = len(frequencies)

    def number_of(turns: float) -> float:
        """Which frequency turns this often in `length` tokens."""
        return (
            2 * count * math.log(numbers["length"] / (turns * 2 * math.pi)) / (2 * math.log(base))
        )

    low = max(math.floor(number_of(numbers["fast"])), 0)
    high = min(math.ceil(number_of(numbers["slow"])), 2 * count - 1)
    steps = torch.arange(count, dtype=torch.float64) - low
    divided = (steps / max(high - low, 1e-3)).clamp(0, 1)
    return frequencies * (1 - divided + divided / numbers["factor"]), numbers["amplitude"]


SCALINGS: dict[str, tuple[Callable[[Tensor, float, dict[str, float]], Scaled], tuple[str, ...]]] = {
    "linear": (_scale_linear, ("factor",)),
    "llama3": (_scale_llama3, ("factor", "low", "high", "length")),
    "yarn": (_scale_yarn, ("factor", "fast", "slow", "length", "amplitude")),
}
"""How rotary frequencies become lower for longer texts, and the numbers that each needs."""


def parse_scaling(text: str) -> tuple[str, dict[str, float]]:
    """The name and numbers of a text like linear:factor=2.

    >>> parse_scaling("linear:factor=2")
    ('linear', {'factor': 2.0})
    """
    name, _, listed = text.partition(":")
    pairs = dict(item.partition("=")[::2] for item in listed.split(",") if item)
    try:
        numbers = {key.strip(): float(value) for key, value in pairs.items()}
    except ValueError:
        numbers = {}
    if name not in SCALINGS or set(numbers) != set(SCALINGS[name][1]):
        forms = [
            f"{known}:{','.join(f'{key}=…' for key in keys)}"
            for known, (_, keys) in SCALINGS.items()
        ]
        raise ValueError(f"rotary_scaling is {text[:99]!r}; give {' or '.join(forms)}")
    ordered = name != "llama3" or numbers["low"] < numbers["high"]
    if not all(0 < number < math.inf for number in numbers.values()) or not ordered:
        raise ValueError(
            f"rotary_scaling is {text[:99]!r}; give numbers above 0"
            f"{'' if ordered else ', low below high'}"
        )
    return name, numbers


POSITIONS = ("learned", "sinusoidal", "rotary", "none")
