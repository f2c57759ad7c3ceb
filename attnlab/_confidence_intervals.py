"""Measured numbers with their intervals (95%), and numbers as people read them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

LEAST = 1e-16  # no error at all counts as this much where logarithms are taken


@dataclass(frozen=True)
class Estimate:
    """A measured number; with low and high where it has an interval (95%)."""

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
            return number(self.value)
        return f"{number(self.value)} ({number(self.low)} to {number(self.high)})"


def number(value: float | None, percent: bool = False) -> str:
    """Four digits, or tenths of a percent; a dash for what is not known."""
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


def percent(share: float | None) -> str:
    """Whole percents for prose, but 0% and 100% only for none and all."""
    rounded = "–" if share is None else f"{100 * share:.0f}%"
    return number(share, percent=True) if rounded in ("0%", "100%") else rounded


def over(values: Sequence[float]) -> Estimate:
    """The mean of independent repeats and its 95% interval by Student's t."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(mean)
    half = student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def geometric(values: Sequence[float]) -> Estimate:
    """The geometric mean of repeats above 0 and its interval: of errors and ratios, whose spread
    is a factor, and of which one wild repeat must not decide. Not finite where one is not."""
    if not all(map(math.isfinite, values)):
        return Estimate(math.inf)
    logs = over([math.log(max(value, LEAST)) for value in values])
    if logs.low is None or logs.high is None:
        return Estimate(math.exp(logs.value))
    low, high = (math.exp(min(700.0, end)) for end in (logs.low, logs.high))
    return Estimate(math.exp(logs.value), low, high)


def share(hits: int, of: int) -> Estimate:
    """A share and its 95% interval after Wilson."""
    return Estimate(hits / of, *wilson(hits, of))


def wilson(right: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a share; nothing is known of 0 of 0, which gives (0, 1)."""
    if not 0 <= right <= total:
        raise ValueError(f"{right} right of {total} is no share")
    if not 0 < level < 1:
        raise ValueError(f"a level of {level} is none; give one between 0 and 1, such as 0.95")
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, grown = right / total, 1 + z * z / total
    center = (share + z * z / (2 * total)) / grown
    reach = z / grown * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    low = 0.0 if right == 0 else max(0.0, center - reach)  # exactly, whatever rounding does
    return low, 1.0 if right == total else min(1.0, center + reach)


def exponent(points: Sequence[tuple[float, float]]) -> Estimate:
    """The slope of log y against log x by least squares, and its 95% interval."""
    x = [math.log(at) for at, _ in points]
    y = [math.log(value) for _, value in points]
    slope, start = statistics.linear_regression(x, y)
    if len(points) < 3:
        return Estimate(slope)
    left = sum((b - start - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    spread = sum((a - statistics.fmean(x)) ** 2 for a in x)
    half = student(len(points) - 2) * math.sqrt(left / (len(points) - 2) / spread)
    return Estimate(slope, slope - half, slope + half)


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
