"""Capturing attnlab models: the same weights as the definition, and nothing changed.

Letters: B batch, H heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import attnlab
from attnlab import Mask, Mechanism, create_mechanism
from attnlab.generate import generate
from attnlab.interpret._records import Layer
from attnlab.layers import MultiHead
from attnlab.mechanism import repeat_heads
from attnlab.models import Decoder, StackConfig
from tests.support.examples import examples
from tests.support.law_trials import (
    HEADS,
    all_trials,
    build,
    make_inputs,
    possible_masks,
    sizes,
)
from tests.support.small_models import KINDS, inputs_of, model_of, models
from tests.support.small_training import VOCABULARY


@pytest.mark.parametrize(("kind", "name"), models())
def test_every_mechanism_in_every_model(kind: str, name: str) -> None:
    model, inputs = model_of(kind, name), inputs_of(kind)
    calls: list[tuple[Mechanism, tuple[Any, ...], dict[str, Tensor], Tensor]] = []
    hooks = [
        module.register_forward_hook(lambda *call: calls.append(call), with_kwargs=True)
        for module in model.modules()
        if isinstance(module, Mechanism)
    ]
    with torch.no_grad():
        plain = model(*inputs)
        for hook in hooks:
            hook.remove()
        with attnlab.capture(model, qkv=True, row=1) as captured:
            output = model(*inputs)
    assert torch.equal(plain, output)
    assert len(captured.layers) == len(calls)
    assert captured.notes == []
    for layer, (mechanism, (q, k, v, mask), gates, out) in zip(captured.layers, calls, strict=True):
        define: Any = mechanism.weights
        weights = define(q, k, mask, **gates)[1]
        assert layer.weights is not None
        sizes = [max(1.0, float(x.detach().abs().max())) for x in (weights, out)]
        condition = mechanism.condition(q, k, mask, **gates).detach()
        sizes[1] *= float(condition.max())  # where sums cancel
        assert torch.allclose(layer.weights, weights, atol=1e-6 * sizes[0])
        assert layer.mechanism == mechanism.name
        assert (layer.signed, layer.normalised) == (
            mechanism.card.signed,
            mechanism.card.rows_sum_to_one,
        )
        assert layer.heads == list(range(layer.all_heads))
        check_vectors(layer, mechanism, q[1], k[1], v[1])
        assert layer.difference is not None
        assert layer.difference < 2e-5 * sizes[1]
        values = repeat_heads(v, layer.all_heads)[1]
        if mask.keys is not None:
            values = values.masked_fill(~mask.keys[1][None, :, None], 0)
        assert torch.allclose(weights @ values, out[1], atol=2e-5 * sizes[1])


def check_vectors(layer: Layer, mechanism: Mechanism, q: Tensor, k: Tensor, v: Tensor) -> None:
    """q, k and v are the mechanism's inputs, or None if it ignores them."""
    card = mechanism.card
    assert (layer.q is None, layer.k is None) == (not card.uses_query, not card.uses_key)
    assert layer.v is not None
    assert layer.norms is not None
    if layer.q is not None:
        assert torch.equal(layer.q, q)
    real = slice(0, 6)  # padding is blank
    if layer.k is not None:
        assert torch.equal(layer.k[:, real], k[:, real])
    else:
        assert layer.scale is None
    assert torch.equal(layer.v[:, real], v[:, real])
    assert torch.allclose(layer.norms, layer.v[layer.groups].norm(dim=-1))


def test_stack_and_kind_of_layers() -> None:
    layers = {}
    for kind in KINDS:
        model = model_of(kind)
        with torch.no_grad(), attnlab.capture(model) as captured:
            model(*inputs_of(kind))
        layers[kind] = [(x.name, x.stack, x.kind, x.causal) for x in captured.layers]
    assert layers == {
        "decoder": [(f"stack.blocks.{i}.attention", "decoder", "self", True) for i in (0, 1)],
        "encoder": [(f"stack.blocks.{i}.attention", "encoder", "self", False) for i in (0, 1)],
        "vit": [(f"blocks.{i}.attention", "encoder", "self", False) for i in (0, 1)],
        "seq2seq": [
            ("encoder.blocks.0.attention", "encoder", "self", False),
            ("decoder.blocks.0.attention", "decoder", "self", True),
            ("decoder.blocks.0.cross", "decoder", "cross", False),
        ],
    }


