"""Numbers in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby


def joined(words: Sequence[str], last: str = "and") -> str:
    """a, b and c"""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def ranges(places: Sequence[float], held: Sequence[bool]) -> str:
    """Where something held: "1 to 3 and 8"; empty if nowhere."""
    runs = []
    for holds, group in groupby(zip(places, held, strict=True), key=lambda each: each[1]):
        ends = [place for place, _ in group]
        if holds:
            few = f"{ends[0]:g}" if len(ends) == 1 else f"{ends[0]:g} to {ends[-1]:g}"
            runs.append(few)
    return joined(runs)
