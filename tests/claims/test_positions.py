"""Claims of topic 4: the expected verdicts, and wrong code that changes them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnlab.claims import CLAIMS, positions, run_claim
from attnlab.position import RotaryPositions, SinusoidalPositions

HOLDING = ["shift-matrix", "attend-relative", "positions-unique", "rope-relative"]


def run_outcome(name: str) -> str:
    return run_claim(CLAIMS[name], 0, "small").verdict.outcome


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", HOLDING)
def test_verdicts(name: str, seed: int) -> None:
    result = run_claim(CLAIMS[name], seed, "small")
    assert result.verdict.outcome == "holds", result.verdict
    assert result.trusted, result.control
    assert torch.get_default_dtype() == torch.float32


def test_topic_has_exactly_these_claims() -> None:
    names = [each.name for each in CLAIMS.values() if each.topic == "positions"]
    assert names == [*HOLDING, "positions-two-d"]


@pytest.mark.slow
def test_images_do_not_need_two_dimensional_codes() -> None:
    result = run_claim(CLAIMS["positions-two-d"], 0, "small")
    assert (result.verdict.outcome, result.trusted) == ("refuted", True), result


def test_two_dimensional_gain_would_be_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = {"sinusoidal-2d": 0.9, "learned": 0.8, "none": 0.5}

    def accuracy(model: str, size: str, seed: int, images: int, kind: str) -> float:
        del model, size, images
        return gains[kind] + seed * 1e-4

    monkeypatch.setattr(positions, "digit_accuracy", accuracy)
    assert run_outcome("positions-two-d") == "holds"


# Wrong implementations


def test_codes_with_sines_first(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SinusoidalPositions.forward

    def sines_first(self: SinusoidalPositions, position: Tensor) -> Tensor:
        code = original(self, position)
        return torch.cat([code[..., ::2], code[..., 1::2]], dim=-1)

    monkeypatch.setattr(SinusoidalPositions, "forward", sines_first)
    assert run_outcome("shift-matrix") == "refuted"
    assert run_outcome("attend-relative") == "refuted"


def test_shift_matrix_in_the_wrong_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SinusoidalPositions.shift_matrix
    monkeypatch.setattr(
        SinusoidalPositions, "shift_matrix", lambda self, steps=1: original(self, -steps)
    )
    assert run_outcome("shift-matrix") == "refuted"
    assert run_outcome("attend-relative") == "refuted"


def test_repeating_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SinusoidalPositions.forward
    monkeypatch.setattr(SinusoidalPositions, "forward", lambda self, at: original(self, at % 9_000))
    assert run_outcome("positions-unique") == "refuted"


def test_rotary_codes_with_rounded_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    original = RotaryPositions.forward
    monkeypatch.setattr(RotaryPositions, "forward", lambda self, x, at: original(self, x, at // 3))
    assert run_outcome("rope-relative") == "refuted"
