"""What a bench found, as data: one JSON makes the terminal's tables, the web page and the docs.

A report is a list of sections. A section says in words what was found (`findings`, computed from
the data) and what to do about it (`advice`), then shows tables and drawings, and keeps every
measurement as a flat row. Whoever measures something else makes a `Section` of its own; nothing
that draws a report knows what was measured.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import attnlab
from attnlab.charts.plots import Drawing, figure_json, plain, plot_json
from attnlab.intervals import Estimate

FORMAT, VERSION = "attnlab-bench", 1

Value = str | float | int | bool | None
Cell = str | float | int | Estimate | None
"""Of a table: a text, a number, a number with its interval, or nothing."""


@dataclass(frozen=True)
class Table:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    drop: Sequence[str] = ()
    """Columns that a narrow terminal leaves out first, the least telling first; if none is named,
    those from the second on."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(
                    f"{self.title}: a row of {len(row)} cells under a header of {len(self.header)}"
                )


@dataclass(frozen=True)
class Drawn:
    """A drawing with its title; `note` says how to read it."""

    title: str
    plot: Drawing
    note: str = ""
    tabled: bool = False
    """Its numbers stand in a table of the section too: where nothing can be drawn, leave it out."""


@dataclass(frozen=True)
class Section:
    name: str
    """Short, one word of letters, digits and dashes: error, speed, ...; unique in a report."""
    title: str
    findings: Sequence[str] = ()
    advice: Sequence[str] = ()
    parts: Sequence[Table | Drawn] = ()
    settings: Mapping[str, Value | Sequence[Value]] = field(default_factory=dict)
    measurements: Sequence[Mapping[str, Value]] = ()
    """Every number that was measured, one flat row each, for programs to read."""


@dataclass(frozen=True)
class Report:
    sections: Sequence[Section]
    machine: Mapping[str, Value]
    versions: Mapping[str, str]
    seconds: float = 0.0


def machine(threads: int) -> dict[str, Value]:
    """Where it ran, and by which path: figures of time mean nothing without."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "kernels": _kernels(),
    }


def _kernels() -> str:
    from attnlab.mechanisms.compiled import status  # torch: readers of a report need none

    found = status()
    return "C" if found.active else f"PyTorch ({found.reason})"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123 (a device, not a path)
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    from importlib.metadata import version

    return {"attnlab": attnlab.__version__, "torch": version("torch")}


# JSON


def report_json(report: Report) -> dict[str, Any]:
    names = [section.name for section in report.sections]
    assert len(set(names)) == len(names), f"two sections of one name: {names}"
    return {
        "format": FORMAT,
        "version": VERSION,
        "versions": dict(report.versions),
        "machine": {name: _value(value) for name, value in report.machine.items()},
        "seconds": round(report.seconds, 1),
        "sections": [_section(each) for each in report.sections],
    }


def _section(section: Section) -> dict[str, Any]:
    return {
        "name": section.name,
        "title": section.title,
        "findings": list(section.findings),
        "advice": list(section.advice),
        "parts": [_part(each) for each in section.parts],
        "settings": {name: _setting(value) for name, value in section.settings.items()},
        "measurements": [
            {name: _value(value) for name, value in row.items()} for row in section.measurements
        ],
    }


def _part(part: Table | Drawn) -> dict[str, Any]:
    if isinstance(part, Drawn):
        told = {"title": part.title, "note": part.note, "tabled": part.tabled}
        return {**told, "plot": plot_json(part.plot)}
    rows = [[_cell(cell) for cell in row] for row in part.rows]
    told = {"title": part.title, "note": part.note, "drop": list(part.drop)}
    return {**told, "header": list(part.header), "rows": rows}


def _cell(cell: Cell) -> Any:
    return figure_json(cell) if isinstance(cell, Estimate) else _value(cell)


def _value(value: Value) -> Any:
    return plain(value) if isinstance(value, float) else value


def _setting(value: Value | Sequence[Value]) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_value(each) for each in value]
    return _value(value)
