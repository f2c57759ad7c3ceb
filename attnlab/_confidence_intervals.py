"""Estimates with 95% confidence intervals, and numbers formatted for people."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

SMALLEST = 1e-16  # an error of 0 counts as this much, because its logarithm must be finite

LARGEST = 1e300


@dataclass(frozen=True)
class Estimate:
    """A measured number, with the ends of its 95% interval where it has one."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        return (
            self.value if self.low is None else self.low,
            self.value if self.high is None else self.high,
        )

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return format_number(self.value)
        return (
            f"{format_number(self.value)} ({format_number(self.low)} to {format_number(self.high)})"
        )


def format_number(value: float | None, percent: bool = False) -> str:
    """Four digits, or tenths of a percent; a dash for None and NaN."""
    if isinstance(value, int) and abs(value) > LARGEST:  # an int may exceed every float
        value = math.inf if value > 0 else -math.inf
    if value is None or not math.isfinite(value):
        return "–" if value is None or math.isnan(value) else "∞" if value > 0 else "−∞"
    if percent:
        return f"{100 * value:.1f}".removesuffix(".0").replace("-", "−") + "%"
    if isinstance(value, int) or value == 0:
        return f"{int(value):,}".replace("-", "−")
    if 1e-3 <= abs(value) < 1e6:
        mantissa = f"{value:,.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"
        exponent = ""
    else:
        mantissa, exponent = f"{value:.3e}".split("e")
        exponent = f"e{int(exponent)}"
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return (mantissa + exponent).replace("-", "−")


def format_percent(fraction: float | None) -> str:
    """Whole percents for prose, but 0% and 100% only for none and all."""
    rounded = "–" if fraction is None else f"{100 * fraction:.0f}%"
    return format_number(fraction, percent=True) if rounded in ("0%", "100%") else rounded


def mean_interval(values: Sequence[float]) -> Estimate:
    """The mean of independent repeats and its 95% interval by Student's t.

    >>> from attnlab.claims import mean_interval
    >>> mean = mean_interval([1.0, 2.0, 3.0])
    >>> mean.value, mean.low < 0 < mean.high
    (2.0, True)
    """
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(mean)
    half = student_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def geometric_mean_interval(values: Sequence[float]) -> Estimate:
    """The geometric mean of positive repeats and its 95% interval.

    Use it for errors and ratios: their spread is a factor, and one outlier must not decide the
    mean. Infinite if one of the values is not finite.
    """
    if not all(map(math.isfinite, values)):
        return Estimate(math.inf)
    logs = mean_interval([math.log(max(value, SMALLEST)) for value in values])
    if logs.low is None or logs.high is None:
        return Estimate(math.exp(logs.value))
    low, high = (math.exp(min(700.0, end)) for end in (logs.low, logs.high))
    return Estimate(math.exp(logs.value), low, high)


def fraction_interval(hits: int, total: int) -> Estimate:
    """A fraction and its 95% Wilson interval.

    >>> from attnlab.claims import fraction_interval
    >>> half = fraction_interval(50, 100)
    >>> half.value, round(half.low, 2), round(half.high, 2)
    (0.5, 0.4, 0.6)
    """
    return Estimate(hits / total, *wilson_interval(hits, total))


def wilson_interval(right: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a fraction; 0 of 0 gives (0, 1)."""
    if not 0 <= right <= total:
        raise ValueError(f"{right} of {total} is not a fraction; give a count from 0 to {total}")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; give a number between 0 and 1, such as 0.95")
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    p, divisor = right / total, 1 + z * z / total
    center = (p + z * z / (2 * total)) / divisor
    half = z / divisor * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    low = 0.0 if right == 0 else max(0.0, center - half)  # exactly 0, whatever rounding does
    return low, 1.0 if right == total else min(1.0, center + half)


def log_log_slope(points: Sequence[tuple[float, float]]) -> Estimate:
    """The slope of log y against log x by least squares, and its 95% interval.

    >>> from attnlab.claims import log_log_slope
    >>> round(log_log_slope([(1, 1), (2, 4), (4, 16), (8, 64)]).value, 3)
    2.0
    """
    x = [math.log(size) for size, _ in points]
    y = [math.log(value) for _, value in points]
    slope, intercept = statistics.linear_regression(x, y)
    if len(points) < 3:
        return Estimate(slope)
    residual = sum((b - intercept - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    spread = sum((a - statistics.fmean(x)) ** 2 for a in x)
    half = student_quantile(len(points) - 2) * math.sqrt(residual / (len(points) - 2) / spread)
    return Estimate(slope, slope - half, slope + half)


def student_quantile(degrees: int) -> float:
    """The 97.5% quantile of Student's t: a table, then the Cornish-Fisher expansion.

    >>> from attnlab.claims import student_quantile
    >>> round(student_quantile(10), 2)
    2.23
    """
    exact = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 6: 2.4469, 7: 2.3646}
    if degrees in exact:
        return exact[degrees]
    z = 1.959964
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + g1 / degrees + g2 / degrees**2 + g3 / degrees**3
