"""How well confidence predicts correctness: exact versions of the usual measures."""

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
    confidence: float  # mean
    accuracy: float


@dataclass(frozen=True)
class CoveragePoint:
    """Coverage and precision when only answers of confidence `threshold` or more are given."""

    threshold: float
    coverage: float
    precision: float


def reliability_bins(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> list[Bin]:
    """Bins of equal width from 0 to 1 (1 is in the last bin), without the empty ones."""
    scores, right = _checked(confidence, correct)
    if scores.min() < 0 or scores.max() > 1:
        raise ValueError(
            f"confidences go from {scores.min():g} to {scores.max():g}; give numbers from 0 to 1"
        )
    if bins < 1:
        raise ValueError(f"bins is {bins}; give 1 or more")
    edges = np.arange(bins + 1) / bins
    return _bins(scores, right, edges[:-1], edges[1:])


def expected_calibration_error(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> float:
    """The mean distance of confidence and accuracy over the bins, weighted by their answers."""
    rows = reliability_bins(confidence, correct, bins)
    total = sum(row.count for row in rows)
    return sum(row.count / total * abs(row.accuracy - row.confidence) for row in rows)


def roc_area(confidence: ArrayLike, correct: ArrayLike) -> float | None:
    """How often a right answer has a higher confidence than a wrong one; a tie counts half.

    None if all answers are right or all are wrong, because there is no pair to compare.
    """
    scores, right = _checked(confidence, correct)
    _, index = np.unique(scores, return_inverse=True)
    rights = np.bincount(index, weights=right)
    wrongs = np.bincount(index) - rights
    pairs = rights.sum() * wrongs.sum()
    below = np.cumsum(wrongs) - wrongs
    return float((rights * (below + wrongs / 2)).sum() / pairs) if pairs else None


def risk_coverage(confidence: ArrayLike, correct: ArrayLike) -> list[CoveragePoint]:
    """One point for each distinct confidence, from the fewest answers to all of them.

    A threshold includes all answers of equal confidence or none of them.
    """
    scores, right = _checked(confidence, correct)
    values, index = np.unique(-scores, return_inverse=True)
    counts = np.cumsum(np.bincount(index))
    rights = np.cumsum(np.bincount(index, weights=right))
    return [
        CoveragePoint(float(-value), float(count / len(scores)), float(hits / count))
        for value, count, hits in zip(values, counts, rights, strict=True)
    ]


def threshold_for(
    precision: float, confidence: ArrayLike, correct: ArrayLike
) -> CoveragePoint | None:
    """The lowest threshold at which at least this fraction of the answers is right.

    Precision need not grow with the threshold, so a higher one may reach less. Answers of equal
    confidence stay together, as in `risk_coverage`. None if no threshold reaches the precision.
    Choose the threshold on some answers and report it on others: on the same answers it is too
    optimistic.
    """
    if not 0 < precision <= 1:
        raise ValueError(f"precision is {precision}; give a number above 0 and at most 1")
    points = risk_coverage(confidence, correct)
    return next((point for point in reversed(points) if point.precision >= precision), None)


def _checked(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Floats]:
    scores, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct)
    if scores.ndim != 1 or scores.shape != right.shape:
        raise ValueError(
            f"confidence has shape {scores.shape} and correct {right.shape}; "
            "give two lists of equal length"
        )
    if not len(scores):
        raise ValueError("no answers to measure; give at least one")
    if not np.isfinite(scores).all():
        raise ValueError(f"confidence {int(np.argmin(np.isfinite(scores)))} is not a finite number")
    if not all(value in (False, True) for value in right.tolist()):
        raise ValueError(
            "correct holds values other than True and False; leave out unjudged answers"
        )
    return scores, right.astype(np.float64)


def _bins(scores: Floats, right: Floats, lows: Floats, highs: Floats) -> list[Bin]:
    index = np.searchsorted(lows, scores, side="right") - 1
    counts = np.bincount(index, minlength=len(lows))
    sums = [np.bincount(index, weights=x, minlength=len(lows)) for x in (scores, right)]
    return [
        Bin(float(low), float(high), int(count), float(total / count), float(hits / count))
        for low, high, count, total, hits in zip(lows, highs, counts, *sums, strict=True)
        if count
    ]
