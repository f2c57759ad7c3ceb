"""Norms with a frozen scale: linear maps that return the same values.

A LayerNorm or RMSNorm is y = (x - mean) s g + b, where only the scale s depends on x (an RMSNorm
subtracts no mean). `g` and `b` are found by what the module returns for chosen inputs, so that any
library's class works, and the result is compared with the module's own.

Letters: B batch, T tokens, W width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

LARGE = 1e3  # an input so large that a norm's epsilon does not count
TOLERANCE = 1e-3  # relative to the largest output
ROUNDINGS = 4  # at least this many roundings of the model's numbers, which are coarse in bfloat16


@dataclass(frozen=True, eq=False)
class LinearNorm:
    """A norm with the scale of one input."""

    gain: Tensor  # (W,)
    bias: Tensor  # (W,)
    centered: bool
    scale: Tensor  # (B, T, 1)

    def __call__(self, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True) if self.centered else x
        return (x * self.scale * self.gain + self.bias).to(x.dtype)


class FrozenNorms:
    """All modules of a model that are norms by name; frozen while `active`."""

    def __init__(self, model: nn.Module) -> None:
        self.candidates = {
            module: name
            for name, module in model.named_modules()
            if "Norm" in type(module).__name__ and not list(module.children())
        }
        self.frozen: dict[nn.Module, LinearNorm] = {}
        self._reuse = False

    @contextmanager
    def active(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module in self.candidates:
                stack.callback(module.register_forward_hook(self._freeze).remove)
            yield

    @contextmanager
    def reused(self) -> Iterator[None]:
        """Use the scales of the run before."""
        self._reuse = True
        try:
            yield
        finally:
            self._reuse = False

    def bias_term(self, module: nn.Module) -> float:
        """What the bias of a norm adds to the number that `backward` was called on."""
        bias = self.frozen[module].bias
        return 0.0 if bias.grad is None else float((bias.grad * bias.detach()).double().sum())

    def _freeze(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        x = args[0] if args else None
        if not isinstance(x, Tensor) or not isinstance(output, Tensor) or x.shape != output.shape:
            return None
        if self._reuse:
            return self.frozen[module](x) if module in self.frozen else None
        if not x.requires_grad:
            return None  # not on the path
        norm = linear_norm(module, x, output)
        if norm is None:
            raise ValueError(
                f"{self.candidates[module]}: a {type(module).__name__} is neither a LayerNorm nor "
                "an RMSNorm, so its scale cannot be frozen"
            )
        self.frozen[module] = norm
        return norm(x)


@torch.no_grad()
def linear_norm(module: nn.Module, x: Tensor, output: Tensor) -> LinearNorm | None:
    """The norm at this input; None if the module is something else."""
    forward: Any = module.forward
    W = x.shape[-1]
    signs = torch.ones(W, device=x.device, dtype=x.dtype)
    signs[1::2] = -1
    if W % 2:
        signs[-1] = 0  # so that the mean is 0
    scale = signs.square().mean().sqrt()

    def respond(probe: Tensor) -> Tensor:
        result: Tensor = forward(probe.expand(1, 1, W))[0, 0].float()
        return result

    bias = respond(torch.zeros_like(signs))
    gain = torch.zeros(W, device=x.device)
    for probe in (signs, signs.roll(1)):  # the rolled one covers the entry that was 0
        known = probe != 0
        gain[known] = ((respond(LARGE * probe) - bias) * scale / probe.float())[known]
    centered = float((respond(LARGE * torch.ones_like(signs)) - bias).abs().max()) < (
        0.5 * float(gain.abs().max())
    )
    inner = x.float()
    inner = inner - inner.mean(-1, keepdim=True) if centered else inner
    shaped = inner * gain
    size = (shaped * shaped).sum(-1, keepdim=True).clamp(min=1e-30)
    fitted = (shaped * (output.float() - bias)).sum(-1, keepdim=True) / size  # (B, T, 1)
    norm = LinearNorm(gain, bias.clone().requires_grad_(), centered, fitted)
    tolerance = max(TOLERANCE, ROUNDINGS * torch.finfo(x.dtype).eps)
    limit = tolerance * float(output.abs().max().clamp(min=1e-6))
    return norm if float((norm(x) - output).abs().max()) <= limit else None
