"""The feed-forward layer, and the norms around layers.

Letters: B batch, T tokens, W width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["FEED_FORWARDS", "GATED", "NORMS", "FeedForward", "create_norm"]

NORMS: dict[str, Callable[..., nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


def create_norm(kind: str, width: int, epsilon: float | None = None) -> nn.Module:
    """LayerNorm or RMSNorm; without `epsilon`, PyTorch's own."""
    if kind not in NORMS:
        raise ValueError(f"norm is {kind!r}; choose from {', '.join(NORMS)}")
    return NORMS[kind](width) if epsilon is None else NORMS[kind](width, eps=epsilon)


class FeedForward(nn.Module):
    """The feed-forward layer: one of `FEED_FORWARDS` between two matrices.

    In a gated one (swiglu, geglu), the first matrix returns the gates, then the values.
    """

    def __init__(
        self, width: int, kind: str = "gelu", inner: int | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        if kind not in FEED_FORWARDS:
            raise ValueError(f"feed_forward is {kind!r}; choose from {', '.join(FEED_FORWARDS)}")
        self.kind = kind
        # a gated layer has three matrices, so two thirds of the width give the same parameter count
        inner = inner or (8 * width // 3 if kind in GATED else 4 * width)
        self.rise = nn.Linear(width, 2 * inner if kind in GATED else inner, bias=bias)
        self.fall = nn.Linear(inner, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, W) -> (B, T, W)"""
        return self.fall(FEED_FORWARDS[self.kind](self.rise(x)))


def _gated(activation: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def apply(x: Tensor) -> Tensor:
        gate, value = x.chunk(2, dim=-1)
        return activation(gate) * value

    return apply


_gelu_tanh: Any = partial(F.gelu, approximate="tanh")
GATED = ("swiglu", "geglu", "geglu_tanh")
FEED_FORWARDS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "swiglu": _gated(F.silu),
    "geglu": _gated(F.gelu),
    "geglu_tanh": _gated(_gelu_tanh),
}
