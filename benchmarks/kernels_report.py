"""What benchmarks/kernels.py measured, as figures with their aims and as a section of a bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from attnlab.report import Cell, Section, Table, Value

NOTE = (
    "x exact: times faster than PyTorch's exact attention, from the logs of features on (scan), "
    "with stabilizer, exponentials and normalizer; with the feature map: the whole mechanism "
    "(favor)"
)


@dataclass(frozen=True)
class Figure:
    """One number of the issue, and whether it is reached."""

    threads: int
    what: str
    value: float
    target: float
    at_least: bool = True

    @property
    def reached(self) -> bool:
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def aim(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.target:g}"


@dataclass(frozen=True)
class Timing:
    threads: int
    part: str
    what: str
    length: int
    cpu_ms: float
    wall_ms: float


def print_figures(figures: Sequence[Figure]) -> None:
    print(f"\n{'threads':>7}  {'figure':52}{'value':>9}{'target':>11}")
    for each in figures:
        mark = "" if each.reached else "   not reached"
        print(f"{each.threads:7}  {each.what:52}{each.value:9.2f}{each.aim:>11}{mark}")


def kernels_section(
    figures: Sequence[Figure],
    timings: Sequence[Timing],
    settings: Mapping[str, Value | Sequence[Value]],
) -> Section:
    return Section(
        "kernels",
        "Kernels in C against exact attention and the machine",
        findings=_findings(figures),
        blocks=[_figures_table(figures), *_timings_tables(timings)],
        settings=settings,
        measurements=[
            *({"kind": "figure", **asdict(each), "reached": each.reached} for each in figures),
            *({"kind": "timing", **asdict(each)} for each in timings),
        ],
    )


def _findings(figures: Sequence[Figure]) -> list[str]:
    """What is not reached stands first, by name."""
    named = whole_names(figures)
    missed = [
        f"Not reached with {each.threads} thread{'s' * (each.threads > 1)}: {name}, "
        f"{each.value:.3g} where {each.aim} is aimed at."
        for each, name in zip(figures, named, strict=True)
        if not each.reached
    ]
    reached = sum(each.reached for each in figures)
    return [f"{reached} of {len(figures)} figures are reached.", *missed]


def whole_names(figures: Sequence[Figure]) -> list[str]:
    """An indented figure goes with the one above it."""
    names, above = [], ""
    for each in figures:
        inner = each.what.startswith(" ")
        above = above if inner else each.what
        names.append(f"{above.rpartition(':')[0] or above},{each.what[1:]}" if inner else each.what)
    return names


def _figures_table(figures: Sequence[Figure]) -> Table:
    rows: list[list[Cell]] = [
        [name, each.threads, f"{each.value:.2f}", each.aim, "yes" if each.reached else "no"]
        for each, name in zip(figures, whole_names(figures), strict=True)
    ]
    return Table(
        "Figures", ["figure", "threads", "value", "target", "reached"], rows, NOTE, ["target"]
    )


def _timings_tables(timings: Sequence[Timing]) -> list[Table]:
    """One for each number of threads."""
    tables = []
    for threads, group in groupby(timings, key=lambda each: each.threads):
        rows: list[list[Cell]] = [
            [each.what, each.part, f"{each.length:,}", each.cpu_ms, each.wall_ms] for each in group
        ]
        tables.append(
            Table(
                f"Milliseconds of a call, {threads} thread{'s' * (threads > 1)}",
                ["what", "part", "tokens", "CPU", "wall"],
                rows,
                "Medians of turns, which all take one after the other. Decoding: 200 steps a call",
                ["wall"],
            )
        )
    return tables
