"""The recurrent family against the recurrences of the papers, and its published special cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab import MECHANISMS, Mask, create_mechanism
from attnlab.gates import Gates
from attnlab.laws._compare import assert_equal_to_rounding, gradients
from attnlab.mechanism import Mechanism, repeat_heads
from attnlab.mechanisms.recurrent import Delta, Recurrent
from tests.support.attention_loops import RECURRENCES, recurrence
from tests.support.examples import slow_unless
from tests.support.law_trials import (
    HEAD_DIM,
    HEADS,
    VALUE_DIM,
    LawInputs,
    absorb,
    build,
    make_inputs,
    make_mechanism,
    single_inputs,
)

NAMES = [name for name, kind in MECHANISMS.items() if issubclass(kind, Recurrent)]
CAUSAL = Mask(causal=True)
every = pytest.mark.parametrize("name", NAMES)
both_paths = pytest.mark.parametrize("in_torch", [False, True], ids=["C", "torch"])
with_decay = pytest.mark.parametrize(
    "name", [n for n in NAMES if "log_decay" in [gate.name for gate in MECHANISMS[n].gates]]
)
DECAYS = (0.0, -1e-8, -50.0, -1e4, -torch.inf)


def test_every_recurrent_mechanism_has_a_loop() -> None:
    assert set(NAMES) == set(RECURRENCES)


def check_against_loop(mechanism: Mechanism, inputs: LawInputs, unit_keys: bool) -> None:
    """Definition and fast path have the values and gradients of the paper's recurrence."""
    mask = replace(CAUSAL, keys=inputs.keys)
    slow, fast, definition = inputs.fresh(), inputs.fresh(), inputs.fresh()
    expected = recurrence(mechanism.name, slow, unit_keys)
    wanted = gradients(expected, slow.leaves())
    matrix = definition.weights(mechanism, mask)
    for x, out in (
        (fast, fast.output(mechanism, mask)),
        (definition, matrix @ repeat_heads(definition.v, HEADS)),
    ):
        assert_equal_to_rounding([out], [expected])
        assert_equal_to_rounding(gradients(out, x.leaves()), wanted, label="a gradient")


@both_paths
@every
@pytest.mark.parametrize("padding", ["none", "random"])
@pytest.mark.parametrize(("B", "T"), [(2, 11), (1, 71)])  # 71 tokens are several chunks
def test_the_recurrence_of_the_paper(
    name: str, B: int, T: int, padding: str, in_torch: bool
) -> None:
    mechanism = build(name, {"torch": in_torch})
    inputs = make_inputs(mechanism, B=B, G=3, T=T, S=T, padding=padding, seed=3)
    assert inputs.v.shape[3] != HEAD_DIM
    check_against_loop(mechanism, inputs, unit_keys=isinstance(mechanism, Delta))


@both_paths
@pytest.mark.parametrize("name", [n for n in NAMES if issubclass(MECHANISMS[n], Delta)])
def test_keys_that_are_not_normalized(name: str, in_torch: bool) -> None:
    mechanism = build(name, {"torch": in_torch, "normalize_keys": False})
    inputs = make_inputs(mechanism, B=2, G=3, T=11, S=11)
    inputs = inputs.fresh(k=inputs.k / 3)
    check_against_loop(mechanism, inputs, unit_keys=False)


@both_paths
@pytest.mark.parametrize(
    "name",
    [n for n in NAMES if "write_strength" in [gate.name for gate in MECHANISMS[n].gates]],
)
def test_strengths_up_to_their_bound(name: str, in_torch: bool) -> None:
    """Above 1 the delta rule overshoots; samplers draw no such strengths."""
    mechanism = build(name, {"torch": in_torch})
    inputs = make_inputs(mechanism, B=2, G=3, T=71, S=71)
    (gate,) = [gate for gate in mechanism.gates if gate.name == "write_strength"]
    strength = inputs.gates["write_strength"].detach() * min(gate.high, 5.0)
    strength[:, :, 3], strength[:, :, 7] = min(gate.high, 5.0), 0
    gates = {**inputs.gates, "write_strength": strength}
    check_against_loop(mechanism, inputs.fresh(gates=gates), isinstance(mechanism, Delta))


