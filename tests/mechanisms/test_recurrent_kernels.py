"""The C kernel of the recurrent family against PyTorch's chunks: values, gradients, states."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnlab.mechanism import repeat_heads
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms.recurrent import Tokens, recurrent_weights, scan_chunks
from tests.support.c_compiler import needs_compiler
from tests.support.examples import examples

pytestmark = needs_compiler
BETA = 0.7
KINDS = list(product(["none", "head", "channel"], [False, True], [False, True]))
"""(decay, with a write strength, delta rule)"""
every_kind = pytest.mark.parametrize(("decay", "strength", "delta"), KINDS, ids=str)


class Written(NamedTuple):
    """What the kernel takes."""

    q: Tensor  # (B, H, T, C)
    k: Tensor  # (B, G, T, C)
    v: Tensor  # (B, G, T, M)
    decay: Tensor | None  # (B, G, T, 1 or C)
    strength: Tensor | None  # (B, G, T, 1)

    def leaves(self) -> list[Tensor]:
        return [x for x in self if x is not None]

    def map(self, change: Any) -> Written:
        return Written._make(None if x is None else change(x) for x in self)

    def tokens(self) -> Tokens:
        """As the PyTorch path takes them."""
        decay = self.decay
        decay = decay[..., 0] if decay is not None and decay.shape[3] == 1 else decay
        return Tokens(self.k, decay, None if self.strength is None else self.strength[..., 0])


def written(
    decay: str, strength: bool, sizes: tuple[int, ...], seed: int = 0, queries: int = 1
) -> Written:
    """Random inputs for G key heads and `queries` query heads for each."""
    B, G, T, C, M = sizes
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=random, dtype=torch.float64)

    k = normal(B, G, T, C)
    logs = {"none": None, "head": 1, "channel": C}[decay]
    return Written(
        normal(B, G * queries, T, C),
        k / k.norm(dim=-1, keepdim=True),
        normal(B, G, T, M),
        None if logs is None else -3 * uniform(B, G, T, logs).square(),
        1.5 * uniform(B, G, T, 1) if strength else None,
    )


def in_c(x: Written, delta: bool) -> Tensor:
    return compiled.recurrent_attend(*x, delta, BETA)


def in_chunks(x: Written, delta: bool) -> Tensor:
    H = x.q.shape[1]
    state = x.v.new_zeros(len(x.q), H, x.k.shape[3], x.v.shape[3])
    values = repeat_heads(x.v, H)
    return scan_chunks(x.q, values, x.tokens().repeat(H), state, delta, BETA)[0]


def by_definition(x: Written, delta: bool) -> Tensor:
    H = x.q.shape[1]
    return recurrent_weights(x.q, x.tokens().repeat(H), delta, BETA) @ repeat_heads(x.v, H)


def assert_close(actual: Any, expected: Any, limit: float) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape
        assert bool(one.isfinite().all())
        error = (one.double() - other).detach().abs().max() / (1 + other.detach().abs().max())
        assert float(error) < limit


def with_gradients(attend: Any, x: Written, delta: bool) -> list[Tensor]:
    """The output, and the gradients of a random projection of it."""
    x = x.map(lambda t: t.detach().clone().requires_grad_())
    out = attend(x, delta)
    generator = torch.Generator().manual_seed(99)
    direction = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    return [out, *torch.autograd.grad((out * direction.to(out.dtype)).sum(), x.leaves())]


@every_kind
@examples(15)
@given(
    sizes=st.tuples(*[st.integers(1, n) for n in (2, 3, 150, 40, 40)]),
    queries=st.integers(1, 3),
    seed=st.integers(0, 999),
)
def test_kernel_chunks_and_definition_agree(
    decay: str, strength: bool, delta: bool, sizes: tuple[int, ...], queries: int, seed: int
) -> None:
    x = written(decay, strength, sizes, seed, queries)
    expected = with_gradients(by_definition, x, delta)
    assert_close(with_gradients(in_c, x, delta), expected, 1e-10)
    assert_close(with_gradients(in_chunks, x, delta), expected, 1e-10)


@every_kind
@pytest.mark.parametrize("T", [1, 23, 64, 200])
def test_float32_is_exact_to_rounding(decay: str, strength: bool, delta: bool, T: int) -> None:
    x = written(decay, strength, (1, 2, T, 24, 40))
    expected = with_gradients(by_definition, x, delta)
    assert_close(with_gradients(in_c, x.map(Tensor.float), delta), expected, 2e-5)


@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize(("decay", "delta"), [("head", True), ("head", False), ("channel", False)])
def test_weak_and_strong_decays_in_the_same_row(decay: str, delta: bool, queries: int) -> None:
    """Each has its own way through a chunk of tokens, and so has forgetting everything."""
    x = written(decay, True, (2, 3, 107, 35, 71), queries=queries)
    assert x.decay is not None
    x.decay.mul_(0.1)
    x.decay[:, 1:, 43] = -5
    x.decay[:, 0, [20, 75, 76, 96]] = -torch.inf
    x.decay[:, 2, 77] = -torch.inf
    expected = with_gradients(by_definition, x, delta)
    assert_close(with_gradients(in_c, x, delta), expected, 1e-10)
    assert_close(with_gradients(in_c, x.map(Tensor.float), delta), expected, 2e-5)


@pytest.mark.parametrize("which", ["k", "v"])
def test_nan_does_not_reach_earlier_tokens(which: str) -> None:
    x = written("none", True, (1, 2, 31, 5, 7))
    bad = 22
    expected = with_gradients(in_c, x.map(lambda t: t[:, :, :bad].contiguous()), True)[1]
    getattr(x, which)[:, :, bad] = torch.nan
    q = x.q.clone().requires_grad_()
    out = in_c(x._replace(q=q), True)
    generator = torch.Generator().manual_seed(99)
    shape = (1, 2, bad, 7)
    direction = torch.randn(shape, generator=generator, dtype=torch.float64)
    (grad,) = torch.autograd.grad((out[:, :, :bad] * direction).sum(), [q])
    assert_close([grad[:, :, :bad]], [expected], 1e-10)


@every_kind
def test_gradcheck(decay: str, strength: bool, delta: bool) -> None:
    x = written(decay, strength, (1, 2, 7, 3, 5), queries=2)
    given_ones = [value is not None for value in x]

    def call(*leaves: Tensor) -> Tensor:
        rest = iter(leaves)
        return in_c(Written._make(next(rest) if here else None for here in given_ones), delta)

    assert torch.autograd.gradcheck(call, [leaf.requires_grad_() for leaf in x.leaves()])


@every_kind
def test_a_state_continues_from_another(decay: str, strength: bool, delta: bool) -> None:
    """One absorb, two absorbs, and absorbs of single tokens; from PyTorch's chunks as well."""
    x = written(decay, strength, (2, 3, 37, 5, 11))
    _, k, v, decays, strengths = x

    def absorb(tokens: slice, first: Tensor | None) -> Tensor:
        part = x.map(lambda t: t[:, :, tokens])
        return compiled.recurrent_absorb(*part[1:], delta, first)

    whole = compiled.recurrent_absorb(k, v, decays, strengths, delta, None)
    zeros = v.new_zeros(2, 3, 5, 11)
    chunks = scan_chunks(None, v, x.tokens(), zeros, delta, BETA)[1]
    halves = absorb(slice(13, 37), absorb(slice(0, 13), None))
    steps = None
    for t in range(37):
        steps = absorb(slice(t, t + 1), steps)
    assert_close([chunks, halves, steps], [whole] * 3, 1e-11)
    out = in_c(x, delta)
    read = BETA * (x.q[:, :, -1:] @ whole)
    assert_close([out[:, :, -1:]], [read], 1e-11)


