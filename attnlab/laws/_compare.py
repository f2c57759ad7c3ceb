"""Comparison of two computations of one output, in values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnlab.laws._law_inputs import HEADS, LawInputs
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism, repeat_heads

TOLERANCE = 1e-10


class LawError(AssertionError):
    """A mechanism breaks a law."""


class UnsuitableError(Exception):
    """These inputs cannot decide whether the law holds; others may."""


def require(holds: bool, problem: str) -> None:
    """Raise LawError unless `holds`. Unlike `assert`, it works under `python -O` too."""
    if not holds:
        raise LawError(problem)


def assert_equal_to_rounding(
    actual: Sequence[Tensor | None],
    expected: Sequence[Tensor | None],
    condition: float = 1.0,
    label: str = "the output",
) -> None:
    """Require equality up to rounding errors. No gradient counts as a gradient of zeros."""
    for one, other in zip(actual, expected, strict=True):
        if one is None and other is None:
            continue
        one = torch.zeros_like(other) if one is None and other is not None else one
        other = torch.zeros_like(one) if other is None and one is not None else other
        assert one is not None
        assert other is not None
        one, other = one.detach(), other.detach()
        shapes = f"{tuple(one.shape)} {one.dtype}, not {tuple(other.shape)} {other.dtype}"
        require(one.shape == other.shape and one.dtype == other.dtype, f"{label} is {shapes}")
        if one.numel() == 0:
            continue
        finite = bool(one.isfinite().all()) and bool(other.isfinite().all())
        require(finite, f"{label} is not finite")
        scale = 1 + other.abs().max()
        worst, limit = float((one - other).abs().max() / scale), TOLERANCE * condition
        require(
            worst <= limit,
            f"{label} differs by {worst:.1e} of the largest entry; the limit is {limit:.1e}",
        )


def gradients(out: Tensor, leaves: Sequence[Tensor]) -> list[Any]:
    """The gradients of a fixed random projection of the output."""
    if not out.requires_grad:
        return [None] * len(leaves)
    generator = torch.Generator().manual_seed(1)
    direction = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    total = (out * direction.to(out.dtype)).sum()
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


def parameters(mechanism: Mechanism) -> list[Tensor]:
    return list(mechanism.parameters())


def condition_numbers(mechanism: Mechanism, inputs: LawInputs, mask: Mask) -> tuple[float, float]:
    """The factors by which rounding errors may grow in values and in gradients."""
    with torch.no_grad():
        condition = mechanism.condition(inputs.q, inputs.k, mask, **inputs.gates)
    worst = float(condition.max()) if condition.numel() else 1.0
    if worst >= 1e3:
        raise UnsuitableError("terms cancel so much that every result is rounding noise")
    return worst, worst**2


def assume_margin(mechanism: Mechanism, inputs: LawInputs) -> None:
    """Refuse inputs where rounding decides between two keys of a discontinuous mechanism."""
    if mechanism.card.continuous:
        return
    with torch.no_grad():
        scores = inputs.q @ repeat_heads(inputs.k.nan_to_num(0), HEADS).mT
        best = scores.sort(-1).values
        if scores.shape[-1] >= 2 and float(best.diff(dim=-1).min()) <= 1e-6:
            raise UnsuitableError("two keys have nearly equal scores")


def compare(
    mechanism: Mechanism,
    inputs: LawInputs,
    mask: Mask,
    actual: Callable[[LawInputs], Tensor],
    expected: Callable[[LawInputs], Tensor],
) -> None:
    """Require that two computations agree in values and gradients on the same inputs."""
    assume_margin(mechanism, inputs)
    value_condition, gradient_condition = condition_numbers(mechanism, inputs, mask)
    left, right = inputs.fresh(), inputs.fresh()
    one, other = actual(left), expected(right)
    assert_equal_to_rounding([one], [other], value_condition)
    assert_equal_to_rounding(
        gradients(one, [*left.leaves(), *parameters(mechanism)]),
        gradients(other, [*right.leaves(), *parameters(mechanism)]),
        gradient_condition,
        "a gradient",
    )
