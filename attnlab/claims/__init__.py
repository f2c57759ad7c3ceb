"""What is said about attention, run and judged."""

from __future__ import annotations

from attnlab.claims._claim import (
    TOPICS,
    Bars,
    Claim,
    Estimate,
    Evidence,
    Lines,
    Trial,
    Verdict,
    claim,
    exponent,
    over,
    share,
    student,
)
from attnlab.claims._ledger_page import save_playground
from attnlab.claims._registry import CLAIMS, chosen
from attnlab.claims._run_claims import Result, run, run_one

__all__ = [
    "CLAIMS",
    "TOPICS",
    "Bars",
    "Claim",
    "Estimate",
    "Evidence",
    "Lines",
    "Result",
    "Trial",
    "Verdict",
    "chosen",
    "claim",
    "exponent",
    "over",
    "run",
    "run_one",
    "save_playground",
    "share",
    "student",
]
