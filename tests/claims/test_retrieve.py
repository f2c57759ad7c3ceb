"""What one query can retrieve: the expected verdicts, and wrong code that changes them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from attnlab.claims import (
    CLAIMS,
    retrieve,
    retrieve_heads,
    retrieve_noise,
    run_claim,
    select_claims,
)
from attnlab.claims._claim import Trial

EXPECTED = {
    "copy": "holds",
    "average-two": "holds",
    "subspace-recovery": "holds",
    "noise-isotropic": "holds",
    "noise-radial": "holds",
    "identity-outer-product": "refuted",
    "longer-key-wins": "refuted",
    "heads-identical": "refuted",
    "heads-split": "holds",
    "heads-split-always": "refuted",
    "key-scaled": "holds",
}


def test_topic_has_exactly_these_claims() -> None:
    assert [claim.name for claim in select_claims(topic="retrieve")] == list(EXPECTED)
    quoted = {claim.name for claim in select_claims(topic="retrieve") if claim.quoted}
    assert quoted == {name for name, run_outcome in EXPECTED.items() if run_outcome == "refuted"}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", list(EXPECTED))
def test_verdicts(name: str, seed: int) -> None:
    result = run_claim(CLAIMS[name], seed, "small")
    assert result.verdict.outcome == EXPECTED[name], result.verdict
    assert result.trusted


def run_outcome(name: str) -> str:
    return run_claim(CLAIMS[name], 0, "small").verdict.outcome


def replace_attend(monkeypatch: pytest.MonkeyPatch, replacement: object) -> None:
    for module in (retrieve, retrieve_noise, retrieve_heads):
        monkeypatch.setattr(module, "attend", replacement)


def test_inverted_temperature_refutes_claims_that_need_sharp_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = retrieve.attend

    def blunt(q: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return original(q / q.norm(dim=-1, keepdim=True).clamp(min=1) ** 2, keys, values)

    replace_attend(monkeypatch, blunt)
    for name in ("average-two", "noise-radial", "heads-split", "noise-isotropic"):
        assert run_outcome(name) == "refuted", name


def test_scores_without_sign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def signless(q: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        weights = (keys @ q[..., None])[..., 0].abs().softmax(-1)
        return weights, weights @ values

    replace_attend(monkeypatch, signless)
    assert run_outcome("longer-key-wins") == "holds"
    scaled = run_claim(CLAIMS["key-scaled"], 0, "small")
    assert scaled.trusted is False  # its control is on the other side


def test_swapped_identical_and_split_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    identical, split = retrieve_heads.identical_queries, retrieve_heads.split_queries

    def mistaken(sample: retrieve_noise.NoisyKeys, heads: int) -> list[Tensor]:
        return identical(sample, 1) if heads == 1 else (split(sample) * heads)[:heads]

    with monkeypatch.context() as patched:
        patched.setattr(retrieve_heads, "identical_queries", mistaken)
        assert run_outcome("heads-identical") == "holds"
    monkeypatch.setattr(retrieve_heads, "split_queries", lambda sample: identical(sample, 2))
    assert run_outcome("heads-split") == "refuted"


def test_without_radial_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = retrieve_noise.NoisyKeys.keys

    def quiet(self: retrieve_noise.NoisyKeys, alpha: float = 1e-6, radial: float = 0.5) -> Tensor:
        del radial
        return keys(self, alpha, 0.0)

    monkeypatch.setattr(retrieve_noise.NoisyKeys, "keys", quiet)
    assert run_outcome("noise-radial") == "refuted"
    assert run_outcome("heads-split-always") == "holds"


def test_skewed_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    def skewed(n: int, d: int, random: torch.Generator) -> Tensor:
        x = torch.randn(n, d, generator=random, dtype=torch.float64)
        return x / x.norm(dim=-1, keepdim=True)

    monkeypatch.setattr(retrieve, "orthonormal", skewed)
    assert run_outcome("subspace-recovery") == "refuted"
    assert run_outcome("average-two") == "refuted"


def test_radial_noise_matches_theory() -> None:
    details = retrieve_noise.noise_radial(Trial()).details
    inside = math.erf(1)  # 2 Phi(sqrt(2)) - 1
    assert details["fraction with eps in (0, 2)"] == pytest.approx(inside, abs=0.02)
    assert details["fraction with eps negative"] == pytest.approx((1 - inside) / 2, abs=0.015)
    lost = retrieve_heads.heads_split_always(Trial()).figure
    needed = (math.log(63) / 20 - 1) / math.sqrt(0.5)
    assert lost.low is not None
    assert lost.high is not None
    assert lost.low < (1 + math.erf(needed / math.sqrt(2))) / 2 < lost.high


def test_breaking_noise_scales_with_one_over_m_squared() -> None:
    """The mean of |tanh(m sqrt(alpha) z)| is 0.1 where m sqrt(alpha) sqrt(2 / pi) is about that."""
    details = retrieve_noise.noise_isotropic(Trial()).details
    for m in (10, 20, 40):
        scaled_alpha = details[f"the same times 4 m^2 at m = {m}"]
        assert scaled_alpha == pytest.approx(4 * 0.01 * math.pi / 2, rel=0.1)


def test_gain_of_two_heads_matches_theory() -> None:
    """One head: |v_a - v_b|^2 / 4 at most. Two: p (1 - p) (1 + 1/7) / 4, where p is the fraction of
    samples in which head 1 loses a: between those with less than 0.9 and less than 0.1 on it."""
    fractions = [(1 + math.erf(at / math.sqrt(0.5) / math.sqrt(2))) / 2
              for at in ((math.log(63) / 20) - 1, (math.log(7 / 9) / 20) - 1)]  # fmt: skip
    high, low = (0.5 / (p * (1 - p) * (8 / 7) / 4) for p in reversed(fractions))
    gain = retrieve_heads.heads_split(Trial()).figure.value
    assert 0.8 * low < gain < 1.1 * high
