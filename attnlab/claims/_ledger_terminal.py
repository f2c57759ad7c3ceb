"""The ledger in a terminal: a table of all, or one claim with its figure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnlab._confidence_intervals import format_number
from attnlab.claims._claim import CLAIMS, Claim, Verdict
from attnlab.claims._run_claims import Result
from attnlab.report import print_plot

STYLE = {
    "holds": "green",
    "refuted": "red",
    "holds only when": "yellow",
    "undecided": "magenta",
    "not run": "dim",
    "failed": "bold red",
}
WIDEST, ROOMY = 96, 120
FIGURE, SECONDS = 11, 5  # characters that hold any number of a figure with its bracket, any time


def told(verdict: Verdict) -> str:
    if not verdict.condition:
        return verdict.outcome
    between = " " if verdict.outcome == "holds only when" else ": "
    return f"{verdict.outcome}{between}{verdict.condition}"


def control_told(result: Result) -> str:
    """Whether the judge said the opposite of the control, as it must."""
    if result.control is None:
        return ""
    if result.trusted is None:
        return told(result.control)
    return f"{result.control.outcome}" if result.trusted else f"FAILED: {told(result.control)}"


def stated(claim: Claim) -> str:
    return f'"{claim.statement}"' if claim.quoted else claim.statement


def print_table(results: Sequence[Result], console: Console) -> None:
    """On a narrow terminal what was measured is left to `show`; names and figures are never cut."""
    wide = console.width >= ROOMY
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    if not wide:
        table.box, table.padding = None, (0, 1, 0, 0)
    table.add_column("claim", no_wrap=True)
    for name in ("verdict", *(["measured"] if wide else []), "figure", "threshold", "control"):
        least = FIGURE if name == "figure" else None
        table.add_column(name, overflow="fold", min_width=least)
    table.add_column("seconds" if wide else "s", justify="right", min_width=SECONDS)
    for result in results:
        claim, evidence = CLAIMS[result.name], result.evidence
        table.add_row(
            claim.name,
            Text(told(result.verdict), STYLE[result.verdict.outcome]),
            *([Text(claim.judge.name)] if wide else []),
            "" if evidence is None else str(evidence.figure),
            "" if evidence is None else claim.judge.threshold,
            Text(control_told(result), "" if result.trusted in (True, None) else "bold red"),
            f"{result.seconds:.1f}" if result.seconds else "",
        )
    console.print(table)


def print_one(result: Result, console: Console) -> None:
    claim, evidence = CLAIMS[result.name], result.evidence
    width = min(console.width, WIDEST)
    console.print(Text(claim.name, "bold"), f"({claim.source}, {claim.topic})")
    for text in (stated(claim), claim.why, claim.reference):
        if text:
            console.print(Text(textwrap.fill(text, width)), "")
    console.print(Text(f"Verdict: {told(result.verdict)}", STYLE[result.verdict.outcome]))
    if evidence is None:
        return
    figure = f"{evidence.figure}; holds if {claim.judge.threshold}"
    console.print(Text(f"{claim.judge.name}: {figure}"))
    if result.control is not None and result.control_evidence is not None:
        figure = str(result.control_evidence.figure)
        console.print(Text(f"Control, {claim.control}: {figure}, {control_told(result)}"))
    for name, value in evidence.told.items():
        console.print(Text(f"{name}: {value if isinstance(value, str) else format_number(value)}"))
    console.print()
    print_plot(evidence.plot, console, width)
