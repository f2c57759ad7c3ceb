"""Two ways to one output, compared on values and on gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnlab.laws._trial import HEADS, Inputs
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism, repeat_heads

TOLERANCE = 1e-10


class LawError(AssertionError):
    """What a mechanism does that it must not."""


class UnsuitableError(Exception):
    """These inputs say nothing about the law; others may."""


def must(holds: bool, problem: str) -> None:
    """Not `assert`: a law must be able to fail under `python -O` too."""
    if not holds:
        raise LawError(problem)


def assert_same(
    got: Sequence[Tensor | None],
    wanted: Sequence[Tensor | None],
    condition: float = 1.0,
    what: str = "the output",
) -> None:
    """Equal to rounding; no gradient is the same as a gradient of zeros."""
    for one, other in zip(got, wanted, strict=True):
        if one is None and other is None:
            continue
        one = torch.zeros_like(other) if one is None and other is not None else one
        other = torch.zeros_like(one) if other is None and one is not None else other
        assert one is not None
        assert other is not None
        one, other = one.detach(), other.detach()
        shapes = f"{tuple(one.shape)} {one.dtype}, not {tuple(other.shape)} {other.dtype}"
        must(one.shape == other.shape and one.dtype == other.dtype, f"{what} is {shapes}")
        if one.numel() == 0:
            continue
        finite = bool(one.isfinite().all()) and bool(other.isfinite().all())
        must(finite, f"{what} is not finite")
        scale = 1 + other.abs().max()
        worst, limit = float((one - other).abs().max() / scale), TOLERANCE * condition
        must(
            worst <= limit,
            f"{what} differs by {worst:.1e} of the largest, more than {limit:.1e}",
        )


def gradients(out: Tensor, leaves: Sequence[Tensor]) -> list[Any]:
    """Of one fixed random direction of the output."""
    if not out.requires_grad:
        return [None] * len(leaves)
    generator = torch.Generator().manual_seed(1)
    direction = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    total = (out * direction.to(out.dtype)).sum()
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


def parameters(mechanism: Mechanism) -> list[Tensor]:
    return list(mechanism.parameters())


def conditions(mechanism: Mechanism, inputs: Inputs, mask: Mask) -> tuple[float, float]:
    """By how much rounding may grow in values and in gradients, where sums can cancel."""
    with torch.no_grad():
        condition = mechanism.condition(inputs.q, inputs.k, mask)
    worst = float(condition.max()) if condition.numel() else 1.0
    if worst >= 1e3:
        raise UnsuitableError("a row that cancels so far is noise on every path")
    return worst, worst**2


def assume_margin(mechanism: Mechanism, inputs: Inputs) -> None:
    """A discontinuous mechanism is compared where rounding cannot decide between two keys."""
    if mechanism.card.continuous:
        return
    with torch.no_grad():
        scores = inputs.q @ repeat_heads(inputs.k.nan_to_num(0), HEADS).mT
        best = scores.sort(-1).values
        if scores.shape[-1] >= 2 and float(best.diff(dim=-1).min()) <= 1e-6:
            raise UnsuitableError("two keys score nearly alike")


def compare(
    mechanism: Mechanism,
    inputs: Inputs,
    mask: Mask,
    got: Callable[[Inputs], Tensor],
    wanted: Callable[[Inputs], Tensor],
) -> None:
    """Two ways to the same output, from the same inputs: values and gradients."""
    assume_margin(mechanism, inputs)
    value_condition, gradient_condition = conditions(mechanism, inputs, mask)
    mine, theirs = inputs.fresh(), inputs.fresh()
    one, other = got(mine), wanted(theirs)
    assert_same([one], [other], value_condition)
    assert_same(
        gradients(one, [*mine.leaves(), *parameters(mechanism)]),
        gradients(other, [*theirs.leaves(), *parameters(mechanism)]),
        gradient_condition,
        "a gradient",
    )
