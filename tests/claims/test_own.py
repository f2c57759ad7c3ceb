"""Claims added by attnlab: verdicts, controls, and wrong experiments that change the verdict."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnlab.claims import CLAIMS, Trial, run_claim
from attnlab.claims import added_by_attnlab as own

EXPECTED = {
    "value-length": (
        "holds only when",
        "the common part of the values / their spread is at most 1",
    ),
    "off-by-one": ("refuted", ""),
    "feature-capacity": ("holds only when", "pairs / features is at most 1"),
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", list(EXPECTED))
def test_verdicts(name: str, seed: int) -> None:
    result = run_claim(CLAIMS[name], seed, "small")
    assert (result.verdict.outcome, result.verdict.condition) == EXPECTED[name]
    assert result.trusted is True


def test_every_claim_has_a_reference() -> None:
    own_claims = [claim for claim in CLAIMS.values() if claim.topic == "own"]
    assert {claim.name for claim in own_claims} == set(EXPECTED)
    assert all(claim.reference for claim in own_claims)


def test_leave_one_out_matches_the_formula() -> None:
    weights = torch.randn(7, dtype=torch.float64).softmax(0)
    values = torch.randn(7, 5, dtype=torch.float64) + 3
    formula = own._contribution_scores(weights, values)["a / (1 - a) |v - c|"]
    assert torch.allclose(own.leave_one_out(weights, values), formula, atol=1e-12)


def test_off_by_one_softmax() -> None:
    scores = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64)
    expected = scores.exp() / (1 + scores.exp().sum())
    assert torch.allclose(own.attention_weights(scores, "off by one"), expected)


def judge_experiment(name: str) -> str:
    claim = CLAIMS[name]
    assert claim.measure is not None
    return claim.judge(claim.measure(Trial())).outcome


def test_setting_a_token_to_zero_changes_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a token is set to 0 instead of left out, weight times length is correct."""

    def zeroed(weights: Tensor, values: Tensor) -> Tensor:
        return (weights[:, None] * values).norm(dim=-1)

    monkeypatch.setattr(own, "leave_one_out", zeroed)
    assert judge_experiment("value-length") == "holds"


def test_sigmoid_weights_change_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "attention_weights", lambda scores, _: scores.sigmoid())
    own._train_idle_head_cached.cache_clear()
    try:
        assert judge_experiment("off-by-one") == "holds"
    finally:
        own._train_idle_head_cached.cache_clear()
