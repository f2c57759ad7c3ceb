"""Report of `bench decode`: the cost of a step and the size of the state, by position."""

from __future__ import annotations

from dataclasses import asdict

from attnlab._confidence_intervals import Estimate
from attnlab._join_words import join_words
from attnlab.bench._cost_report import (
    EXACT,
    MAX_EXTRAPOLATION,
    cost_crossover,
    cost_series,
    describe_faster,
    describe_skipped,
    fit_exponent,
)
from attnlab.bench._decode_bench import DecodingCosts
from attnlab.bench._settings import DecodeSettings
from attnlab.report._content import Cell, Figure, Lines, Section, Series, Table

NOTE = (
    "faster from: position from which a step is faster than softmax's, in brackets if extrapolated "
    f"from earlier positions, at most to {MAX_EXTRAPOLATION} times the last one (> otherwise); "
    "all: at every position measured; kB: size of the state"
)
FLAT = 0.1  # a step with at most this exponent counts as constant


def decode_section(costs: DecodingCosts, settings: DecodeSettings) -> Section:
    heads = f"{settings.heads} heads of {settings.head_dim}"
    times = [cost_series(name, points, 1e6) for name, points in costs.seconds.items()]
    sizes = [
        Series(name, [(float(at), size / 1e3) for at, size in points.items() if size])
        for name, points in costs.state_bytes.items()
    ]
    return Section(
        "decode",
        "Decoding token by token",
        findings=_findings(costs),
        advice=_advice(costs),
        blocks=[
            Figure(
                "One step by position",
                Lines("tokens so far", f"microseconds, {heads}", times, True, True),
                "Absorb one token and read its output, as in generation: sums are updated in "
                "place. Medians; bands from the fastest round to the slowest.",
                in_table=True,
            ),
            Figure(
                "Size of the state by position",
                Lines("tokens so far", f"kB, {heads}", sizes, True, True),
                "Keys and values, or the sums that replace them.",
                in_table=True,
            ),
            _table(costs, settings),
        ],
        settings={
            **asdict(settings),
            "clock": "CPU time of one thread" if settings.threads == 1 else "wall clock",
        },
        measurements=[
            {
                "mechanism": name, "position": position, "seconds": cost.value, "least": cost.low,
                "most": cost.high, "state_bytes": costs.state_bytes[name][position],
            }
            for name, points in costs.seconds.items()
            for position, cost in points.items()
        ],
    )  # fmt: skip


def _findings(costs: DecodingCosts) -> list[str]:
    slopes = {name: fit_exponent(points) for name, points in costs.seconds.items()}
    flat = [name for name, slope in slopes.items() if slope is not None and slope.value <= FLAT]
    rising = [
        f"{name} (exponent {slope.value:.2f})"
        for name, slope in slopes.items()
        if slope is not None and slope.value > FLAT
    ]
    constant = [name for name, sizes in costs.state_bytes.items() if len(set(sizes.values())) == 1]
    sentences = []
    if flat:
        sentences.append(f"A step costs about the same at every position: {join_words(flat)}.")
    if rising:
        sentences.append(f"The cost of a step grows with the position: {join_words(rising)}.")
    if constant:
        sentences.append(f"The state has a constant size: {join_words(constant)}.")
    return sentences


def _advice(costs: DecodingCosts) -> list[str]:
    exact = costs.seconds.get(EXACT)
    if exact is None:
        return []
    always = f"at all positions from {min(exact):,} on"
    faster = describe_faster(costs.seconds, exact, "from position {} on", always)
    if not faster:
        return [f"Up to position {max(exact):,} no step is faster than softmax's: use softmax."]
    return [f"Steps are faster than softmax's on this machine: {join_words(faster)}."]


def _table(costs: DecodingCosts, settings: DecodeSettings) -> Table:
    exact = costs.seconds.get(EXACT, {})
    rows: list[list[Cell]] = []
    for name, points in costs.seconds.items():
        sizes = costs.state_bytes[name]
        slope: Estimate | None = fit_exponent(points)
        is_exact = name == EXACT or not exact
        rows.append(
            [
                name,
                *(1e6 * points[at].value if at in points else None for at in settings.positions),
                slope,
                "" if is_exact else str(cost_crossover(points, exact)),
                sizes[min(sizes)] / 1e3,
                sizes[max(sizes)] / 1e3,
            ]
        )
    first, last = settings.positions[0], settings.positions[-1]
    skipped = describe_skipped(costs.skipped)
    return Table(
        "Microseconds of a step by position",
        [
            "mechanism",
            *(f"{position:,}" for position in settings.positions),
            "exponent",
            "faster from",
            f"kB at {first:,}",
            f"kB at {last:,}",
        ],
        rows,
        ". ".join([NOTE, *skipped]),
    )
