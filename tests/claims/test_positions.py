"""Claims of topic 4: the verdicts that mathematics gives, and wrong code that flips them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnlab.claims import CLAIMS, positions, run_one
from attnlab.position import RotaryPositions, SinusoidalPositions

HOLD = ["shift-matrix", "attend-relative", "positions-unique", "rope-relative"]


def outcome(name: str) -> str:
    return run_one(CLAIMS[name], 0, "small").verdict.outcome


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", HOLD)
def test_verdicts(name: str, seed: int) -> None:
    result = run_one(CLAIMS[name], seed, "small")
    assert result.verdict.outcome == "holds", result.verdict
    assert result.trusted, result.control
    assert torch.get_default_dtype() == torch.float32


def test_all_of_the_topic_are_here() -> None:
    names = [each.name for each in CLAIMS.values() if each.topic == "positions"]
    assert names == [*HOLD, "positions-two-d"]


def test_images_do_not_need_two_dimensional_codes() -> None:
    result = run_one(CLAIMS["positions-two-d"], 0, "small")
    assert (result.verdict.outcome, result.trusted) == ("refuted", True), result


def test_a_gain_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = {"sinusoidal-2d": 0.9, "learned": 0.8, "none": 0.5}

    def accuracy(model: str, size: str, seed: int, images: int, kind: str) -> float:
        del model, size, images
        return gains[kind] + seed * 1e-4

    monkeypatch.setattr(positions, "accuracy", accuracy)
    assert outcome("positions-two-d") == "holds"


# Wrong implementations


def test_sines_first(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SinusoidalPositions.forward

    def sines_first(self: SinusoidalPositions, position: Tensor) -> Tensor:
        code = right(self, position)
        return torch.cat([code[..., ::2], code[..., 1::2]], dim=-1)

    monkeypatch.setattr(SinusoidalPositions, "forward", sines_first)
    assert outcome("shift-matrix") == "refuted"
    assert outcome("attend-relative") == "refuted"


def test_matrix_that_turns_back(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SinusoidalPositions.shift_matrix
    monkeypatch.setattr(
        SinusoidalPositions, "shift_matrix", lambda self, steps=1: right(self, -steps)
    )
    assert outcome("shift-matrix") == "refuted"
    assert outcome("attend-relative") == "refuted"


def test_codes_that_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SinusoidalPositions.forward
    monkeypatch.setattr(SinusoidalPositions, "forward", lambda self, at: right(self, at % 9_000))
    assert outcome("positions-unique") == "refuted"


def test_rotary_by_thirds_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    right = RotaryPositions.forward
    monkeypatch.setattr(RotaryPositions, "forward", lambda self, x, at: right(self, x, at // 3))
    assert outcome("rope-relative") == "refuted"