def test_weights_by_hand() -> None:
    """Scores 0, ln 3 and ln 2 give weights in the ratio 1 : 3 : 2."""
    mechanism = create_mechanism("softmax", head_dim=1, heads=1, beta=1.0)
    q = torch.tensor([1.0, 1.0, 1.0]).view(1, 1, 3, 1)
    k = torch.tensor([0.0, math.log(3), math.log(2)]).view(1, 1, 3, 1)
    v = torch.tensor([[3.0, 4.0], [0.0, 1.0], [6.0, 8.0]]).view(1, 1, 3, 2)
    with attnlab.capture(mechanism, qkv=True) as captured:
        mechanism(q, k, v, Mask(causal=True))
    (layer,) = captured.layers
    expected = torch.tensor([[[1, 0, 0], [1 / 4, 3 / 4, 0], [1 / 6, 1 / 2, 1 / 3]]])
    assert layer.weights is not None
    assert torch.allclose(layer.weights, expected)
    assert (layer.name, layer.kind, layer.stack, layer.scale) == ("softmax", "self", "decoder", 1)
    assert layer.allowed is not None
    assert layer.allowed.tolist() == [[True, False, False], [True, True, False], [True] * 3]
    assert layer.norms is not None
    assert layer.norms.tolist() == [[5.0, 1.0, 10.0]]


@given(
    trial=st.sampled_from(list(all_trials())),
    size=sizes(),
    causal=st.booleans(),
    row=st.integers(0, 2),
    heads=st.one_of(st.none(), st.lists(st.integers(0, HEADS - 1), min_size=1, unique=True)),
    packed=st.booleans(),
)
@examples(150)
def test_any_shape(
    trial: tuple[str, dict[str, Any]],
    size: dict[str, Any],
    causal: bool,
    row: int,
    heads: list[int] | None,
    packed: bool,
) -> None:
    """Any mechanism, lengths, padding, grouped keys, documents, row and heads, in float64."""
    mechanism = build(*trial)
    inputs, row = make_inputs(mechanism, **size), row % size["B"]
    masks = possible_masks(mechanism, inputs.keys)
    mask = masks[-1] if causal else masks[0]
    if packed and mechanism.card.packs:
        documents = torch.arange(size["S"]) * 3 // size["S"]
        mask = replace(mask, segments=documents.expand(size["B"], -1))
    with torch.no_grad(), attnlab.capture(mechanism, qkv=True, row=row, heads=heads) as captured:
        out = inputs.output(mechanism, mask)
    (layer,) = captured.layers
    selected = list(range(HEADS)) if heads is None else heads
    expected = inputs.weights(mechanism, mask)[row, selected]
    assert layer.weights is not None
    assert layer.weights.dtype == torch.float32
    assert torch.allclose(layer.weights.double(), expected, atol=1e-6, rtol=1e-5)
    assert layer.v is not None
    size_of_terms = layer.weights.abs() @ layer.v[layer.groups].abs()  # (H, T, M)
    difference = (layer.weights @ layer.v[layer.groups] - out[row, selected].float()).abs()
    assert bool((difference <= 1e-5 * (1 + size_of_terms)).all())
    if layer.allowed is not None and not layer.signed:
        hidden = layer.weights.masked_fill(layer.allowed, 0)
        assert float(hidden.abs().max()) == 0


def test_position_patterns_are_in_the_mask() -> None:
    """`allowed` has the pattern of a window or of BigBird, of the captured heads only."""
    layer = MultiHead(24, 4, "2*window:window=2+1*hard+1*softmax").eval()
    x = torch.randn(1, 5, 24)
    for heads, width in (([0, 1], 2), ([0, 2], 5), ([2, 3], 5)):
        with attnlab.capture(layer, heads=heads) as captured:
            layer(x, Mask())
        near = (torch.arange(5)[:, None] - torch.arange(5)).abs() < width
        allowed = captured.layers[0].allowed
        assert (allowed is None) == bool(near.all())
        if allowed is not None:
            assert torch.equal(allowed, near)
        assert captured.layers[0].mechanism == "2*window+1*hard+1*softmax"
        assert captured.layers[0].scale == pytest.approx(6**-0.5)


# Options


