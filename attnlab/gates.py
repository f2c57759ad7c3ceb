"""Gates: what a token contributes besides q, k and v.

`log_decay` says how much of the past a token forgets, `write_strength` how strongly it writes. A
gate belongs to the token that writes, so it has as many heads as the keys.

Letters: B batch, G key heads, S keys, D head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = [
    "DecayAndStrength",
    "ForgetGate",
    "Gate",
    "GateProjection",
    "StepGate",
    "StrengthGate",
    "log_decay",
    "sample_gates",
    "write_strength",
]

Gates = dict[str, Tensor]


@dataclass(frozen=True)
class Gate:
    """One gate of a mechanism: its name, shape, range, and how to sample values for experiments."""

    name: str
    low: float
    high: float
    sample: Callable[[Sequence[int], torch.Generator | None], Tensor]
    """Typical values of this shape."""
    per_channel: bool = False
    """(B, G, S, D) instead of (B, G, S)."""

    def shape(self, k: Tensor) -> tuple[int, ...]:
        """The shape for keys (B, G, S, D)."""
        return tuple(k.shape if self.per_channel else k.shape[:3])

    @property
    def axes(self) -> str:
        return "(B, key heads, S, D)" if self.per_channel else "(B, key heads, S)"

    @property
    def range(self) -> str:
        low, high = f"{self.low:g}", f"{self.high:g}"
        if self.low == -float("inf"):
            return f"numbers of at most {high}"
        if self.high == float("inf"):
            return f"finite numbers of at least {low}"
        return f"numbers from {low} to {high}"


class GateProjection(nn.Module):
    """Makes a mechanism's gates (B, G, S) or (B, G, S, D) from the hidden state (B, S, width)."""

    def __init__(
        self, width: int, heads: int, head_dim: int, per_channel: bool = False,
        rank: int | None = None, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.shape = (heads, head_dim) if per_channel else (heads,)
        size = math.prod(self.shape)
        self.project: nn.Module = (
            nn.Linear(width, size, bias=bias)
            if rank is None
            else nn.Sequential(nn.Linear(width, rank, bias=False), nn.Linear(rank, size, bias=bias))
        )

    def projected(self, x: Tensor) -> Tensor:
        """(B, S, width) -> (B, G, S) or (B, G, S, D)."""
        return self.project(x).unflatten(-1, self.shape).transpose(1, 2)

    def forward(self, x: Tensor) -> Gates:
        raise NotImplementedError


class ForgetGate(GateProjection):
    """log_decay = log sigmoid(W x) / temperature."""

    def __init__(
        self, width: int, heads: int, head_dim: int, temperature: float = 1.0, **options: Any
    ) -> None:
        super().__init__(width, heads, head_dim, **options)
        self.temperature = temperature

    def forward(self, x: Tensor) -> Gates:
        return {"log_decay": F.logsigmoid(self.projected(x)) / self.temperature}


class StrengthGate(GateProjection):
    """write_strength = sigmoid(W x)."""

    def forward(self, x: Tensor) -> Gates:
        return {"write_strength": self.projected(x).sigmoid()}


class StepGate(GateProjection):
    """step = softplus(W x + b), log_decay = -rate * step, write_strength = step.

    At the start softplus(b), the step where W x is 0, is log-uniform between 0.001 and 0.1, and the
    rate of each head uniform between 1 and 16, as in Mamba-2.
    """

    def __init__(self, width: int, heads: int, head_dim: int, **options: Any) -> None:
        super().__init__(width, heads, head_dim, bias=False, **options)
        step = torch.empty(self.shape).uniform_(math.log(1e-3), math.log(0.1)).exp()
        self.bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))  # softplus gives the step
        rate = torch.empty(heads, *[1] * len(self.shape[1:])).uniform_(1, 16)
        self.log_rate = nn.Parameter(rate.log())  # (G,) or (G, 1)

    def forward(self, x: Tensor) -> Gates:
        bias, rate = self.bias[:, None], self.log_rate.exp()[:, None]
        step = F.softplus(self.projected(x) + bias)
        return {"log_decay": -rate * step, "write_strength": step}


class DecayAndStrength(StepGate):
    """log_decay as StepGate has it, and write_strength = sigmoid(V x)."""

    def __init__(self, width: int, heads: int, head_dim: int, **options: Any) -> None:
        super().__init__(width, heads, head_dim, **options)
        self.strength = StrengthGate(width, heads, head_dim)

    def forward(self, x: Tensor) -> Gates:
        return {**super().forward(x), **self.strength(x)}


def sample_log_decay(shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
    """Logarithms of decays between 0.5 and 1, most of them near 1."""
    return -0.7 * torch.rand(tuple(shape), generator=generator).square()


def sample_unit(shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
    return torch.rand(tuple(shape), generator=generator)


def log_decay(*, per_channel: bool = False) -> Gate:
    """How much of the past a token forgets: 0 nothing, -inf everything.

    >>> from attnlab.gates import log_decay
    >>> log_decay(per_channel=True).axes
    '(B, key heads, S, D)'
    """
    return Gate("log_decay", -float("inf"), 0.0, sample_log_decay, per_channel)


def write_strength(high: float) -> Gate:
    """How strongly a token writes: from 0, which leaves no trace, to `high`.

    >>> from attnlab.gates import write_strength
    >>> write_strength(high=2.0).range
    'numbers from 0 to 2'
    """
    return Gate("write_strength", 0.0, high, sample_unit)


def sample_gates(
    gates: Sequence[Gate], k: Tensor, generator: torch.Generator | None = None
) -> Gates:
    """Typical gates for keys (B, G, S, D), with their dtype and device.

    >>> import torch
    >>> from attnlab import MECHANISMS
    >>> from attnlab.gates import sample_gates
    >>> gates = sample_gates(MECHANISMS["kda"].gates, torch.randn(2, 3, 11, 5))
    >>> {name: tuple(gate.shape) for name, gate in gates.items()}
    {'log_decay': (2, 3, 11, 5), 'write_strength': (2, 3, 11)}
    """
    return {gate.name: gate.sample(gate.shape(k), generator).to(k) for gate in gates}


def skip_padding(gates: Gates, keys: Tensor | None) -> Gates:
    """Gates that are 0 at padding, which then neither decays nor writes."""
    if keys is None:
        return gates
    padding = ~keys[:, None]  # (B, 1, S)
    return {
        name: gate.masked_fill(padding if gate.dim() == 3 else padding[..., None], 0)
        for name, gate in gates.items()
    }
