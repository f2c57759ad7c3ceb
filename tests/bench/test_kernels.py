"""benchmarks/kernels.py: its measurements become a report section."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from attnlab.report import Report, Table, to_markdown


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("kernels_report")


def test_figures_and_timings_are_a_section(kernels: Any) -> None:
    figures = [
        kernels.Figure(1, "causal 8,192 forward: x exact", 59.125, 60),
        kernels.Figure(1, "  share of the matmul peak", 0.7, 0.6),
        kernels.Figure(2, "memory: x exact", 0.9, 1.2, at_least=False),
    ]
    timings = [
        kernels.Timing(1, "forward", "exact", 8192, 1130.0, 1131.0),
        kernels.Timing(1, "forward", "scan", 8192, 19.125, 19.25),
        kernels.Timing(2, "forward", "exact", 8192, 1200.0, 610.0),
    ]
    section = kernels.kernels_section(figures, timings, {"threads": [1, 2]})
    assert section.findings == [
        "2 of 3 targets are reached.",
        "Not reached with 1 thread: causal 8,192 forward: x exact, 59.1 instead of >= 60.",
    ]
    report = Report("bench", section.title, [section])
    tables = [block for block in report.sections[0].blocks if isinstance(block, Table)]
    assert [list(row) for row in tables[0].rows] == [
        ["causal 8,192 forward: x exact", 1, "59.12", ">= 60", "no"],
        ["causal 8,192 forward, share of the matmul peak", 1, "0.70", ">= 0.6", "yes"],
        ["memory: x exact", 2, "0.90", "<= 1.2", "yes"],
    ]
    assert [len(table.rows) for table in tables[1:]] == [2, 1]
    kinds = [row["kind"] for row in report.sections[0].measurements]
    assert kinds == ["figure"] * 3 + ["timing"] * 3
    assert "| scan | forward | 8,192 | 19.1 | 19.2 |" in to_markdown(report)
