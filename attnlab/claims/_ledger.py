"""The ledger: the verdicts of a run as JSON, from which the docs page and the web page are made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

import attnlab
from attnlab._confidence_intervals import Estimate
from attnlab.claims._claim import CLAIMS, TOPICS, Evidence, Size, Verdict
from attnlab.claims._run_claims import Result
from attnlab.report._content import CONFIG, Plot

FORMAT, VERSION = "attnlab-claims", 2


@dataclass(frozen=True, config=CONFIG)
class FigureAndPlot:
    """The part of a ledger row that uses the report's JSON format."""

    figure: Estimate
    plot: Plot


_figure_and_plot = TypeAdapter(FigureAndPlot)


def make_ledger(
    results: Sequence[Result], *, seed: int, size: Size, seeds: int = 1
) -> dict[str, Any]:
    """The results of one run as JSON, in the registry's order. `seed` is the first of `seeds`."""
    order = {name: number for number, name in enumerate(CLAIMS)}
    return {
        "format": FORMAT,
        "version": VERSION,
        "seed": seed,
        "seeds": seeds,
        "size": size,
        "versions": {"attnlab": attnlab.__version__, "torch": str(torch.__version__)},
        "topics": TOPICS,
        "claims": [ledger_row(result) for result in sorted(results, key=lambda r: order[r.name])],
    }


def ledger_row(result: Result) -> dict[str, Any]:
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
        **_verdict_fields(result.verdict, result.evidence),
        "control": {
            "what": claim.control,
            **_verdict_fields(result.control, result.control_evidence),
        },
        "trusted": result.trusted,
        "seconds": round(result.seconds, 2),
    }


def _verdict_fields(verdict: Verdict | None, evidence: Evidence | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"outcome": None, "condition": "", "figure": None, "plot": None}
    if verdict is not None:
        fields |= {"outcome": verdict.outcome, "condition": verdict.condition}
    if evidence is not None:
        fields |= {
            **json.loads(_figure_and_plot.dump_json(FigureAndPlot(evidence.figure, evidence.plot))),
            "details": evidence.all_details,
        }
    return fields
