"""`window` with sinks: the first tokens stay visible beyond the window."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab import Mask, check_laws, create_mechanism
from attnlab.layers import MultiHead
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms import window as window_module
from attnlab.mechanisms.window import Window
from attnlab.state import KeyValues
from tests.support.c_compiler import needs_compiler
from tests.support.examples import examples

D, H, G, M = 3, 4, 2, 5


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def make(window: int, sinks: int, **options: Any) -> Window:
    mechanism = create_mechanism("window", head_dim=D, heads=H, window=window, sinks=sinks)
    assert isinstance(mechanism, Window)
    for name, value in options.items():
        setattr(mechanism, name, value)
    return mechanism


def inputs(S: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    shapes = ((2, H, S, D), (2, G, S, D), (2, G, S, M))
    return [normal(n, *shape, dtype=dtype).requires_grad_() for n, shape in enumerate(shapes)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("window", "sinks"), [(1, 2), (3, 4), (3, 0), (2, 11), (11, 1)])
def test_sinks_are_visible_from_everywhere(window: int, sinks: int, causal: bool) -> None:
    S = 11
    q, k, _ = inputs(S)
    actual = make(window, sinks).weights(q, k, Mask(causal)) > 0
    expected = [
        [(abs(i - j) < window or j < sinks) and not (causal and j > i) for j in range(S)]
        for i in range(S)
    ]
    assert torch.equal(actual, torch.tensor(expected).expand_as(actual))


def test_laws_hold_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 2 tokens, so that short texts have many."""
    monkeypatch.setattr(window_module, "SMALLEST_BLOCK", 2)
    failed = [
        result
        for result in check_laws("window", examples=examples(9).max_examples)
        if not result.holds
    ]
    assert failed == []


@pytest.mark.parametrize("in_torch", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("window", "sinks"), [(3, 5), (1, 37), (35, 4), (40, 45), (33, 70), (7, 200), (120, 9)]
)
def test_blocks_equal_the_definition(window: int, sinks: int, causal: bool, in_torch: bool) -> None:
    S = 101
    mechanism = make(window, sinks, use_compiled=not in_torch)
    keys = normal(7, 2, S) > -1
    for mask in (Mask(causal), Mask(causal, keys), *([Mask(True, keys, 13)] if causal else [])):
        q, k, v = inputs(S)
        q = q[:, :, : S - 13] if mask.start else q
        actual = mechanism(q, k, v, mask)
        expected = mechanism.weights(q, k, mask) @ v.masked_fill(
            torch.zeros(()).bool() if mask.keys is None else ~keys[:, None, :, None], 0
        ).repeat_interleave(H // G, dim=1)
        direction = normal(9, *actual.shape)
        for one, other in zip(
            [actual, *torch.autograd.grad((actual * direction).sum(), (q, k, v))],
            [expected, *torch.autograd.grad((expected * direction).sum(), (q, k, v))],
            strict=True,
        ):
            assert torch.allclose(one, other, rtol=0, atol=1e-12)


@needs_compiler
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sinks", [1, 4, 7])
def test_gradcheck_of_the_kernel(causal: bool, sinks: int) -> None:
    q, k, v = (normal(n, 2, 1, 11, 3).requires_grad_() for n in range(3))
    keys = normal(4, 2, 11) > -0.5
    table = torch.tensor([[-1, -1, 0], [-1, 0, 1], [0, 1, 2], [0, 2, 3]])

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return compiled.attend_blocks(q, k, v, keys, table, 3, causal, 2, 0.7, sinks)

    assert torch.autograd.gradcheck(call, (q, k, v))


@pytest.mark.parametrize("gradients", [False, True])
def test_the_state_keeps_the_sinks_and_the_window(gradients: bool) -> None:
    mechanism, S = make(3, 4), 400
    q, k, v = inputs(S)
    expected, state, outs, sizes = mechanism(q, k, v, Mask(causal=True)), None, [], set()
    with torch.set_grad_enabled(gradients):
        for t in range(S):
            here = slice(t, t + 1)
            state = mechanism.absorb(k[:, :, here], v[:, :, here], None, state)
            assert isinstance(state, KeyValues)
            outs.append(mechanism.read(q[:, :, here], state, t))
            if t > 200:
                sizes.add(state.k_buffer.shape[2])
            positions = state.positions.tolist()
            assert positions[: min(4, t + 1)] == list(range(min(4, t + 1)))
            assert positions[-3:] == list(range(t + 1))[-3:]
            assert torch.equal(state.k, k[:, :, positions])
    assert torch.allclose(torch.cat(outs, dim=2), expected, rtol=0, atol=1e-12)
    assert max(sizes) <= 4 + 2 + 64 + 65 + (4 + 2 + 64) // 2
    if gradients:
        assert positions == [0, 1, 2, 3, 397, 398, 399]
        out = outs[-1]
        direction = normal(9, *out.shape)
        one, other = (
            torch.autograd.grad((x * direction).sum(), (q, k, v))
            for x in (out, expected[:, :, -1:])
        )
        assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(one, other, strict=True))


def test_a_state_from_before_a_capture_shows_the_sinks() -> None:
    layer = MultiHead(24, 4, "window:window=3,sinks=2", causal=True).eval()
    x = normal(1, 2, 150, 24, dtype=torch.float32)
    with torch.no_grad():
        _, state = layer.prefill(x[:, :140], Mask(causal=True))
        for t in range(140, 149):
            _, state = layer.step(x[:, t : t + 1], state, t)
        with attnlab.capture(layer) as captured:
            layer.step(x[:, 149:], state, 149)
    (only,) = captured.layers
    assert only.weights is not None
    assert only.difference is not None
    assert only.difference < 1e-6
    assert (only.weights[0, 0] > 0).nonzero().flatten().tolist() == [0, 1, 147, 148, 149]


def test_a_state_belongs_to_its_number_of_sinks() -> None:
    q, k, v = inputs(5)
    state = make(3, 2).absorb(k, v)
    with pytest.raises(ValueError, match=r"belongs to another mechanism \(window, 4, 3, 3, 2, not"):
        make(3, 1).read(q[:, :, 4:], state, 4)


def test_only_without_sinks_positions_do_not_matter() -> None:
    assert make(3, 0).shift_invariant
    assert not make(3, 1).shift_invariant


@pytest.mark.parametrize("sinks", [-1, 1.5, True, "2"])
def test_wrong_sinks(sinks: Any) -> None:
    with pytest.raises(ValueError, match=r"^window: sinks is .*; give a whole number"):
        Window(head_dim=D, heads=H, sinks=sinks)
    with pytest.raises(ValueError, match=r"^window: sinks is .*; give "):
        make(3, sinks)
    with pytest.raises(ValueError, match=r"sinks is 16,777,217; give at most 16,777,216"):
        make(3, 2**24 + 1)
