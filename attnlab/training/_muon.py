"""The Muon optimizer of torch, made fast on a CPU.

torch orthogonalizes in bfloat16, one matrix after the other. On a CPU without bfloat16 units that
takes twenty times as long as float32 (docs/benchmarks.md), more than the rest of a step. Here the
precision depends on the device, and matrices of one shape are processed together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS, ITERATIONS, EPSILON = (3.4445, -4.7750, 2.0315), 5, 1e-7


def orthogonalize(matrices: Tensor) -> Tensor:
    """Move the singular values of each of (n, rows, columns) to about 1 (Newton-Schulz)."""
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=EPSILON)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Muon):
    """The same rule, options and state as torch.optim.Muon."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            shapes = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes[parameter.shape].append(parameter)
            for (rows, columns), parameters in shapes.items():
                updates = orthogonalize(self._directions(parameters, group["momentum"]))
                rate = group["lr"] * max(1, rows / columns) ** 0.5
                for parameter, update in zip(parameters, updates, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(_shard_like(update.to(parameter.dtype), parameter), alpha=-rate)
        return loss

    def _directions(self, parameters: list[Tensor], momentum: float) -> Tensor:
        """Nesterov momentum: the gradient mixed with the running mean of earlier ones."""
        directions = []
        for parameter in parameters:
            gradient, state = parameter.grad, self.state[parameter]
            assert gradient is not None
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(gradient)
            mean = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
            direction: Any = gradient.lerp(mean, momentum)
            full = direction.full_tensor() if hasattr(direction, "full_tensor") else direction
            precision = torch.bfloat16 if full.device.type == "cuda" else torch.float32
            directions.append(full.to(precision))
        return torch.stack(directions)


def _shard_like(update: Tensor, parameter: Tensor) -> Tensor:
    """The update, sharded like the parameter if that is sharded."""
    if not hasattr(parameter, "full_tensor"):
        return update
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(parameter, DTensor)
    return distribute_tensor(update, parameter.device_mesh, parameter.placements)
