"""Lists and ranges as people write them: "a, b and c", "1 to 3 and 8"."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby


def join_words(words: Sequence[str], last: str = "and") -> str:
    """a, b and c"""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def format_ranges(values: Sequence[float], flags: Sequence[bool]) -> str:
    """The values whose flag is True, neighbors as a range: "1 to 3 and 8"; empty if none is."""
    ranges = []
    for flag, group in groupby(zip(values, flags, strict=True), key=lambda pair: pair[1]):
        run = [value for value, _ in group]
        if flag:
            ranges.append(f"{run[0]:g}" if len(run) == 1 else f"{run[0]:g} to {run[-1]:g}")
    return join_words(ranges)
