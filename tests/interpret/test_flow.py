"""Attention through all layers: by hand, against slow loops, and why it is missing."""

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


def test_a_token_with_nothing_to_look_at_keeps_itself() -> None:
    weights = torch.tensor([[[0.0, 0.0], [0.5, 0.5]]])
    assert torch.allclose(rollout([weights])[0], torch.tensor([[1.0, 0.0], [0.25, 0.75]]))


def test_relevance_by_hand() -> None:
    """Two heads; what lowers the target is dropped before their mean."""
    weights = torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]]])
    gradient = torch.tensor([[[0.4, -1.0], [0.8, 0.0]], [[0.2, 5.0], [-2.0, 0.4]]])
    # products: 0.2 -0.5 / 0.2 0 and 0.2 0 / -1 0.2; mean of the positive ones: 0.2 0 / 0.1 0.1
    mean = torch.tensor([[0.2, 0.0], [0.1, 0.1]])
    one, two = relevance([(weights, gradient), (weights, gradient)])
    assert torch.allclose(one, mean / 0.2)
    # R = (I + mean)², R - I = 2 mean + mean²: 0.44 0 / 0.23 0.21, and both rows sum to 0.44
    wanted = torch.tensor([[0.44, 0.0], [0.23, 0.21]])
    assert torch.allclose(2 * mean + mean @ mean, wanted)
    assert torch.allclose(two, wanted / 0.44)


def test_relevance_of_tiny_gradients() -> None:
    """Beside the 1 of the identity they would vanish in single precision."""
    weights = softmax_weights(2, 3, 3)
    gradient = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0))
    large, tiny = (relevance([(weights, gradient * size)] * 2)[0] for size in (1.0, 1e-12))
    assert torch.allclose(large, tiny, rtol=1e-4)
    assert float(large.max()) > 0
    zero = relevance([(weights, torch.zeros(2, 3, 3))])[0]
    assert torch.equal(zero, torch.zeros(3, 3))


def test_relevance_counts_signed_weights_by_what_they_do() -> None:
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
def test_both_against_slow_loops(layers: int, heads: int, tokens: int, seed: int) -> None:
    weights = [softmax_weights(heads, tokens, tokens, seed + n) for n in range(layers)]
    draw = torch.Generator().manual_seed(seed)
    gradients = [torch.randn(heads, tokens, tokens, generator=draw) for _ in range(layers)]
    for found, slow in zip(rollout(weights), slow_rollout(weights), strict=True):
        assert torch.allclose(found.double(), slow, atol=1e-6)
        assert torch.allclose(found.sum(-1), torch.ones(tokens))
    pairs = list(zip(weights, gradients, strict=True))
    for found, slow in zip(relevance(pairs), slow_relevance(pairs), strict=True):
        assert torch.allclose(found.double(), slow, atol=1e-5)
        assert float(found.min()) >= 0
        assert float(found.sum(-1).max()) == pytest.approx(1, abs=1e-5) or not found.any()


def slow_rollout(layers: list[Tensor]) -> list[Tensor]:
    found = []
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
        found.append(so_far)
    return found


