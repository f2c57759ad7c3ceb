"""Statements about attention from courses and papers, tested by experiments."""

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
from attnlab.claims._registry import CLAIMS, select_claims
from attnlab.claims._run_claims import Result, run_claim, run_claims

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
    "claim",
    "fraction_interval",
    "log_log_slope",
    "mean_interval",
    "run_claim",
    "run_claims",
    "save_playground",
    "select_claims",
    "student_quantile",
]
