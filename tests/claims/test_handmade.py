"""Hand-made layers: the verdicts that mathematics gives, and what would flip them."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

from attnlab.claims import (
    CLAIMS,
    chosen,
    handmade,
    handmade_convolution,
    handmade_heads,
    run_one,
)
from attnlab.claims import (
    handmade_position_codes as handmade_order,
)
from attnlab.claims._claim import Trial
from attnlab.claims._ledger_terminal import print_one
from attnlab.layers import MultiHead
from attnlab.mask import Mask

EXPECTED = {
    "self-copy": "holds",
    "self-cannot": "holds",
    "self-add-b": "holds",
    "self-construct": "holds",
    "self-construct-typo": "refuted",
    "self-construct-scale": "refuted",
    "identity-and-permutation": "holds",
    "permutation-equivariance": "holds",
    "convolution": "holds",
    "convolution-one-head": "refuted",
    "heads-are-channels": "holds",
    "heads-count": "holds",
    "by-content-by-position": "holds",
}
TRAINS = "heads-count"


def test_all_rows_are_there_in_the_ledgers_order() -> None:
    assert [claim.name for claim in chosen(topic="handmade")] == list(EXPECTED)
    quoted = {claim.name for claim in chosen(topic="handmade") if claim.quoted}
    assert quoted == {name for name, outcome in EXPECTED.items() if outcome == "refuted"}


@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, seed) for name in EXPECTED for seed in (0, 1) if name != TRAINS or seed == 0],
)
def test_the_verdict_is_that_of_mathematics(name: str, seed: int) -> None:
    result = run_one(CLAIMS[name], seed, "small")
    assert result.verdict.outcome == EXPECTED[name], result.verdict
    assert result.trusted


def outcome(name: str) -> str:
    return run_one(CLAIMS[name], 0, "small").verdict.outcome


def replace_layer(monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., MultiHead]) -> None:
    for module in (handmade, handmade_order, handmade_convolution, handmade_heads):
        monkeypatch.setattr(module, "handmade", wrong)


def test_blunt_weights_flip_what_needs_sharp_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inverse of the sharpness L^2 = 25 for the sharpness: 1/25."""
    right = handmade.handmade

    def blunt(*matrices: Tensor, **options: Any) -> MultiHead:
        return right(*matrices, **{**options, "attention": "softmax:beta=0.04"})

    replace_layer(monkeypatch, blunt)
    flipped = ("self-copy", "self-add-b", "self-construct", "identity-and-permutation",
               "convolution", "by-content-by-position")  # fmt: skip
    for name in flipped:
        assert outcome(name) == "refuted", name
    assert outcome("self-cannot") == "holds"  # at any sharpness


def test_query_and_key_in_each_others_place(monkeypatch: pytest.MonkeyPatch) -> None:
    right = handmade.handmade

    def swapped(query: Tensor, key: Tensor, value: Tensor, *out: Tensor, **options: Any) -> Any:
        return right(key, query, value, *out, **options)

    replace_layer(monkeypatch, swapped)
    for name in ("self-construct", "identity-and-permutation", "by-content-by-position"):
        assert outcome(name) == "refuted", name
    assert outcome("self-copy") == "holds"  # Q = K


def test_a_mask_where_there_should_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def causal(**options: Any) -> Mask:
        return Mask(**{**options, "causal": True})

    monkeypatch.setattr(handmade_order, "Mask", causal)
    assert outcome("permutation-equivariance") == "refuted"
    assert outcome("identity-and-permutation") == "refuted"


def test_a_head_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = handmade_heads._summed
    monkeypatch.setattr(
        handmade_heads, "_summed", lambda heads, blocks: right(heads[:, 1:], blocks[1:])
    )
    assert outcome("heads-are-channels") == "refuted"


def test_one_head_counted_as_several_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    right = handmade_heads._fetch_accuracy

    def one(trial: Trial, repeat: int, heads: int, fetched: int, steps: int) -> float:
        del heads, steps
        return right(trial, repeat, 1, fetched, 5)

    monkeypatch.setattr(handmade_heads, "_fetch_accuracy", one)
    assert outcome("heads-count") == "refuted"


def test_no_other_head_comes_nearer_to_a_filter() -> None:
    random = torch.Generator().manual_seed(5)
    for _ in range(20):
        kernel = torch.randn(9, generator=random, dtype=torch.float64)
        weights, scale = handmade_convolution.best_head(kernel.view(3, 3))
        assert float(weights.sum()) == pytest.approx(1)
        assert float(weights.min()) >= 0
        best = float((scale * weights.flatten() - kernel).norm())
        others = torch.rand(1000, 9, generator=random, dtype=torch.float64) ** 3
        others = others / others.norm(dim=-1, keepdim=True)
        nearest = others * (others @ kernel)[:, None]  # the best scale of each
        assert best <= float((nearest - kernel).norm(dim=-1).min()) + 1e-12


def test_the_length_that_is_needed_is_as_computed_by_hand() -> None:
    for claim, name, factor in (
        (handmade.self_copy, "c_2 against u_a", math.sqrt(10)),
        (handmade.self_add_b, "c_2 against u_a + u_b", math.sqrt(3)),
        (handmade.self_construct, "Q with 1/L^2", math.sqrt(2.5)),
    ):
        needed = claim(Trial()).details[f"L for 0.1% error, {name}"]
        assert needed == pytest.approx(math.sqrt(math.log(factor / 0.001)), abs=0.005)


def test_the_typo_averages_all_three_values() -> None:
    u = 5 * torch.eye(4, dtype=torch.float64)
    a, b, c, d = u
    query = (handmade.outer(d, d) + handmade.outer(c, c)) / 25
    first, second, _ = handmade.constructed(u, query=query)
    torch.testing.assert_close(second, (2 * b - c) / 3)
    torch.testing.assert_close(first, b, atol=1e-8, rtol=0)
    torch.testing.assert_close(handmade.tokens(u)[1], a)


def test_brackets_in_a_formula_are_no_markup() -> None:
    text = io.StringIO()
    print_one(run_one(CLAIMS["heads-are-channels"], 0, "small"), Console(file=text, width=96))
    assert "|W_O [o_1 ... o_H] - sum of W_h o_h|" in text.getvalue()