def test_layers_heads_and_row() -> None:
    config = StackConfig(VOCABULARY, 12, width=32, layers=3, heads=4, key_heads=2)
    model, (ids, keys) = Decoder(config).eval(), inputs_of("decoder")
    with torch.no_grad():
        with attnlab.capture(model, qkv=True, row=1) as whole:
            model(ids, keys)
        with attnlab.capture(
            model, qkv=True, row=1, layers=[2, "stack.blocks.0.attention"], heads=[3, 0]
        ) as captured:
            model(ids, keys)
        with attnlab.capture(model, weights=False, heads=[3]) as bare:
            model(ids, keys)
    assert [layer.name[13:14] for layer in captured.layers] == ["0", "2"]
    for layer, number in zip(captured.layers, (0, 2), strict=True):
        other = whole.layers[number]
        assert (layer.heads, layer.all_heads, layer.groups) == ([3, 0], 4, [1, 0])
        assert layer.weights is not None
        assert other.weights is not None
        assert torch.equal(layer.weights, other.weights[[3, 0]])
        assert layer.q is not None
        assert other.q is not None
        assert torch.equal(layer.q, other.q[[3, 0]])
        assert layer.k is not None
        assert other.k is not None
        assert torch.equal(layer.k, other.k)
    (first, *_) = bare.layers
    assert (first.weights, first.q, first.k, first.v, first.difference) == (None,) * 5
    assert first.norms is not None
    assert first.norms.shape == (1, 9)


def test_equal_masks_are_shared() -> None:
    model, inputs = model_of("decoder"), inputs_of("decoder")
    with torch.no_grad(), attnlab.capture(model) as captured:
        model(*inputs)
    assert captured.layers[0].allowed is not None
    assert captured.layers[0].allowed is captured.layers[1].allowed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_tokens": 8}, ["9 queries and 9 keys", "max_tokens=8", "layers", "heads"]),
        ({"row": 3}, ["row=3", "batch of 3", "0 to 2"]),
        ({"heads": [0, 2]}, ["heads=[0, 2]", "has 2", "0 to 1"]),
        ({"heads": [-1]}, ["heads=[-1]", "from 0"]),
        ({"heads": []}, ["heads=[]", "None for all"]),
        ({"layers": [2]}, ["layers=[2]", "0 to 1", "stack.blocks.0.attention"]),
        ({"layers": ["blocks"]}, ["'blocks'", "stack.blocks.1.attention"]),
        ({"layers": 1}, ["layers=1", "list"]),
        ({"max_tokens": 0}, ["max_tokens=0"]),
        ({"row": -1}, ["row=-1"]),
    ],
)
def test_invalid_options(options: dict[str, Any], words: list[str]) -> None:
    model, inputs = model_of("decoder"), inputs_of("decoder")
    with pytest.raises(ValueError, match=r"^capture: ") as error, attnlab.capture(model, **options):
        model(*inputs)
    for word in words:
        assert word in str(error.value)


def test_generation_beyond_max_tokens_raises() -> None:
    model = model_of("decoder")
    with (
        pytest.raises(ValueError, match="7 queries and 7 keys, more than max_tokens=6"),
        attnlab.capture(model, max_tokens=6),
    ):
        generate(model, [[2, 3, 4]], new_tokens=8)


@pytest.mark.parametrize(
    ("make_model", "message"),
    [
        (lambda: model_of("convnet"), "ConvNet has no attention layer"),
        (lambda: model_of("decoder"), "no attention layer ran; run the model inside"),
        (list, "a list is not a torch"),
        (lambda: torch.compile(model_of("decoder"), backend="eager"), "_orig_mod"),
    ],
)
def test_nothing_to_capture(make_model: Any, message: str) -> None:
    model = make_model()
    with pytest.raises(ValueError, match=message), attnlab.capture(model):
        pass


def test_captured_tensors_own_their_memory() -> None:
    """They do not keep the whole batch alive."""
    model, inputs = model_of("decoder"), inputs_of("decoder")
    with torch.no_grad(), attnlab.capture(model, qkv=True, heads=[1]) as captured:
        model(*inputs)
    for layer in captured.layers:
        for x in (layer.weights, layer.q, layer.k, layer.v, layer.norms):
            assert x is not None
            assert x.untyped_storage().nbytes() == 4 * x.numel()
