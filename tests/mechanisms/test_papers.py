"""Mechanisms against loops over queries and keys, written from their papers. Recurrent mechanisms
are in test_recurrent.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab import MECHANISMS, Mask, create_mechanism
from attnlab.laws._compare import assert_equal_to_rounding, gradients
from attnlab.mechanism import Mechanism, repeat_heads
from attnlab.mechanisms._score_bias import distance_bucket
from tests.support.attention_loops import (
    Row,
    alibi_slopes,
    project_onto_simplex,
    share,
    softmax,
    t5_bucket,
    weights_by_rows,
)
from tests.support.law_trials import HEADS, LawInputs, build, make_inputs, possible_masks

Weigh = Callable[[Row], Tensor]


def sigmoid(mechanism: Any, x: LawInputs, options: dict[str, Any]) -> Weigh:
    """2409.04431: 1 / (1 + exp(-(q.k / sqrt(d) + b))), with b = -log n for n keys."""
    del mechanism, x, options
    return lambda row: 1 / (1 + (math.log(len(row.j)) - row.scores()).exp())


def differential(mechanism: Any, x: LawInputs, options: dict[str, Any]) -> Weigh:
    """2410.05258, equation 1: softmax(q1 k1 / sqrt(d)) - lambda softmax(q2 k2 / sqrt(d)), where d
    is the size of a half."""
    del x, options

    def weigh(row: Row) -> Tensor:
        half = len(row.q) // 2
        one, two = (
            softmax(row.k[:, part] @ row.q[part] / math.sqrt(half))
            for part in (slice(0, half), slice(half, None))
        )
        return one - mechanism.factor[row.head] * two

    return weigh


def forgetting(mechanism: Any, x: LawInputs, options: dict[str, Any]) -> Weigh:
    """2503.02130, equation 5: scores plus the sum of log f of the tokens after j up to i."""
    del mechanism, options

    def weigh(row: Row) -> Tensor:
        log_f = x.gates["log_decay"][row.b, row.key_head]
        bias = [log_f[[token for token in row.j if token > j]].sum() for j in row.j]
        return softmax(row.scores() + torch.stack(bias))

    return weigh


def based(mechanism: Any, x: LawInputs, options: dict[str, Any]) -> Weigh:
    """2402.18668, equation 4: 1 + s + s^2 / 2, the expansion of exp(s)."""
    del x
    size = options.get("feature_dim")

    def weigh(row: Row) -> Tensor:
        s = row.scores()
        if size is not None:
            project = mechanism.projections[row.head]  # (D, P)
            s = (row.k @ project) @ (row.q @ project) / math.sqrt(size)
        return share(1 + s + s**2 / 2)

    return weigh


def hedgehog(mechanism: Any, x: LawInputs, options: dict[str, Any]) -> Weigh:
    """2402.04347: phi(x) = softmax([W x, -W x]), with W of each head."""
    del x, options

    def phi(head: int, each: Tensor) -> Tensor:
        along = each @ mechanism.directions[head]
        return softmax(torch.cat([along, -along]))

    def weigh(row: Row) -> Tensor:
        keys = torch.stack([phi(row.head, k) for k in row.k])
        return share(keys @ phi(row.head, row.q))

    return weigh


def cosformer(mechanism: Any, x: LawInputs, options: dict[str, Any]) -> Weigh:
    """2202.08791, equation 9: relu(q) relu(k) cos(pi / 2 (i - j) / M)."""
    del x, options

    def weigh(row: Row) -> Tensor:
        near = [math.cos(math.pi / 2 * (row.i - j) / mechanism.max_length) for j in row.j]
        return share(row.k.relu() @ row.q.relu() * torch.tensor(near, dtype=torch.float64))

    return weigh


def exact(mechanism: Any, x: LawInputs, options: dict[str, Any]) -> Weigh:
    """Softmax with softcap (Gemma 2), a bias of the distance (ALiBi, T5) and a sink (GPT-OSS)."""
    del x

    def weigh(row: Row) -> Tensor:
        scores = options.get("beta", len(row.q) ** -0.5) * (row.k @ row.q)
        if "softcap" in options:
            scores = options["softcap"] * torch.tanh(scores / options["softcap"])
        if options.get("bias") == "alibi":
            far = torch.tensor([abs(row.i - j) for j in row.j], dtype=torch.float64)
            scores = scores - alibi_slopes(HEADS)[row.head] * far
        if options.get("bias") == "relative":
            buckets = [t5_bucket(j - row.i, options.get("two_sided", True)) for j in row.j]
            scores = scores + mechanism.bias.table[buckets, row.head]
        if "sink" in options:
            sink = mechanism.sink[row.head] if options["sink"] == "learned" else options["sink"]
            terms = scores.exp()
            return terms / (terms.sum() + torch.as_tensor(sink, dtype=torch.float64).exp())
        return softmax(scores)

    return weigh


LOOPS: dict[str, Callable[[Any, LawInputs, dict[str, Any]], Weigh]] = {
    **{
        loop.__name__: loop
        for loop in (sigmoid, differential, forgetting, based, hedgehog, cosformer)
    },
    "softmax": exact,
}
SIMPLEX: dict[str, Callable[[Tensor], Tensor]] = {
    # 1602.02068: the nearest point of the simplex; 1905.05702, with alpha = 1.5
    "sparsemax": lambda scores: project_onto_simplex(scores, lambda x: x),
    "entmax15": lambda scores: project_onto_simplex(scores / 2, torch.square),
}
every_loop = pytest.mark.parametrize(
    ("name", "options"),
    [
        (name, dict(options))
        for name in LOOPS
        for options in MECHANISMS[name].trials
        if name == "softmax" or "beta" not in options
    ],
    ids=str,
)
paddings = pytest.mark.parametrize("padding", ["none", "random"])


def cases(mechanism: Mechanism, padding: str) -> list[tuple[LawInputs, Mask]]:
    """For each mask that the mechanism supports; 3 key heads for 6 query heads."""
    inputs = make_inputs(mechanism, B=2, G=3, T=11, S=11, padding=padding, seed=2)
    return [(inputs, mask) for mask in possible_masks(mechanism, inputs.keys)]


@every_loop
@paddings
def test_values_and_gradients_of_the_paper(
    name: str, options: dict[str, Any], padding: str
) -> None:
    mechanism = build(name, options)
    parameters = list(mechanism.parameters())
    for inputs, mask in cases(mechanism, padding):
        slow, fast = inputs.fresh(), inputs.fresh()
        weights = weights_by_rows(slow, mask.causal, LOOPS[name](mechanism, slow, options))
        assert_equal_to_rounding([fast.weights(mechanism, mask)], [weights])
        expected = weights @ repeat_heads(slow.v, HEADS)
        actual = fast.output(mechanism, mask)
        assert_equal_to_rounding([actual], [expected])
        assert_equal_to_rounding(
            gradients(actual, [*fast.leaves(), *parameters]),
            gradients(expected, [*slow.leaves(), *parameters]),
            label="a gradient",
        )


# Projections onto the simplex


@pytest.mark.parametrize("name", SIMPLEX)
@paddings
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_projections_against_bisection(name: str, padding: str, scale: float) -> None:
    mechanism = build(name, {})
    for inputs, mask in cases(mechanism, padding):
        x = inputs.fresh(q=scale * inputs.q)
        with torch.no_grad():
            expected = weights_by_rows(x, mask.causal, lambda row: SIMPLEX[name](row.scores()))
            actual = x.weights(mechanism, mask)
        assert float((actual - expected).abs().max()) < 1e-9
        assert torch.equal(actual == 0, expected == 0)


@pytest.mark.parametrize("name", SIMPLEX)
@pytest.mark.parametrize("causal", [False, True])
def test_projections_pass_gradcheck(name: str, causal: bool) -> None:
    mechanism = create_mechanism(name, head_dim=3, heads=2)
    inputs = make_inputs(mechanism, B=1, G=1, T=5, S=5, seed=1)
    keys = torch.tensor([[True, True, False, True, True]])

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return mechanism(q, k, v, Mask(causal, keys))

    weights = inputs.weights(mechanism, Mask(causal, keys))
    assert bool((weights[..., [0, 1, 3, 4]] == 0).any())  # of visible keys too
    assert torch.autograd.gradcheck(call, (inputs.q, inputs.k, inputs.v))


def test_sparsemax_of_two_keys_is_a_clamp() -> None:
    mechanism = create_mechanism("sparsemax", head_dim=1, heads=1, beta=1.0)
    scores = torch.linspace(-3, 3, 41, dtype=torch.float64)
    q, k = scores.view(1, 1, -1, 1), torch.tensor([1.0, 0.0], dtype=torch.float64).view(1, 1, 2, 1)
    weights = mechanism.weights(q, k, Mask())[0, 0]  # the scores are (s, 0)
    expected = ((1 + scores) / 2).clamp(0, 1)
    assert torch.allclose(weights, torch.stack([expected, 1 - expected], -1), atol=1e-15)


@pytest.mark.parametrize("name", SIMPLEX)
def test_equal_scores_share_the_weight(name: str) -> None:
    mechanism = create_mechanism(name, head_dim=3, heads=1)
    q = torch.zeros(1, 1, 2, 3, dtype=torch.float64)
    k = torch.ones(1, 1, 7, 3, dtype=torch.float64)
    assert torch.allclose(mechanism.weights(q, k, Mask()), torch.tensor(1 / 7).double())


def test_simplex_mechanisms_lie_between_softmax_and_hard() -> None:
    """The sparser the mechanism, the larger the largest weight."""
    x = make_inputs(build("softmax", {}), B=2, G=3, T=11, S=11)
    largest = [
        x.weights(build(name, {}), Mask()).detach().amax(-1)
        for name in ("softmax", "entmax15", "sparsemax", "hard")
    ]
    for less, more in pairwise(largest):
        assert bool((less <= more + 1e-12).all())


# T5's buckets


@pytest.mark.parametrize("two_sided", [False, True])
def test_t5_buckets(two_sided: bool) -> None:
    distances = torch.arange(-300, 301)
    actual = distance_bucket(distances, two_sided)
    assert actual.tolist() == [t5_bucket(distance, two_sided) for distance in distances.tolist()]
    t5: Any = pytest.importorskip(
        "transformers.models.t5.modeling_t5", reason="transformers is not installed"
    )
    published = t5.T5Attention._relative_position_bucket(distances, two_sided, 32, 128)
    assert torch.equal(actual, published)
