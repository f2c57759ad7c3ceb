"""Intervals of shares."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab._confidence_intervals import fraction_interval, wilson_interval


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [  # Newcombe 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_interval_matches_published_values(right: int, total: int, low: float, high: float) -> None:
    assert wilson_interval(right, total) == pytest.approx((low, high), abs=6e-5)
    assert fraction_interval(right, total).ends == wilson_interval(right, total)


@given(st.integers(0, 300), st.integers(0, 300), st.floats(0.5, 0.999))
def test_interval_solves_its_equation(a: int, b: int, level: float) -> None:
    right, total = min(a, b), max(a, b, 1)
    low, high = wilson_interval(right, total, level)
    part = right / total
    assert 0 <= low <= part <= high <= 1
    z = NormalDist().inv_cdf((1 + level) / 2)
    for end in (low, high):
        assert abs(part - end) == pytest.approx(z * math.sqrt(end * (1 - end) / total), abs=1e-9)
    wrong = wilson_interval(total - right, total, level)
    assert (1 - wrong[1], 1 - wrong[0]) == pytest.approx((low, high))


def test_interval_without_answers() -> None:
    assert wilson_interval(0, 0) == (0, 1)
    assert wilson_interval(20, 20)[1] == 1


@pytest.mark.parametrize(
    ("right", "total", "level", "words"),
    [
        (4, 3, 0.95, "4 of 3"),
        (-1, 3, 0.95, "-1 of 3"),
        (1, 3, 95, "level is 95"),
    ],
)
def test_invalid_fractions_are_errors(right: int, total: int, level: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        wilson_interval(right, total, level)
