"""Who may look at whom: a meaning, not a tensor.

Letters: B batch, T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Mask:
    """Key j stands at position j, query i at position `start + i`.

    A query may look at a key that is real and, if `causal`, not later than the query.
    """

    causal: bool = False
    keys: Tensor | None = None
    """(B, S) True for a real token, False for padding, which may hold anything, NaN too."""
    start: int | Tensor = 0
    """Absolute position of the first query: one for all, or (B,) one per row."""

    def __post_init__(self) -> None:
        keys, start = self.keys, self.start
        if not isinstance(self.causal, bool):
            raise ValueError(f"Mask: causal is {_kind(self.causal)}; give True or False")
        if keys is not None and not (
            isinstance(keys, Tensor) and keys.dtype == torch.bool and keys.dim() == 2
        ):
            raise ValueError(
                f"Mask: keys is {_kind(keys)}; "
                "give a torch.bool tensor (B, S), True for a real token"
            )
        if isinstance(start, Tensor):
            whole = not (start.is_floating_point() or start.is_complex())
            fits = whole and start.dtype != torch.bool and start.dim() == 1
        else:
            fits = isinstance(start, int) and not isinstance(start, bool)
        if not fits:
            raise ValueError(
                f"Mask: start is {_kind(start)}; "
                "give an int, or an integer tensor (B,) with one position per row"
            )

    @property
    def from_zero(self) -> bool:
        """The first query of every row stands at position 0."""
        return not isinstance(self.start, Tensor) and self.start == 0

    def positions(self, T: int, device: torch.device) -> Tensor:
        """Absolute positions of T queries: (B or 1, T)."""
        steps = torch.arange(T, device=device)
        if isinstance(self.start, Tensor):
            return self.start.to(device)[:, None] + steps  # (B, T)
        return (self.start + steps)[None]  # (1, T)

    def allowed(self, T: int, S: int, device: torch.device) -> Tensor | None:
        """(B or 1, 1, T or 1, S), True where a query may look; None if all may look at all."""
        allowed = None if self.keys is None else self.keys[:, None, None, :]  # (B, 1, 1, S)
        if self.causal:
            later = torch.arange(S, device=device) > self.positions(T, device)[..., None]
            earlier = ~later[:, None]  # (B or 1, 1, T, S)
            allowed = earlier if allowed is None else earlier & allowed
        return allowed

    def describe(self) -> str:
        """What an error message says of this mask."""
        keys = "None" if self.keys is None else str(tuple(self.keys.shape))
        start = (
            f"tensor {tuple(self.start.shape)}" if isinstance(self.start, Tensor) else self.start
        )
        return f"Mask(causal={self.causal}, keys={keys}, start={start})"


NO_MASK = Mask()
"""Every query may look at every key."""


def _kind(x: object) -> str:
    if isinstance(x, Tensor):
        return f"{x.dtype} of shape {tuple(x.shape)}"
    return f"{type(x).__name__} {x!r}"[:80]
