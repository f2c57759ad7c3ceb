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
    fraction_interval,
    log_log_slope,
    mean_interval,
    student_quantile,
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
    "fraction_interval",
    "log_log_slope",
    "mean_interval",
    "run",
    "run_one",
    "save_playground",
    "student_quantile",
]
