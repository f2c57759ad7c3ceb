"""Capturing during generation: many calls become one matrix.

Letters: B batch, H heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attnlab
from attnlab import Mask
from attnlab.generate import Sampling, beam_search, generate
from attnlab.interpret._records import Layer
from attnlab.layers import MultiHead
from attnlab.mechanism import repeat_heads
from tests.support.examples import examples
from tests.support.law_trials import HEADS, absorb, all_trials, build, make_inputs, sizes
from tests.support.small_models import check_equal, inputs_of, model_of, models


def capture_generation(
    model: Any, kind: str, prompts: list[list[int]], row: int, **options: Any
) -> Any:
    """The decoder layers captured during generation, and in one forward over the whole text."""
    ids, _, keys = inputs_of("seq2seq")
    count = len(prompts)
    context = {"source": ids[:count], "source_keys": keys[:count]} if kind == "seq2seq" else {}
    with attnlab.capture(model, qkv=True, row=row) as captured:
        texts = generate(model, prompts, new_tokens=4, context=context, **options)
    text = torch.tensor([prompts[row] + texts[row][0].ids[:-1]])
    with torch.no_grad(), attnlab.capture(model, qkv=True) as whole:
        if kind == "seq2seq":
            model(ids[row : row + 1], text, keys[row : row + 1])
        else:
            model(text)
    decoding = [layer for layer in captured.layers if layer.stack == "decoder"]
    return decoding, [layer for layer in whole.layers if layer.stack == "decoder"], captured


def check_same(layer: Layer, whole: Layer) -> None:
    """The captured queries have the same weights as in one forward."""
    assert layer.weights is not None
    assert whole.weights is not None
    T = layer.weights.shape[1]
    assert layer.start == whole.weights.shape[1] - T
    assert layer.weights.shape[2] == whole.weights.shape[2]
    assert torch.allclose(layer.weights, whole.weights[:, layer.start :], atol=1e-5)
    for one, other in ((layer.k, whole.k), (layer.v, whole.v), (layer.norms, whole.norms)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert torch.allclose(one, other, atol=1e-5)
    if layer.q is not None and whole.q is not None:
        assert torch.allclose(layer.q, whole.q[:, layer.start :], atol=1e-5)
    assert (layer.allowed is None) == (whole.allowed is None)
    if layer.allowed is not None and whole.allowed is not None:
        assert torch.equal(layer.allowed, whole.allowed[layer.start :])
    assert (layer.kind, layer.causal) == (whole.kind, whole.causal)


@pytest.mark.parametrize(("kind", "name"), [m for m in models() if m[0] in ("decoder", "seq2seq")])
def test_decoding_calls_are_joined(kind: str, name: str) -> None:
    """Prompts of different lengths: rows are trimmed, and each continues after its own end."""
    model = model_of(kind, name)
    prompts = [[2, 3, 4], [5, 6, 7, 8, 4], [3, 3, 4]]
    for row in (0, 1):
        decoding, whole, captured = capture_generation(model, kind, prompts, row)
        assert len(decoding) == len(whole)
        for layer, other in zip(decoding, whole, strict=True):
            check_same(layer, other)
        # the last block computes only the prompt's last token
        starts = [layer.start for layer in decoding if layer.kind == "self"]
        assert starts == [*[0] * (len(starts) - 1), len(prompts[row]) - 1]
        assert captured.notes == []


def test_two_samples_of_one_prompt() -> None:
    """The state is selected, and the remembered keys follow it."""
    model, sampling = model_of("decoder", "favor"), Sampling(temperature=3.0)
    with attnlab.capture(model) as captured:
        (texts,) = generate(model, [[2, 3, 4]], new_tokens=5, samples=2, sampling=sampling)
    assert texts[0].ids != texts[1].ids
    with torch.no_grad(), attnlab.capture(model) as whole:
        model(torch.tensor([[2, 3, 4, *texts[0].ids[:-1]]]))
    check_same(captured.layers[0], whole.layers[0])


def test_reordered_beams_are_skipped() -> None:
    model = model_of("decoder")
    with attnlab.capture(model) as captured:
        beam_search(model, [[2, 3, 4]], new_tokens=8, width=4)
    (note,) = captured.notes
    assert "beam" in note
    assert "run the model once over the whole text" in note
    for layer in captured.layers:
        assert layer.weights is not None
        assert torch.allclose(layer.weights.sum(-1), torch.ones(()), atol=1e-5)


@given(trial=st.sampled_from(list(all_trials())), size=sizes(), seed=st.integers(0, 99))
@examples(80)
def test_any_state(trial: tuple[str, dict[str, Any]], size: dict[str, Any], seed: int) -> None:
    """Keys absorbed in two parts with rows reordered in between; several queries at once."""
    mechanism = build(*trial)
    inputs, generator = make_inputs(mechanism, **size), torch.Generator().manual_seed(seed)
    B, S = size["B"], size["S"]
    cut = int(torch.randint(0, S, (), generator=generator))
    T = int(torch.randint(1, S - cut + 1, (), generator=generator))
    rows = torch.randint(0, B, (B + 1,), generator=generator)
    keys = inputs.keys
    chosen = inputs.part(rows, slice(None), slice(None))
    with torch.no_grad(), attnlab.capture(mechanism, row=B, heads=[1, 4]) as captured:
        old, new = slice(0, cut), slice(cut, S)
        state = absorb(mechanism, inputs, old, None if keys is None else keys[:, old])
        state = state.select(rows)
        real = None if keys is None else keys[rows][:, new]
        state = absorb(mechanism, chosen, new, real, state)
        out = mechanism.read(chosen.q[:, :, S - T :], state, S - T)
    (layer,) = captured.layers
    assert layer.weights is not None
    assert layer.weights.shape == (2, T, S)
    value = repeat_heads(inputs.v.detach(), HEADS)[rows[-1], [1, 4]].float()
    if keys is not None:
        value = value.masked_fill(~keys[rows[-1]][None, :, None], 0)
    terms = layer.weights.abs() @ value.abs()
    difference = (layer.weights @ value - out[-1, [1, 4]].float()).abs()
    assert bool((difference <= 1e-5 * (1 + terms)).all())


def test_state_from_before_the_capture() -> None:
    x = torch.randn(2, 7, 24)
    for name, keeps_keys in (
        ("softmax", True), ("window:window=3", True), ("elu", False), ("gla", False),
        ("forgetting", False),  # it keeps a gate too
    ):  # fmt: skip
        layer = MultiHead(24, 4, name, causal=True).eval()
        with torch.no_grad():
            _, state = layer.prefill(x[:, :6], Mask(causal=True))
            _, state = layer.step(x[:, 5:6], state, 6)
            with attnlab.capture(layer) as captured:
                layer.step(x[:, 6:], state, 7)
            if not keeps_keys:
                assert captured.layers == []
                assert "a decoding state from before the capture" in captured.notes[0]
                continue
            (only,) = captured.layers
            assert only.start == 7
            assert only.difference is not None
            assert only.difference < 1e-6


def test_last_of_unrelated_inputs_is_kept() -> None:
    model, (ids, _) = model_of("encoder"), inputs_of("encoder")
    with torch.no_grad():
        with attnlab.capture(model) as captured:
            model(ids[:, :4])
            model(ids[:, :7])
        with attnlab.capture(model) as last:
            model(ids[:, :7])
    assert captured.notes == ["The model read 2 inputs; only the last one was captured."]
    check_equal(captured, last)
