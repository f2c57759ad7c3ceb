"""Which keys each query may attend to, described without a mask tensor.

Letters: B batch, T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Mask:
    """Key j has position j, query i has position `start + i`.

    A query may attend to every real key; if `causal`, only to those that are not later.
    """

    causal: bool = False
    keys: Tensor | None = None
    """(B, S) True for a real token, False for padding. Padding may hold anything, even NaN."""
    start: int | Tensor = 0
    """Absolute position of the first query: one number, or (B,) one per row."""

    def __post_init__(self) -> None:
        keys, start = self.keys, self.start
        if not isinstance(self.causal, bool):  # not 1, nor a tensor
            raise ValueError(f"Mask: causal is {_describe_value(self.causal)}; give True or False")
        if keys is not None and not (
            isinstance(keys, Tensor) and keys.dtype == torch.bool and keys.dim() == 2
        ):
            raise ValueError(
                f"Mask: keys is {_describe_value(keys)}; "
                "give a torch.bool tensor (B, S), True for a real token"
            )
        if isinstance(start, Tensor):
            is_integer = not (start.is_floating_point() or start.is_complex())
            fits = is_integer and start.dtype != torch.bool and start.dim() == 1
        else:
            fits = isinstance(start, int) and not isinstance(start, bool)
        if not fits:
            raise ValueError(
                f"Mask: start is {_describe_value(start)}; "
                "give an int, or an integer tensor (B,) with one position per row"
            )

    @property
    def from_zero(self) -> bool:
        """Whether the first query of every row has position 0."""
        return not isinstance(self.start, Tensor) and self.start == 0

    def positions(self, T: int, device: torch.device) -> Tensor:
        """Absolute positions of T queries: (B or 1, T)."""
        steps = torch.arange(T, device=device)
        if isinstance(self.start, Tensor):
            return self.start.to(device)[:, None] + steps  # (B, T)
        return (self.start + steps)[None]  # (1, T)

    def allowed(self, T: int, S: int, device: torch.device) -> Tensor | None:
        """(B or 1, 1, T or 1, S), True where a query may attend; None if every query sees all."""
        allowed = None if self.keys is None else self.keys[:, None, None, :]  # (B, 1, 1, S)
        if self.causal:
            later = torch.arange(S, device=device) > self.positions(T, device)[..., None]
            earlier = ~later[:, None]  # (B or 1, 1, T, S)
            allowed = earlier if allowed is None else earlier & allowed
        return allowed

    def describe(self) -> str:
        """The mask as error messages show it."""
        keys = "None" if self.keys is None else str(tuple(self.keys.shape))
        start = (
            f"tensor {tuple(self.start.shape)}" if isinstance(self.start, Tensor) else self.start
        )
        return f"Mask(causal={self.causal}, keys={keys}, start={start})"


NO_MASK = Mask()
"""Every query may attend to every key."""


def _describe_value(x: object) -> str:
    if isinstance(x, Tensor):
        return f"{x.dtype} of shape {tuple(x.shape)}"
    return f"{type(x).__name__} {x!r}"[:80]
