"""What `bench decode` found: what a step costs at each position, and what is kept."""

from __future__ import annotations

from dataclasses import asdict

from attnlab._confidence_intervals import Estimate
from attnlab._number_words import joined
from attnlab.bench._cost_report import EXACT, beaten_by, crossover, fitted, left_out, line_of
from attnlab.bench._decode_bench import Steps
from attnlab.bench._settings import DecodeSettings
from attnlab.report._content import Cell, Figure, Lines, Section, Series, Table

NOTE = (
    "faster from: position from which a step is faster than softmax's, in brackets where that is "
    "foretold from earlier ones, all: at every position measured; kB: what is kept"
)
FLAT = 0.1  # an exponent up to which a step counts as costing the same everywhere


def decode_section(found: Steps, settings: DecodeSettings) -> Section:
    heads = f"{settings.heads} heads of {settings.head_dim}"
    times = [line_of(name, points, 1e6) for name, points in found.seconds.items()]
    sizes = [
        Series(name, [(float(at), size / 1e3) for at, size in each.items() if size])
        for name, each in found.state_bytes.items()
    ]
    return Section(
        "decode",
        "Decoding token by token",
        findings=_findings(found),
        advice=_advice(found),
        blocks=[
            Figure(
                "One step by position",
                Lines("tokens so far", f"microseconds, {heads}", times, True, True),
                "Absorb one token and read for it as the generator does, which gives up the old "
                "state so that sums are updated in place; medians, bands from the fastest round to "
                "the slowest.",
                in_table=True,
            ),
            Figure(
                "What is kept by position",
                Lines("tokens so far", f"kB, {heads}", sizes, True, True),
                "Keys and values, or the sums that stand for them.",
                in_table=True,
            ),
            _table(found, settings),
        ],
        settings={
            **asdict(settings),
            "clock": "CPU time of one thread" if settings.threads == 1 else "wall clock",
        },
        measurements=[
            {
                "mechanism": name, "position": position, "seconds": each.value, "least": each.low,
                "most": each.high, "state_bytes": found.state_bytes[name][position],
            }
            for name, points in found.seconds.items()
            for position, each in points.items()
        ],
    )  # fmt: skip


def _findings(found: Steps) -> list[str]:
    slopes = {name: fitted(points) for name, points in found.seconds.items()}
    flat = [name for name, each in slopes.items() if each is not None and each.value <= FLAT]
    rising = [
        f"{name} (exponent {each.value:.2f})"
        for name, each in slopes.items()
        if each is not None and each.value > FLAT
    ]
    constant = [name for name, sizes in found.state_bytes.items() if len(set(sizes.values())) == 1]
    sentences = []
    if flat:
        sentences.append(f"A step costs about the same at every position: {joined(flat)}.")
    if rising:
        sentences.append(f"A step grows with the position: {joined(rising)}.")
    if constant:
        sentences.append(f"What is kept never grows: {joined(constant)}.")
    return sentences


def _advice(found: Steps) -> list[str]:
    exact = found.seconds.get(EXACT)
    if exact is None:
        return []
    always = f"at all positions from {min(exact):,} on"
    since = beaten_by(found.seconds, exact, "from position {} on", always)
    if not since:
        return [f"Up to position {max(exact):,} no step is faster than softmax's: use softmax."]
    return [f"Steps are faster than softmax's on this machine: {joined(since)}."]


def _table(found: Steps, settings: DecodeSettings) -> Table:
    exact = found.seconds.get(EXACT, {})
    rows: list[list[Cell]] = []
    for name, points in found.seconds.items():
        sizes = found.state_bytes[name]
        slope: Estimate | None = fitted(points)
        own = name == EXACT or not exact
        rows.append(
            [
                name,
                *(1e6 * points[at].value if at in points else None for at in settings.positions),
                slope,
                "" if own else str(crossover(points, exact)),
                sizes[min(sizes)] / 1e3,
                sizes[max(sizes)] / 1e3,
            ]
        )
    first, last = settings.positions[0], settings.positions[-1]
    lost = left_out(found.left_out)
    return Table(
        "Microseconds of a step by position",
        [
            "mechanism",
            *(f"{each:,}" for each in settings.positions),
            "exponent",
            "faster from",
            f"kB at {first:,}",
            f"kB at {last:,}",
        ],
        rows,
        ". ".join([NOTE, *lost]),
    )
