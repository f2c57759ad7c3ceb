"""What one query can retrieve: the verdicts that mathematics gives, and what would flip them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from attnlab.claims import CLAIMS, chosen, retrieve, retrieve_heads, retrieve_noise, run_one
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


def test_all_rows_are_there_in_the_ledgers_order() -> None:
    assert [claim.name for claim in chosen(topic="retrieve")] == list(EXPECTED)
    quoted = {claim.name for claim in chosen(topic="retrieve") if claim.quoted}
    assert quoted == {name for name, outcome in EXPECTED.items() if outcome == "refuted"}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", list(EXPECTED))
def test_the_verdict_is_that_of_mathematics(name: str, seed: int) -> None:
    result = run_one(CLAIMS[name], seed, "small")
    assert result.verdict.outcome == EXPECTED[name], result.verdict
    assert result.trusted


def outcome(name: str) -> str:
    return run_one(CLAIMS[name], 0, "small").verdict.outcome


def replace_attend(monkeypatch: pytest.MonkeyPatch, wrong: object) -> None:
    for module in (retrieve, retrieve_noise, retrieve_heads):
        monkeypatch.setattr(module, "attend", wrong)


def test_a_temperature_for_its_inverse_flips_what_needs_a_sharp_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = retrieve.attend

    def blunt(q: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return right(q / q.norm(dim=-1, keepdim=True).clamp(min=1) ** 2, keys, values)

    replace_attend(monkeypatch, blunt)
    for name in ("average-two", "noise-radial", "heads-split", "noise-isotropic"):
        assert outcome(name) == "refuted", name


def test_scores_without_their_sign_flip_what_lies_on_the_other_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def signless(q: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        weights = (keys @ q[..., None])[..., 0].abs().softmax(-1)
        return weights, weights @ values

    replace_attend(monkeypatch, signless)
    assert outcome("longer-key-wins") == "holds"
    scaled = run_one(CLAIMS["key-scaled"], 0, "small")
    assert scaled.trusted is False  # its control is on the other side


def test_identical_heads_counted_as_split_flip_both(monkeypatch: pytest.MonkeyPatch) -> None:
    identical, split = retrieve_heads.identical, retrieve_heads.split

    def mistaken(drawn: retrieve_noise.Noisy, heads: int) -> list[Tensor]:
        return identical(drawn, 1) if heads == 1 else (split(drawn) * heads)[:heads]

    with monkeypatch.context() as patched:
        patched.setattr(retrieve_heads, "identical", mistaken)
        assert outcome("heads-identical") == "holds"
    monkeypatch.setattr(retrieve_heads, "split", lambda drawn: identical(drawn, 2))
    assert outcome("heads-split") == "refuted"


def test_without_the_noise_along_the_key_nothing_swings(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = retrieve_noise.Noisy.keys

    def quiet(self: retrieve_noise.Noisy, alpha: float = 1e-6, radial: float = 0.5) -> Tensor:
        del radial
        return keys(self, alpha, 0.0)

    monkeypatch.setattr(retrieve_noise.Noisy, "keys", quiet)
    assert outcome("noise-radial") == "refuted"
    assert outcome("heads-split-always") == "holds"


def test_a_basis_that_is_not_orthonormal_recovers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def skewed(n: int, d: int, random: torch.Generator) -> Tensor:
        x = torch.randn(n, d, generator=random, dtype=torch.float64)
        return x / x.norm(dim=-1, keepdim=True)

    monkeypatch.setattr(retrieve, "orthonormal", skewed)
    assert outcome("subspace-recovery") == "refuted"
    assert outcome("average-two") == "refuted"


def test_noise_along_the_key_is_as_computed_by_hand() -> None:
    details = retrieve_noise.noise_radial(Trial()).details
    inside = math.erf(1)  # 2 Phi(sqrt(2)) - 1
    assert details["share with eps in (0, 2)"] == pytest.approx(inside, abs=0.02)
    assert details["share with eps negative"] == pytest.approx((1 - inside) / 2, abs=0.015)
    lost = retrieve_heads.heads_split_always(Trial()).figure
    needed = (math.log(63) / 20 - 1) / math.sqrt(0.5)
    assert lost.low is not None
    assert lost.high is not None
    assert lost.low < (1 + math.erf(needed / math.sqrt(2))) / 2 < lost.high


def test_noise_breaks_the_average_as_one_over_m_squared() -> None:
    """The mean of |tanh(m sqrt(alpha) z)| is 0.1 where m sqrt(alpha) sqrt(2 / pi) is about that."""
    details = retrieve_noise.noise_isotropic(Trial()).details
    for m in (10, 20, 40):
        found = details[f"the same times 4 m^2 at m = {m}"]
        assert found == pytest.approx(4 * 0.01 * math.pi / 2, rel=0.1)


def test_two_heads_gain_what_their_variances_say() -> None:
    """One head: |v_a - v_b|^2 / 4 at most. Two: p (1 - p) (1 + 1/7) / 4, p the share of draws in
    which head 1 loses a, between those with less than 0.9 and those with less than 0.1 on it."""
    shares = [(1 + math.erf(at / math.sqrt(0.5) / math.sqrt(2))) / 2
              for at in ((math.log(63) / 20) - 1, (math.log(7 / 9) / 20) - 1)]  # fmt: skip
    high, low = (0.5 / (p * (1 - p) * (8 / 7) / 4) for p in reversed(shares))
    gain = retrieve_heads.heads_split(Trial()).figure.value
    assert 0.8 * low < gain < 1.1 * high
