"""Layers with hand-set matrices: the expected verdicts, and wrong code that changes them."""

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
    handmade,
    handmade_convolution,
    handmade_heads,
    run_claim,
    select_claims,
)
from attnlab.claims import (
    handmade_position_codes as position_codes,
)
from attnlab.claims._claim import Trial
from attnlab.claims._ledger_terminal import print_claim
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
TRAINED = "heads-count"


def test_topic_has_exactly_these_claims() -> None:
    assert [claim.name for claim in select_claims(topic="handmade")] == list(EXPECTED)
    quoted = {claim.name for claim in select_claims(topic="handmade") if claim.quoted}
    assert quoted == {name for name, run_outcome in EXPECTED.items() if run_outcome == "refuted"}


@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, seed) for name in EXPECTED for seed in (0, 1) if name != TRAINED or seed == 0],
)
def test_verdicts(name: str, seed: int) -> None:
    result = run_claim(CLAIMS[name], seed, "small")
    assert result.verdict.outcome == EXPECTED[name], result.verdict
    assert result.trusted


def run_outcome(name: str) -> str:
    return run_claim(CLAIMS[name], 0, "small").verdict.outcome


def replace_layer(monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., MultiHead]) -> None:
    for module in (handmade, position_codes, handmade_convolution, handmade_heads):
        monkeypatch.setattr(module, "make_handmade_layer", replacement)


def test_soft_weights_refute_claims_that_need_sharp_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """An inverse temperature of 1/25 instead of 1, against scores of L^2 = 25."""
    original = handmade.make_handmade_layer

    def blunt(*matrices: Tensor, **options: Any) -> MultiHead:
        return original(*matrices, **{**options, "attention": "softmax:beta=0.04"})

    replace_layer(monkeypatch, blunt)
    flipped = ("self-copy", "self-add-b", "self-construct", "identity-and-permutation",
               "convolution", "by-content-by-position")  # fmt: skip
    for name in flipped:
        assert run_outcome(name) == "refuted", name
    assert run_outcome("self-cannot") == "holds"  # at any sharpness


def test_swapped_query_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    original = handmade.make_handmade_layer

    def swapped(query: Tensor, key: Tensor, value: Tensor, *out: Tensor, **options: Any) -> Any:
        return original(key, query, value, *out, **options)

    replace_layer(monkeypatch, swapped)
    for name in ("self-construct", "identity-and-permutation", "by-content-by-position"):
        assert run_outcome(name) == "refuted", name
    assert run_outcome("self-copy") == "holds"  # Q = K


def test_unexpected_causal_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    def causal(**options: Any) -> Mask:
        return Mask(**{**options, "causal": True})

    monkeypatch.setattr(position_codes, "Mask", causal)
    assert run_outcome("permutation-equivariance") == "refuted"
    assert run_outcome("identity-and-permutation") == "refuted"


def test_missing_head_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    original = handmade_heads._sum_of_heads
    monkeypatch.setattr(
        handmade_heads, "_sum_of_heads", lambda heads, blocks: original(heads[:, 1:], blocks[1:])
    )
    assert run_outcome("heads-are-channels") == "refuted"


def test_heads_count_with_one_head_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    original = handmade_heads._fetch_accuracy

    def one(trial: Trial, repeat: int, heads: int, fetched: int, steps: int) -> float:
        del heads, steps
        return original(trial, repeat, 1, fetched, 5)

    monkeypatch.setattr(handmade_heads, "_fetch_accuracy", one)
    assert run_outcome("heads-count") == "refuted"


def test_best_head_is_nearest_to_the_filter() -> None:
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


def test_required_length_matches_theory() -> None:
    for claim, name, factor in (
        (handmade.self_copy, "c_2 against u_a", math.sqrt(10)),
        (handmade.self_add_b, "c_2 against u_a + u_b", math.sqrt(3)),
        (handmade.self_construct, "Q with 1/L^2", math.sqrt(2.5)),
    ):
        needed = claim(Trial()).details[f"L for 0.1% error, {name}"]
        assert needed == pytest.approx(math.sqrt(math.log(factor / 0.001)), abs=0.005)


def test_typo_averages_all_three_values() -> None:
    u = 5 * torch.eye(4, dtype=torch.float64)
    a, b, c, d = u
    query = (handmade.outer(d, d) + handmade.outer(c, c)) / 25
    first, second, _ = handmade.attend_constructed(u, query=query)
    torch.testing.assert_close(second, (2 * b - c) / 3)
    torch.testing.assert_close(first, b, atol=1e-8, rtol=0)
    torch.testing.assert_close(handmade.make_tokens(u)[1], a)


def test_brackets_in_formulas_are_not_markup() -> None:
    text = io.StringIO()
    print_claim(run_claim(CLAIMS["heads-are-channels"], 0, "small"), Console(file=text, width=96))
    assert "|W_O [o_1 ... o_H] - sum of W_h o_h|" in text.getvalue()