@pytest.mark.parametrize("delta", [False, True])
def test_operators_pass_opcheck(delta: bool) -> None:
    """Schema, fake tensors, autograd registration and AOT dispatch, by PyTorch's own checker."""
    checks = ["test_schema", "test_faketensor"]
    operators = torch.ops.attnlab
    for decay, strength in product(["none", "channel"], [False, True]):
        x = written(decay, strength, (1, 2, 27, 3, 5), queries=2)
        leaves = x.map(lambda t: t.requires_grad_())
        results = torch.library.opcheck(
            operators.recurrent,
            (*leaves, delta, BETA, delta),
            test_utils=[*checks, "test_autograd_registration", "test_aot_dispatch_dynamic"],
        )
        assert set(results.values()) == {"SUCCESS"}
        plain = x.map(Tensor.detach)
        out, *kept = operators.recurrent(*plain, delta, BETA, delta)
        inputs = (*plain, delta, BETA, *kept, torch.ones_like(out))
        results = torch.library.opcheck(operators.recurrent_backward, inputs, test_utils=checks)
        assert set(results.values()) == {"SUCCESS"}


def test_operators_refuse_what_does_not_fit() -> None:
    """C trusts the sizes that it gets, so wrong ones must be refused before."""
    q, k, v, decay, strength = written("channel", True, (1, 2, 27, 3, 5), queries=2)
    assert decay is not None
    assert strength is not None
    rest = (False, BETA, False)
    wrong: list[tuple[Any, ...]] = [
        (q[:, :3], k, v, decay, strength),  # 3 query heads for 2 key heads
        (q[:, :, :26], k, v, decay, strength),
        (q[..., :2], k, v, decay, strength),
        (q, k, v[:, :1], decay, strength),
        (q, k, v, decay[..., :2], strength),
        (q, k, v, decay[..., 0], strength),
        (q, k, v, decay, strength.expand(-1, -1, -1, 3)),
        (q, k, v, decay, strength[:, :, :5]),
        (q.float(), k, v, decay, strength),
        (q, k, v, decay.float(), strength),
        tuple(x.half() for x in (q, k, v, decay, strength)),
    ]
    for inputs in wrong:
        with pytest.raises(ValueError, match=r"takes? "):
            torch.ops.attnlab.recurrent(*inputs, *rest)
    out, *kept = torch.ops.attnlab.recurrent(q, k, v, decay, strength, True, BETA, False)
    _, errors, starts = torch.ops.attnlab.recurrent(q, k, v, decay, strength, True, BETA, True)
    for wrong_kept in (kept, (errors, starts[:, :, :0]), (errors, starts[..., :-1])):
        with pytest.raises(ValueError, match="the errors and states that the forward pass kept"):
            torch.ops.attnlab.recurrent_backward(
                q, k, v, decay, strength, True, BETA, *wrong_kept, out
            )


@every_kind
def test_memory_of_any_layout(decay: str, strength: bool, delta: bool) -> None:
    """Tokens before heads, as layers have them, and every second number."""
    x = written(decay, strength, (2, 3, 27, 5, 11), queries=2)
    expected = with_gradients(in_c, x, delta)
    for layout in (
        lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
        lambda t: t.repeat_interleave(2, -1)[..., ::2],
        lambda t: t.flip(0).flip(0),
    ):

        def attend(x: Written, delta: bool, layout: Any = layout) -> Tensor:
            return in_c(x.map(layout), delta)

        assert_close(with_gradients(attend, x, delta), expected, 1e-13)


@pytest.mark.parametrize("delta", [False, True])
def test_a_state_that_is_not_contiguous(delta: bool) -> None:
    k, v, decay, strength = written("channel", True, (2, 3, 5, 7, 11))[1:]
    state = torch.randn(2, 3, 11, 7, dtype=torch.float64).mT
    expected = compiled.recurrent_absorb(k, v, decay, strength, delta, state.contiguous())
    assert torch.equal(compiled.recurrent_absorb(k, v, decay, strength, delta, state), expected)
