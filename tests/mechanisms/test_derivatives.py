"""Derivatives by torch.func and forward mode. The C kernels and hand-written loops do not support
them, and PyTorch would treat their results as constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from attnlab import MECHANISMS, Mask, create_mechanism
from attnlab._create_mechanism import create_attention
from attnlab.mechanism import Mechanism
from attnlab.mechanisms.kernel import Kernel
from attnlab.mechanisms.recurrent import Recurrent
from tests.support.law_trials import LawInputs, absorb, make_inputs, skip_missing_form

# PyTorch's own, when it first makes a dual number
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
COMPILED = sorted(name for name, kind in MECHANISMS.items() if kind.compilable)
B, H, T, D = 1, 2, 9, 4
OPTIONS: dict[str, dict[str, Any]] = {"bigbird": {"block": 2}, "window": {"window": 3}}
every = pytest.mark.parametrize("name", COMPILED)
both_forms = pytest.mark.parametrize("causal", [False, True])


def inputs_of(name: str) -> tuple[Mechanism, list[Tensor], list[Tensor]]:
    """A mechanism, its q, k, v and gates, and a direction for each."""
    length = T if MECHANISMS[name].card.needs_length else None
    options = OPTIONS.get(name, {})
    mechanism = create_mechanism(name, head_dim=D, heads=H, max_length=length, **options).double()
    x = make_inputs(mechanism, B=B, G=H, T=T, S=T).to(torch.float64)
    inside = [  # differences step out to both sides
        x.gates[gate.name].clamp(gate.low + 0.01, gate.high - 0.01) for gate in mechanism.gates
    ]
    at = [x.q, x.k, x.v, *inside]
    random = torch.Generator().manual_seed(1)
    along = [torch.randn(each.shape, generator=random, dtype=torch.float64) for each in at]
    return mechanism, at, along


def call(mechanism: Mechanism, causal: bool) -> Callable[..., Tensor]:
    """The output as a function of q, k, v and the gates."""

    def f(q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        named = {gate.name: x for gate, x in zip(mechanism.gates, gates, strict=True)}
        return mechanism(q, k, v, Mask(causal), **named)

    return f


def differences(f: Callable[..., Tensor], at: list[Tensor], along: list[Tensor]) -> Tensor:
    """The derivative in a direction, by central differences."""
    step = 1e-6
    ahead = f(*(x + step * direction for x, direction in zip(at, along, strict=True)))
    behind = f(*(x - step * direction for x, direction in zip(at, along, strict=True)))
    return (ahead - behind) / (2 * step)


@both_forms
@every
def test_forward_mode_is_right(name: str, causal: bool) -> None:
    mechanism, at, along = inputs_of(name)
    skip_missing_form(mechanism, causal)
    f = call(mechanism, causal)
    expected = differences(f, at, along)
    assert expected.abs().max() > 0.1
    out, actual, *_ = torch.func.jvp(f, tuple(at), tuple(along))
    torch.testing.assert_close(out, f(*at))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)
    with forward_ad.dual_level():
        dual = f(*map(forward_ad.make_dual, at, along))
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, actual)


@both_forms
@every
def test_torch_func_has_the_gradients_of_backward(name: str, causal: bool) -> None:
    mechanism, at, (_, _, direction, *_) = inputs_of(name)
    skip_missing_form(mechanism, causal)

    def loss(*inputs: Tensor) -> Tensor:
        return (call(mechanism, causal)(*inputs) * direction).sum()

    inputs = [x.clone().requires_grad_() for x in at]
    loss(*inputs).backward()
    every_input = tuple(range(len(at)))
    for actual, x in zip(torch.func.grad(loss, every_input)(*at), inputs, strict=True):
        torch.testing.assert_close(actual, x.grad)


@pytest.mark.parametrize("name", [name for name in COMPILED if MECHANISMS[name].gates])
def test_gradients_of_each_row_by_vmap(name: str) -> None:
    """torch.func.vmap hides the values, so the range of gates is not checked inside of it."""
    mechanism, at, (_, _, direction, *_) = inputs_of(name)
    many = [torch.stack([x, x.flip(1)]) for x in at]  # two examples: the heads exchanged

    def loss(*inputs: Tensor) -> Tensor:
        return (call(mechanism, causal=True)(*inputs) * direction).sum()

    both = torch.func.vmap(torch.func.grad(loss))(*many)
    for row, actual in enumerate(both):
        torch.testing.assert_close(actual, torch.func.grad(loss)(*(x[row] for x in many)))


@pytest.mark.parametrize("causal", [False, True])
def test_derivatives_of_head_groups(causal: bool) -> None:
    mechanism = create_attention("1*favor+1*elu", head_dim=D, heads=H)
    _, (q, k, v), (_, _, direction) = inputs_of("elu")

    def f(value: Tensor) -> Tensor:
        return mechanism(q, k, value, Mask(causal=causal))

    _, actual, *_ = torch.func.jvp(f, (v,), (direction,))
    torch.testing.assert_close(actual, f(direction))  # linear in v
    value = v.clone().requires_grad_()
    (f(value) * direction).sum().backward()
    torch.testing.assert_close(torch.func.grad(lambda x: (f(x) * direction).sum())(v), value.grad)


@pytest.mark.parametrize(
    "name", [name for name in COMPILED if issubclass(MECHANISMS[name], Kernel | Recurrent)]
)
def test_derivatives_of_a_state(name: str) -> None:
    mechanism, (q, *written), (_, *along) = inputs_of(name)

    def f(k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        named = {gate.name: x for gate, x in zip(mechanism.gates, gates, strict=True)}
        x = LawInputs(q, k, v, None, named)
        return mechanism.read(q, absorb(mechanism, x, slice(None), None), 0)

    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):
            _, actual, *_ = torch.func.jvp(f, tuple(written), tuple(along))
            expected = differences(f, written, along)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


def test_dropout_is_refused() -> None:
    mechanism = create_mechanism("window", head_dim=D, heads=H, window=3, dropout=0.5)
    x = torch.randn(B, H, T, D)
    with pytest.raises(RuntimeError, match=r"window: .* has no dropout; call eval"):
        torch.func.jvp(lambda v: mechanism(x, x, v, Mask()), (x,), (x,))
    mechanism.eval()
    _, actual, *_ = torch.func.jvp(lambda v: mechanism(x, x, v, Mask()), (x,), (x,))
    torch.testing.assert_close(actual, mechanism(x, x, x, Mask()))  # linear in v


def test_vmap_still_uses_the_kernels() -> None:
    mechanism, (q, k, v), _ = inputs_of("favor")
    many = torch.stack([v, 2 * v])
    actual = torch.func.vmap(lambda each: mechanism(q, k, each, Mask()))(many)
    torch.testing.assert_close(actual[1], 2 * mechanism(q, k, v, Mask()))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of vmap
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_a_step_under_vmap(name: str, gradients: bool) -> None:
    """A token of each example follows one prompt, whose state lies outside of vmap."""
    length = T if MECHANISMS[name].card.needs_length else None
    mechanism = create_mechanism(name, head_dim=D, heads=H, max_length=length).double()
    prompt, one, other = (
        make_inputs(mechanism, B=B, G=H, T=S, S=S, seed=S).to(torch.float64) for S in (5, 1, 1)
    )
    other = other.fresh(q=2 * other.q, k=3 * other.k)
    many = [torch.stack(pair).detach() for pair in zip(one.leaves(), other.leaves(), strict=True)]

    def step(state: Any, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        token = LawInputs(q, k, v, None, dict(zip(prompt.gates, gates, strict=True)))
        return mechanism.read(q, absorb(mechanism, token, slice(None), None, state), 5)

    with torch.set_grad_enabled(gradients):
        start = absorb(mechanism, prompt, slice(None), None)
        for state in (start, start.overwritable()):
            both = torch.func.vmap(lambda *token, state=state: step(state, *token))(*many)
            for row, actual in enumerate(both):
                torch.testing.assert_close(actual, step(start, *(x[row] for x in many)))


@pytest.mark.parametrize("name", ["softmax", "elu", "favor", "window", "hard"])
def test_whole_numbers_are_refused(name: str) -> None:
    mechanism = create_mechanism(name, head_dim=D, heads=H)
    x = torch.randint(-3, 3, (B, H, T, D))
    with pytest.raises(ValueError, match=r"q holds torch\.int64; give floating-point numbers"):
        mechanism(x, x, x, Mask())
