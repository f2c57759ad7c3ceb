"""What would take too much memory is refused at its first layer, and it is said what fits."""

from __future__ import annotations

import re
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attnlab
from attnlab.interpret._attnlab_models import OwnSubject
from attnlab.interpret._look import look
from attnlab.interpret._memory_limit import Budget
from attnlab.interpret._options import CaptureLimits, LookInput
from attnlab.interpret._run_model import bytes_of, control_patterns, run_captured
from tests.support.small_models import inputs_of, model_of
from tests.support.text_models import TEXT, TOKENS, decoder


def gib(count: int) -> float:
    """Of as many numbers."""
    return 4 * count / 2**30


# What is asked for


def test_layers_that_are_alike_are_expected() -> None:
    budget = Budget(gib(10 * 5 * 7 * 3 * 2), gradients=True)
    budget.expect([f"h.{n}.attn" for n in range(10)] + [f"h.{n}.cross" for n in range(10)])
    for number in range(10):
        budget.ask(f"h.{number}.attn", heads=3, queries=5, keys=7)
    with pytest.raises(ValueError, match=r"20 layers \(1 heads, 1 queries, 1 keys\)"):
        budget.ask("h.0.cross", heads=1, queries=1, keys=1)
    other = Budget(gib(9 * 5 * 7 * 3 * 2), gradients=True)
    other.expect([f"h.{n}.attn" for n in range(10)])
    with pytest.raises(ValueError, match="10 layers"):
        other.ask("h.0.attn", heads=3, queries=5, keys=7)


def test_more_layers_than_expected() -> None:
    """As of a module that runs twice."""
    budget = Budget(gib(2 * 30), gradients=False)
    budget.expect(["layer"])
    budget.ask("layer", heads=1, queries=5, keys=6)
    budget.ask("layer", heads=1, queries=5, keys=6)  # again, not another
    budget.ask("layer (2)", heads=1, queries=5, keys=6)
    with pytest.raises(ValueError, match="would take"):
        budget.ask("layer (3)", heads=1, queries=5, keys=6)


def test_the_message_by_hand() -> None:
    """30 layers of 9 heads, 600 tokens: 9 * 2 + 2 maps of 1.44 MB each."""
    budget = Budget(0.5, gradients=True, maps=2, taken=2**27)
    budget.expect([f"h.{n}" for n in range(30)])
    with pytest.raises(ValueError, match="capture") as error:
        budget.ask("h.0", heads=9, queries=600, keys=600)
    assert str(error.value) == (
        "capture: 30 layers (9 heads, 600 queries, 600 keys), weights and gradients, would take "
        "0.805 GiB beside the 0.125 GiB that are taken; memory=0.5 GiB is the most: "
        "13 layers, 3 heads, 409 tokens or more memory would do"
    )
    with pytest.raises(ValueError, match=r"memory=0; give GiB above 0"):
        Budget(0, gradients=True)
    with pytest.raises(ValueError, match=r": more memory would do"):
        Budget(1, gradients=True, taken=2**30).ask("h", heads=1, queries=1, keys=1)


@given(
    layers=st.integers(1, 40),
    heads=st.integers(1, 20),
    tokens=st.integers(1, 900),
    gradients=st.booleans(),
    maps=st.integers(0, 2),
    twice=st.booleans(),
    share=st.floats(0.01, 0.999),
)
def test_what_is_said_to_fit_fits(
    layers: int, heads: int, tokens: int, gradients: bool, maps: int, twice: bool, share: float
) -> None:
    each = heads * (1 + gradients + twice) + maps
    limit = gib(layers * tokens**2 * each) * share

    def refusal(layers: int, heads: int, tokens: int, gradients: bool) -> str:
        budget = Budget(limit, gradients=gradients, maps=maps)
        budget.expect([f"h.{n}" for n in range(layers)])
        try:
            budget.ask("h.0", heads=heads, queries=tokens, keys=tokens, kept_twice=twice)
        except ValueError as error:
            return str(error)
        return ""

    said = refusal(layers, heads, tokens, gradients).split(" is the most: ")[1]
    if twice:  # the model gives all of its own
        assert "layers" not in said
        assert "heads" not in said
    for count, what in re.findall(r"(\d+) (layers|heads|tokens)", said):
        given = {"layers": layers, "heads": heads, "tokens": tokens}
        assert int(count) < given[what]
        assert not refusal(**(given | {what: int(count)}), gradients=gradients), what
        more = int(count) + 2  # one more may do by a rounding error
        assert refusal(**(given | {what: more}), gradients=gradients), what
    fits = gradients and not refusal(layers, heads, tokens, False)
    assert ("no gradients" in said) == fits
    assert said.endswith("more memory would do")


# Captures


def ran(model: torch.nn.Module) -> list[str]:
    """Names of modules, as they run from now on."""
    found: list[str] = []
    for name, module in model.named_modules():
        module.register_forward_hook(lambda *_, name=name: found.append(name))
    return found