@both_paths
@with_decay
@pytest.mark.parametrize("decay", [*DECAYS, "mixed"])
def test_extreme_decays(name: str, decay: float | str, in_torch: bool) -> None:
    mechanism = build(name, {"torch": in_torch})
    inputs = make_inputs(mechanism, B=2, G=3, T=11, S=11)
    shape = inputs.gates["log_decay"].shape
    choice = torch.randint(len(DECAYS), shape, generator=torch.Generator().manual_seed(0))
    if not isinstance(decay, str):
        choice = torch.full(shape, DECAYS.index(decay))
    gates = {**inputs.gates, "log_decay": torch.tensor(DECAYS, dtype=torch.float64)[choice]}
    check_against_loop(mechanism, inputs.fresh(gates=gates), isinstance(mechanism, Delta))


@both_paths
@with_decay
def test_a_small_decay_after_a_large_one_counts(name: str, in_torch: bool) -> None:
    """Differences of cumulative sums would lose it: 1e4 and 1e-3 have 7 digits between them."""
    mechanism = build(name, {"torch": in_torch}).float()
    x = make_inputs(mechanism, B=1, G=3, T=11, S=11)
    decay = torch.full_like(x.gates["log_decay"], -1e-3)
    decay[:, :, 4] = -1e4
    x = x.fresh(gates={**x.gates, "log_decay": decay})
    expected = recurrence(name, x, isinstance(mechanism, Delta)).detach()
    out = x.to(torch.float32).output(mechanism, CAUSAL).double()
    assert float((out - expected).abs().max()) < 1e-5


# Special cases


def pair(one: str, other: str) -> tuple[Mechanism, Mechanism, LawInputs]:
    """Two mechanisms, and inputs with the gates of the first."""
    first = build(one, {})
    return first, build(other, {}), make_inputs(first, B=2, G=3, T=11, S=11)


def check_same(
    one: Mechanism, other: Mechanism, inputs: LawInputs, gates: Gates, others: Gates
) -> None:
    """Two mechanisms with these gates have the same weights, outputs and gradients of q, k, v."""
    left, right = inputs.fresh(gates=gates), inputs.fresh(gates=others)
    assert_equal_to_rounding([left.weights(one, CAUSAL)], [right.weights(other, CAUSAL)])
    outs = [left.output(one, CAUSAL), right.output(other, CAUSAL)]
    assert_equal_to_rounding(outs[:1], outs[1:])
    grads = [gradients(y, [x.q, x.k, x.v]) for y, x in zip(outs, (left, right), strict=True)]
    assert_equal_to_rounding(grads[0], grads[1])


def test_gla_without_decay_is_unnormalized_linear_attention() -> None:
    mechanism = build("gla", {})
    x = make_inputs(mechanism, B=2, G=3, T=11, S=11)
    x = x.fresh(gates={"log_decay": torch.zeros_like(x.k)})
    scores = x.q @ repeat_heads(x.k, HEADS).mT / HEAD_DIM**0.5
    expected = scores.tril() @ repeat_heads(x.v, HEADS)
    assert_equal_to_rounding([x.output(mechanism, CAUSAL)], [expected])


def test_gla_with_equal_channels_is_mamba2_with_strength_1() -> None:
    mamba, gla, x = pair("mamba2", "gla")
    decay = x.gates["log_decay"]
    gates = {"log_decay": decay, "write_strength": torch.ones_like(decay)}
    channels = decay[..., None].expand_as(x.k)
    check_same(mamba, gla, x, gates, {"log_decay": channels})


