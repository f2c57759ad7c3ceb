"""A capture that needs too much memory raises at its first layer, and says what would fit."""

from __future__ import annotations

import re
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attnlab
from attnlab.interpret._attnlab_models import InspectedAttnlabModel
from attnlab.interpret._look import look
from attnlab.interpret._memory_limit import MemoryBudget
from attnlab.interpret._options import CaptureLimits, LookInput
from attnlab.interpret._run_model import control_patterns, memory_used, run_captured
from tests.support.small_models import inputs_of, model_of
from tests.support.text_models import TEXT, TOKENS, decoder


def gib(count: int) -> float:
    """GiB of `count` numbers."""
    return 4 * count / 2**30


# The budget


def test_similar_layers_are_counted_in_advance() -> None:
    budget = MemoryBudget(gib(10 * 5 * 7 * 3 * 2), gradients=True)
    budget.expect([f"h.{n}.attn" for n in range(10)] + [f"h.{n}.cross" for n in range(10)])
    for number in range(10):
        budget.reserve(f"h.{number}.attn", heads=3, queries=5, keys=7)
    with pytest.raises(ValueError, match=r"20 layers \(1 heads, 1 queries, 1 keys\)"):
        budget.reserve("h.0.cross", heads=1, queries=1, keys=1)
    other = MemoryBudget(gib(9 * 5 * 7 * 3 * 2), gradients=True)
    other.expect([f"h.{n}.attn" for n in range(10)])
    with pytest.raises(ValueError, match="10 layers"):
        other.reserve("h.0.attn", heads=3, queries=5, keys=7)


def test_more_layers_than_expected() -> None:
    """As with a module that runs twice."""
    budget = MemoryBudget(gib(2 * 30), gradients=False)
    budget.expect(["layer"])
    budget.reserve("layer", heads=1, queries=5, keys=6)
    budget.reserve("layer", heads=1, queries=5, keys=6)  # the same layer again
    budget.reserve("layer (2)", heads=1, queries=5, keys=6)
    with pytest.raises(ValueError, match="would need"):
        budget.reserve("layer (3)", heads=1, queries=5, keys=6)


def test_message_by_hand() -> None:
    """30 layers of 9 heads, 600 tokens: 9 * 2 + 2 maps of 1.44 MB each."""
    budget = MemoryBudget(0.5, gradients=True, maps=2, used_bytes=2**27)
    budget.expect([f"h.{n}" for n in range(30)])
    with pytest.raises(ValueError, match="capture") as error:
        budget.reserve("h.0", heads=9, queries=600, keys=600)
    assert str(error.value) == (
        "capture: 30 layers (9 heads, 600 queries, 600 keys), weights and gradients, would need "
        "0.805 GiB besides the 0.125 GiB already in use; the limit is memory=0.5 GiB: "
        "give 13 layers, 3 heads, 409 tokens or more memory"
    )
    with pytest.raises(ValueError, match=r"memory=0; give a number of GiB above 0"):
        MemoryBudget(0, gradients=True)
    with pytest.raises(ValueError, match=r": give more memory$"):
        MemoryBudget(1, gradients=True, used_bytes=2**30).reserve("h", heads=1, queries=1, keys=1)


@given(
    layers=st.integers(1, 40),
    heads=st.integers(1, 20),
    tokens=st.integers(1, 900),
    gradients=st.booleans(),
    maps=st.integers(0, 2),
    twice=st.booleans(),
    fraction=st.floats(0.01, 0.999),
)
def test_suggested_sizes_fit(
    layers: int, heads: int, tokens: int, gradients: bool, maps: int, twice: bool, fraction: float
) -> None:
    matrices = heads * (1 + gradients + twice) + maps
    limit = gib(layers * tokens**2 * matrices) * fraction

    def error_message(layers: int, heads: int, tokens: int, gradients: bool) -> str:
        budget = MemoryBudget(limit, gradients=gradients, maps=maps)
        budget.expect([f"h.{n}" for n in range(layers)])
        try:
            budget.reserve(
                "h.0", heads=heads, queries=tokens, keys=tokens, model_keeps_weights=twice
            )
        except ValueError as error:
            return str(error)
        return ""

    message = error_message(layers, heads, tokens, gradients).split(" GiB: ")[1]
    if twice:  # the model returns all of its own weights
        assert "layers" not in message
        assert "heads" not in message
    for count, what in re.findall(r"(\d+) (layers|heads|tokens)", message):
        sizes = {"layers": layers, "heads": heads, "tokens": tokens}
        assert int(count) < sizes[what]
        assert not error_message(**(sizes | {what: int(count)}), gradients=gradients), what
        more = int(count) + 2  # one more may fit by a rounding error
        assert error_message(**(sizes | {what: more}), gradients=gradients), what
    fits = gradients and not error_message(layers, heads, tokens, False)
    assert ("no gradients" in message) == fits
    assert message.endswith("more memory")


# Captures


def record_names(model: torch.nn.Module) -> list[str]:
    """A list that grows by the name of each module that runs from now on."""
    names: list[str] = []
    for name, module in model.named_modules():
        module.register_forward_hook(lambda *_, name=name: names.append(name))
    return names