def test_a_capture_is_refused_at_its_first_layer() -> None:
    model, inputs = model_of("decoder"), inputs_of("decoder")
    names = ran(model)
    two = gib(2 * 2 * 9 * 9)  # layers, heads
    with attnlab.capture(model, memory=two):
        model(*inputs)
    names.clear()
    with pytest.raises(ValueError, match="2 layers"), attnlab.capture(model, memory=two * 0.99):
        model(*inputs)
    assert "stack.blocks.0.attention.mechanism" in names
    assert "stack.blocks.1.attention.mechanism" not in names
    with attnlab.capture(model, memory=two * 0.99, layers=[1]):
        model(*inputs)
    with attnlab.capture(model, memory=two * 0.99, heads=[1]):
        model(*inputs)
    with (
        pytest.raises(ValueError, match=r"weights and gradients.*no gradients"),
        attnlab.capture(model, memory=two, gradients=True),
    ):
        model(*inputs)


def test_stacks_are_not_taken_for_each_other() -> None:
    """A source of 9 tokens and a target of 5: one encoder layer, one decoder layer with cross."""
    model, inputs = model_of("seq2seq"), inputs_of("seq2seq")
    with attnlab.capture(model) as seen:
        model(*inputs)
    count = sum(layer.weights.numel() for layer in seen.layers if layer.weights is not None)
    with attnlab.capture(model, memory=gib(count)):
        model(*inputs)
    with (
        pytest.raises(ValueError, match="would take"),
        attnlab.capture(model, memory=gib(count - 1)),
    ):
        model(*inputs)


def test_a_model_that_keeps_its_own_weights() -> None:
    """Refused at its first layer too: it has them twice."""
    from tests.support.small_transformers import inputs, small

    model, given = small("mpnet"), inputs("mpnet")
    names = ran(model)
    both = gib(2 * 2 * 9 * 49)  # layers; the model's and ours; heads of three rows
    with torch.no_grad(), attnlab.capture(model, memory=both):
        model(**given)
    names.clear()
    with (
        pytest.raises(ValueError, match=r"2 layers \(9 heads.*: 6 tokens or more memory"),
        torch.no_grad(),
        attnlab.capture(model, memory=both * 0.99),
    ):
        model(**given)
    assert "encoder.layer.0.attention.attn" in names
    assert "encoder.layer.1.attention.attn" not in names


def test_what_is_dropped_from_a_layer_is_gone() -> None:
    model, inputs = model_of("decoder"), inputs_of("decoder")
    with attnlab.capture(model, gradients=True) as seen:
        model(*inputs)[0, 2, 3].backward()
    kept = [weakref.ref(layer.gradient) for layer in seen.layers if layer.gradient is not None]
    assert len(kept) == 2
    for layer in seen.layers:
        layer.gradient = None
    assert [each() for each in kept] == [None, None]


def test_a_bias_is_kept_with_the_queries_and_keys_it_belongs_to() -> None:
    """T5's is as large as the weights."""
    from tests.support.small_transformers import inputs, small

    model, given = small("t5"), inputs("t5")
    for qkv in (False, True):
        with torch.no_grad(), attnlab.capture(model, qkv=qkv) as seen:
            model(**given)
        assert {layer.bias is not None for layer in seen.layers if layer.kind == "self"} == {qkv}


# Looking


def test_two_sides_share_the_memory() -> None:
    model, T = decoder(), len(TEXT)
    one = 2 * (3 * 2 + 2) * T * T  # layers, heads with gradients, maps
    look(model, TEXT, tokenizer=TOKENS, memory=gib(one))
    with pytest.raises(ValueError, match="beside"):
        look(model, TEXT, tokenizer=TOKENS, compare_text=TEXT, memory=gib(one))
    kept = 2 * (3 + 2) * T * T  # no gradients any more
    look(model, TEXT, tokenizer=TOKENS, compare_text=TEXT, memory=gib(one + kept))
    with pytest.raises(ValueError, match="beside"):
        look(model, TEXT, tokenizer=TOKENS, compare_text=TEXT, memory=gib(one + kept - 1))


def test_gradients_are_let_go() -> None:
    (side,) = look(decoder(), TEXT, tokenizer=TOKENS).sides
    assert side.flow.gradient is not None
    assert all(layer.gradient is None for layer in side.layers)
    assert bytes_of(side) == 4 * 2 * (3 + 2) * len(TEXT) ** 2


def test_a_control_is_what_an_untrained_side_shows() -> None:
    subject = OwnSubject(decoder(), TOKENS, "model")
    prepared, limits = subject.prepare(LookInput(TEXT)), CaptureLimits(heads=[2, 0])
    fresh = subject.untrained(3)
    found = control_patterns(fresh, prepared, limits)
    assert found == run_captured(fresh, prepared, limits)[0].patterns
    assert [len(each) for each in found] == [2, 2]
    (side,) = look(decoder(), TEXT, tokenizer=TOKENS, seed=3, heads=[2, 0]).sides
    assert side.control == found


def test_untrained_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    untrained = OwnSubject.untrained

    def told(subject: OwnSubject, seed: int) -> OwnSubject:
        made.append(seed)
        return untrained(subject, seed)

    monkeypatch.setattr(OwnSubject, "untrained", told)
    first, second = look(decoder(), TEXT, tokenizer=TOKENS, untrained=True, seed=5).sides
    assert made == [5]
    assert first.control == second.patterns
    assert second.control is None
    bare = look(decoder(), TEXT, tokenizer=TOKENS, untrained=True, control=False)
    assert bare.sides[0].control is None
    assert made == [5, 0]