def test_mamba2_with_a_constant_decay_is_retention() -> None:
    mamba, retention, x = pair("mamba2", "retention")
    gamma = 1 - 2.0 ** (-5 - torch.arange(3, dtype=torch.float64))
    decay = gamma.log()[:, None].expand(2, 3, 11)
    gates = {"log_decay": decay, "write_strength": torch.ones_like(decay)}
    check_same(mamba, retention, x, gates, {})


def test_kda_with_equal_channels_is_gated_delta() -> None:
    gated, kda, x = pair("gated_delta", "kda")
    channels = x.gates["log_decay"][..., None].expand_as(x.k)
    check_same(gated, kda, x, x.gates, {**x.gates, "log_decay": channels})


def test_gated_delta_without_decay_is_delta() -> None:
    delta, gated, x = pair("delta", "gated_delta")
    strength = x.gates["write_strength"]
    check_same(delta, gated, x, x.gates, {**x.gates, "log_decay": torch.zeros_like(strength)})


@pytest.mark.parametrize("name", ["gated_delta", "kda"])
def test_write_strength_0_only_forgets(name: str) -> None:
    mechanism = build(name, {})
    x = make_inputs(mechanism, B=2, G=3, T=11, S=11)
    strength = x.gates["write_strength"].detach().clone()
    strength[:, :, 4:] = 0
    x = x.fresh(gates={**x.gates, "write_strength": strength})
    before: Any = absorb(mechanism, x, slice(0, 4), None)
    after: Any = absorb(mechanism, x, slice(4, 11), None, before)
    decay = x.gates["log_decay"][:, :, 4:].sum(2).exp()  # (B, G) or (B, G, D)
    decay = decay.view(*decay.shape, *[1] * (4 - decay.dim()))
    assert_equal_to_rounding([after.content], [decay * before.content])
    assert float(before.content.detach().abs().max()) > 0.1


def orthonormal_keys() -> Tensor:
    """(1, 1, D, D)"""
    generator = torch.Generator().manual_seed(0)
    square = torch.randn(HEAD_DIM, HEAD_DIM, generator=generator, dtype=torch.float64)
    return torch.linalg.qr(square).Q[None, None]


def test_delta_with_strength_1_recalls_and_replaces() -> None:
    """With orthonormal keys it recalls each value; a key written again has its new value."""
    mechanism: Any = create_mechanism("delta", head_dim=HEAD_DIM, heads=1)
    k = orthonormal_keys()
    v = torch.randn(1, 1, HEAD_DIM, VALUE_DIM, dtype=torch.float64)
    strength = torch.ones(1, 1, HEAD_DIM, dtype=torch.float64)
    question = k * HEAD_DIM**0.5  # beta is 1 / sqrt(D)
    state = mechanism.absorb(k, v, write_strength=strength)
    assert_equal_to_rounding([mechanism.read(question, state, 0)], [v])
    out = mechanism(question, k, v, CAUSAL, write_strength=strength)
    assert_equal_to_rounding([out], [v])
    new = v.clone()
    new[:, :, 1] += 5
    one = slice(1, 2)
    state = mechanism.absorb(
        k[:, :, one], new[:, :, one], None, state, write_strength=strength[:, :, one]
    )
    assert_equal_to_rounding([mechanism.read(question, state, 1)], [new])


def test_strength_2_reflects_the_state() -> None:
    """I - 2 k k^T: what the state held for the key changes its sign, all else stays."""
    mechanism: Any = create_mechanism("delta", head_dim=HEAD_DIM, heads=1)
    k = orthonormal_keys()
    v = torch.randn(1, 1, HEAD_DIM, VALUE_DIM, dtype=torch.float64)
    strength = torch.ones(1, 1, HEAD_DIM, dtype=torch.float64)
    state = mechanism.absorb(k, v, write_strength=strength)
    one = slice(2, 3)
    state = mechanism.absorb(
        k[:, :, one], 0 * v[:, :, one], None, state, write_strength=2 * strength[:, :, one]
    )
    expected = v.clone()
    expected[:, :, one] *= -1
    assert_equal_to_rounding([mechanism.read(k * HEAD_DIM**0.5, state, 1)], [expected])


