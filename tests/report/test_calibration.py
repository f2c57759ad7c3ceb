"""Measures of confidence against their definitions, spelled out pair by pair."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab._calibration import (
    Bin,
    CoveragePoint,
    expected_calibration_error,
    reliability_bins,
    risk_coverage,
    roc_area,
    threshold_for,
)

CONFIDENCE = [0.9, 0.8, 0.8, 0.6, 0.55, 0.2, 1.0]
CORRECT = [True, True, False, True, False, False, True]

# Eighths and tenths: many ties, and values that lie on the edges of bins.
probabilities = st.sampled_from([i / 8 for i in range(9)] + [i / 10 for i in range(11)])
answers = st.lists(
    st.tuples(probabilities | st.floats(0, 1), st.booleans()), min_size=1, max_size=40
)


def unzip(pairs: list[tuple[float, bool]]) -> tuple[list[float], list[bool]]:
    return [confidence for confidence, _ in pairs], [right for _, right in pairs]


# Calibration


def test_reliability_by_hand() -> None:
    results = reliability_bins(CONFIDENCE, CORRECT, bins=5)
    assert [(each.low, each.high, each.count) for each in results] == [
        (0.2, 0.4, 1),
        (0.4, 0.6, 1),
        (0.6, 0.8, 1),
        (0.8, 1.0, 4),
    ]
    assert [each.accuracy for each in results] == [0, 0, 1, 0.75]
    assert results[-1].confidence == pytest.approx(3.5 / 4)
    gaps = 0.2 + 0.55 + 0.4 + 4 * (0.875 - 0.75)
    assert expected_calibration_error(CONFIDENCE, CORRECT, bins=5) == pytest.approx(gaps / 7)


@given(answers, st.integers(1, 13))
def test_every_answer_is_in_its_bin(pairs: list[tuple[float, bool]], bins: int) -> None:
    results = reliability_bins(*unzip(pairs), bins)
    assert [each.low for each in results] == sorted({each.low for each in results})
    for each in results:
        last = each.high == 1
        inside = [
            (confidence, right)
            for confidence, right in pairs
            if each.low <= confidence and (confidence < each.high or (last and confidence == 1))
        ]
        assert each.count == len(inside)
        assert each.accuracy == pytest.approx(sum(right for _, right in inside) / len(inside))
        assert each.confidence == pytest.approx(
            sum(confidence for confidence, _ in inside) / len(inside)
        )
        assert each.high - each.low == pytest.approx(1 / bins)
    assert sum(each.count for each in results) == len(pairs)
    parts = [each.count / len(pairs) * abs(each.accuracy - each.confidence) for each in results]
    assert expected_calibration_error(*unzip(pairs), bins) == pytest.approx(sum(parts))


def test_calibration_error_of_calibrated_and_overconfident_answers() -> None:
    generator = np.random.default_rng(3)
    confidence = generator.uniform(size=50_000)
    right = generator.uniform(size=50_000) < confidence
    assert expected_calibration_error(confidence, right) < 0.01
    assert expected_calibration_error(np.sqrt(confidence), right) > 0.15  # E(sqrt u) - E(u) = 1/6
    exact = [0.25] * 4 + [0.75] * 4
    hits = [True, False, False, False, True, True, True, False]
    assert expected_calibration_error(exact, hits) == 0


# Ranking


@given(answers)
def test_roc_area_is_the_fraction_of_ordered_pairs(pairs: list[tuple[float, bool]]) -> None:
    rights = [confidence for confidence, right in pairs if right]
    wrongs = [confidence for confidence, right in pairs if not right]
    expected = None
    if rights and wrongs:
        order = [(a > b) + (a == b) / 2 for a in rights for b in wrongs]
        expected = sum(order) / len(order)
    assert roc_area(*unzip(pairs)) == pytest.approx(expected)


def test_roc_area_by_hand() -> None:
    assert roc_area(CONFIDENCE, CORRECT) == pytest.approx((3 + 3 + 2.5 + 2) / 12)
    assert roc_area([0.1, 0.9], [False, True]) == 1
    assert roc_area([0.1, 0.9], [True, False]) == 0
    assert roc_area([0.5, 0.5], [True, False]) == 0.5
    assert roc_area([0.5, 0.7], [True, True]) is None


@given(answers)
def test_risk_coverage_by_definition(pairs: list[tuple[float, bool]]) -> None:
    results = risk_coverage(*unzip(pairs))
    assert [each.threshold for each in results] == sorted(
        {confidence for confidence, _ in pairs}, reverse=True
    )
    for each in results:
        answered = [right for confidence, right in pairs if confidence >= each.threshold]
        assert each.coverage == len(answered) / len(pairs)
        assert each.precision == sum(answered) / len(answered)
    assert results[-1].coverage == 1


@given(answers, st.sampled_from([0.5, 0.75, 0.9, 0.95, 1.0]))
def test_threshold_by_brute_force(pairs: list[tuple[float, bool]], precision: float) -> None:
    expected = None
    for threshold in sorted({confidence for confidence, _ in pairs}, reverse=True):
        answered = [right for confidence, right in pairs if confidence >= threshold]
        if sum(answered) / len(answered) >= precision:
            expected = CoveragePoint(
                threshold, len(answered) / len(pairs), sum(answered) / len(answered)
            )
    assert threshold_for(precision, *unzip(pairs)) == expected


def test_thresholds_by_hand() -> None:
    assert threshold_for(1, CONFIDENCE, CORRECT) == CoveragePoint(0.9, 2 / 7, 1)
    assert threshold_for(0.8, CONFIDENCE, CORRECT) == CoveragePoint(
        0.6, 5 / 7, 0.8
    )  # 0.8 itself: 3 of 4 only
    assert threshold_for(0.5, CONFIDENCE, CORRECT) == CoveragePoint(0.2, 1, 4 / 7)
    assert threshold_for(0.5, [0.5, 0.9], [False, False]) is None
    tied = threshold_for(0.95, [0.7] * 20, [True] * 19 + [False])
    assert tied == CoveragePoint(0.7, 1, 0.95)  # exactly reached, and all twenty or none


# What is refused


@pytest.mark.parametrize(
    "measure", [reliability_bins, expected_calibration_error, roc_area, risk_coverage]
)
@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([0.5, 0.5], [True], r"shape \(2,\) and correct \(1,\)"),
        ([], [], "no answers"),
        ([0.5, math.nan], [True, False], "confidence 1 is not a finite number"),
        ([0.5, math.inf], [True, False], "confidence 1 is not a finite number"),
        ([0.5, None], [True, False], "confidence 1 is not a finite number"),
        ([0.5, 0.5], [True, None], "other than True and False"),
        ([0.5, 0.5], [True, 0.5], "other than True and False"),
        ([[0.5]], [[True]], "two lists of equal length"),
    ],
)
def test_invalid_arguments(
    measure: Callable[..., object], confidence: Any, correct: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        measure(confidence, correct)


def test_settings_are_checked() -> None:
    for call, expected in (
        (lambda: reliability_bins([1.5], [True]), "1.5"),
        (lambda: reliability_bins([0.5], [True], bins=0), "bins is 0"),
        (lambda: threshold_for(0, [0.5], [True]), "precision is 0"),
        (lambda: threshold_for(95, [0.5], [True]), "precision is 95"),
    ):
        with pytest.raises(ValueError, match=expected):
            call()


def test_reliability_returns_bins() -> None:
    assert reliability_bins([0.25], [True], bins=2) == [Bin(0, 0.5, 1, 0.25, 1)]
