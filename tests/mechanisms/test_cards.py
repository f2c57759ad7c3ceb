"""Cards are true. States, empty sizes, half precision and torch.compile work for every mechanism.

What a mechanism refuses is in test_errors.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab import MECHANISMS, Mask, create_mechanism
from attnlab._create_mechanism import mechanism_options
from attnlab.gates import sample_gates
from attnlab.laws import _card_checks as cards
from attnlab.laws._compare import LawError
from attnlab.mechanisms.bigbird import BigBird
from attnlab.mechanisms.window import Window
from attnlab.state import KeyValues
from tests.support.error_messages import expect_error
from tests.support.law_trials import (
    HEAD_DIM,
    HEADS,
    VALUE_DIM,
    LawInputs,
    absorb,
    build,
    every_trial,
    make_mechanism,
    possible_masks,
    single_inputs,
    usual_mask,
)

SIZES: dict[str, Any] = {"head_dim": HEAD_DIM, "heads": HEADS}
every = pytest.mark.parametrize("name", list(MECHANISMS))
ALL, NONE = slice(None), slice(0, 0)


@every_trial
def test_the_card_is_true(name: str, options: Any) -> None:
    cards.check_rows_and_signs(build(name, options))
    cards.check_used_inputs(build(name, options))


@every
def test_state_size(name: str) -> None:
    kind = MECHANISMS[name]
    length = 1000 if kind.card.needs_length else None
    options = dict(kind.trials[-1])
    cards.check_state_size(create_mechanism(name, **SIZES, max_length=length, **options).double())


def test_appending_in_place_moves_the_buffer_rarely() -> None:
    mechanism = make_mechanism("softmax", max_length=None)
    state: Any = None
    moves, last = 0, None
    with torch.no_grad():
        for _ in range(2000):
            k = torch.randn(1, HEADS, 1, HEAD_DIM)
            state = mechanism.absorb(k, k.clone(), None, state)
            moves += state.k_buffer.data_ptr() != last
            last = state.k_buffer.data_ptr()
    assert moves < 15
    assert isinstance(state, KeyValues)
    assert state.k.shape == (1, HEADS, 2000, HEAD_DIM)


def test_an_older_state_copies_before_it_branches() -> None:
    mechanism = make_mechanism("softmax")
    x = single_inputs(mechanism, T=9, S=9)
    with torch.no_grad():
        trunk = absorb(mechanism, x, slice(0, 4), None)
        trunk = absorb(mechanism, x, slice(4, 5), None, trunk)
        left = absorb(mechanism, x, slice(5, 6), None, trunk)
        right = absorb(mechanism, x, slice(6, 7), None, trunk)
        for state, last in ((left, 5), (right, 6), (trunk, None)):
            positions = [0, 1, 2, 3, 4] + ([] if last is None else [last])
            expected = x.part(ALL, ALL, positions).output(mechanism, Mask())
            assert torch.allclose(mechanism.read(x.q, state, 0), expected, atol=1e-6)


@every
def test_empty_sizes(name: str) -> None:
    mechanism = make_mechanism(name)
    card = mechanism.card
    x = single_inputs(mechanism, G=2)
    for mask in possible_masks(mechanism):
        no_rows = x.part(NONE, ALL, ALL)
        assert no_rows.output(mechanism, mask).shape == (0, HEADS, 7, VALUE_DIM)
        starts = Mask(mask.causal, start=torch.zeros(0, dtype=torch.long))
        if mask.causal or card.cross:
            assert no_rows.output(mechanism, starts).shape == (0, HEADS, 7, VALUE_DIM)
        T = 7 if card.cross else 0
        empty = x.part(ALL, slice(0, T), NONE).output(mechanism, mask)
        assert empty.shape == (2, HEADS, T, VALUE_DIM)
        assert not bool(empty.any())
        if card.cross or mask.causal:
            out = x.part(ALL, NONE, ALL).output(mechanism, mask)
            assert out.shape == (2, HEADS, 0, VALUE_DIM)
    state = absorb(mechanism, x, ALL, None)
    start = 0 if card.cross else 7
    assert mechanism.read(x.q[:, :, :0], state, start).shape == (2, HEADS, 0, VALUE_DIM)
    none = state.select(torch.zeros(0, dtype=torch.long))
    assert mechanism.read(x.q[:0], none, 0).shape == (0, HEADS, 7, VALUE_DIM)


@every
def test_a_trimmed_state_and_its_original_are_independent(name: str) -> None:
    """Both append, the trimmed one into the other's padding; neither sees the other's tokens."""
    mechanism = make_mechanism(name)
    x = single_inputs(mechanism, T=9, S=9)
    lengths = torch.tensor([5, 2])
    real = torch.arange(5) < lengths[:, None]
    prompt, one, other = slice(0, 5), slice(5, 6), slice(6, 7)
    q = x.q[:, :, :1]
    with torch.no_grad():
        for first in ("padded", "trimmed"):
            padded = absorb(mechanism, x, prompt, real)
            states = {"padded": padded, "trimmed": padded.trim(lengths)}
            positions = {"padded": one, "trimmed": other}
            for which in (first, "trimmed" if first == "padded" else "padded"):
                states[which] = absorb(mechanism, x, positions[which], None, states[which])
            start: dict[str, Any] = {"padded": 5, "trimmed": lengths}
            got = {w: mechanism.read(q, s, start[w]) for w, s in states.items()}
            copy = x.to(torch.float32)
            alone = absorb(mechanism, copy, prompt, real.clone())
            alone = absorb(mechanism, copy, one, None, alone)
            assert torch.allclose(got["padded"], mechanism.read(q, alone, 5), atol=1e-6)
            row = x.part(slice(1, 2), ALL, ALL)
            short = absorb(mechanism, row, slice(0, 2), None)
            short = absorb(mechanism, row, other, None, short)
            expected = mechanism.read(q[1:], short, 2)
            assert torch.allclose(got["trimmed"][1:], expected, atol=1e-5)


def test_window_drops_old_keys_and_refuses_to_read_them() -> None:
    mechanism = make_mechanism("window", window=3)
    x = single_inputs(mechanism, T=12, S=12)
    lengths = torch.tensor([12, 5])
    real = torch.arange(12) < lengths[:, None]
    with torch.no_grad():
        halves = absorb(mechanism, x, slice(0, 6), real[:, :6])
        halves = absorb(mechanism, x, slice(6, 12), real[:, 6:], halves).trim(lengths)
        whole = absorb(mechanism, x, ALL, real).trim(lengths)
        outs = [
            mechanism.read(x.q[:, :, :1], absorb(mechanism, x, slice(0, 1), None, state), lengths)
            for state in (halves, whole)
        ]
        assert torch.allclose(outs[0], outs[1], atol=1e-6)
        state = absorb(mechanism, x, slice(0, 1), None, absorb(mechanism, x, ALL, None))
        words = "last absorb had 1 tokens"
        expect_error(lambda: mechanism.read(x.q[:, :, :2], state, 11), words)


@every
def test_states_cross_inference_mode(name: str) -> None:
    mechanism = make_mechanism(name)
    x = single_inputs(mechanism)
    with torch.inference_mode():
        copy = x.to(torch.float32)
        state = absorb(mechanism, copy, slice(0, 5), None)
        state = absorb(mechanism, copy, slice(5, 6), None, state)
    expected = absorb(mechanism, x, ALL, None)
    last = slice(6, 7)
    for context in (torch.no_grad(), torch.enable_grad()):
        with context:
            more = absorb(mechanism, x, last, None, state)
            out = mechanism.read(x.q[:, :, last], more, 6)
        assert torch.allclose(out, mechanism.read(x.q[:, :, last], expected, 6), atol=1e-5)


def test_attention_under_inference_mode_does_not_break_training() -> None:
    x = single_inputs(make_mechanism("favor")).fresh()
    with torch.inference_mode():
        attnlab.attention(x.q, x.k, x.v, "favor", features=24)
    attnlab.attention(x.q, x.k, x.v, "favor", features=24).sum().backward()
    assert x.q.grad is not None


@every
def test_half_precision_and_autocast(name: str) -> None:
    """Scores of 1e4 in float16: scaled before they are summed, forward equals the definition."""
    mechanism = make_mechanism(
        name, head_dim=64, **({"rank": 4} if name == "linformer" else {})
    ).half()
    q = torch.full((1, HEADS, 2, 64), 40.0, dtype=torch.half)
    k = torch.stack([q[:, :, 0], q[:, :, 0] + 1], dim=2)
    v = torch.tensor([1.0, 2.0], dtype=torch.half).expand(1, HEADS, 2)[..., None]
    gates = sample_gates(mechanism.gates, k, torch.Generator().manual_seed(0))
    x = LawInputs(q, k, v, None, gates)
    mask = usual_mask(mechanism)
    out, weights = x.output(mechanism, mask), x.weights(mechanism, mask)
    assert out.dtype == weights.dtype == torch.half
    assert bool(weights.isfinite().all())
    assert torch.allclose(out, weights @ v, atol=2e-2, rtol=2e-2)
    if name in ("softmax", "hard", "window", "bigbird"):
        assert float(out[0, 0, 0, 0]) == 2
    mechanism = make_mechanism(name)
    x = single_inputs(mechanism)
    with torch.autocast("cpu", torch.bfloat16):
        state = absorb(mechanism, x, ALL, None)
        assert bool(x.output(mechanism, mask).isfinite().all())
    if not isinstance(state, KeyValues):  # sums
        dtypes = {t.dtype for t in vars(state).values() if isinstance(t, Tensor)}
        assert dtypes <= {torch.float32, torch.float64}


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # by torch.compile itself
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of vmap, in softmax
@every
def test_compiled_equals_eager(name: str) -> None:
    mechanism: Any = make_mechanism(name)
    x, mask = single_inputs(mechanism, T=40, S=40), possible_masks(mechanism)[-1]
    expected, whole = x.output(mechanism, mask), mechanism.card.one_graph
    torch.compiler.reset()
    call = torch.compile(mechanism, backend="aot_eager", fullgraph=whole)
    assert torch.allclose(call(x.q, x.k, x.v, mask, **x.gates), expected, atol=1e-5)
    mapped = torch.func.vmap(lambda q: mechanism(q, x.k, x.v, mask, **x.gates))
    if whole:
        assert torch.allclose(mapped(x.q[None])[0], expected, atol=1e-5)
        return
    torch.compiler.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(mechanism, backend="aot_eager", fullgraph=True)(x.q, x.k, x.v, mask)
    with pytest.raises(RuntimeError, match="vmap"):
        mapped(x.q[None])


def test_a_long_window_costs_no_more_than_the_input() -> None:
    mechanism, softmax = make_mechanism("window", window=1_000_000), make_mechanism("softmax")
    x = single_inputs(mechanism)
    outs = [x.output(each, Mask()) for each in (mechanism, softmax)]
    assert torch.allclose(outs[0], outs[1], atol=1e-6)


@every_trial
def test_visible_keys_agree_with_the_weights(name: str, options: dict[str, Any]) -> None:
    cards.check_visible_keys(build(name, options))


def test_a_wrong_fact_breaks_a_law() -> None:
    class Short(Window):
        def visible_keys(self, tokens: int, causal: bool) -> int:
            return super().visible_keys(tokens, causal) - 1

    class Far(Window):
        def covers_all(self, tokens: int, causal: bool) -> bool:
            return tokens > 0 or causal

    class Moved(BigBird):
        shift_invariant = True

    for mechanism, text in (
        (Short(**SIZES, window=3), "visible_keys"),
        (Far(**SIZES, window=3), "covers_all"),
        (Moved(**SIZES, block=2, global_blocks=0, random_blocks=0), "shift_invariant"),
    ):
        with pytest.raises(LawError, match=text):
            cards.check_visible_keys(mechanism.double())


@every
@pytest.mark.parametrize("tokens", [30, 300])
def test_short_options_hide_some_keys(name: str, tokens: int) -> None:
    options = MECHANISMS[name].short_options(tokens)
    mechanism = make_mechanism(name, max_length=tokens, **options)
    visible = mechanism.visible_keys(tokens, causal=False)
    assert visible is None or visible < tokens
    assert not mechanism.covers_all(tokens, causal=False)


@every
def test_a_sweep_returns_valid_options(name: str) -> None:
    kind = MECHANISMS[name]
    option = kind.size_option
    if option is None:
        assert kind.sweep({}, {"features": (2, 4)}) == [{}]
        return
    sets = kind.sweep({}, {option: (2, 4)})
    assert len(sets) == 2 * len(kind.variants)
    assert [make_mechanism(name, **each).name for each in sets] == [name] * len(sets)
    assert kind.sweep({option: 6}, {option: (2, 4)}) == [{option: 6}]
    assert kind.sweep({}, {}) == [{}]


@every
def test_options_are_documented(name: str) -> None:
    for option in mechanism_options(name):
        assert len(option.help) > 5, option.name
    card = MECHANISMS[name].card
    assert card.summary
    assert card.paper
    assert card.arxiv
