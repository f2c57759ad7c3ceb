"""Claims of topic 3: the expected verdicts, and wrong code that changes them."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor, nn

from attnlab.claims import CLAIMS, Result, run_claim
from attnlab.feed_forward import NORMS
from attnlab.mask import Mask
from attnlab.mechanisms import softmax
from attnlab.mechanisms.softmax import Softmax

OUTCOMES = {
    "beta-hard": "holds",
    "beta-sqrt-d": "holds",
    "two-layer-network": "holds",
    "rows-sum-to-one": "holds",
    "equal-q-k-identity": "holds only when",
    "mask-minus-infinity": "holds",
    "perturb-key": "refuted",
    "perturb-query": "refuted",
    "perturb-key-mean": "holds only when",
    "perturb-compare": "refuted",
    "layernorm-residual": "refuted",
    "layernorm-batch": "holds",
    "feed-forward": "refuted",
}


def run_small(name: str, seed: int = 0) -> Result:
    return run_claim(CLAIMS[name], seed, "small")


def run_outcome(name: str) -> str:
    return run_small(name).verdict.outcome


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", OUTCOMES)
def test_verdicts(name: str, seed: int) -> None:
    result = run_small(name, seed)
    assert result.verdict.outcome == OUTCOMES[name], result.verdict
    assert result.trusted, result.control


def test_topic_has_exactly_these_claims() -> None:
    assert [each.name for each in CLAIMS.values() if each.topic == "temperature"] == list(OUTCOMES)


def test_conditions_match_theory() -> None:
    """At a margin of 7 about e^(1/2 - 7 + 1) is lost; noise of 0.4 shifts by 0.4^2/2 0.1."""
    condition = run_small("equal-q-k-identity").verdict.condition
    assert condition == "sqrt(d) - ln n is at least 7"
    condition = run_small("perturb-key-mean").verdict.condition
    assert condition == "the noise in the score, b |q| s, is at most 0.4"


def test_mean_shift_is_of_second_order() -> None:
    evidence = run_small("perturb-key-mean").evidence
    assert evidence is not None
    slope = evidence.details["exponent of the shift in the noise"]
    assert isinstance(slope, float)
    assert 1.8 < slope < 2.1


# Wrong implementations


def test_inverse_temperature_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    original = softmax.scaled_scores
    monkeypatch.setattr(softmax, "scaled_scores", lambda q, k, beta: original(q, k, 1 / beta))
    result = run_small("beta-hard")
    assert result.verdict.outcome == "refuted"
    assert result.control is not None
    assert result.control.outcome == "holds"


def test_scores_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    original = softmax.scaled_scores
    monkeypatch.setattr(softmax, "scaled_scores", lambda q, k, _: original(q, k, 1.0))
    assert run_outcome("beta-sqrt-d") == "refuted"


def test_mask_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mask, "allowed", lambda *_: None)
    assert run_outcome("mask-minus-infinity") == "refuted"


def test_softmax_over_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "masked_softmax", lambda scores, _: scores.softmax(-2))
    result = run_small("rows-sum-to-one")
    assert result.verdict.outcome == "refuted"


def test_queries_that_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Softmax.compute

    def mixed(self: Softmax, q: Tensor, *rest: Any) -> Tensor:
        return original(self, q + q.mean(2, keepdim=True), *rest)

    monkeypatch.setattr(Softmax, "compute", mixed)
    result = run_small("perturb-query")
    assert result.verdict.outcome == "holds"
    assert result.control is not None
    assert result.control.outcome == "refuted"


def test_unnormalized_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without normalization, a key changes only the weight on itself."""
    monkeypatch.setattr(softmax, "masked_softmax", lambda scores, _: scores.exp())
    assert run_outcome("perturb-key") == "holds"


def test_norm_over_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NORMS, "layer", nn.BatchNorm1d)
    assert run_outcome("layernorm-batch") == "refuted"


def test_seed_determines_the_result() -> None:
    a, b, again = (
        run_small("perturb-compare", 0),
        run_small("perturb-compare", 1),
        run_small("perturb-compare"),
    )
    assert a.evidence is not None
    assert b.evidence is not None
    assert again.evidence is not None
    assert a.evidence.figure == again.evidence.figure != b.evidence.figure
