"""Prints a short summary of a capture in the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnlab.interpret._layer_numbers import layer_numbers
from attnlab.interpret._look import LookResult
from attnlab.interpret._records import CapturePanel

MAX_HEADS = 8  # listed per pattern


def print_summary(result: LookResult, out: Path, console: Console | None = None) -> None:
    console = console or Console()
    for panel in result.panels:
        tokens = ", ".join(
            f"{len(sequence.texts)} tokens of {sequence.name}" for sequence in panel.sequences
        )
        heads = sum(len(layer.heads) for layer in panel.layers)
        console.print(
            printable(f"{panel.label}: {tokens}; {len(panel.layers)} layers, {heads} heads"),
            markup=False,
        )
    if result.difference is not None:
        console.print(_describe_check(result), markup=False)
    table = _pattern_table(result.panels[0])
    if table is not None:
        console.print(table)
    for note in result.capture.notes:
        console.print(printable(f"note: {note}"), markup=False)
    size = out.stat().st_size
    console.print(f"{out} ({size / 1e6:.2f} MB)", markup=False)


def _describe_check(result: LookResult) -> str:
    """How far weights times values are from the layers' outputs, and if rounding explains it."""
    doubtful = [layer for panel in result.panels for layer in panel.layers if layer.doubtful]
    if not doubtful:
        return (
            f"weights times values differ from the layers' outputs by at most "
            f"{result.difference:.1e}, which rounding explains"
        )
    worst = max(doubtful, key=lambda layer: layer.difference or 0.0)
    return printable(
        f"weights times values differ from the output of {worst.name} by {worst.difference:.1e}, "
        "more than rounding explains; do not trust these weights"
    )


def printable(text: str) -> str:
    """Replaces control characters and lone surrogates: a capture file may come from anyone."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _pattern_table(panel: CapturePanel) -> Table | None:
    """Heads by pattern, highest scores first, and the mean score of untrained heads."""
    heads: dict[str, list[tuple[float, int, int]]] = {}
    numbers = layer_numbers([layer.name for layer in panel.layers])
    for number, layer, patterns in zip(numbers, panel.layers, panel.patterns, strict=True):
        for head, pattern in zip(layer.heads, patterns, strict=True):
            if pattern.label:
                score = pattern.scores[pattern.label]
                heads.setdefault(pattern.label, []).append((score, number, head))
    if not heads:
        return None
    table = Table("pattern", "heads (layer.head, score)", "untrained", box=None, pad_edge=False)
    for label in sorted(heads, key=lambda name: -len(heads[name])):
        best = sorted(heads[label], reverse=True)
        listed = ", ".join(f"{layer}.{head} {score:.2f}" for score, layer, head in best[:MAX_HEADS])
        more = f" and {len(best) - MAX_HEADS} more" if len(best) > MAX_HEADS else ""
        table.add_row(Text(printable(label)), listed + more, _mean_control_score(panel, label))
    return table


def _mean_control_score(panel: CapturePanel, label: str) -> str:
    scores = [
        pattern.scores[label]
        for patterns in panel.control or []
        for pattern in patterns
        if label in pattern.scores
    ]
    return f"{sum(scores) / len(scores):.2f}" if scores else ""
