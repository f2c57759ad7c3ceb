"""Model settings that give contenders equally many parameters, or equally large decoding states.

The inner size of the feed-forward layers sets the number of parameters. The state of a recurrence
has a matrix for each head, so width and heads set its size; a window or a number of features sets
it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import torch

from attnlab._create_mechanism import find_mechanism, format_spec, mechanism_options
from attnlab.models import Decoder, Model

PARAMETER_TOLERANCE = 0.02
STATE_TOLERANCE = 0.02
NEARBY = 4  # how far from an impossible size a possible one is looked for
Sizes = Mapping[str, int]
Build = Callable[[str, Sizes], Model]
"""Makes an untrained model with a mechanism and changed sizes."""


@dataclass(frozen=True)
class Candidate:
    """Settings whose state has this many bytes."""

    variant: str
    sizes: dict[str, int]
    nbytes: int
    change: float
    """How far the width is from the one that you gave, as a factor of at least 1."""


def state_bytes(model: Model, length: int) -> int | None:
    """Bytes of the decoding state of one row after `length` tokens; None without such a state.

    Gradients are on because a state then holds only what later tokens need: without them a window
    drops old keys later, to copy less.
    """
    if not isinstance(model, Decoder):
        return None
    training = model.training
    model.eval()
    ids = torch.zeros(1, length, dtype=torch.long, device=next(model.parameters()).device)
    with torch.enable_grad():
        first = max(1, length - 1)
        _, state = model.prefill(ids[:, :first], torch.tensor([first]))
        if length > first:
            _, state = model.step(ids[:, 0], state)
    model.train(training)
    return sum(block.attention.nbytes for block in state.blocks)


def equal_feed_width(target: int, variant: str, sizes: Sizes, build: Build) -> int | None:
    """The feed-forward width with which the number of parameters is nearest to `target`; None if it
    does not change that number."""
    model = build(variant, sizes)
    default = model.config.feed_width or model.stack.blocks[0].feed_forward.fall.in_features  # type: ignore[union-attr, index]
    count = model.parameter_count()
    per_unit = build(variant, {**sizes, "feed_width": default + 1}).parameter_count() - count
    if per_unit <= 0:
        return None
    return max(1, default + round((target - count) / per_unit))


def has_constant_state(model: Model, length: int) -> bool:
    return length > 1 and state_bytes(model, length) == state_bytes(model, length // 2)


def equal_state(
    target: int, variant: str, width: int, heads: int, build: Build, length: int
) -> tuple[str, dict[str, int]]:
    """The variant and the sizes whose state is nearest to `target` bytes. Those within 2% with the
    nearest width come first."""
    candidates = [
        *_as_given(variant, build, length),
        *_by_option(target, variant, build, length),
        *_by_width(target, variant, width, heads, build, length),
    ]

    def rank(candidate: Candidate) -> tuple[bool, float, float]:
        error = abs(candidate.nbytes / target - 1)
        return error > STATE_TOLERANCE, candidate.change if error <= STATE_TOLERANCE else 0, error

    best = min(candidates, key=rank)
    return best.variant, best.sizes


def _as_given(variant: str, build: Build, length: int) -> Iterator[Candidate]:
    nbytes = _measure(variant, {}, build, length)
    if nbytes is not None:
        yield Candidate(variant, {}, nbytes, 1.0)


def _by_option(target: int, variant: str, build: Build, length: int) -> Iterator[Candidate]:
    """With another value of the option that sets the size, if you did not give one."""
    if not variant.isidentifier():
        return
    kind = find_mechanism(variant)
    options = {option.name: option for option in mechanism_options(variant)}
    if kind.size_option not in options:
        return

    def spec(size: int) -> str:
        return format_spec(variant, {str(kind.size_option): size})

    sizes = _bisect(target, lambda size: _measure(spec(size), {}, build, length), 1, 4096)
    for size, nbytes in sizes:
        yield Candidate(spec(size), {}, nbytes, 1.0)


def _by_width(
    target: int, variant: str, width: int, heads: int, build: Build, length: int
) -> Iterator[Candidate]:
    """With other widths and numbers of heads. A head has at least 4 channels."""
    for count in sorted(set(_divisors(width)) | {heads}):
        if width // count < 4:
            continue

        def measure(per_head: int, count: int = count) -> int | None:
            return _measure(variant, {"width": per_head * count, "heads": count}, build, length)

        for per_head, nbytes in _bisect(target, measure, 4, max(4, 4 * width // count)):
            new = per_head * count
            yield Candidate(
                variant, {"width": new, "heads": count}, nbytes, max(new / width, width / new)
            )


def _bisect(
    target: int, measure: Callable[[int], int | None], low: int, high: int
) -> list[tuple[int, int]]:
    """The two neighbors in this range whose increasing measure surrounds the target. A size whose
    measure is None is impossible, as odd ones often are: one nearby is taken. If there is none,
    sizes from there on are too large."""
    measure = cache(measure)
    while high - low > 1:
        middle = (low + high) // 2
        nearby = range(max(low + 1, middle - NEARBY), min(high, middle + NEARBY + 1))
        nearest_first = sorted(nearby, key=lambda size: abs(size - middle))
        size = next((size for size in nearest_first if measure(size) is not None), None)
        if size is None and len(nearby) == high - low - 1:
            break  # nothing is left between them
        size = size or middle
        nbytes = measure(size)
        if nbytes is None or nbytes > target:
            high = size
        else:
            low = size
    measured = [(size, measure(size)) for size in (low, high)]
    return [(size, nbytes) for size, nbytes in measured if nbytes is not None]


def _measure(variant: str, sizes: Sizes, build: Build, length: int) -> int | None:
    try:
        return state_bytes(build(variant, sizes), length)
    except ValueError:  # this size is not possible
        return None


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
