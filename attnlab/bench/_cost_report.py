"""What `bench speed` and `bench memory` found: curves, exponents, and where exact attention loses.

Both are costs of a way to attend (who, causal or not, with backward or not) by length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from attnlab._confidence_intervals import Estimate, exponent
from attnlab._number_words import joined
from attnlab.bench._attention_pass import Way
from attnlab.bench._measure_costs import crossing
from attnlab.bench._settings import CostSettings
from attnlab.bench._speed_bench import Costs
from attnlab.report._content import Block, Cell, Figure, Lines, Section, Series, Table, Value

EXACT = "softmax"
LEAST = 3  # points that an exponent is fitted to, where there are as many
LINEAR = 1.3  # an exponent up to which a cost counts as linear


@dataclass(frozen=True)
class Kind:
    """How one kind of cost is shown."""

    name: str
    title: str
    unit: str
    scale: float
    faster: str
    """What a smaller cost is called: faster."""
    smallest: float = 0.0
    """What lies below cannot be told from nothing, and no exponent is fitted to it."""


SPEED = Kind("speed", "Time by length", "milliseconds", 1e3, "faster")
MEMORY = Kind("memory", "Peak memory by length", "MB", 1e-6, "smaller", 5e5)


@dataclass(frozen=True)
class Crossover:
    """From how many tokens on a way costs less than exact attention."""

    tokens: float
    sure: bool
    """Seen between two lengths that were measured, not beyond the longest."""

    def __str__(self) -> str:
        if self.tokens == 0:
            return "all"
        if math.isnan(self.tokens):
            return "alike"
        if math.isinf(self.tokens) or self.tokens > 1e7:
            return "never"
        rounded = round(self.tokens, -max(0, math.floor(math.log10(self.tokens)) - 1))
        return f"{rounded:,.0f}" if self.sure else f"({rounded:,.0f})"


def fitted(points: dict[int, Estimate], smallest: float = 0.0) -> Estimate | None:
    """The exponent in the length; None where too little was measured."""
    some = [(float(at), each.value) for at, each in points.items() if each.value > smallest]
    return exponent(some) if len(some) >= min(LEAST, max(2, len(points))) else None


def crossover(own: dict[int, Estimate], exact: dict[int, Estimate]) -> Crossover:
    """Between the lengths where the order changes for good, both costs as powers of the length."""
    both = [(n, own[n].value / exact[n].value) for n in own if n in exact and exact[n].value > 0]
    if not both:
        return Crossover(math.inf, False)
    last = both[-1][0]
    if both[-1][1] < 1 and own[last].ends[1] >= exact[last].ends[0]:
        return Crossover(math.nan, False)  # some rounds were faster, some slower
    if all(ratio < 1 for _, ratio in both):
        return Crossover(0, True)
    if both[-1][1] < 1:
        before, after = next(
            (one, other) for one, other in reversed(list(pairwise(both))) if one[1] >= 1
        )
        share = math.log(before[1]) / (math.log(before[1]) - math.log(after[1]))
        return Crossover(before[0] * (after[0] / before[0]) ** share, True)
    lines = [
        [(float(n), points[n].value) for n, _ in both[-3:] if points[n].value > 0]
        for points in (own, exact)
    ]
    if min(map(len, lines)) < 2 or both[-1][1] >= both[0][1]:
        return Crossover(math.inf, False)
    meets = crossing(*lines)
    return Crossover(meets if meets > last else math.inf, False)


def cost_section(found: Costs, kind: Kind, settings: CostSettings) -> Section:
    panels = [
        (causal, backward)
        for causal in (True, False)
        for backward in (False, True)
        if any(way[1:] == (causal, backward) for way in found.values)
    ]
    blocks: list[Block] = [_figure(found, kind, settings, *panel) for panel in panels]
    blocks += [_table(found, kind, settings, *panel) for panel in panels]
    return Section(
        kind.name,
        kind.title,
        findings=_findings(found, kind, panels),
        advice=_advice(found, kind, panels),
        blocks=blocks,
        settings={**_asked(kind, settings), **_peak(found), "clock": _clock(kind, settings)},
        measurements=_rows(found, kind),
    )


def _asked(kind: Kind, settings: CostSettings) -> dict[str, Any]:
    """Memory is the same in every round."""
    without = () if kind is SPEED else ("rounds",)
    return {name: value for name, value in asdict(settings).items() if name not in without}


def _peak(found: Costs) -> dict[str, Value]:
    return {"matmul peak, GFLOP/s": round(found.peak / 1e9, 1)} if found.peak else {}


def _clock(kind: Kind, settings: CostSettings) -> str:
    if kind is MEMORY:
        return "peak resident memory beyond the inputs, in a process of its own"
    return "CPU time of one thread" if settings.threads == 1 else "wall clock"


def _rows(found: Costs, kind: Kind) -> list[dict[str, Value]]:
    unit = "seconds" if kind is SPEED else "bytes"
    return [
        {
            "mechanism": name,
            "causal": causal,
            "backward": backward,
            "tokens": tokens,
            unit: figure.value,
            "least": figure.low,
            "most": figure.high,
            "flops": None if backward else found.flops.get((name, causal, tokens)),
        }
        for (name, causal, backward), points in found.values.items()
        for tokens, figure in points.items()
    ]


def panel_name(causal: bool, backward: bool) -> str:
    passes = "forward + backward" if backward else "forward"
    return f"{'causal' if causal else 'not causal'}, {passes}"


def ways_of(found: Costs, causal: bool, backward: bool) -> list[Way]:
    return [way for way in found.values if way[1:] == (causal, backward)]


# Words


def _findings(found: Costs, kind: Kind, panels: list[tuple[bool, bool]]) -> list[str]:
    """Of the first panel who is ahead (the tables say it of all); and how costs grow."""
    sentences = _against_exact(found, kind, *panels[0])
    slopes: dict[str, list[float]] = {}
    for way, points in found.values.items():
        slope = fitted(points, kind.smallest)
        if slope is not None:
            slopes.setdefault(way[0], []).append(slope.value)
    straight = [name for name, each in slopes.items() if max(each) <= LINEAR]
    bent = [name for name in slopes if name not in straight]
    if straight:
        sentences.append(f"Grows about linearly with the number of tokens: {joined(straight)}.")
    if bent:
        sentences.append(f"Grows faster than that, in one form at least: {joined(bent)}.")
    return sentences


def _against_exact(found: Costs, kind: Kind, causal: bool, backward: bool) -> list[str]:
    """At the longest length that exact attention was measured at; only what is clear of noise."""
    exact = found.values.get((EXACT, causal, backward))
    others = [way for way in ways_of(found, causal, backward) if way[0] != EXACT]
    if exact is None or not others:
        return []
    last = max(exact)
    costs = {
        way[0]: found.values[way][last]
        for way in others
        if last in found.values[way] and found.values[way][last].value > 0
    }
    title = f"{panel_name(causal, backward).capitalize()}, {last:,} tokens"
    gains = sorted(
        ((exact[last].value / each.value, name) for name, each in costs.items()), reverse=True
    )
    ahead = [
        f"{name} {gain:.2g} times"
        for gain, name in gains
        if costs[name].ends[1] < exact[last].ends[0]
    ]
    if ahead:
        return [f"{title}: {kind.faster} than softmax are {joined(ahead)}."]
    nearest = [f"{name} ({1 / gain:.2g} times)" for gain, name in gains[:3] if gain > 0]
    return [f"{title}: nothing is {kind.faster} than softmax; nearest are {joined(nearest)}."]


def _advice(found: Costs, kind: Kind, panels: list[tuple[bool, bool]]) -> list[str]:
    if kind is not SPEED:
        return []
    sentences = []
    for panel in panels:
        exact = found.values.get((EXACT, *panel))
        if exact is None:
            continue
        since = beaten_by(
            {other[0]: found.values[other] for other in ways_of(found, *panel)},
            exact, "from {} tokens on", f"at all lengths from {min(exact):,} on",
        )  # fmt: skip
        title = f"{panel_name(*panel).capitalize()}, this machine"
        sentences.append(
            f"{title}: softmax is beaten by {joined(since)}."
            if since
            else f"{title}: up to {max(exact):,} tokens exact softmax is fastest; use it."
        )
    return sentences


def beaten_by(
    costs: Mapping[str, dict[int, Estimate]], exact: dict[int, Estimate], where: str, always: str
) -> list[str]:
    """Who costs surely less than exact attention, and from where on."""
    meets = sorted(
        (each.tokens, str(each), name)
        for name, points in costs.items()
        for each in [crossover(points, exact)]
        if name != EXACT and each.sure
    )
    return [f"{name} {where.format(text) if tokens else always}" for tokens, text, name in meets]


# Figures and tables


def line_of(name: str, points: Mapping[int, Estimate], scale: float) -> Series:
    """With a band where there are intervals; what is not above 0 has no place on such an axis."""
    some = [(float(at), each) for at, each in points.items() if each.value > 0]
    bands = [(scale * each.ends[0], scale * each.ends[1]) for _, each in some]
    measured = bool(some) and some[0][1].low is not None
    return Series(name, [(at, scale * each.value) for at, each in some], bands if measured else ())


def _figure(
    found: Costs, kind: Kind, settings: CostSettings, causal: bool, backward: bool
) -> Figure:
    lines = [
        line_of(way[0], found.values[way], kind.scale) for way in ways_of(found, causal, backward)
    ]
    heads = f"{settings.heads} heads of {settings.head_dim}"
    return Figure(
        f"{kind.title}: {panel_name(causal, backward)}",
        Lines("tokens", f"{kind.unit}, {heads}", lines, x_log=True, y_log=True),
        "Medians; bands from the fastest to the slowest round." if kind is SPEED else "",
        in_table=True,
    )


def _table(found: Costs, kind: Kind, settings: CostSettings, causal: bool, backward: bool) -> Table:
    exact = found.values.get((EXACT, causal, backward))
    lengths = settings.lengths
    peak = kind is SPEED and not backward
    header = ["mechanism", *(f"{n:,}" for n in lengths), "exponent", f"{kind.faster} from"]
    rows: list[list[Cell]] = []
    for way in ways_of(found, causal, backward):
        points = found.values[way]
        own = way[0] == EXACT or exact is None
        row: list[Cell] = [way[0]]
        row += [kind.scale * points[n].value if n in points else None for n in lengths]
        row += [fitted(points, kind.smallest)]
        row += ["" if own or exact is None else str(crossover(points, exact))]
        row += [_share(found, way, points)] if peak else []
        rows.append(row)
    lost = left_out(
        {way[0]: reason for way, reason in found.left_out.items() if way[1:] == (causal, backward)}
    )
    return Table(
        f"{panel_name(causal, backward).capitalize()}: {kind.unit} by tokens",
        [*header, *(["of peak"] if peak else [])],
        rows,
        ". ".join(_notes(kind, peak, found.peak) + lost),
    )


def left_out(reasons: Mapping[str, str]) -> list[str]:
    """Names by the reason that they share."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [f"Left out {reason}: {joined(each)}" for reason, each in names.items()]


def _share(found: Costs, way: Way, points: dict[int, Estimate]) -> str | None:
    last = max(points)
    flops = found.flops.get((way[0], way[1], last))
    return None if flops is None else f"{flops / points[last].value / found.peak:.0%}"


def _notes(kind: Kind, with_peak: bool, peak: float) -> list[str]:
    notes = [
        f"{kind.faster} from: tokens from which it is {kind.faster} than exact softmax, in "
        "brackets where that is foretold from shorter ones, all: at every length measured",
        "exponent: of the cost in the number of tokens, with its 95% interval",
    ]
    if with_peak:
        notes.append(
            "of peak: arithmetic of the two products at the longest length, over the "
            f"{peak / 1e9:,.0f} GFLOP/s that a product of large matrices reaches; feature maps are "
            "not counted"
        )
    return notes
