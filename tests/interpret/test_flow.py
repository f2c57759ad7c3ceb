"""Attention through all layers: by hand, against slow loops, and reasons why it is missing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnlab.interpret._attention_flow import attention_flow, longest_chain, relevance, rollout
from attnlab.interpret._records import Flow, Layer
from tests.support.synthetic_captures import make_layer, make_sequence, softmax_weights


def stack_of(layers: int, heads: int = 2, tokens: int = 3) -> list[Layer]:
    return [
        make_layer(softmax_weights(heads, tokens, tokens, seed=n), name=f"layer.{n}.self")
        for n in range(layers)
    ]


def flow_of(layers: list[Layer], tokens: int = 3) -> Flow:
    sequences = [make_sequence(" ".join("abcdefghi"[:tokens]))]
    return attention_flow(layers, [(0, 0)] * len(layers), sequences)


# Values


def test_rollout_by_hand() -> None:
    """Two tokens, one head; the second layer swaps half of each."""
    first = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])  # with half of itself: 1 0 / 0.25 0.75
    second = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])  # 0.5 0.5 / 0.5 0.5
    one, two = rollout([first, second])
    assert torch.allclose(one, torch.tensor([[1.0, 0.0], [0.25, 0.75]]))
    assert torch.allclose(two, torch.tensor([[0.625, 0.375], [0.625, 0.375]]))


def test_fully_masked_token_keeps_itself() -> None:
    weights = torch.tensor([[[0.0, 0.0], [0.5, 0.5]]])
    assert torch.allclose(rollout([weights])[0], torch.tensor([[1.0, 0.0], [0.25, 0.75]]))


def test_relevance_by_hand() -> None:
    """Two heads; negative products are dropped before the mean."""
    weights = torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]]])
    gradient = torch.tensor([[[0.4, -1.0], [0.8, 0.0]], [[0.2, 5.0], [-2.0, 0.4]]])
    # products: 0.2 -0.5 / 0.2 0 and 0.2 0 / -1 0.2; mean of the positive ones: 0.2 0 / 0.1 0.1
    mean = torch.tensor([[0.2, 0.0], [0.1, 0.1]])
    one, two = relevance([(weights, gradient), (weights, gradient)])
    assert torch.allclose(one, mean / 0.2)
    # R = (I + mean)², R - I = 2 mean + mean²: 0.44 0 / 0.23 0.21, and both rows sum to 0.44
    expected = torch.tensor([[0.44, 0.0], [0.23, 0.21]])
    assert torch.allclose(2 * mean + mean @ mean, expected)
    assert torch.allclose(two, expected / 0.44)


def test_relevance_of_tiny_gradients() -> None:
    """Added to the identity they would vanish in single precision."""
    weights = softmax_weights(2, 3, 3)
    gradient = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0))
    large, tiny = (relevance([(weights, gradient * size)] * 2)[0] for size in (1.0, 1e-12))
    assert torch.allclose(large, tiny, rtol=1e-4)
    assert float(large.max()) > 0
    zero = relevance([(weights, torch.zeros(2, 3, 3))])[0]
    assert torch.equal(zero, torch.zeros(3, 3))


def test_relevance_of_signed_weights() -> None:
    """A negative weight with a negative gradient raises the target, as two positive ones do."""
    weights = softmax_weights(2, 3, 3)
    gradient = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0))
    signs = torch.tensor([1.0, -1.0, 1.0])
    plain = relevance([(weights, gradient)])[0]
    assert torch.allclose(plain, relevance([(weights * signs, gradient * signs)])[0])


@given(
    layers=st.integers(1, 4),
    heads=st.integers(1, 3),
    tokens=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_rollout_and_relevance_match_slow_loops(
    layers: int, heads: int, tokens: int, seed: int
) -> None:
    weights = [softmax_weights(heads, tokens, tokens, seed + n) for n in range(layers)]
    generator = torch.Generator().manual_seed(seed)
    gradients = [torch.randn(heads, tokens, tokens, generator=generator) for _ in range(layers)]
    for fast, slow in zip(rollout(weights), slow_rollout(weights), strict=True):
        assert torch.allclose(fast.double(), slow, atol=1e-6)
        assert torch.allclose(fast.sum(-1), torch.ones(tokens))
    pairs = list(zip(weights, gradients, strict=True))
    for fast, slow in zip(relevance(pairs), slow_relevance(pairs), strict=True):
        assert torch.allclose(fast.double(), slow, atol=1e-5)
        assert float(fast.min()) >= 0
        assert float(fast.sum(-1).max()) == pytest.approx(1, abs=1e-5) or not fast.any()


def slow_rollout(layers: list[Tensor]) -> list[Tensor]:
    maps = []
    so_far = torch.eye(layers[0].shape[1], dtype=torch.float64)
    for weights in layers:
        heads, tokens, _ = weights.shape
        mixed = torch.zeros(tokens, tokens, dtype=torch.float64)
        for i in range(tokens):
            for j in range(tokens):
                mean = sum(float(weights[h, i, j]) for h in range(heads)) / heads
                mixed[i, j] = 0.5 * mean + (0.5 if i == j else 0)
            mixed[i] /= float(mixed[i].sum())
        so_far = mixed @ so_far
        maps.append(so_far)
    return maps


def slow_relevance(layers: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """As in the paper; the identity is subtracted at the end."""
    maps = []
    tokens = layers[0][0].shape[1]
    identity = torch.eye(tokens, dtype=torch.float64)
    so_far = identity
    for weights, gradient in layers:
        mean = torch.zeros(tokens, tokens, dtype=torch.float64)
        for i in range(tokens):
            for j in range(tokens):
                products = [
                    float(w[i, j]) * float(g[i, j]) for w, g in zip(weights, gradient, strict=True)
                ]
                mean[i, j] = sum(max(0.0, product) for product in products) / len(products)
        so_far = so_far + mean @ so_far
        added = so_far - identity
        largest = float(added.sum(-1).max())
        maps.append(added / largest if largest > 0 else added)
    return maps


# Which layers


def test_longest_chain() -> None:
    encoder = [make_layer(softmax_weights(2, 3, 3), name=f"encoder.{n}") for n in range(2)]
    decoder = [
        make_layer(softmax_weights(2, 4, 4), name=f"decoder.{n}.self", stack="decoder")
        for n in range(3)
    ]
    cross = [
        make_layer(
            softmax_weights(2, 4, 3), name=f"decoder.{n}.cross", stack="decoder", kind="cross"
        )
        for n in range(3)
    ]
    layers = [*encoder, decoder[0], cross[0], decoder[1], cross[1], decoder[2], cross[2]]
    indices = [(0, 0)] * 2 + [(1, 1), (1, 0)] * 3
    assert [number for number, _ in longest_chain(layers, indices)] == [2, 4, 6]
    flow = attention_flow(layers, indices, [make_sequence("a b c"), make_sequence("w x y z")])
    assert flow.layers == [2, 4, 6]
    assert flow.rollout is not None
    assert [tuple(x.shape) for x in flow.rollout] == [(4, 4)] * 3
    assert [n for n, _ in longest_chain(layers[:4], indices[:4])] == [0, 1]
    assert [n for n, _ in longest_chain(layers[1:4], indices[1:4])] == [0]  # the first of equals


def test_no_flow_without_self_attention() -> None:
    layer = make_layer(softmax_weights(2, 2, 3), kind="cross")
    sequences = [make_sequence("a b"), make_sequence("x y z")]
    for layers, indices in (([layer], [(0, 1)]), ([], [])):
        flow = attention_flow(layers, indices, sequences)
        assert flow.rollout is None
        assert flow.gradient is None
        assert set(flow.reasons) == {"rollout", "gradient"}
        assert flow.layers == []


def test_complete_flow() -> None:
    layers = stack_of(3)
    for layer in layers:
        layer.gradient = torch.ones(2, 3, 3)
    flow = flow_of(layers)
    assert flow.reasons == {}
    assert flow.layers == [0, 1, 2]
    weights = [layer.weights for layer in layers if layer.weights is not None]
    assert flow.rollout is not None
    assert flow.gradient is not None
    for one, other in zip(flow.rollout, slow_rollout(weights), strict=True):
        assert torch.allclose(one.double(), other, atol=1e-6)
    pairs = [(x, torch.ones(2, 3, 3)) for x in weights]
    for one, other in zip(flow.gradient, slow_relevance(pairs), strict=True):
        assert torch.allclose(one.double(), other, atol=1e-6)


# Reasons why a map is missing


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signed": True}, "Weights of layer.1.self (toy) can be negative"),
        ({"weights": -softmax_weights(2, 3, 3)}, "Weights of layer.1.self (toy) can be negative"),
        ({"normalised": False}, "Rows of layer.1.self (toy) do not sum to 1"),
        ({"weights": 2 * softmax_weights(2, 3, 3)}, "Rows of layer.1.self (toy) do not sum to 1"),
        ({"weights": torch.full((2, 3, 3), torch.nan)}, "layer.1.self (toy) are not finite"),
        ({"weights": None}, "layer.1.self (toy) was captured without its weights"),
        ({"all_heads": 4}, "Only 2 of 4 heads of layer.1.self (toy) were captured"),
        ({"weights": softmax_weights(2, 2, 3)}, "self (toy) has weights of shape (2, 2, 3)"),
        ({"name": "layer.2.self"}, "A layer before layer.2.self (toy) was not captured"),
    ],
)
def test_reason_without_rollout(change: dict[str, Any], message: str) -> None:
    layers = stack_of(2)
    layers[1].mechanism = "toy"
    for name, value in change.items():
        setattr(layers[1], name, value)
    flow = flow_of(layers)
    assert flow.rollout is None
    reason = flow.reasons["rollout"]
    assert message in reason
    assert reason.endswith(".")
    assert len(reason.splitlines()) == 1


def test_rollout_of_half_precision_weights() -> None:
    layers = stack_of(2)
    for layer in layers:
        assert layer.weights is not None
        layer.weights = layer.weights.bfloat16().float()
    assert flow_of(layers).rollout is not None


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (None, "No gradient of layer.1.self (softmax) was captured"),
        (torch.ones(2, 3, 4), "The gradient of layer.1.self (softmax) does not have the shape"),
        (torch.full((2, 3, 3), torch.inf), "The gradient of layer.1.self (softmax) is not finite"),
    ],
)
def test_reason_without_gradient(gradient: Tensor | None, message: str) -> None:
    layers = stack_of(2)
    layers[0].gradient, layers[1].gradient = torch.ones(2, 3, 3), gradient
    flow = flow_of(layers)
    assert flow.gradient is None
    assert message in flow.reasons["gradient"]
    assert flow.rollout is not None


def test_reason_without_any_gradient() -> None:
    assert flow_of(stack_of(2)).reasons == {
        "gradient": "No gradients were captured; capture with gradients to see this view."
    }


def test_reason_of_the_model() -> None:
    layers = stack_of(2)
    layers[1].no_gradient = "the model returns copies."
    assert flow_of(layers).reasons == {
        "gradient": "There is no gradient of layer.1.self (softmax): the model returns copies."
    }


def test_signed_weights_have_a_gradient_map() -> None:
    layers = stack_of(2)
    for layer in layers:
        assert layer.weights is not None
        layer.signed, layer.normalised = True, False
        layer.weights = layer.weights - 0.3
        layer.gradient = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1))
    flow = flow_of(layers)
    assert flow.rollout is None
    assert flow.gradient is not None


@pytest.mark.parametrize(
    ("names", "complete"),
    [
        (["h.0.attn", "h.1.attn"], True),
        (["h.1.attn", "h.2.attn"], False),
        (["h.0.attn", "h.2.attn"], False),
        (["block.0.layer.0.self", "block.1.layer.0.self"], True),
        (["block.0.layer.0.self", "block.3.layer.0.self"], False),
        (["attention"], True),
        (["h.0.attn"], True),
        (["h.5.attn"], False),
        (["layer1.attn", "layer2.attn"], True),  # no part is a number
        (["shared", "shared"], True),  # one module that runs twice
        (["group.0.layer.0", "group.0.layer.0"], True),
        (["stem.attn", "h.0.attn"], True),
    ],
)
def test_missing_layers(names: list[str], complete: bool) -> None:
    layers = stack_of(len(names))
    for layer, name in zip(layers, names, strict=True):
        layer.name = name
    assert (flow_of(layers).rollout is not None) == complete
