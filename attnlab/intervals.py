"""Intervals of what was measured a few times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95% interval of the mean of two or more independent repeats, by Student's t."""
    mean = statistics.fmean(values)
    half = student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


def student(freedom: int) -> float:
    """The 97.5% quantile of Student's t: a table, then the Cornish-Fisher expansion."""
    exact = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 6: 2.4469, 7: 2.3646}
    if freedom in exact:
        return exact[freedom]
    z = 1.959964
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + g1 / freedom + g2 / freedom**2 + g3 / freedom**3
