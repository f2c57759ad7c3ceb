"""What confidences say of answers: small exact versions of the usual measures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bin:
    """The answers whose confidence is at least `low` and below `high`."""

    low: float
    high: float
    count: int
    confidence: float  # their mean
    accuracy: float


@dataclass(frozen=True)
class Point:
    """What remains when only answers with a confidence of `threshold` or more are given."""

    threshold: float
    coverage: float
    precision: float


# Confidence against correctness


def reliability(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> list[Bin]:
    """Bins of equal width from 0 to 1 (1 is in the last); a bin without answers is left out."""
    sure, right = _checked(confidence, correct)
    if sure.min() < 0 or sure.max() > 1:
        raise ValueError(
            f"confidences from {sure.min():g} to {sure.max():g}; bins need probabilities"
        )
    if bins < 1:
        raise ValueError(f"bins is {bins}; give 1 or more")
    edges = np.arange(bins + 1) / bins
    return _bins(sure, right, edges[:-1], edges[1:])


def expected_calibration_error(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> float:
    """How far confidence and accuracy lie apart in the bin of an average answer."""
    found = reliability(confidence, correct, bins)
    total = sum(each.count for each in found)
    return sum(each.count / total * abs(each.accuracy - each.confidence) for each in found)


def roc_area(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """How often a right answer is more confident than a wrong one; a tie counts half.

    None when all answers are right or all are wrong: there is no pair to compare.
    """
    sure, right = _checked(confidence, correct)
    _, place = np.unique(sure, return_inverse=True)
    rights = np.bincount(place, weights=right)
    wrongs = np.bincount(place) - rights
    pairs = rights.sum() * wrongs.sum()
    below = np.cumsum(wrongs) - wrongs
    return float((rights * (below + wrongs / 2)).sum() / pairs) if pairs else None


def risk_coverage(confidence: ArrayLike, correct: ArrayLike) -> list[Point]:
    """One point for each distinct confidence, from the fewest answers to all of them.

    Answers of equal confidence cannot be told apart: a threshold gives all of them or none.
    """
    sure, right = _checked(confidence, correct)
    values, place = np.unique(-sure, return_inverse=True)
    given = np.cumsum(np.bincount(place))
    rights = np.cumsum(np.bincount(place, weights=right))
    return [
        Point(float(-value), float(count / len(sure)), float(hits / count))
        for value, count, hits in zip(values, given, rights, strict=True)
    ]


def threshold_for(precision: float, confidence: ArrayLike, correct: ArrayLike) -> Point | None:
    """The lowest threshold at which the answers given are right at least that often.

    Precision need not fall steadily, so a higher threshold may miss what this one reaches. Ties go
    together as in `risk_coverage`. None when no threshold will do. Fitted and judged on the same
    answers it flatters: choose it on some and report it on others.
    """
    if not 0 < precision <= 1:
        raise ValueError(f"a precision of {precision} cannot be asked for; give one in (0, 1]")
    points = risk_coverage(confidence, correct)
    return next((each for each in reversed(points) if each.precision >= precision), None)


def _checked(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    sure, given = np.asarray(confidence, dtype=np.float64), np.asarray(correct)
    if sure.ndim != 1 or sure.shape != given.shape:
        raise ValueError(
            f"confidence has shape {sure.shape} and correct {given.shape}; give two equal lists"
        )
    if not len(sure):
        raise ValueError("no answers to measure")
    if not np.isfinite(sure).all():
        raise ValueError(f"confidence {int(np.argmin(np.isfinite(sure)))} is not a finite number")
    if not all(each in (False, True) for each in given.tolist()):
        raise ValueError("correct holds something other than True and False; leave out the unknown")
    return sure, given.astype(np.float64)


def _bins(sure: Floats, right: Floats, lows: Floats, highs: Floats) -> list[Bin]:
    place = np.searchsorted(lows, sure, side="right") - 1
    counts = np.bincount(place, minlength=len(lows))
    sums = [np.bincount(place, weights=each, minlength=len(lows)) for each in (sure, right)]
    return [
        Bin(float(low), float(high), int(count), float(total / count), float(hits / count))
        for low, high, count, total, hits in zip(lows, highs, counts, *sums, strict=True)
        if count
    ]