def test_capture_raises_at_its_first_layer() -> None:
    model, inputs = model_of("decoder"), inputs_of("decoder")
    names = record_names(model)
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


def test_stacks_are_counted_separately() -> None:
    """A source of 9 tokens and a target of 5: one encoder layer, one decoder layer with cross."""
    model, inputs = model_of("seq2seq"), inputs_of("seq2seq")
    with attnlab.capture(model) as captured:
        model(*inputs)
    count = sum(layer.weights.numel() for layer in captured.layers if layer.weights is not None)
    with attnlab.capture(model, memory=gib(count)):
        model(*inputs)
    with (
        pytest.raises(ValueError, match="would need"),
        attnlab.capture(model, memory=gib(count - 1)),
    ):
        model(*inputs)


def test_model_that_keeps_its_own_weights() -> None:
    """It raises at its first layer too: the weights exist twice."""
    from tests.support.small_transformers import inputs, small

    model, model_inputs = small("mpnet"), inputs("mpnet")
    names = record_names(model)
    both = gib(2 * 2 * 9 * 49)  # layers; the model's and the captured weights; heads of three rows
    with torch.no_grad(), attnlab.capture(model, memory=both):
        model(**model_inputs)
    names.clear()
    with (
        pytest.raises(ValueError, match=r"2 layers \(9 heads.*: give 6 tokens or more memory"),
        torch.no_grad(),
        attnlab.capture(model, memory=both * 0.99),
    ):
        model(**model_inputs)
    assert "encoder.layer.0.attention.attn" in names
    assert "encoder.layer.1.attention.attn" not in names


def test_deleted_gradients_are_freed() -> None:
    model, inputs = model_of("decoder"), inputs_of("decoder")
    with attnlab.capture(model, gradients=True) as captured:
        model(*inputs)[0, 2, 3].backward()
    references = [
        weakref.ref(layer.gradient) for layer in captured.layers if layer.gradient is not None
    ]
    assert len(references) == 2
    for layer in captured.layers:
        layer.gradient = None
    assert [reference() for reference in references] == [None, None]


def test_bias_is_captured_with_queries_and_keys() -> None:
    """The bias of T5 is as large as the weights."""
    from tests.support.small_transformers import inputs, small

    model, model_inputs = small("t5"), inputs("t5")
    for qkv in (False, True):
        with torch.no_grad(), attnlab.capture(model, qkv=qkv) as captured:
            model(**model_inputs)
        assert {layer.bias is not None for layer in captured.layers if layer.kind == "self"} == {
            qkv
        }


# look


def test_two_panels_share_the_memory() -> None:
    model, T = decoder(), len(TEXT)
    one = 2 * (3 * 2 + 2) * T * T  # layers, heads with gradients, maps
    look(model, TEXT, tokenizer=TOKENS, memory=gib(one))
    with pytest.raises(ValueError, match="already in use"):
        look(model, TEXT, tokenizer=TOKENS, compare_text=TEXT, memory=gib(one))
    first = 2 * (3 + 2) * T * T  # no gradients any more
    look(model, TEXT, tokenizer=TOKENS, compare_text=TEXT, memory=gib(one + first))
    with pytest.raises(ValueError, match="already in use"):
        look(model, TEXT, tokenizer=TOKENS, compare_text=TEXT, memory=gib(one + first - 1))


def test_gradients_are_dropped_after_the_flow() -> None:
    (panel,) = look(decoder(), TEXT, tokenizer=TOKENS).panels
    assert panel.flow.gradient is not None
    assert all(layer.gradient is None for layer in panel.layers)
    assert memory_used(panel) == 4 * 2 * (3 + 2) * len(TEXT) ** 2


def test_control_has_the_patterns_of_an_untrained_panel() -> None:
    model = InspectedAttnlabModel(decoder(), TOKENS, "model")
    prepared, limits = model.prepare(LookInput(TEXT)), CaptureLimits(heads=[2, 0])
    untrained = model.untrained(3)
    control = control_patterns(untrained, prepared, limits)
    assert control == run_captured(untrained, prepared, limits)[0].patterns
    assert [len(patterns) for patterns in control] == [2, 2]
    (panel,) = look(decoder(), TEXT, tokenizer=TOKENS, seed=3, heads=[2, 0]).panels
    assert panel.control == control


def test_untrained_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    untrained = InspectedAttnlabModel.untrained

    def counted(model: InspectedAttnlabModel, seed: int) -> InspectedAttnlabModel:
        seeds.append(seed)
        return untrained(model, seed)

    monkeypatch.setattr(InspectedAttnlabModel, "untrained", counted)
    first, second = look(decoder(), TEXT, tokenizer=TOKENS, untrained=True, seed=5).panels
    assert seeds == [5]
    assert first.control == second.patterns
    assert second.control is None
    bare = look(decoder(), TEXT, tokenizer=TOKENS, untrained=True, control=False)
    assert bare.panels[0].control is None
    assert seeds == [5, 0]