# Precision


@both_paths
@every
def test_bfloat16_under_autocast_is_summed_in_float32(name: str, in_torch: bool) -> None:
    """The output is off by its own rounding alone: a sum in bfloat16 would be off by more."""
    mechanism = make_mechanism(name)
    mechanism.use_compiled = not in_torch
    rounded = single_inputs(mechanism, G=3, T=71, S=71).to(torch.bfloat16)
    exact = rounded.to(torch.float64)
    expected = exact.output(build(name, {}), CAUSAL)
    with torch.autocast("cpu", torch.bfloat16):
        out = rounded.output(mechanism, CAUSAL)
        weights = rounded.weights(mechanism, CAUSAL)
        state: Any = absorb(mechanism, rounded, slice(None), None)
        last = mechanism.read(rounded.q[:, :, -1:], state, 70)
    assert out.dtype == weights.dtype == last.dtype == torch.bfloat16
    assert state.content.dtype == torch.float32
    matrix = exact.weights(build(name, {}), CAUSAL)
    for actual, right in ((out, expected), (weights, matrix), (last, expected[:, :, -1:])):
        assert torch.allclose(actual.double(), right, rtol=2**-8, atol=1e-4)


@both_paths
@every
def test_float32_under_autocast_stays_float32(name: str, in_torch: bool) -> None:
    mechanism = make_mechanism(name)
    mechanism.use_compiled = not in_torch
    x = single_inputs(mechanism, G=3, T=71, S=71)
    plain = x.output(mechanism, CAUSAL)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(x.output(mechanism, CAUSAL), plain)


# torch.compile


@pytest.mark.parametrize("name", slow_unless(("gated_delta", "kda"), NAMES))
@pytest.mark.parametrize("gradients_on", [False, True])
def test_torch_compile_of_a_decoding_step(name: str, gradients_on: bool) -> None:
    mechanism: Any = make_mechanism(name).double()
    x = make_inputs(mechanism, B=2, G=3, T=11, S=11).to(torch.float64)

    def step(tokens: LawInputs, state: Any) -> tuple[Tensor, Any]:
        state = mechanism.absorb(tokens.k, tokens.v, None, state, **tokens.gates)
        return mechanism.read(tokens.q, state, state.length - 1), state

    torch.compiler.reset()
    call = torch.compile(step, backend="aot_eager", fullgraph=True)
    with torch.set_grad_enabled(gradients_on):
        state = copy = absorb(mechanism, x, slice(0, 7), None)
        for t in range(7, 11):
            tokens = x.part(slice(None), slice(t, t + 1), slice(t, t + 1))
            expected, state = step(tokens, state)
            actual, copy = call(tokens, copy)
            assert_equal_to_rounding([actual], [expected])


@pytest.mark.parametrize("name", slow_unless(("gated_delta", "kda"), NAMES))
def test_torch_compile_of_packed_documents(name: str) -> None:
    mechanism = make_mechanism(name).double()
    x = make_inputs(mechanism, B=2, G=3, T=11, S=11)
    segments = torch.tensor([[0] * 4 + [1] * 7, [0] * 2 + [3] * 4 + [4] * 5])

    def attend(q: Tensor, k: Tensor, v: Tensor, segments: Tensor, gates: Gates) -> Tensor:
        return mechanism(q, k, v, Mask(True, segments=segments), **gates)

    torch.compiler.reset()
    call = torch.compile(attend, backend="aot_eager", fullgraph=True)
    inputs = (x.q, x.k, x.v, segments, x.gates)
    actual, expected = call(*inputs), attend(*inputs)
    assert_equal_to_rounding([actual], [expected])
    grads = [gradients(y, x.leaves()) for y in (actual, expected)]
    assert_equal_to_rounding(grads[0], grads[1])
