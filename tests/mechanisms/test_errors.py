"""Bad input raises one ValueError of one line: what was given, and what would work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab import MECHANISMS, Mask
from attnlab._argument_checks import GATE_NAMES
from attnlab.gates import Gate, sample_gates
from tests.support.error_messages import expect_error, expect_refused
from tests.support.law_trials import (
    HEAD_DIM,
    HEADS,
    VALUE_DIM,
    LawInputs,
    absorb,
    make_mechanism,
    single_inputs,
    usual_mask,
    with_keys,
)

every = pytest.mark.parametrize("name", list(MECHANISMS))
every_gate = pytest.mark.parametrize(
    ("name", "gate"),
    [
        pytest.param(name, gate, id=f"{name}-{gate.name}")
        for name, kind in MECHANISMS.items()
        for gate in kind.gates
    ],
)
ALL = slice(None)


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    x = single_inputs(make_mechanism("softmax"))
    return x.q, x.k, x.v


def test_unknown_names() -> None:
    expect_error(lambda: make_mechanism("favour"), "'favour'", "did you mean 'favor'")
    expect_error(lambda: make_mechanism("soft_max"), "did you mean 'softmax'")
    words = "no option 'feature'", "did you mean 'features'"
    expect_error(lambda: make_mechanism("favor", feature=3), *words)
    expect_error(lambda: make_mechanism("relu", beta=3), "no option 'beta'", "chunk")


@every
def test_wrong_sizes(name: str) -> None:
    for wrong in ({"head_dim": 0}, {"heads": 2.5}, {"max_length": -1}):
        ((option, value),) = wrong.items()
        expect_error(lambda wrong=wrong: make_mechanism(name, **wrong), name, option, str(value))
    mechanism = make_mechanism(name)
    x, mask = single_inputs(mechanism), usual_mask(mechanism)

    def refused(*words: str, **changes: Any) -> None:
        expect_refused(mechanism, replace(x, **changes), mask, *words)

    refused("4 heads", "heads=6", f"(2, 4, 7, {HEAD_DIM})", q=x.q[:, :4])
    refused("4 heads", "heads=6", k=x.k[:, :4], v=x.v[:, :4])
    refused("width 3", f"head_dim={HEAD_DIM}", q=x.q[..., :3])
    refused("width 3", f"head_dim={HEAD_DIM}", k=x.k[..., :3])
    refused("batch of 1", q=x.q[:1])
    refused("q has 3 axes", q=x.q[0])
    short = replace(x, v=x.v[:, :, :3])
    expect_error(lambda: short.output(mechanism, mask), name, "k and v must agree")
    expect_error(lambda: absorb(mechanism, short, ALL, None), name, "k and v must agree")
    state = absorb(mechanism, x, ALL, None)
    expect_error(lambda: mechanism.read(x.q[:, :4], state, 0), name, "4 heads", "heads=6")
    one = x.part(slice(0, 1), ALL, ALL)
    expect_error(lambda: absorb(mechanism, one, ALL, None, state), name, "batch of 1", "2")


@every
def test_wrong_masks(name: str) -> None:
    mechanism = make_mechanism(name)
    x, mask = single_inputs(mechanism), usual_mask(mechanism)
    wrong = torch.ones(2, 6, dtype=torch.bool)
    expect_refused(mechanism, x, replace(mask, keys=wrong), "(2, 7)", "keys=(2, 6)")
    expect_error(lambda: absorb(mechanism, x, ALL, wrong), name, "(2, 7)", "keys=(2, 6)")
    start = torch.tensor([1, 2, 3])
    expect_refused(mechanism, x, replace(mask, start=start), "start", "one per row")
    expect_error(lambda: Mask(keys=torch.ones(2, 7)), "torch.float32", "torch.bool")
    expect_error(lambda: Mask(start=torch.ones(2)), "torch.float32", "integer")


@every
def test_longer_than_max_length(name: str) -> None:
    mechanism = make_mechanism(name, max_length=6)
    x, mask = single_inputs(mechanism), usual_mask(mechanism)
    expect_refused(mechanism, x, mask, "7 tokens", "max_length=6")
    expect_error(lambda: absorb(mechanism, x, ALL, None), name, "7 tokens", "max_length=6")
    state = absorb(mechanism, x, slice(0, 5), None)
    rest = slice(5, None)
    expect_error(lambda: absorb(mechanism, x, rest, None, state), name, "7 tokens")
    if MECHANISMS[name].card.needs_length:
        expect_error(lambda: make_mechanism(name, max_length=None), name, "max_length")
    if name in ("synthesizer_random", "synthesizer_factorized"):
        few = x.part(ALL, ALL, slice(0, 5))
        expect_error(lambda: few.output(mechanism, mask), name, "0 to 6", "max_length=6")


@every
def test_what_it_cannot_do_is_an_error(name: str) -> None:
    """Law 8."""
    mechanism = make_mechanism(name)
    card = mechanism.card
    x = single_inputs(mechanism, T=5, S=7)
    if not card.causal:
        expect_refused(mechanism, x, Mask(causal=True), "no causal form", "causal=True")
    if not card.bidirectional:
        words = "exists only in causal form", "attnlab.Mask(causal=True)"
        expect_refused(mechanism, single_inputs(mechanism), Mask(), *words)
    if card.cross:
        out = x.output(mechanism, usual_mask(mechanism))
        assert out.shape == (2, HEADS, 5, VALUE_DIM)
        return
    masks = [Mask()] * card.bidirectional + [Mask(True, start=3)] * card.causal
    for T, S in ((5, 7), (7, 5)):
        x = single_inputs(mechanism, T=T, S=S)
        for mask in masks:
            expect_refused(mechanism, x, mask, "cannot do cross-attention")
        state = absorb(mechanism, x, ALL, None)
        expect_error(
            lambda q=x.q, s=state: mechanism.read(q, s, 0), name, "cannot do cross-attention"
        )


# Gates


def expect_gates_refused(
    mechanism: Any, x: LawInputs, words: tuple[str, ...], **gates: Any
) -> None:
    """`forward`, `weights` and `absorb` refuse `x` with these gates."""
    x = replace(x, gates=gates)
    expect_refused(mechanism, x, usual_mask(mechanism), *words)
    expect_error(lambda: mechanism.absorb(x.k, x.v, **gates), mechanism.name, *words)


@every_gate
def test_a_missing_gate(name: str, gate: Gate) -> None:
    mechanism = make_mechanism(name)
    x = single_inputs(mechanism)
    others = {other: value for other, value in x.gates.items() if other != gate.name}
    words = f"{gate.name} is missing", f"give {gate.name}={gate.axes}", gate.range
    expect_gates_refused(mechanism, x, words, **others)


@every
def test_a_superfluous_gate(name: str) -> None:
    mechanism = make_mechanism(name)
    x = single_inputs(mechanism)
    takes = " and ".join(x.gates) or "no gate"
    for other in set(GATE_NAMES) - set(x.gates):
        words = f"takes {takes}", f"leave out {other}"
        expect_gates_refused(mechanism, x, words, **x.gates, **{other: x.k.new_zeros(2, HEADS, 7)})


@every_gate
def test_a_gate_of_another_shape_or_dtype(name: str, gate: Gate) -> None:
    mechanism = make_mechanism(name)
    x = single_inputs(mechanism)
    right = x.gates[gate.name]
    shapes: list[Callable[[Tensor], Tensor]] = [
        lambda g: g[:, :, :6],
        lambda g: g[:, :4],
        lambda g: g[:1],
        lambda g: g[..., None],
        lambda g: g[0],
    ]
    for change in shapes:
        wrong = change(right)
        words = f"{gate.name} has shape {tuple(wrong.shape)}", f"here {tuple(right.shape)}"
        expect_gates_refused(mechanism, x, words, **{**x.gates, gate.name: wrong})
    words = f"{gate.name} holds torch.int64", "floating-point"
    expect_gates_refused(mechanism, x, words, **{**x.gates, gate.name: right.long()})


@every_gate
def test_a_gate_outside_its_range(name: str, gate: Gate) -> None:
    """Also one wrong value among many. Padding may hold anything."""
    mechanism = make_mechanism(name)
    x = single_inputs(mechanism)
    values = [gate.low - 0.25, gate.high + 0.25, float("nan")]
    values = [value for value in values if value != -float("inf")]
    assert len(values) >= 2
    keys = torch.arange(7) != torch.tensor([7, 3])[:, None]
    for value in values:
        wrong = x.gates[gate.name].clone()
        wrong[1, 4, 3] = value
        gates = {**x.gates, gate.name: wrong}
        words = f"{gate.name} has the value {value:g}", f"give {gate.range}"
        expect_gates_refused(mechanism, x, words, **gates)
        out = replace(x, gates=gates).output(mechanism, usual_mask(mechanism, keys))
        assert torch.equal(out, x.output(mechanism, usual_mask(mechanism, keys)))


def test_other_arguments_are_no_gates() -> None:
    x = single_inputs(make_mechanism("softmax"))
    mechanism: Any = make_mechanism("gla")
    with pytest.raises(TypeError, match="gla: no argument 'is_causal'; give mask="):
        mechanism(x.q, x.k, x.v, Mask(True), log_decay=-x.k.abs(), is_causal=True)
    with pytest.raises(TypeError, match="gla: log_decay is a float; give a tensor"):
        mechanism(x.q, x.k, x.v, Mask(True), log_decay=-0.5)


# Packed documents


@every
def test_wrong_segments(name: str) -> None:
    mechanism = make_mechanism(name)
    x, mask = single_inputs(mechanism), usual_mask(mechanism)
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [2, 2, 4, 4, 4, 4, 4]])
    packed = replace(mask, segments=documents)
    if not mechanism.card.packs:
        why = "cannot attend to packed documents", "a row of its own", "segments=(2, 7)"
        expect_refused(mechanism, x, packed, *why)
        return
    assert x.output(mechanism, packed).shape == (2, HEADS, 7, VALUE_DIM)
    for wrong in (documents[:, :6], documents[:1]):
        words = "segments must have shape (2, 7)", f"segments={tuple(wrong.shape)}"
        expect_refused(mechanism, x, replace(mask, segments=wrong), *words)
    few = replace(x, q=x.q[:, :, :5])
    expect_refused(mechanism, few, packed, "packed documents are self-attention", "7 queries")


def test_segments_that_are_no_segments() -> None:
    right = torch.tensor([[0, 0, 1, 1, 1]])
    wrong: list[tuple[Any, str]] = [
        (right.float(), "torch.float32 of shape (1, 5)"),
        (right == 0, "torch.bool"),
        (right[0], "torch.int64 of shape (5,)"),
        ([[0, 0, 1]], "list"),
    ]
    for segments, word in wrong:
        words = f"segments is {word}", "integer tensor (B, S)"
        expect_error(lambda segments=segments: Mask(segments=segments), *words)
    expect_error(lambda: Mask(segments=right.flip(1)), "decrease along a row", "in their order")
    for dtype, wrap in ((torch.uint8, [1, 0]), (torch.int8, [100, -100])):
        falling, fine = (torch.tensor([row], dtype=dtype) for row in (wrap, wrap[::-1]))
        expect_error(lambda falling=falling: Mask(segments=falling), "decrease along a row")
        assert Mask(segments=fine).document_lengths == [[1, 1]]
    for start in (2, torch.tensor([0])):
        expect_error(lambda start=start: Mask(start=start, segments=right), "need start 0")


@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 0)])
@pytest.mark.parametrize("name", [name for name, kind in MECHANISMS.items() if kind.card.packs])
def test_no_documents_give_no_outputs(name: str, shape: tuple[int, int]) -> None:
    mechanism: Any = make_mechanism(name)
    (B, S), segments = shape, torch.zeros(shape, dtype=torch.long)
    q, k, v = (torch.randn(B, HEADS, S, size) for size in (HEAD_DIM, HEAD_DIM, VALUE_DIM))
    mask = replace(usual_mask(mechanism), segments=segments)
    gates = sample_gates(mechanism.gates, k)
    assert mechanism(q, k, v, mask, **gates).shape == (B, HEADS, S, VALUE_DIM)
    assert mechanism.weights(q, k, mask, **gates).shape == (B, HEADS, S, S)


# States


def test_states_of_other_mechanisms_are_refused() -> None:
    favor: Any = make_mechanism("favor", features=8)
    x = single_inputs(favor)
    old = absorb(favor, x, ALL, None)
    favor.redraw()
    expect_error(lambda: favor.read(x.q, old, 0), "belongs to another mechanism")
    wide = make_mechanism("favor", features=8, head_dim=2 * HEAD_DIM)
    long = torch.cat([x.q, x.q], -1)
    expect_error(lambda: wide.read(long, old, 0), "belongs to another mechanism")
    pairs = (
        ("softmax", "favor"), ("elu", "relu"), ("softmax", "hard"), ("linformer", "bigbird"),
        ("forgetting", "softmax"), ("softmax", "forgetting"), ("retention", "elu"),
        ("gla", "mamba2"), ("delta", "kda"), ("based", "hedgehog"), ("window", "softmax"),
    )  # fmt: skip
    for one, other in pairs:
        made_by, mechanism = make_mechanism(one), make_mechanism(other)
        state = absorb(made_by, single_inputs(made_by), ALL, None)
        x = single_inputs(mechanism)
        for call in (
            lambda m=mechanism, x=x, s=state: m.read(x.q, s, 0),
            lambda m=mechanism, x=x, s=state: absorb(m, x, ALL, None, s),
        ):
            expect_error(call, other, "belongs to another mechanism")
    expect_error(lambda: state.trim(torch.tensor([9, 9])), "lengths [9, 9]")
    expect_error(lambda: state.trim(torch.tensor([7])), "(1,)", "(2,)")
    expect_error(lambda: state.trim(torch.tensor([7.0, 7.0])), "float32")
    expect_error(lambda: state.trim(torch.tensor([7, 6])), "only padding")


@every
def test_keys_of_another_shape_or_dtype_are_refused(name: str) -> None:
    mechanism = make_mechanism(name)
    x = single_inputs(mechanism)
    state = absorb(mechanism, x, ALL, None)

    def refused(k: Tensor, v: Tensor, *words: str, first: bool = False) -> None:
        other = with_keys(mechanism, x, k, v)
        before = None if first else state
        expect_error(lambda: absorb(mechanism, other, ALL, None, before), name, *words)

    refused(x.k[:, :1], x.v[:, :1], "6 heads")
    refused(x.k, x.v[..., :1], f"values of width {VALUE_DIM}")
    refused(x.k.double(), x.v.double(), "float32")
    refused(x.k, x.v.double(), "torch.float32 and torch.float64", first=True)


# Options


def test_wrong_options() -> None:
    q, k, v = qkv()
    for name, options in (
        ("softmax", {"beta": "a"}),
        ("softmax", {"beta": float("inf")}),
        ("softmax", {"dropout": "a"}),
        ("bigbird", {"global_blocks": "1"}),
        ("bigbird", {"global_blocks": 1.5}),
        ("bigbird", {"seed": 1.5}),
        ("favor", {"seed": "a"}),
        ("favor", {"features": [1]}),
        ("fourier", {"features": "6"}),
        ("softmax", {"bias": "t5"}),
        ("softmax", {"softcap": 0}),
        ("softmax", {"sink": "lerned"}),
        ("softmax", {"two_sided": 3}),
        ("delta", {"normalize_keys": 2}),
        ("based", {"feature_dim": 0}),
    ):
        option, value = next(iter(options.items()))
        expect_error(lambda n=name, o=options: make_mechanism(n, **o), name, option, repr(value))
        expect_error(lambda n=name, o=options: attnlab.attention(q, k, v, n, **o), name, option)
    keys: Any = [True]
    expect_error(lambda: attnlab.attention(q, k, v, key_mask=keys), "key_mask", "(1,)", "(B, S)")
    for start in (1.5, None, True, torch.tensor([True, False])):
        expect_error(lambda start=start: Mask(start=start), "start is", "an int")
    for name, option, value, more in (
        ("softmax", "beta", 0.0, ""),
        ("softmax", "dropout", 1.0, ""),
        ("fourier", "features", 7, "even"),
        ("favor", "features", 0, ""),
        ("bigbird", "window_blocks", 2, "odd"),
        ("bigbird", "random_blocks", -1, ""),
        ("window", "window", 0, ""),
        ("elu", "chunk", 0, ""),
        ("linformer", "rank", 0, ""),
        ("hedgehog", "features", 7, "even"),
        ("differential", "head_dim", 7, "even"),
        ("differential", "start", float("nan"), "a number"),
        ("softmax", "sink", float("inf"), "a number, or learned"),
    ):
        wrong = {option: value}
        words = name, f"{option} is {value}", more
        expect_error(lambda n=name, o=wrong: make_mechanism(n, **o), *words)


def test_attention_refuses_learned_mechanisms() -> None:
    q, k, v = qkv()
    for name, kind in MECHANISMS.items():
        if kind.card.learned:
            words = name, "create_mechanism"
            expect_error(lambda name=name: attnlab.attention(q, k, v, name), *words)
        else:
            options: dict[str, Any] = {"causal": True, "key_mask": torch.ones(2, 7).bool()}
            options |= sample_gates(kind.gates, k)
            out = attnlab.attention(q, k, v, name, **options)
            assert out.shape == (2, HEADS, 7, VALUE_DIM)
    for spec in ("softmax:bias=relative", "softmax:sink=learned", "based:feature_dim=3"):
        expect_error(lambda spec=spec: attnlab.attention(q, k, v, spec), "learned parameters")
    expect_error(lambda: attnlab.attention(q[0], k, v), "4 axes", f"(6, 7, {HEAD_DIM}) has 3")
