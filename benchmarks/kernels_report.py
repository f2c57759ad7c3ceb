"""The report of benchmarks/kernels.py: figures with their targets, and timings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

from attnlab.report import Cell, Section, Table, Value

NOTE = (
    "x exact: times faster than PyTorch's exact attention, starting from the logs of features "
    "(scan), with stabilizer, exponentials and normalizer; with the feature map: the whole "
    "mechanism (favor)"
)


@dataclass(frozen=True)
class Figure:
    """One measured number and its target."""

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
    for figure in figures:
        mark = "" if figure.reached else "   not reached"
        print(f"{figure.threads:7}  {figure.what:52}{figure.value:9.2f}{figure.aim:>11}{mark}")


def kernels_section(
    figures: Sequence[Figure],
    timings: Sequence[Timing],
    settings: Mapping[str, Value | Sequence[Value]],
) -> Section:
    return Section(
        "kernels",
        "Kernels in C against exact attention and the machine",
        findings=_findings(figures),
        blocks=[_figure_table(figures), *_timing_tables(timings)],
        settings=settings,
        measurements=[
            *({"kind": "figure", **asdict(each), "reached": each.reached} for each in figures),
            *({"kind": "timing", **asdict(each)} for each in timings),
        ],
    )


def _findings(figures: Sequence[Figure]) -> list[str]:
    """The number of targets reached, then those that were missed."""
    names = full_names(figures)
    missed = [
        f"Not reached with {figure.threads} thread{'s' * (figure.threads > 1)}: {name}, "
        f"{figure.value:.3g} instead of {figure.aim}."
        for figure, name in zip(figures, names, strict=True)
        if not figure.reached
    ]
    reached = sum(figure.reached for figure in figures)
    return [f"{reached} of {len(figures)} targets are reached.", *missed]


def full_names(figures: Sequence[Figure]) -> list[str]:
    """The names of the figures; an indented one is completed by the one above it."""
    names, above = [], ""
    for figure in figures:
        indented = figure.what.startswith(" ")
        above = above if indented else figure.what
        prefix = above.rpartition(":")[0] or above
        names.append(f"{prefix},{figure.what[1:]}" if indented else figure.what)
    return names


def _figure_table(figures: Sequence[Figure]) -> Table:
    rows: list[list[Cell]] = [
        [name, figure.threads, f"{figure.value:.2f}", figure.aim, "yes" if figure.reached else "no"]
        for figure, name in zip(figures, full_names(figures), strict=True)
    ]
    return Table(
        "Figures", ["figure", "threads", "value", "target", "reached"], rows, NOTE, ["target"]
    )


def _timing_tables(timings: Sequence[Timing]) -> list[Table]:
    """One table for each number of threads."""
    tables = []
    for threads, group in groupby(timings, key=lambda timing: timing.threads):
        rows: list[list[Cell]] = [
            [each.what, each.part, f"{each.length:,}", each.cpu_ms, each.wall_ms] for each in group
        ]
        tables.append(
            Table(
                f"Milliseconds of a call, {threads} thread{'s' * (threads > 1)}",
                ["what", "part", "tokens", "CPU", "wall"],
                rows,
                "Medians of several rounds, in which all take turns. Decoding: 200 steps per call",
                ["wall"],
            )
        )
    return tables
