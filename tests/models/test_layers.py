"""The layer around a mechanism: what it computes, and how often."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab import Mask
from attnlab.gates import DecayAndStrength, StepGate
from attnlab.layers import MultiHead
from attnlab.models import Decoder, StackConfig

WIDTH, HEADS = 24, 3


@pytest.mark.parametrize("attention", ["gated_delta", "kda", "1*gla:convolution=3+2*softmax"])
def test_decoding_projects_once(attention: str) -> None:
    config = StackConfig(
        vocabulary=11, context=16, width=WIDTH, layers=2, heads=HEADS, attention=attention
    )
    model, calls = Decoder(config).eval(), Counter[str]()
    linear = {name: x for name, x in model.stack.named_modules() if isinstance(x, nn.Linear)}
    for name, module in linear.items():
        module.register_forward_hook(lambda *_, name=name: calls.update([name]))
    ids = torch.zeros(2, 5, dtype=torch.long)
    with torch.no_grad():
        _, state = model.prefill(ids, torch.tensor([5, 3]))
        assert calls == dict.fromkeys(linear, 1)
        model.step(ids[:, 0], state)
    assert calls == dict.fromkeys(linear, 2)


@pytest.mark.parametrize("taps", [1, 2, 4])
def test_decoding_with_a_convolution(taps: int) -> None:
    """Prompts of unequal length, shorter than the convolution too, then one token, then two. A
    convolution of one tap keeps nothing."""
    torch.manual_seed(0)
    layer = MultiHead(WIDTH, HEADS, f"kda:convolution={taps}", causal=True).double().eval()
    lengths = torch.tensor([5, 1])
    x = torch.randn(2, 8, WIDTH, dtype=torch.float64)
    keys = torch.arange(5) < lengths[:, None]
    with torch.no_grad():
        _, state = layer.prefill(x[:, :5], Mask(True, keys))
        state = state.trim(lengths)
        assert state.recent is not None
        assert state.recent.shape == (2, taps - 1, 3 * WIDTH)
        one, state = layer.step(x[:, 5:6], state, lengths)
        two, state = layer.step(x[:, 6:7], state.select(torch.tensor([1, 0])), lengths.flip(0) + 1)
        for row, length in enumerate(lengths.tolist()):
            text = torch.cat([x[row : row + 1, :length], x[row : row + 1, 5:6]], dim=1)
            alone = layer(text, Mask(causal=True))
            torch.testing.assert_close(one[row], alone[0, -1:])
            text = torch.cat([text, x[1 - row : 2 - row, 6:7]], dim=1)
            alone = layer(text, Mask(causal=True))
            torch.testing.assert_close(two[1 - row], alone[0, -1:])


@pytest.mark.parametrize(
    ("attention", "function"),
    [("gla", F.silu), ("gla:output_gate=sigmoid", torch.sigmoid), ("kda", torch.sigmoid)],
)
def test_output_gate(attention: str, function: object) -> None:
    """KDA gates its outputs with a sigmoid, the other mechanisms with silu."""
    torch.manual_seed(0)
    layer = MultiHead(WIDTH, HEADS, attention, causal=True).double()
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    gate = layer.output_gate
    assert gate is not None
    nn.init.eye_(layer.out.weight)
    nn.init.zeros_(layer.out.bias)
    gated = layer(x, Mask(causal=True))
    layer.output_gate = None
    plain = layer(x, Mask(causal=True))
    assert callable(function)
    torch.testing.assert_close(gated, plain * function(gate(x)))


@pytest.mark.parametrize("attention", ["gla", "gated_delta"])
def test_output_gates_start_open(attention: str) -> None:
    """Near 1, so that a fresh layer passes what its mechanism gives."""
    torch.manual_seed(0)
    config = StackConfig(vocabulary=11, context=16, width=WIDTH, layers=1, attention=attention)
    model = Decoder(config)
    (layer,) = (module for module in model.modules() if isinstance(module, MultiHead))
    gate = layer.output_gate
    assert gate is not None
    opened = layer.gate_function(gate(torch.randn(5, WIDTH)))
    torch.testing.assert_close(opened, torch.ones_like(opened), atol=0.5, rtol=0)


def test_wrong_output_gate() -> None:
    for wrong in ("relu", "1", "null"):
        with pytest.raises(ValueError, match=r"output_gate is .*; give true or false or sigmoid"):
            MultiHead(WIDTH, HEADS, f"gla:output_gate={wrong}", causal=True)
    with pytest.raises(ValueError, match=r"head_norm is 'sigmoid'; give true or false$"):
        MultiHead(WIDTH, HEADS, "gla:head_norm=sigmoid", causal=True)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", [StepGate, DecayAndStrength])
def test_first_steps_are_those_of_mamba2(kind: type[StepGate], per_channel: bool) -> None:
    """Without input, steps lie between 0.001 and 0.1. Each head has one rate, from 1 to 16."""
    torch.manual_seed(0)
    gate = kind(WIDTH, 64, 5, per_channel=per_channel, rank=4 if per_channel else None)
    rates = gate.log_rate.detach().exp()
    assert rates.numel() == 64
    assert 1 <= float(rates.min()) < 2
    assert 15 < float(rates.max()) <= 16
    decay: Tensor = gate(torch.zeros(1, 1, WIDTH))["log_decay"].detach()
    steps = -decay.flatten() / rates.expand(gate.shape).flatten()
    assert 0.99e-3 < float(steps.min()) < 2e-3
    assert 0.05 < float(steps.max()) < 0.101


@pytest.mark.parametrize("width", [24, 96])
def test_a_convolution_reads_inputs_of_unit_size(width: int) -> None:
    """At the start of training: with the usual initialization silu would be nearly linear."""
    torch.manual_seed(0)
    for attention, least, most in (("delta", 0.8, 1.2), ("softmax", 0.0, 0.25)):
        config = StackConfig(11, 16, width, layers=1, heads=HEADS, attention=attention)
        (layer,) = [part for part in Decoder(config).modules() if isinstance(part, MultiHead)]
        projected = layer.project(torch.randn(500, width))
        assert least < float(projected.detach().std()) < most
