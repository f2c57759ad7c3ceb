"""What is said about attention, run and judged."""

from __future__ import annotations

from attnlab.claims.base import TOPICS, Claim, Estimate, Evidence, Trial, Verdict
from attnlab.claims.registry import CLAIMS, chosen
from attnlab.claims.running import Result, run, run_one

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
