"""Verdicts as data: one JSON makes the terminal table, the docs page and the web page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

import attnlab
from attnlab.claims.base import CLAIMS, TOPICS, Bars, Evidence, Figure, Plot, Size, Verdict
from attnlab.claims.running import Result

FORMAT, VERSION = "attnlab-claims", 1


def ledger(results: Sequence[Result], *, seed: int, size: Size) -> dict[str, Any]:
    """Of one run, in the registry's order."""
    order = {name: number for number, name in enumerate(CLAIMS)}
    return {
        "format": FORMAT,
        "version": VERSION,
        "seed": seed,
        "size": size,
        "versions": {"attnlab": attnlab.__version__, "torch": str(torch.__version__)},
        "topics": TOPICS,
        "claims": [row(each) for each in sorted(results, key=lambda each: order[each.name])],
    }


def row(result: Result) -> dict[str, Any]:
    claim = CLAIMS[result.name]
    return {
        "id": claim.name,
        "topic": claim.topic,
        "source": claim.source,
        "statement": claim.statement,
        "quoted": claim.quoted,
        "why": claim.why,
        "reference": claim.reference,
        "measured": claim.judge.name,
        "threshold": claim.judge.threshold,
        **_judged(result.verdict, result.evidence),
        "control": {"what": claim.control, **_judged(result.control, result.control_evidence)},
        "trusted": result.trusted,
        "seconds": round(result.seconds, 2),
    }


def _judged(verdict: Verdict | None, evidence: Evidence | None) -> dict[str, Any]:
    found: dict[str, Any] = {"outcome": None, "condition": "", "figure": None, "plot": None}
    if verdict is not None:
        found |= {"outcome": verdict.outcome, "condition": verdict.condition}
    if evidence is not None:
        found |= {
            "figure": _figure(evidence.figure),
            "plot": plot(evidence.plot),
            "details": evidence.told,
        }
    return found


def _figure(figure: Figure) -> dict[str, float | str | None]:
    return {"value": _plain(figure.value), "low": _plain(figure.low), "high": _plain(figure.high)}


def _plain(value: float | None) -> float | str | None:
    """JSON has no infinity: a text, as in attnlab's other files."""
    return value if value is None or math.isfinite(value) else str(value)


def plot(drawn: Plot | Bars) -> dict[str, Any]:
    marks = [{"label": mark.label, "x": mark.x, "y": mark.y} for mark in drawn.marks]
    if isinstance(drawn, Bars):
        values = [{"name": name, **_figure(figure)} for name, figure in drawn.values.items()]
        return {"kind": "bars", "y": drawn.y, "values": values, "marks": marks}
    series = [
        {
            "name": each.name,
            "points": [[_plain(x), _plain(y)] for x, y in each.points],
            "band": [[_plain(low), _plain(high)] for low, high in each.band],
        }
        for each in drawn.series
    ]
    return {
        "kind": "lines",
        "x": drawn.x,
        "y": drawn.y,
        "x_log": drawn.x_log,
        "y_log": drawn.y_log,
        "series": series,
        "marks": marks,
    }
