"""Prints results in a terminal: a table of all, or one claim with its plot."""

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
MAX_TEXT_WIDTH, WIDE_TERMINAL = 96, 120
FIGURE_WIDTH, SECONDS_WIDTH = 11, 5  # characters, enough for one number and one time


def format_verdict(verdict: Verdict) -> str:
    if not verdict.condition:
        return verdict.outcome
    between = " " if verdict.outcome == "holds only when" else ": "
    return f"{verdict.outcome}{between}{verdict.condition}"


def format_control(result: Result) -> str:
    """The verdict of the control, marked if it is not the opposite one, as it must be."""
    if result.control is None:
        return ""
    if result.trusted is None:
        return format_verdict(result.control)
    return (
        f"{result.control.outcome}"
        if result.trusted
        else f"FAILED: {format_verdict(result.control)}"
    )


def format_statement(claim: Claim) -> str:
    return f'"{claim.statement}"' if claim.quoted else claim.statement


def print_table(results: Sequence[Result], console: Console) -> None:
    """A narrow terminal has no column for what was measured. Names and figures are never cut."""
    wide = console.width >= WIDE_TERMINAL
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    if not wide:
        table.box, table.padding = None, (0, 1, 0, 0)
    table.add_column("claim", no_wrap=True)
    for name in ("verdict", *(["measured"] if wide else []), "figure", "threshold", "control"):
        min_width = FIGURE_WIDTH if name == "figure" else None
        table.add_column(name, overflow="fold", min_width=min_width)
    table.add_column("seconds" if wide else "s", justify="right", min_width=SECONDS_WIDTH)
    for result in results:
        claim, evidence = CLAIMS[result.name], result.evidence
        table.add_row(
            claim.name,
            Text(format_verdict(result.verdict), STYLE[result.verdict.outcome]),
            *([Text(claim.judge.name)] if wide else []),
            "" if evidence is None else str(evidence.figure),
            "" if evidence is None else claim.judge.threshold,
            Text(format_control(result), "" if result.trusted in (True, None) else "bold red"),
            f"{result.seconds:.1f}" if result.seconds else "",
        )
    console.print(table)


def print_claim(result: Result, console: Console) -> None:
    claim, evidence = CLAIMS[result.name], result.evidence
    width = min(console.width, MAX_TEXT_WIDTH)
    console.print(Text(claim.name, "bold"), f"({claim.source}, {claim.topic})")
    for text in (format_statement(claim), claim.why, claim.reference):
        if text:
            console.print(Text(textwrap.fill(text, width)), "")
    console.print(Text(f"Verdict: {format_verdict(result.verdict)}", STYLE[result.verdict.outcome]))
    if evidence is None:
        return
    figure = f"{evidence.figure}; holds if {claim.judge.threshold}"
    console.print(Text(f"{claim.judge.name}: {figure}"))
    if result.control is not None and result.control_evidence is not None:
        figure = str(result.control_evidence.figure)
        console.print(Text(f"Control, {claim.control}: {figure}, {format_control(result)}"))
    for name, value in evidence.all_details.items():
        console.print(Text(f"{name}: {value if isinstance(value, str) else format_number(value)}"))
    console.print()
    print_plot(evidence.plot, console, width)