def slow_relevance(layers: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """As the paper has it, the identity taken off at the end."""
    found = []
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
                mean[i, j] = sum(max(0.0, each) for each in products) / len(products)
        so_far = so_far + mean @ so_far
        shown = so_far - identity
        most = float(shown.sum(-1).max())
        found.append(shown / most if most > 0 else shown)
    return found


# Which layers


def test_the_longest_chain() -> None:
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
    places = [(0, 0)] * 2 + [(1, 1), (1, 0)] * 3
    assert [number for number, _ in longest_chain(layers, places)] == [2, 4, 6]
    found = attention_flow(layers, places, [make_sequence("a b c"), make_sequence("w x y z")])
    assert found.layers == [2, 4, 6]
    assert found.rollout is not None
    assert [tuple(each.shape) for each in found.rollout] == [(4, 4)] * 3
    assert [n for n, _ in longest_chain(layers[:4], places[:4])] == [0, 1]
    assert [n for n, _ in longest_chain(layers[1:4], places[1:4])] == [0]  # as long: the first


def test_nothing_flows_without_self_attention() -> None:
    layer = make_layer(softmax_weights(2, 2, 3), kind="cross")
    sequences = [make_sequence("a b"), make_sequence("x y z")]
    for layers, places in (([layer], [(0, 1)]), ([], [])):
        found = attention_flow(layers, places, sequences)
        assert found.rollout is None
        assert found.gradient is None
        assert set(found.reasons) == {"rollout", "gradient"}
        assert found.layers == []


def test_a_flow_of_everything() -> None:
    layers = stack_of(3)
    for layer in layers:
        layer.gradient = torch.ones(2, 3, 3)
    found = flow_of(layers)
    assert found.reasons == {}
    assert found.layers == [0, 1, 2]
    weights = [layer.weights for layer in layers if layer.weights is not None]
    assert found.rollout is not None
    assert found.gradient is not None
    for one, other in zip(found.rollout, slow_rollout(weights), strict=True):
        assert torch.allclose(one.double(), other, atol=1e-6)
    pairs = [(each, torch.ones(2, 3, 3)) for each in weights]
    for one, other in zip(found.gradient, slow_relevance(pairs), strict=True):
        assert torch.allclose(one.double(), other, atol=1e-6)


# Why there is none


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"signed": True}, "Weights of layer.1.self (toy) can be negative"),
        ({"weights": -softmax_weights(2, 3, 3)}, "Weights of layer.1.self (toy) can be negative"),
        ({"normalised": False}, "Rows of layer.1.self (toy) do not sum to 1"),
        ({"weights": 2 * softmax_weights(2, 3, 3)}, "Rows of layer.1.self (toy) do not sum to 1"),
        ({"weights": torch.full((2, 3, 3), torch.nan)}, "layer.1.self (toy) are not finite"),
        ({"weights": None}, "layer.1.self (toy) was captured without its weights"),
        ({"all_heads": 4}, "Of layer.1.self (toy) only 2 of 4 heads were captured"),
        ({"weights": softmax_weights(2, 2, 3)}, "self (toy) has weights of shape (2, 2, 3)"),
        ({"name": "layer.2.self"}, "Something before layer.2.self (toy) was not captured"),
    ],
)
def test_why_there_is_no_rollout(change: dict[str, Any], said: str) -> None:
    layers = stack_of(2)
    layers[1].mechanism = "toy"
    for name, value in change.items():
        setattr(layers[1], name, value)
    found = flow_of(layers)
    assert found.rollout is None
    reason = found.reasons["rollout"]
    assert said in reason
    assert reason.endswith(".")
    assert len(reason.splitlines()) == 1


def test_rows_of_half_precision_are_still_shares() -> None:
    layers = stack_of(2)
    for layer in layers:
        assert layer.weights is not None
        layer.weights = layer.weights.bfloat16().float()
    assert flow_of(layers).rollout is not None


@pytest.mark.parametrize(
    ("gradient", "said"),
    [
        (None, "No gradient of layer.1.self (softmax) was captured"),
        (torch.ones(2, 3, 4), "The gradient of layer.1.self (softmax) does not have the shape"),
        (torch.full((2, 3, 3), torch.inf), "The gradient of layer.1.self (softmax) is not finite"),
    ],
)
def test_why_there_is_no_gradient(gradient: Tensor | None, said: str) -> None:
    layers = stack_of(2)
    layers[0].gradient, layers[1].gradient = torch.ones(2, 3, 3), gradient
    found = flow_of(layers)
    assert found.gradient is None
    assert said in found.reasons["gradient"]
    assert found.rollout is not None


def test_no_gradients_at_all() -> None:
    assert flow_of(stack_of(2)).reasons == {
        "gradient": "No gradients were captured; capture with gradients to see it."
    }


def test_the_model_is_the_reason() -> None:
    layers = stack_of(2)
    layers[1].no_gradient = "the model gives none."
    assert flow_of(layers).reasons == {
        "gradient": "There is no gradient of layer.1.self (softmax): the model gives none."
    }


def test_gradients_of_signed_weights_are_no_obstacle() -> None:
    layers = stack_of(2)
    for layer in layers:
        assert layer.weights is not None
        layer.signed, layer.normalised = True, False
        layer.weights = layer.weights - 0.3
        layer.gradient = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1))
    found = flow_of(layers)
    assert found.rollout is None
    assert found.gradient is not None


@pytest.mark.parametrize(
    ("names", "whole"),
    [
        (["h.0.attn", "h.1.attn"], True),
        (["h.1.attn", "h.2.attn"], False),
        (["h.0.attn", "h.2.attn"], False),
        (["block.0.layer.0.self", "block.1.layer.0.self"], True),
        (["block.0.layer.0.self", "block.3.layer.0.self"], False),
        (["attention"], True),
        (["h.0.attn"], True),
        (["h.5.attn"], False),
        (["layer1.attn", "layer2.attn"], True),  # no number stands alone, so none is believed
        (["shared", "shared"], True),  # one module that is called twice
        (["group.0.layer.0", "group.0.layer.0"], True),
        (["stem.attn", "h.0.attn"], True),
    ],
)
def test_layers_that_were_left_out(names: list[str], whole: bool) -> None:
    layers = stack_of(len(names))
    for layer, name in zip(layers, names, strict=True):
        layer.name = name
    assert (flow_of(layers).rollout is not None) == whole
