"""What is said about attention, run and judged."""

from __future__ import annotations

from attnlab.claims._claim import TOPICS, Claim, Estimate, Evidence, Trial, Verdict
from attnlab.claims._registry import CLAIMS, chosen
from attnlab.claims._run_claims import Result, run, run_one

__all__ = [
    "CLAIMS",
    "TOPICS",
    "Claim",
    "Estimate",
    "Evidence",
    "Result",
    "Trial",
    "Verdict",
    "chosen",
    "run",
    "run_one",
]
