"""Cards are true, and errors are one clear line."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab import MECHANISMS, Mask, create_mechanism
from attnlab._create_mechanism import mechanism_options
from attnlab.laws import _card_checks as cards
from attnlab.laws._compare import LawError
from attnlab.mechanisms.bigbird import BigBird
from attnlab.mechanisms.window import Window
from attnlab.state import KeyValues
from tests.support.law_trials import HEAD_DIM, HEADS, MAX_LENGTH, all_trials, build

trials = pytest.mark.parametrize(("name", "options"), list(all_trials()), ids=str)
SIZES: dict[str, Any] = {"head_dim": HEAD_DIM, "heads": HEADS}
every = pytest.mark.parametrize("name", list(MECHANISMS))


def tensors(B: int = 2, H: int = HEADS, T: int = 7, S: int = 7, D: int = HEAD_DIM) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = ((H, T, D), (H, S, D), (H, S, 3))
    return [torch.randn(B, *size, generator=generator) for size in sizes]


def make(name: str, **changes: Any) -> Any:
    sizes = {"head_dim": HEAD_DIM, "heads": HEADS, "max_length": MAX_LENGTH}
    return create_mechanism(name, **{**sizes, **changes})


@trials
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
    mechanism = make("softmax", max_length=None)
    state: Any = None
    moves, last = 0, None
    with torch.no_grad():
        for _ in range(2000):
            k = torch.randn(1, HEADS, 1, HEAD_DIM)
            state = mechanism.absorb(k, k, None, state)
            moves += state.k_buffer.data_ptr() != last
            last = state.k_buffer.data_ptr()
    assert moves < 15
    assert isinstance(state, KeyValues)
    assert state.k.shape == (1, HEADS, 2000, HEAD_DIM)


def test_an_older_state_copies_before_it_branches() -> None:
    mechanism = make("softmax")
    q, k, v = tensors(T=9, S=9)
    with torch.no_grad():
        trunk = mechanism.absorb(k[:, :, :4], v[:, :, :4])
        trunk = mechanism.absorb(k[:, :, 4:5], v[:, :, 4:5], None, trunk)
        left = mechanism.absorb(k[:, :, 5:6], v[:, :, 5:6], None, trunk)
        right = mechanism.absorb(k[:, :, 6:7], v[:, :, 6:7], None, trunk)
        for state, last in ((left, 5), (right, 6), (trunk, None)):
            positions = [0, 1, 2, 3, 4] + ([] if last is None else [last])
            expected = mechanism(q, k[:, :, positions], v[:, :, positions], Mask())
            assert torch.allclose(mechanism.read(q, state, 0), expected, atol=1e-6)


# Errors: one ValueError that repeats the arguments


def expect_error(call: Any, *words: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


def test_unknown_names() -> None:
    expect_error(lambda: make("favour"), "'favour'", "did you mean 'favor'")
    expect_error(lambda: make("soft_max"), "did you mean 'softmax'")
    expect_error(lambda: make("favor", feature=3), "no option 'feature'", "did you mean 'features'")
    expect_error(lambda: make("relu", beta=3), "no option 'beta'", "chunk")


@every
def test_wrong_sizes(name: str) -> None:
    mechanism = make(name)
    expect_error(lambda: make(name, head_dim=0), name, "head_dim", "0")
    expect_error(lambda: make(name, heads=2.5), name, "heads", "2.5")
    expect_error(lambda: make(name, max_length=-1), name, "max_length", "-1")
    mask = Mask()
    q, k, v = tensors()
    for call in (
        lambda *x: mechanism(*x, mask),
        lambda *x: mechanism.weights(*x[:2], mask),
    ):
        expect_error(
            lambda call=call: call(q[:, :4], k, v), name, "4 heads", "heads=6", "(2, 4, 7, 5)"
        )
        expect_error(lambda call=call: call(q, k[:, :4], v[:, :4]), name, "4 heads", "heads=6")
        expect_error(lambda call=call: call(q[..., :3], k, v), name, "width 3", "head_dim=5")
        expect_error(lambda call=call: call(q, k[..., :3], v), name, "width 3", "head_dim=5")
        expect_error(lambda call=call: call(q[:1], k, v), name, "batch of 1")
        expect_error(lambda call=call: call(q[0], k, v), name, "q has 3 axes")
    expect_error(lambda: mechanism(q, k, v[:, :, :3], mask), name, "k and v must agree")
    expect_error(lambda: mechanism.absorb(k, v[:, :, :3]), name, "k and v must agree")
    state = mechanism.absorb(k, v)
    expect_error(lambda: mechanism.read(q[:, :4], state, 0), name, "4 heads", "heads=6")
    expect_error(lambda: mechanism.absorb(k[:1], v[:1], None, state), name, "batch of 1", "2")


@every
def test_wrong_masks(name: str) -> None:
    mechanism = make(name)
    q, k, v = tensors()
    wrong = torch.ones(2, 6, dtype=torch.bool)
    expect_error(lambda: mechanism(q, k, v, Mask(keys=wrong)), name, "(2, 7)", "keys=(2, 6)")
    expect_error(lambda: mechanism.weights(q, k, Mask(keys=wrong)), name, "(2, 7)", "keys=(2, 6)")
    expect_error(lambda: mechanism.absorb(k, v, wrong), name, "(2, 7)", "keys=(2, 6)")
    start = torch.tensor([1, 2, 3])
    expect_error(lambda: mechanism(q, k, v, Mask(start=start)), name, "start", "one per row")
    expect_error(lambda: Mask(keys=torch.ones(2, 7)), "torch.float32", "torch.bool")
    expect_error(lambda: Mask(start=torch.ones(2)), "torch.float32", "integer")


@every
def test_longer_than_max_length(name: str) -> None:
    mechanism = make(name, max_length=6)
    q, k, v = tensors()
    expect_error(lambda: mechanism(q, k, v, Mask()), name, "7 tokens", "max_length=6")
    expect_error(lambda: mechanism.weights(q, k, Mask()), name, "7 tokens", "max_length=6")
    expect_error(lambda: mechanism.absorb(k, v), name, "7 tokens", "max_length=6")
    state = mechanism.absorb(k[:, :, :5], v[:, :, :5])
    expect_error(lambda: mechanism.absorb(k[:, :, 5:], v[:, :, 5:], None, state), name, "7 tokens")
    if MECHANISMS[name].card.needs_length:
        expect_error(lambda: make(name, max_length=None), name, "max_length")
    if name in ("synthesizer_random", "synthesizer_factorized"):
        few = k[:, :, :5], v[:, :, :5]
        expect_error(lambda: mechanism(q, *few, Mask()), name, "0 to 6", "max_length=6")


@every
def test_what_it_cannot_do_is_an_error(name: str) -> None:
    """Law 8."""
    mechanism = make(name)
    card = mechanism.card
    q, k, v = tensors(T=5, S=7)
    causal = Mask(causal=True)
    if not card.causal:
        expect_error(lambda: mechanism(q, k, v, causal), name, "no causal form", "causal=True")
        expect_error(lambda: mechanism.weights(q, k, causal), name, "no causal form")
    if card.cross:
        assert mechanism(q, k, v, Mask()).shape == (2, HEADS, 5, 3)
        return
    for few, many in ((5, 7), (7, 5)):
        q, k, v = tensors(T=few, S=many)
        call = (q, k, v)
        expect_error(lambda call=call: mechanism(*call, Mask()), name, "cannot do cross-attention")
        expect_error(
            lambda q=q, k=k: mechanism.weights(q, k, Mask()), name, "cannot do cross-attention"
        )
        state = mechanism.absorb(k, v)
        expect_error(
            lambda q=q, s=state: mechanism.read(q, s, 0), name, "cannot do cross-attention"
        )


def test_states_of_other_mechanisms_are_refused() -> None:
    q, k, v = tensors()
    favor = make("favor", features=8)
    old = favor.absorb(k, v)
    favor.redraw()
    expect_error(lambda: favor.read(q, old, 0), "belongs to another mechanism")
    wide = make("favor", features=8, head_dim=9)
    expect_error(
        lambda: wide.read(torch.cat([q, q[..., :4]], -1), old, 0), "belongs to another mechanism"
    )
    pairs = (("softmax", "favor"), ("elu", "relu"), ("softmax", "hard"), ("linformer", "bigbird"))
    for one, other in (*pairs, ("window", "softmax")):
        state = make(one).absorb(k, v)
        mechanism = make(other)
        expect_error(
            lambda m=mechanism, s=state: m.read(q, s, 0), other, "belongs to another mechanism"
        )
        expect_error(
            lambda m=mechanism, s=state: m.absorb(k, v, None, s),
            other,
            "belongs to another mechanism",
        )
    expect_error(lambda: state.trim(torch.tensor([9, 9])), "lengths [9, 9]")
    expect_error(lambda: state.trim(torch.tensor([7])), "(1,)", "(2,)")
    expect_error(lambda: state.trim(torch.tensor([7.0, 7.0])), "float32")
    expect_error(lambda: state.trim(torch.tensor([7, 6])), "only padding")


@every
def test_keys_of_another_shape_or_dtype_are_refused(name: str) -> None:
    mechanism = make(name)
    _, k, v = tensors()
    state = mechanism.absorb(k, v)
    expect_error(lambda: mechanism.absorb(k[:, :1], v[:, :1], None, state), name, "6 heads")
    expect_error(lambda: mechanism.absorb(k, v[..., :1], None, state), name, "values of width 3")
    expect_error(lambda: mechanism.absorb(k.double(), v.double(), None, state), name, "float32")
    expect_error(lambda: mechanism.absorb(k, v.double()), name, "torch.float32 and torch.float64")


@every
def test_empty_sizes(name: str) -> None:
    mechanism = make(name)
    card = mechanism.card
    q, k, v = tensors()
    k, v = k[:, :2], v[:, :2]
    for causal in (False, card.causal):
        assert mechanism(q[:0], k[:0], v[:0], Mask(causal)).shape == (0, HEADS, 7, 3)
        starts = Mask(causal, start=torch.zeros(0, dtype=torch.long))
        if causal or card.cross:
            assert mechanism(q[:0], k[:0], v[:0], starts).shape == (0, HEADS, 7, 3)
        T = 7 if card.cross else 0
        none = mechanism(q[:, :, :T], k[:, :, :0], v[:, :, :0], Mask(causal))
        assert none.shape == (2, HEADS, T, 3)
        assert not bool(none.any())
        if card.cross or causal:
            assert mechanism(q[:, :, :0], k, v, Mask(causal)).shape == (2, HEADS, 0, 3)
    state = mechanism.absorb(k, v)
    start = 0 if card.cross else 7
    assert mechanism.read(q[:, :, :0], state, start).shape == (2, HEADS, 0, 3)
    nobody = state.select(torch.zeros(0, dtype=torch.long))
    assert mechanism.read(q[:0], nobody, 0).shape == (0, HEADS, 7, 3)


@every
def test_a_trimmed_state_and_its_original_are_independent(name: str) -> None:
    """Both append, the trimmed one into the other's padding; neither sees the other's tokens."""
    mechanism = make(name)
    q, k, v = tensors(T=9, S=9)
    real = torch.arange(5) < torch.tensor([5, 2])[:, None]
    lengths = torch.tensor([5, 2])
    one, other = slice(5, 6), slice(6, 7)
    with torch.no_grad():
        for first in ("padded", "trimmed"):
            padded = mechanism.absorb(k[:, :, :5], v[:, :, :5], real)
            states = {"padded": padded, "trimmed": padded.trim(lengths)}
            positions = {"padded": one, "trimmed": other}
            for which in (first, "trimmed" if first == "padded" else "padded"):
                here = positions[which]
                states[which] = mechanism.absorb(k[:, :, here], v[:, :, here], None, states[which])
            start = {"padded": 5, "trimmed": lengths}
            got = {w: mechanism.read(q[:, :, :1], s, start[w]) for w, s in states.items()}
            alone = mechanism.absorb(k[:, :, :5].clone(), v[:, :, :5].clone(), real.clone())
            alone = mechanism.absorb(k[:, :, one], v[:, :, one], None, alone)
            assert torch.allclose(got["padded"], mechanism.read(q[:, :, :1], alone, 5), atol=1e-6)
            short = mechanism.absorb(k[1:, :, :2], v[1:, :, :2])
            short = mechanism.absorb(k[1:, :, other], v[1:, :, other], None, short)
            expected = mechanism.read(q[1:, :, :1], short, 2)
            assert torch.allclose(got["trimmed"][1:], expected, atol=1e-5)


def test_window_drops_old_keys_and_refuses_to_read_them() -> None:
    mechanism = make("window", window=3)
    q, k, v = tensors(T=12, S=12)
    real = torch.arange(12) < torch.tensor([12, 5])[:, None]
    lengths = torch.tensor([12, 5])
    with torch.no_grad():
        halves = mechanism.absorb(k[:, :, :6], v[:, :, :6], real[:, :6])
        halves = mechanism.absorb(k[:, :, 6:], v[:, :, 6:], real[:, 6:], halves).trim(lengths)
        whole = mechanism.absorb(k, v, real).trim(lengths)
        one = k[:, :, :1], v[:, :, :1]
        outs = [
            mechanism.read(q[:, :, :1], mechanism.absorb(*one, None, state), lengths)
            for state in (halves, whole)
        ]
        assert torch.allclose(outs[0], outs[1], atol=1e-6)
        state = mechanism.absorb(*one, None, mechanism.absorb(k, v))
        expect_error(lambda: mechanism.read(q[:, :, :2], state, 11), "last absorb had 1 tokens")


@every
def test_states_cross_inference_mode(name: str) -> None:
    mechanism = make(name)
    q, k, v = tensors()
    with torch.inference_mode():
        state = mechanism.absorb(k[:, :, :5].clone(), v[:, :, :5].clone())
        state = mechanism.absorb(k[:, :, 5:6].clone(), v[:, :, 5:6].clone(), None, state)
    expected = mechanism.absorb(k, v)
    for context in (torch.no_grad(), torch.enable_grad()):
        with context:
            more = mechanism.absorb(k[:, :, 6:].clone(), v[:, :, 6:].clone(), None, state)
            out = mechanism.read(q[:, :, 6:], more, 6)
        assert torch.allclose(out, mechanism.read(q[:, :, 6:], expected, 6), atol=1e-5)


def test_attention_under_inference_mode_does_not_break_training() -> None:
    q, k, v = tensors()
    with torch.inference_mode():
        attnlab.attention(q, k, v, "favor", features=24)
    q.requires_grad_()
    attnlab.attention(q, k, v, "favor", features=24).sum().backward()
    assert q.grad is not None


@every
def test_half_precision_and_autocast(name: str) -> None:
    """Scores of 1e4 in float16: scaled before they are summed, forward equals the definition."""
    mechanism = make(name, head_dim=64, **({"rank": 4} if name == "linformer" else {})).half()
    q = torch.full((1, HEADS, 2, 64), 40.0, dtype=torch.half)
    k = torch.stack([q[:, :, 0], q[:, :, 0] + 1], dim=2)
    v = torch.tensor([1.0, 2.0], dtype=torch.half).expand(1, HEADS, 2)[..., None]
    out, weights = mechanism(q, k, v, Mask()), mechanism.weights(q, k, Mask())
    assert bool(weights.isfinite().all())
    assert torch.allclose(out, weights @ v, atol=2e-2, rtol=2e-2)
    if name in ("softmax", "hard", "window", "bigbird"):
        assert float(out[0, 0, 0, 0]) == 2
    mechanism = make(name)
    q, k, v = tensors()
    with torch.autocast("cpu", torch.bfloat16):
        state = mechanism.absorb(k, v)
        mechanism(q, k, v, Mask())
    if mechanism.card.constant_state and name != "window":
        dtypes = {t.dtype for t in vars(state).values() if isinstance(t, Tensor)}
        assert dtypes == {torch.float64 if name == "polynomial" else torch.float32}


@pytest.mark.parametrize("name", ["softmax", "favor", "window", "bigbird"])
def test_compiled_equals_eager(name: str) -> None:
    mechanism = make(name)
    q, k, v = tensors(T=40, S=40)
    call = torch.compile(mechanism, backend="aot_eager")
    mask = Mask(causal=True)
    assert torch.allclose(call(q, k, v, mask), mechanism(q, k, v, mask), atol=1e-5)


def test_a_long_window_costs_no_more_than_the_input() -> None:
    mechanism = make("window", window=1_000_000)
    q, k, v = tensors()
    softmax = make("softmax")
    assert torch.allclose(mechanism(q, k, v, Mask()), softmax(q, k, v, Mask()), atol=1e-6)


def test_wrong_options() -> None:
    q, k, v = tensors()
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
    ):
        option, value = next(iter(options.items()))
        expect_error(lambda n=name, o=options: make(n, **o), name, option, repr(value))
        expect_error(lambda n=name, o=options: attnlab.attention(q, k, v, n, **o), name, option)
    keys: Any = [True]
    expect_error(lambda: attnlab.attention(q, k, v, key_mask=keys), "key_mask", "(1,)", "(B, S)")
    for start in (1.5, None, True, torch.tensor([True, False])):
        expect_error(lambda start=start: Mask(start=start), "start is", "an int")
    expect_error(lambda: make("softmax", beta=0.0), "softmax", "beta is 0.0")
    expect_error(lambda: make("softmax", dropout=1.0), "softmax", "dropout is 1.0")
    expect_error(lambda: make("fourier", features=7), "fourier", "features is 7", "even")
    expect_error(lambda: make("favor", features=0), "favor", "features is 0")
    expect_error(lambda: make("bigbird", window_blocks=2), "bigbird", "window_blocks is 2", "odd")
    expect_error(lambda: make("bigbird", random_blocks=-1), "bigbird", "random_blocks is -1")
    expect_error(lambda: make("window", window=0), "window", "window is 0")
    expect_error(lambda: make("elu", chunk=0), "elu", "chunk is 0")
    expect_error(lambda: make("linformer", rank=0), "linformer", "rank is 0")


def test_attention_refuses_learned_mechanisms() -> None:
    q, k, v = tensors()
    for name, kind in MECHANISMS.items():
        if kind.card.learned:
            expect_error(
                lambda name=name: attnlab.attention(q, k, v, name), name, "create_mechanism"
            )
        else:
            out = attnlab.attention(q, k, v, name, causal=True, key_mask=torch.ones(2, 7).bool())
            assert out.shape == (2, HEADS, 7, 3)
    expect_error(lambda: attnlab.attention(q[0], k, v), "4 axes", "(6, 7, 5) has 3")


@trials
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
    mechanism = make(name, max_length=tokens, **MECHANISMS[name].short_options(tokens))
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
    assert [make(name, **each).name for each in sets] == [name] * len(sets)
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
