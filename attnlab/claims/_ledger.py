"""Verdicts as data: one JSON makes the terminal table, the docs page and the web page."""

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
class Measured:
    """The part of a row that has the report's own JSON format."""

    figure: Estimate
    plot: Plot


_measured = TypeAdapter(Measured)


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
            **json.loads(_measured.dump_json(Measured(evidence.figure, evidence.plot))),
            "details": evidence.told,
        }
    return found
