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

SURE = [0.9, 0.8, 0.8, 0.6, 0.55, 0.2, 1.0]
RIGHT = [True, True, False, True, False, False, True]

# Eighths and tenths: many ties, and values that lie on the edges of bins.
probabilities = st.sampled_from([i / 8 for i in range(9)] + [i / 10 for i in range(11)])
answers = st.lists(
    st.tuples(probabilities | st.floats(0, 1), st.booleans()), min_size=1, max_size=40
)


def unzip(pairs: list[tuple[float, bool]]) -> tuple[list[float], list[bool]]:
    return [sure for sure, _ in pairs], [right for _, right in pairs]


# Calibration


def test_reliability_by_hand() -> None:
    found = reliability_bins(SURE, RIGHT, bins=5)
    assert [(each.low, each.high, each.count) for each in found] == [
        (0.2, 0.4, 1),
        (0.4, 0.6, 1),
        (0.6, 0.8, 1),
        (0.8, 1.0, 4),
    ]
    assert [each.accuracy for each in found] == [0, 0, 1, 0.75]
    assert found[-1].confidence == pytest.approx(3.5 / 4)
    gaps = 0.2 + 0.55 + 0.4 + 4 * (0.875 - 0.75)
    assert expected_calibration_error(SURE, RIGHT, bins=5) == pytest.approx(gaps / 7)


@given(answers, st.integers(1, 13))
def test_every_answer_is_in_the_bin_that_says_so(
    pairs: list[tuple[float, bool]], bins: int
) -> None:
    found = reliability_bins(*unzip(pairs), bins)
    assert [each.low for each in found] == sorted({each.low for each in found})
    for each in found:
        last = each.high == 1
        inside = [
            (sure, right)
            for sure, right in pairs
            if each.low <= sure and (sure < each.high or (last and sure == 1))
        ]
        assert each.count == len(inside)
        assert each.accuracy == pytest.approx(sum(right for _, right in inside) / len(inside))
        assert each.confidence == pytest.approx(sum(sure for sure, _ in inside) / len(inside))
        assert each.high - each.low == pytest.approx(1 / bins)
    assert sum(each.count for each in found) == len(pairs)
    parts = [each.count / len(pairs) * abs(each.accuracy - each.confidence) for each in found]
    assert expected_calibration_error(*unzip(pairs), bins) == pytest.approx(sum(parts))


def test_a_calibrated_set_has_no_error_and_a_boastful_one_has() -> None:
    generator = np.random.default_rng(3)
    sure = generator.uniform(size=50_000)
    right = generator.uniform(size=50_000) < sure
    assert expected_calibration_error(sure, right) < 0.01
    assert expected_calibration_error(np.sqrt(sure), right) > 0.15  # E(sqrt u) - E(u) = 1/6
    exact = [0.25] * 4 + [0.75] * 4
    hits = [True, False, False, False, True, True, True, False]
    assert expected_calibration_error(exact, hits) == 0


# Ranking


@given(answers)
def test_roc_area_is_the_share_of_pairs_in_order(pairs: list[tuple[float, bool]]) -> None:
    rights = [sure for sure, right in pairs if right]
    wrongs = [sure for sure, right in pairs if not right]
    wanted = None
    if rights and wrongs:
        order = [(a > b) + (a == b) / 2 for a in rights for b in wrongs]
        wanted = sum(order) / len(order)
    assert roc_area(*unzip(pairs)) == pytest.approx(wanted)


def test_roc_area_by_hand() -> None:
    assert roc_area(SURE, RIGHT) == pytest.approx((3 + 3 + 2.5 + 2) / 12)
    assert roc_area([0.1, 0.9], [False, True]) == 1
    assert roc_area([0.1, 0.9], [True, False]) == 0
    assert roc_area([0.5, 0.5], [True, False]) == 0.5
    assert roc_area([0.5, 0.7], [True, True]) is None


@given(answers)
def test_risk_coverage_by_definition(pairs: list[tuple[float, bool]]) -> None:
    found = risk_coverage(*unzip(pairs))
    assert [each.threshold for each in found] == sorted({sure for sure, _ in pairs}, reverse=True)
    for each in found:
        given_ = [right for sure, right in pairs if sure >= each.threshold]
        assert each.coverage == len(given_) / len(pairs)
        assert each.precision == sum(given_) / len(given_)
    assert found[-1].coverage == 1


@given(answers, st.sampled_from([0.5, 0.75, 0.9, 0.95, 1.0]))
def test_threshold_by_trying_each(pairs: list[tuple[float, bool]], precision: float) -> None:
    wanted = None
    for threshold in sorted({sure for sure, _ in pairs}, reverse=True):
        given_ = [right for sure, right in pairs if sure >= threshold]
        if sum(given_) / len(given_) >= precision:
            wanted = CoveragePoint(threshold, len(given_) / len(pairs), sum(given_) / len(given_))
    assert threshold_for(precision, *unzip(pairs)) == wanted


def test_thresholds_by_hand() -> None:
    assert threshold_for(1, SURE, RIGHT) == CoveragePoint(0.9, 2 / 7, 1)
    assert threshold_for(0.8, SURE, RIGHT) == CoveragePoint(
        0.6, 5 / 7, 0.8
    )  # 0.8 itself: 3 of 4 only
    assert threshold_for(0.5, SURE, RIGHT) == CoveragePoint(0.2, 1, 4 / 7)
    assert threshold_for(0.5, [0.5, 0.9], [False, False]) is None
    tied = threshold_for(0.95, [0.7] * 20, [True] * 19 + [False])
    assert tied == CoveragePoint(0.7, 1, 0.95)  # exactly reached, and all twenty or none


# What is refused


@pytest.mark.parametrize(
    "measure", [reliability_bins, expected_calibration_error, roc_area, risk_coverage]
)
@pytest.mark.parametrize(
    ("confidence", "correct", "words"),
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
def test_refused(measure: Callable[..., object], confidence: Any, correct: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
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


def test_a_bin_is_what_the_report_holds() -> None:
    assert reliability_bins([0.25], [True], bins=2) == [Bin(0, 0.5, 1, 0.25, 1)]
