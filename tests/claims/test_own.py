"""attnlab's own claims: verdicts, controls, and what a wrong experiment would say."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnlab.claims import CLAIMS, Trial, run_one
from attnlab.claims import added_by_attnlab as own

EXPECTED = {
    "value-length": (
        "holds only when",
        "the common part of the values by their spread is at most 1",
    ),
    "off-by-one": ("refuted", ""),
    "feature-capacity": ("holds only when", "pairs by features is at most 1"),
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", list(EXPECTED))
def test_verdicts(name: str, seed: int) -> None:
    found = run_one(CLAIMS[name], seed, "small")
    assert (found.verdict.outcome, found.verdict.condition) == EXPECTED[name]
    assert found.trusted is True


def test_all_are_here_with_a_reference() -> None:
    mine = [claim for claim in CLAIMS.values() if claim.topic == "own"]
    assert {claim.name for claim in mine} == set(EXPECTED)
    assert all(claim.reference for claim in mine)


def test_leaving_out_is_what_the_formula_says() -> None:
    weights = torch.randn(7, dtype=torch.float64).softmax(0)
    values = torch.randn(7, 5, dtype=torch.float64) + 3
    formula = own._guesses(weights, values)["a / (1 - a) |v - c|"]
    assert torch.allclose(own.left_out(weights, values), formula, atol=1e-12)


def test_one_added_to_the_denominator() -> None:
    scores = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64)
    wanted = scores.exp() / (1 + scores.exp().sum())
    assert torch.allclose(own.weigh(scores, "off by one"), wanted)


def measured(name: str) -> str:
    claim = CLAIMS[name]
    assert claim.measure is not None
    return claim.judge(claim.measure(Trial())).outcome


def test_leaving_out_without_the_rest_growing(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a token were put to 0 instead of left out, weight times length would be right."""

    def zeroed(weights: Tensor, values: Tensor) -> Tensor:
        return (weights[:, None] * values).norm(dim=-1)

    monkeypatch.setattr(own, "left_out", zeroed)
    assert measured("value-length") == "holds"


def test_weights_that_do_not_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "weigh", lambda scores, _: scores.sigmoid())
    own._parked.cache_clear()
    try:
        assert measured("off-by-one") == "holds"
    finally:
        own._parked.cache_clear()
