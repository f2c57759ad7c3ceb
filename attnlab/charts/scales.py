"""What stands beside a drawing: safe text, and axes with round ticks."""

from __future__ import annotations

import html
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnlab.intervals import number

LETTER = 7.6  # units, of text 13 high in a wide typeface
HUGE, TINY = 1e300, 1e-300  # what lies beyond is drawn there, so that no difference overflows


def clean(text: str) -> str:
    """What would break a line, turn its direction or hide in it becomes a visible mark."""
    joiners = "\u200c\u200d"  # Persian, Hindi and emoji are not written without
    return "".join(
        c if c.isprintable() or c in joiners else " " if c.isspace() else "\ufffd" for c in text
    )


def escape(text: str) -> str:
    """Text for an element or a quoted attribute, of HTML and of XML."""
    return html.escape(clean(text))


def width_of(text: str) -> float:
    """About how many units a text is wide."""
    return sum(13.0 if unicodedata.east_asian_width(c) in "WF" else LETTER for c in clean(text))


def fitted(text: str, room: float) -> str:
    """As much of a text as there is room for; the table and the tooltip hold it whole."""
    if width_of(text) <= room:
        return text
    while text and width_of(text) > room - LETTER:
        text = text[:-1]
    return text.rstrip() + "…"


# Axes


@dataclass(frozen=True)
class Axis:
    """Where a value lies in the drawing; values beyond the ends lie at the ends."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high)

    def texts(self, percent: bool = False) -> list[str]:
        """Of the ticks; those of a logarithmic axis are round each by itself."""
        values = self.ticks()
        short = [number(value, percent) for value in values]
        alike = len(set(short)) < len(short)
        return short if self.log and not alike else tick_texts(values, percent)


def extent(values: Iterable[float], log: bool = False) -> tuple[float, float]:
    """The ends of an axis that shows all values; where they hardly differ it is made wider."""
    bounded = [min(max(value, TINY if log else -HUGE), HUGE) for value in values]
    low, high = min(bounded, default=1.0 if log else 0.0), max(bounded, default=1.0)
    scale = max(abs(low), abs(high))
    if high - low > 1e-9 * scale and scale > TINY:
        return low, high
    if log:
        return max(low / 3, TINY / 10), high * 3
    return (low - scale / 10, high + scale / 10) if scale > TINY else (-1.0, 1.0)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round values between two others, about as many as asked for."""
    rough = high / count - low / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10, 20) if each * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
    return list(dict.fromkeys(i * step for i in range(first, last + 1)))


def log_ticks(low: float, high: float) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first >= 1:
        return [10.0**i for i in range(first, last + 1, (last - first) // 6 + 1)]
    some = [each * 10.0**i for i in range(first - 1, last + 1) for each in (1, 2, 5)]
    some = [each for each in some if low <= each <= high]
    return some if len(some) > 1 else ticks(low, high, 3)


def tick_texts(values: Sequence[float], percent: bool = False) -> list[str]:
    """All with the same number of decimals: as few as tell neighbours apart."""
    scaled = [100 * value if percent else value for value in values]
    if len(values) < 2:
        return [number(value, percent) for value in values]
    plain = 1e-3 <= max(map(abs, scaled)) < 1e6
    near = min(b - a for a, b in itertools.pairwise(scaled)) / 9
    for decimals in range(16):
        texts = [f"{value:,.{decimals}{'f' if plain else 'e'}}" for value in scaled]
        told = (float(text.replace(",", "")) for text in texts)
        if all(abs(one - other) < near for one, other in zip(told, scaled, strict=True)):
            break
    texts = [re.sub(r"e\+?(-?)0*(\d)", r"e\1\2", text).replace("-", "−") for text in texts]
    return [f"{text}%" if percent else text for text in texts]
