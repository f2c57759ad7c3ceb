"""Reports of `bench speed` and `bench memory`: curves, exponents, and where exact attention loses.

Both are costs by length of a contender, causal or not, with backward or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from attnlab._confidence_intervals import Estimate, log_log_slope
from attnlab._join_words import join_words
from attnlab.bench._attention_pass import PassKey
from attnlab.bench._measure_costs import crossing
from attnlab.bench._settings import CostSettings
from attnlab.bench._speed_bench import Costs
from attnlab.report._content import Block, Cell, Figure, Lines, Section, Series, Table, Value

EXACT = "softmax"
MIN_POINTS = 3  # for the fit of an exponent, if that many were measured
LINEAR = 1.3  # a cost with at most this exponent counts as linear
MAX_EXTRAPOLATION = 4  # times the longest measured length; nothing is foretold beyond it


@dataclass(frozen=True)
class CostKind:
    """How the report shows one kind of cost."""

    name: str
    title: str
    unit: str
    scale: float
    faster: str
    """The word for a smaller cost."""
    smallest: float = 0.0
    """Smaller costs are below the resolution, and no exponent is fitted to them."""


SPEED = CostKind("speed", "Time by length", "milliseconds", 1e3, "faster")
MEMORY = CostKind("memory", "Peak memory by length", "MB", 1e-6, "smaller", 5e5)


@dataclass(frozen=True)
class CostCrossover:
    """From how many tokens on a contender costs less than exact attention."""

    tokens: float
    measured: bool
    """It lies between two measured lengths, not beyond the longest one."""
    limit: float = math.inf
    """The longest length to which the curves may be extrapolated."""

    def __str__(self) -> str:
        if self.tokens == 0:
            return "all"
        if math.isnan(self.tokens):
            return "alike"
        if math.isinf(self.tokens):
            return "never"
        if not self.measured and self.tokens > self.limit:
            return f"> {self.limit:,.0f}"
        rounded = round(self.tokens, -max(0, math.floor(math.log10(self.tokens)) - 1))
        return f"{rounded:,.0f}" if self.measured else f"({rounded:,.0f})"


def fit_exponent(points: dict[int, Estimate], smallest: float = 0.0) -> Estimate | None:
    """The exponent of the cost in the length; None if too few points were measured."""
    above = [(float(at), cost.value) for at, cost in points.items() if cost.value > smallest]
    return log_log_slope(above) if len(above) >= min(MIN_POINTS, max(2, len(points))) else None


def cost_crossover(own: dict[int, Estimate], exact: dict[int, Estimate]) -> CostCrossover:
    """Where the order changes for the last time, by interpolation between two lengths on
    logarithmic axes. Beyond the longest length both curves are extrapolated."""
    ratios = [(n, own[n].value / exact[n].value) for n in own if n in exact and exact[n].value > 0]
    if not ratios:
        return CostCrossover(math.inf, False)
    last = ratios[-1][0]
    if ratios[-1][1] < 1 and own[last].ends[1] >= exact[last].ends[0]:
        return CostCrossover(math.nan, False)  # some rounds were faster, some slower
    if all(ratio < 1 for _, ratio in ratios):
        return CostCrossover(0, True)
    if ratios[-1][1] < 1:
        before, after = next(
            (first, second) for first, second in reversed(list(pairwise(ratios))) if first[1] >= 1
        )
        fraction = math.log(before[1]) / (math.log(before[1]) - math.log(after[1]))
        return CostCrossover(before[0] * (after[0] / before[0]) ** fraction, True)
    lines = [
        [(float(n), points[n].value) for n, _ in ratios[-3:] if points[n].value > 0]
        for points in (own, exact)
    ]
    if min(map(len, lines)) < 2 or ratios[-1][1] >= ratios[0][1]:
        return CostCrossover(math.inf, False)
    tokens = crossing(*lines)
    limit = MAX_EXTRAPOLATION * last
    return CostCrossover(tokens if tokens > last else math.inf, False, limit)


def cost_section(costs: Costs, kind: CostKind, settings: CostSettings) -> Section:
    panels = [
        (causal, backward)
        for causal in (True, False)
        for backward in (False, True)
        if any(key[1:] == (causal, backward) for key in costs.values)
    ]
    blocks: list[Block] = [_figure(costs, kind, settings, *panel) for panel in panels]
    blocks += [_table(costs, kind, settings, *panel) for panel in panels]
    return Section(
        kind.name,
        kind.title,
        findings=_findings(costs, kind, panels),
        advice=_advice(costs, kind, panels),
        blocks=blocks,
        settings={
            **_used_settings(kind, settings),
            **_peak(costs),
            "clock": _clock(kind, settings),
        },
        measurements=_rows(costs, kind),
    )


def _used_settings(kind: CostKind, settings: CostSettings) -> dict[str, Any]:
    """Memory has no rounds: it is the same in each."""
    unused = () if kind is SPEED else ("rounds",)
    return {name: value for name, value in asdict(settings).items() if name not in unused}


def _peak(costs: Costs) -> dict[str, Value]:
    return {"matmul peak, GFLOP/s": round(costs.peak / 1e9, 1)} if costs.peak else {}


def _clock(kind: CostKind, settings: CostSettings) -> str:
    if kind is MEMORY:
        return "peak resident memory beyond the inputs, in a process of its own"
    return "CPU time of one thread" if settings.threads == 1 else "wall clock"


def _rows(costs: Costs, kind: CostKind) -> list[dict[str, Value]]:
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
            "flops": None if backward else costs.flops.get((name, causal, tokens)),
        }
        for (name, causal, backward), points in costs.values.items()
        for tokens, figure in points.items()
    ]


def panel_name(causal: bool, backward: bool) -> str:
    passes = "forward + backward" if backward else "forward"
    return f"{'causal' if causal else 'not causal'}, {passes}"


def panel_keys(costs: Costs, causal: bool, backward: bool) -> list[PassKey]:
    return [key for key in costs.values if key[1:] == (causal, backward)]


# Sentences


def _findings(costs: Costs, kind: CostKind, panels: list[tuple[bool, bool]]) -> list[str]:
    """Which contenders beat softmax in the first panel, and how costs grow."""
    sentences = _against_exact(costs, kind, *panels[0])
    slopes: dict[str, list[float]] = {}
    for key, points in costs.values.items():
        slope = fit_exponent(points, kind.smallest)
        if slope is not None:
            slopes.setdefault(key[0], []).append(slope.value)
    linear = [name for name, values in slopes.items() if max(values) <= LINEAR]
    steeper = [name for name in slopes if name not in linear]
    if linear:
        sentences.append(f"Grows about linearly with the number of tokens: {join_words(linear)}.")
    if steeper:
        sentences.append(f"Grows faster, in at least one form: {join_words(steeper)}.")
    return sentences


def _against_exact(costs: Costs, kind: CostKind, causal: bool, backward: bool) -> list[str]:
    """At the longest length of exact attention; only differences that exceed the noise count."""
    exact = costs.values.get((EXACT, causal, backward))
    others = [key for key in panel_keys(costs, causal, backward) if key[0] != EXACT]
    if exact is None or not others:
        return []
    last = max(exact)
    others_costs = {
        key[0]: costs.values[key][last]
        for key in others
        if last in costs.values[key] and costs.values[key][last].value > 0
    }
    title = f"{panel_name(causal, backward).capitalize()}, {last:,} tokens"
    gains = sorted(
        ((exact[last].value / cost.value, name) for name, cost in others_costs.items()),
        reverse=True,
    )
    ahead = [
        f"{name} {gain:.2g} times"
        for gain, name in gains
        if others_costs[name].ends[1] < exact[last].ends[0]
    ]
    if ahead:
        return [f"{title}: {kind.faster} than softmax are {join_words(ahead)}."]
    nearest = [f"{name} ({1 / gain:.2g} times)" for gain, name in gains[:3] if gain > 0]
    return [f"{title}: nothing is {kind.faster} than softmax; nearest are {join_words(nearest)}."]


def _advice(costs: Costs, kind: CostKind, panels: list[tuple[bool, bool]]) -> list[str]:
    if kind is not SPEED:
        return []
    sentences = []
    for panel in panels:
        exact = costs.values.get((EXACT, *panel))
        if exact is None:
            continue
        faster = describe_faster(
            {key[0]: costs.values[key] for key in panel_keys(costs, *panel)},
            exact, "from {} tokens on", f"at all lengths from {min(exact):,} on",
        )  # fmt: skip
        title = f"{panel_name(*panel).capitalize()}, this machine"
        sentences.append(
            f"{title}: softmax is beaten by {join_words(faster)}."
            if faster
            else f"{title}: up to {max(exact):,} tokens exact softmax is fastest; use it."
        )
    return sentences


def describe_faster(
    costs: Mapping[str, dict[int, Estimate]], exact: dict[int, Estimate], where: str, always: str
) -> list[str]:
    """The contenders that measurably cost less than exact attention, and from which length on."""
    crossovers = sorted(
        (crossover.tokens, str(crossover), name)
        for name, points in costs.items()
        for crossover in [cost_crossover(points, exact)]
        if name != EXACT and crossover.measured
    )
    return [
        f"{name} {where.format(text) if tokens else always}" for tokens, text, name in crossovers
    ]


# Figures and tables


def cost_series(name: str, points: Mapping[int, Estimate], scale: float) -> Series:
    """One line, with a band if there are intervals. Logarithmic axes cannot show costs of 0."""
    positive = [(float(at), cost) for at, cost in points.items() if cost.value > 0]
    band = [(scale * cost.ends[0], scale * cost.ends[1]) for _, cost in positive]
    has_band = bool(positive) and positive[0][1].low is not None
    return Series(
        name, [(at, scale * cost.value) for at, cost in positive], band if has_band else ()
    )


def _figure(
    costs: Costs, kind: CostKind, settings: CostSettings, causal: bool, backward: bool
) -> Figure:
    lines = [
        cost_series(key[0], costs.values[key], kind.scale)
        for key in panel_keys(costs, causal, backward)
    ]
    heads = f"{settings.heads} heads of {settings.head_dim}"
    return Figure(
        f"{kind.title}: {panel_name(causal, backward)}",
        Lines("tokens", f"{kind.unit}, {heads}", lines, x_log=True, y_log=True),
        "Medians; bands from the fastest to the slowest round." if kind is SPEED else "",
        in_table=True,
    )


def _table(
    costs: Costs, kind: CostKind, settings: CostSettings, causal: bool, backward: bool
) -> Table:
    exact = costs.values.get((EXACT, causal, backward))
    lengths = settings.lengths
    with_peak = kind is SPEED and not backward
    header = ["mechanism", *(f"{n:,}" for n in lengths), "exponent", f"{kind.faster} from"]
    rows: list[list[Cell]] = []
    for key in panel_keys(costs, causal, backward):
        points = costs.values[key]
        is_exact = key[0] == EXACT or exact is None
        row: list[Cell] = [key[0]]
        row += [kind.scale * points[n].value if n in points else None for n in lengths]
        row += [fit_exponent(points, kind.smallest)]
        row += ["" if is_exact or exact is None else str(cost_crossover(points, exact))]
        row += [_fraction_of_peak(costs, key, points)] if with_peak else []
        rows.append(row)
    skipped = describe_skipped(
        {key[0]: reason for key, reason in costs.skipped.items() if key[1:] == (causal, backward)}
    )
    return Table(
        f"{panel_name(causal, backward).capitalize()}: {kind.unit} by tokens",
        [*header, *(["of peak"] if with_peak else [])],
        rows,
        ". ".join(_notes(kind, with_peak, costs.peak) + skipped),
    )


def describe_skipped(reasons: Mapping[str, str]) -> list[str]:
    """One sentence for each reason, with the names of all that it applies to."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [f"Left out {reason}: {join_words(group)}" for reason, group in names.items()]


def _fraction_of_peak(costs: Costs, key: PassKey, points: dict[int, Estimate]) -> str | None:
    last = max(points)
    flops = costs.flops.get((key[0], key[1], last))
    return None if flops is None else f"{flops / points[last].value / costs.peak:.0%}"


def _notes(kind: CostKind, with_peak: bool, peak: float) -> list[str]:
    notes = [
        f"{kind.faster} from: tokens from which it is {kind.faster} than exact softmax, in "
        "brackets if extrapolated from shorter lengths, at most to "
        f"{MAX_EXTRAPOLATION} times the longest one (> otherwise); all: at every length measured; "
        "never: its cost grows as fast as softmax's or faster",
        "exponent: the power of the number of tokens by which the cost grows, with 95% interval",
    ]
    if with_peak:
        notes.append(
            "of peak: operations per second of the two products at the longest length, over the "
            f"{peak / 1e9:,.0f} GFLOP/s of a large matrix product; feature maps do not count"
        )
    return notes
