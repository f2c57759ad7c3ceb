"""Capturing while text is written: many calls become one matrix.

Letters: B batch, H heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import attnlab
from attnlab import Mask
from attnlab.generate import Sampling, beam_search, generate
from attnlab.interpret._records import Layer
from attnlab.layers import MultiHead
from attnlab.mechanism import repeat_heads
from tests.support.law_trials import HEADS, all_trials, build, make_inputs, sizes
from tests.support.small_models import check_equal, inputs_of, model_of, models


def written(model: Any, kind: str, prompts: list[list[int]], row: int, **options: Any) -> Any:
    """What was captured while writing, and in one forward over the finished text."""
    ids, _, keys = inputs_of("seq2seq")
    many = len(prompts)
    context = {"source": ids[:many], "source_keys": keys[:many]} if kind == "seq2seq" else {}
    with attnlab.capture(model, qkv=True, row=row) as seen:
        texts = generate(model, prompts, new_tokens=4, context=context, **options)
    text = torch.tensor([prompts[row] + texts[row][0].ids[:-1]])
    with torch.no_grad(), attnlab.capture(model, qkv=True) as whole:
        if kind == "seq2seq":
            model(ids[row : row + 1], text, keys[row : row + 1])
        else:
            model(text)
    decoding = [layer for layer in seen.layers if layer.stack == "decoder"]
    return decoding, [layer for layer in whole.layers if layer.stack == "decoder"], seen


def check_same(layer: Layer, whole: Layer) -> None:
    """Queries that were captured look as in one forward; those before were never computed."""
    assert layer.weights is not None
    assert whole.weights is not None
    T = layer.weights.shape[1]
    assert layer.start == whole.weights.shape[1] - T
    assert layer.weights.shape[2] == whole.weights.shape[2]
    assert torch.allclose(layer.weights, whole.weights[:, layer.start :], atol=1e-5)
    for mine, other in ((layer.k, whole.k), (layer.v, whole.v), (layer.norms, whole.norms)):
        assert (mine is None) == (other is None)
        if mine is not None and other is not None:
            assert torch.allclose(mine, other, atol=1e-5)
    if layer.q is not None and whole.q is not None:
        assert torch.allclose(layer.q, whole.q[:, layer.start :], atol=1e-5)
    assert (layer.allowed is None) == (whole.allowed is None)
    if layer.allowed is not None and whole.allowed is not None:
        assert torch.equal(layer.allowed, whole.allowed[layer.start :])
    assert (layer.kind, layer.causal) == (whole.kind, whole.causal)


@pytest.mark.parametrize(("kind", "name"), [m for m in models() if m[0] in ("decoder", "seq2seq")])
def test_decoding_is_joined(kind: str, name: str) -> None:
    """Prompts of unequal length: rows are trimmed, and go on from their own ends."""
    model = model_of(kind, name)
    prompts = [[2, 3, 4], [5, 6, 7, 8, 4], [3, 3, 4]]
    for row in (0, 1):
        decoding, whole, seen = written(model, kind, prompts, row)
        assert len(decoding) == len(whole)
        for layer, other in zip(decoding, whole, strict=True):
            check_same(layer, other)
        # the last block reads for a prompt's last token alone
        starts = [layer.start for layer in decoding if layer.kind == "self"]
        assert starts == [*[0] * (len(starts) - 1), len(prompts[row]) - 1]
        assert seen.notes == []


def test_samples_share_a_past() -> None:
    """Two samples of one prompt: the state is selected, and its past follows."""
    model, sampling = model_of("decoder", "favor"), Sampling(temperature=3.0)
    with attnlab.capture(model) as seen:
        (texts,) = generate(model, [[2, 3, 4]], new_tokens=5, samples=2, sampling=sampling)
    assert texts[0].ids != texts[1].ids
    with torch.no_grad(), attnlab.capture(model) as whole:
        model(torch.tensor([[2, 3, 4, *texts[0].ids[:-1]]]))
    check_same(seen.layers[0], whole.layers[0])


def test_beams_that_change_places_are_left_out() -> None:
    model = model_of("decoder")
    with attnlab.capture(model) as seen:
        beam_search(model, [[2, 3, 4]], new_tokens=8, width=4)
    (note,) = seen.notes
    assert "beam" in note
    assert "run the model once over the finished text" in note
    for layer in seen.layers:
        assert layer.weights is not None
        assert torch.allclose(layer.weights.sum(-1), torch.ones(()), atol=1e-5)


@given(trial=st.sampled_from(list(all_trials())), size=sizes(), seed=st.integers(0, 99))
@settings(max_examples=80)
def test_any_state(trial: tuple[str, dict[str, Any]], size: dict[str, Any], seed: int) -> None:
    """Absorbed in two parts, rows changed places in between, several queries read at once."""
    mechanism = build(*trial)
    inputs, draws = make_inputs(mechanism, **size), torch.Generator().manual_seed(seed)
    B, S = size["B"], size["S"]
    cut = int(torch.randint(0, S, (), generator=draws))
    T = int(torch.randint(1, S - cut + 1, (), generator=draws))
    rows = torch.randint(0, B, (B + 1,), generator=draws)
    keys = inputs.keys

    def part(x: Tensor, where: slice) -> Tensor:
        return x[:, :, where].detach()

    with torch.no_grad(), attnlab.capture(mechanism, row=B, heads=[1, 4]) as seen:
        k, v = inputs.k, inputs.v
        old, new = slice(0, cut), slice(cut, S)
        state = mechanism.absorb(part(k, old), part(v, old), None if keys is None else keys[:, old])
        state = state.select(rows)
        state = mechanism.absorb(
            part(k[rows], new), part(v[rows], new), None if keys is None else keys[rows][:, new],
            state,
        )  # fmt: skip
        out = mechanism.read(part(inputs.q[rows], slice(S - T, S)), state, S - T)
    (layer,) = seen.layers
    assert layer.weights is not None
    assert layer.weights.shape == (2, T, S)
    value = repeat_heads(v, HEADS)[rows[-1], [1, 4]].float()
    if keys is not None:
        value = value.masked_fill(~keys[rows[-1]][None, :, None], 0)
    terms = layer.weights.abs() @ value.abs()
    apart = (layer.weights @ value - out[-1, [1, 4]].float()).abs()
    assert bool((apart <= 1e-5 * (1 + terms)).all())


def test_a_state_from_before_is_opened_or_told() -> None:
    x = torch.randn(2, 7, 24)
    for name, opens in (("softmax", True), ("window:window=3", True), ("elu", False)):
        layer = MultiHead(24, 4, name, causal=True).eval()
        with torch.no_grad():
            _, state = layer.prefill(x[:, :6], Mask(causal=True))
            _, state = layer.step(x[:, 5:6], state, 6)
            with attnlab.capture(layer) as seen:
                layer.step(x[:, 6:], state, 7)
            if not opens:
                assert seen.layers == []
                assert "made before the capture began" in seen.notes[0]
                continue
            (found,) = seen.layers
            assert (found.start, found.difference is not None) == (7, True)
            assert found.difference is not None
            assert found.difference < 1e-6


def test_unrelated_calls_keep_the_last() -> None:
    model, (ids, _) = model_of("encoder"), inputs_of("encoder")
    with torch.no_grad():
        with attnlab.capture(model) as seen:
            model(ids[:, :4])
            model(ids[:, :7])
        with attnlab.capture(model) as last:
            model(ids[:, :7])
    assert seen.notes == ["The model read 2 inputs; the last one is kept."]
    check_equal(seen, last)
