"""Gradients of a capture, its check of the weights, and that it leaves nothing behind.

Letters: B batch, H heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnlab
from attnlab import Mask, create_mechanism
from attnlab.gates import write_strength
from attnlab.generate import generate
from attnlab.mechanism import Mechanism, repeat_heads
from attnlab.mechanisms._mechanism_per_head_group import HeadGroups
from attnlab.mechanisms.recurrent import Retention
from attnlab.mechanisms.softmax import Softmax
from attnlab.mechanisms.window import Window
from attnlab.state import KeyValues, State
from tests.support.small_models import check_equal, inputs_of, model_of

# Gradients


@pytest.mark.parametrize("name", ["softmax", "favor", "linformer", "hard", "window", "bigbird"])
def test_gradients(name: str) -> None:
    """dL/dA of the fast path equals autograd through A as a matrix of its own, in float64."""
    torch.manual_seed(1)
    mechanism = create_mechanism(name, head_dim=5, heads=6, max_length=7).double()
    q, k, v = (torch.randn(3, n, 7, 5, dtype=torch.float64).requires_grad_() for n in (6, 2, 2))
    down = torch.randn(3, 6, 7, 5, dtype=torch.float64)
    with attnlab.capture(mechanism, gradients=True, row=2, heads=[5, 1]) as captured:
        out = mechanism(q, k, v, Mask())
        (out.tanh() * down).sum().backward()
    weights = mechanism.weights(q, k, Mask()).detach().requires_grad_()
    ((weights @ repeat_heads(v, 6)).tanh() * down).sum().backward()
    assert weights.grad is not None
    gradient = captured.layers[0].gradient
    assert gradient is not None
    assert torch.allclose(gradient.double(), weights.grad[2, [5, 1]], atol=1e-6)
    assert captured.notes == []


def test_gradients_of_a_model() -> None:
    """Every layer has its own; several backward passes add up; without one a note says so."""
    model, inputs = model_of("seq2seq").double(), inputs_of("seq2seq")
    with attnlab.capture(model, gradients=True) as captured:
        logits = model(*inputs)
        logits[0, 2, 3].backward(retain_graph=True)
        once = [x.gradient.clone() for x in captured.layers if x.gradient is not None]
        logits[0, 2, 3].backward()
    assert len(once) == len(captured.layers) == 3
    for layer, first in zip(captured.layers, once, strict=True):
        assert layer.gradient is not None
        assert float(first.abs().max()) > 0
        assert torch.allclose(layer.gradient, 2 * first)
    with torch.no_grad(), attnlab.capture(model, gradients=True) as nothing:
        model(*inputs)
    assert nothing.layers[0].gradient is None
    assert "call backward on the model's output" in nothing.notes[0]


def test_gradients_of_a_frozen_model() -> None:
    """If all parameters are frozen, the graph starts at the first captured layer."""
    model, inputs = model_of("decoder"), inputs_of("decoder")
    gradients = []
    for frozen in (False, True):
        model.requires_grad_(not frozen)
        with attnlab.capture(model, gradients=True) as captured:
            model(*inputs)[0, 2, 3].backward()
        gradients.append([layer.gradient for layer in captured.layers])
        model.zero_grad(set_to_none=True)
    for trainable, frozen_gradient in zip(*gradients, strict=True):
        assert trainable is not None
        assert frozen_gradient is not None
        assert torch.allclose(trainable, frozen_gradient, atol=1e-6)


def test_gradient_hooks_end_with_the_capture() -> None:
    model, inputs = model_of("decoder"), inputs_of("decoder")
    with attnlab.capture(model, gradients=True) as captured:
        loss = model(*inputs).square().sum()
    loss.backward()
    assert all(layer.gradient is None for layer in captured.layers)


# The check of weights times values


class WrongSoftmax(Softmax):
    """Its fast path is a little sharper than its definition."""

    sharper = 1.1

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        return super().compute(self.sharper * q, k, v, mask)


def test_warns_of_a_wrong_fast_path() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 7) for _ in range(3))
    wrong = WrongSoftmax(head_dim=7, heads=3)
    with (
        pytest.warns(UserWarning, match=r"^capture: in softmax the weights times the values") as w,
        attnlab.capture(wrong) as captured,
    ):
        out = wrong(q, k, v, Mask())
    exact = (wrong.weights(q, k, Mask()) @ v - out)[0].abs().max()
    assert len(w) == 1
    assert w[0].filename == __file__
    assert captured.difference == pytest.approx(float(exact), rel=1e-4)
    assert float(exact) > 1e-3
    assert captured.layers[0].excess == pytest.approx(float(exact) / 1e-3, rel=1e-4)
    assert captured.layers[0].doubtful
    assert f"differ by {captured.difference:.2g}" in captured.notes[0]


class WrongRetention(Retention):
    """Its fast path is off by a factor, 1 unless set."""

    factor = 1.0

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        return self.factor * super().compute(q, k, v, mask, **gates)


@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_weights_that_are_not_normalized(size: float) -> None:
    """Rounding grows with the sum of the weights, which is a million for large queries and keys."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 300, 7) for _ in range(3))
    mechanism = WrongRetention(head_dim=7, heads=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with attnlab.capture(mechanism) as captured:
            mechanism(size * q, size * k, v, Mask(causal=True))
    (layer,) = captured.layers
    assert layer.difference is not None
    assert layer.excess is not None
    assert layer.excess <= 1
    assert (layer.difference > 1e-3) == (size > 1)  # as much as is an error for normalized weights
    mechanism.factor = 1.01
    with pytest.warns(UserWarning, match="differ by"), attnlab.capture(mechanism) as captured:
        mechanism(size * q, size * k, v, Mask(causal=True))
    assert captured.layers[0].doubtful


class Counted(Mechanism):
    """The nearest keys, each as much as it says."""

    name = "counted"
    card = replace(Window.card, rows_sum_to_one=False)
    gates = (write_strength(high=1.0),)

    def weights(self, q: Tensor, k: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        near = torch.ones(q.shape[2], k.shape[2]).tril(1).triu(-1)
        allowed = mask.allowed(q.shape[2], k.shape[2], q.device)
        near = near if allowed is None else near * allowed
        return near * gates["write_strength"][:, :, None]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [[0], [2], [0, 2]])
def test_allowed_keys_beside_gates(heads: list[int], causal: bool) -> None:
    """A window has its pattern; a mechanism with gates may attend to all that the mask allows, also
    where its weights are 0."""
    torch.manual_seed(0)
    window = create_mechanism("window", head_dim=5, heads=1, window=2)
    groups = HeadGroups([Counted(head_dim=5, heads=2), window])
    q, k, v = torch.randn(1, 3, 6, 5), torch.randn(1, 3, 6, 5), torch.randn(1, 3, 6, 5)
    strength = torch.zeros(1, 3, 6)
    with attnlab.capture(groups, heads=heads) as captured:
        groups(q, k, v, Mask(causal=causal), write_strength_0=strength)
    allowed = captured.layers[0].allowed
    everything, near = torch.ones(6, 6).bool(), (torch.ones(6, 6).tril(1).triu(-1)).bool()
    if causal:
        everything, near = everything.tril(), near.tril()
    expected = near if heads == [2] else everything
    if bool(expected.all()):
        assert allowed is None
    else:
        assert allowed is not None
        assert torch.equal(allowed, expected)


def test_warns_of_a_wrong_read() -> None:
    wrong = WrongSoftmax(head_dim=7, heads=3)
    q, k, v = (3 * torch.randn(2, 3, 5, 7) for _ in range(3))
    with pytest.warns(UserWarning, match="differ by"), attnlab.capture(wrong) as captured:
        wrong.read(q, wrong.absorb(k, v), 0)
    assert captured.difference is not None
    assert captured.difference > 1e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_no_warning_of_rounding(dtype: torch.dtype) -> None:
    """In half precision a difference is rounding, but a wrong path still is not."""
    torch.manual_seed(0)
    q, k, v = (3 * torch.randn(2, 3, 5, 7, dtype=dtype) for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact = Softmax(head_dim=7, heads=3)
        with attnlab.capture(exact) as captured:
            exact(q, k, v, Mask())
    assert captured.difference is not None
    assert 1e-3 < captured.difference < 0.1  # too large for float32
    assert captured.layers[0].excess is not None
    assert 0 < captured.layers[0].excess <= 1
    assert not captured.layers[0].doubtful
    wrong = WrongSoftmax(head_dim=7, heads=3)
    wrong.sharper = 1.5
    with pytest.warns(UserWarning, match="differ by"), attnlab.capture(wrong) as captured:
        wrong(q, k, v, Mask())
    assert captured.layers[0].doubtful


def test_dropout_gets_a_note_and_keeps_the_random_state() -> None:
    model, inputs = model_of("decoder", dropout=0.5).train(), inputs_of("decoder")
    torch.manual_seed(5)
    plain = model(*inputs)
    torch.manual_seed(5)
    with attnlab.capture(model) as captured:
        output = model(*inputs)
    assert torch.equal(plain, output)
    for layer in captured.layers:
        assert (layer.difference, layer.excess, layer.doubtful) == (None, None, False)
        assert "Dropout is on" in layer.note
        assert layer.weights is not None
        assert torch.allclose(layer.weights.sum(-1), torch.ones(()))
    assert captured.difference is None


# Nothing stays behind


def patched_state(model: nn.Module) -> list[Any]:
    """Everything that a capture could change on a model or its classes."""
    return [
        State.select,
        State.trim,
        KeyValues.select,
        *((m._forward_hooks, m._forward_pre_hooks, sorted(vars(m))) for m in model.modules()),
    ]


def fail_after(model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    model(*inputs)
    raise RuntimeError("stop")


def test_hooks_are_removed() -> None:
    model, inputs = model_of("decoder"), inputs_of("decoder")
    before = str(patched_state(model))
    with attnlab.capture(model):
        assert str(patched_state(model)) != before
        model(*inputs)
    assert str(patched_state(model)) == before
    with pytest.raises(RuntimeError, match="stop"), attnlab.capture(model) as captured:
        fail_after(model, inputs)
    assert str(patched_state(model)) == before
    assert len(captured.layers) == 2
    with pytest.raises(ValueError, match="reads at most"), attnlab.capture(model):
        model(torch.zeros(1, 99, dtype=torch.long))
    assert str(patched_state(model)) == before


def test_nested_and_repeated_captures() -> None:
    model, inputs = model_of("decoder"), inputs_of("decoder")
    with torch.no_grad(), attnlab.capture(model) as outer:
        with attnlab.capture(model, layers=[1]) as inner:
            model(*inputs)
            generate(model, [[2, 3, 4]], new_tokens=1)
        model(*inputs)
    with torch.no_grad(), attnlab.capture(model) as again:
        model(*inputs)
    check_equal(outer, again)
    assert [layer.name for layer in inner.layers] == ["stack.blocks.1.attention"]


def test_captures_that_end_in_any_order() -> None:
    model, inputs = model_of("decoder"), inputs_of("decoder")
    before = str(patched_state(model))
    first, second = attnlab.capture(model), attnlab.capture(model)
    one, two = first.__enter__(), second.__enter__()
    model(*inputs)
    first.__exit__(None, None, None)
    generate(model, [[2, 3, 4]], new_tokens=3)
    second.__exit__(None, None, None)
    assert str(patched_state(model)) == before
    assert one.layers[0].weights is not None
    assert two.layers[0].weights is not None
    assert one.layers[0].weights.shape == (2, 9, 9)
    assert two.layers[0].weights.shape == (2, 5, 5)


def test_other_threads_are_not_recorded() -> None:
    model, (ids, _) = model_of("decoder"), inputs_of("decoder")
    with torch.no_grad(), attnlab.capture(model) as captured:
        model(ids[:, :4])
        other = threading.Thread(target=lambda: model(ids))
        other.start()
        other.join()
    assert captured.layers[0].weights is not None
    assert captured.layers[0].weights.shape == (2, 4, 4)
    assert captured.notes == []


def test_transformers_is_not_needed() -> None:
    program = """
import sys
sys.modules["transformers"] = None
import torch, attnlab
from attnlab.models import Decoder, StackConfig
model = Decoder(StackConfig(9, 8, width=8, layers=1, heads=2))
with attnlab.capture(model) as captured:
    model(torch.zeros(1, 3, dtype=torch.long))
assert captured.layers[0].weights.shape == (2, 3, 3)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
