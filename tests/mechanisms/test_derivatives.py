"""Derivatives by torch.func and forward mode. The C kernels and hand-written loops do not support
them, and PyTorch would treat their results as constants."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from attnlab import MECHANISMS, Mask, create_mechanism
from attnlab._create_mechanism import create_attention
from attnlab.mechanism import Mechanism

# PyTorch's own, when it first makes a dual number
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
COMPILED = sorted(name for name, kind in MECHANISMS.items() if kind.compilable)
B, H, T, D = 1, 2, 9, 4


def inputs_of(name: str) -> tuple[Mechanism, list[Tensor], list[Tensor]]:
    options = {"block": 2} if name == "bigbird" else {"window": 3} if name == "window" else {}
    mechanism = create_mechanism(name, head_dim=D, heads=H, **options)
    random = torch.Generator().manual_seed(0)
    tensors = [torch.randn(B, H, T, D, generator=random, dtype=torch.float64) for _ in range(6)]
    return mechanism, tensors[:3], tensors[3:]


def differences(f: Callable[..., Tensor], at: list[Tensor], along: list[Tensor]) -> Tensor:
    """The derivative in a direction, by central differences."""
    step = 1e-6
    ahead = f(*(x + step * direction for x, direction in zip(at, along, strict=True)))
    behind = f(*(x - step * direction for x, direction in zip(at, along, strict=True)))
    return (ahead - behind) / (2 * step)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", COMPILED)
def test_forward_mode_is_right(name: str, causal: bool) -> None:
    mechanism, at, along = inputs_of(name)

    def f(*qkv: Tensor) -> Tensor:
        return mechanism(*qkv, Mask(causal=causal))

    expected = differences(f, at, along)
    assert expected.abs().max() > 0.1
    out, actual, *_ = torch.func.jvp(f, tuple(at), tuple(along))
    torch.testing.assert_close(out, f(*at))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)
    with forward_ad.dual_level():
        dual = f(*map(forward_ad.make_dual, at, along))
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, actual)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", COMPILED)
def test_torch_func_has_the_gradients_of_backward(name: str, causal: bool) -> None:
    mechanism, (q, k, v), (direction, _, _) = inputs_of(name)

    def loss(*qkv: Tensor) -> Tensor:
        return (mechanism(*qkv, Mask(causal=causal)) * direction).sum()

    inputs = [x.clone().requires_grad_() for x in (q, k, v)]
    loss(*inputs).backward()
    for actual, x in zip(torch.func.grad(loss, (0, 1, 2))(q, k, v), inputs, strict=True):
        torch.testing.assert_close(actual, x.grad)


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


@pytest.mark.parametrize("name", ["elu", "favor"])
def test_derivatives_of_a_state(name: str) -> None:
    mechanism, (q, k, v), (_, _, along) = inputs_of(name)

    def f(value: Tensor) -> Tensor:
        return mechanism.read(q, mechanism.absorb(k, value), 0)

    _, actual, *_ = torch.func.jvp(f, (v,), (along,))
    torch.testing.assert_close(actual, differences(f, [v], [along]), rtol=1e-4, atol=1e-6)


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


@pytest.mark.parametrize("name", ["softmax", "elu", "favor", "window", "hard"])
def test_whole_numbers_are_refused(name: str) -> None:
    mechanism = create_mechanism(name, head_dim=D, heads=H)
    x = torch.randint(-3, 3, (B, H, T, D))
    with pytest.raises(ValueError, match=r"q holds torch\.int64; give floating-point numbers"):
        mechanism(x, x, x, Mask())
