"""What was captured, in a few lines of a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnlab.interpret._look import Looked
from attnlab.interpret._records import Side

SHOWN = 8  # heads of a pattern


def print_summary(looked: Looked, out: Path, console: Console | None = None) -> None:
    console = console or Console()
    for side in looked.sides:
        tokens = ", ".join(f"{len(each.texts)} tokens of {each.name}" for each in side.sequences)
        heads = sum(len(layer.heads) for layer in side.layers)
        console.print(
            printable(f"{side.label}: {tokens}; {len(side.layers)} layers, {heads} heads"),
            markup=False,
        )
    if looked.difference is not None:
        console.print(_checked(looked), markup=False)
    table = _patterns(looked.sides[0])
    if table is not None:
        console.print(table)
    for note in looked.capture.notes:
        console.print(printable(f"note: {note}"), markup=False)
    size = out.stat().st_size
    console.print(f"{out} ({size / 1e6:.2f} MB)", markup=False)


def _checked(looked: Looked) -> str:
    """How far weights times values are from what the layers gave, and whether that is a doubt."""
    doubtful = [layer for side in looked.sides for layer in side.layers if layer.doubtful]
    if not doubtful:
        return (
            f"weights times values differ from what the layers gave by {looked.difference:.1e} "
            "at most, which rounding explains"
        )
    worst = max(doubtful, key=lambda layer: layer.difference or 0.0)
    return printable(
        f"weights times values differ from what {worst.name} gave by {worst.difference:.1e}, more "
        "than rounding explains; do not trust them"
    )


def printable(text: str) -> str:
    """A capture is not trusted: no control character or half surrogate reaches the terminal."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def _patterns(side: Side) -> Table | None:
    """Heads by pattern, the clearest first, and what untrained ones score on average."""
    found: dict[str, list[tuple[float, int, int]]] = {}
    for number, (layer, patterns) in enumerate(zip(side.layers, side.patterns, strict=True)):
        for head, pattern in zip(layer.heads, patterns, strict=True):
            if pattern.label:
                score = pattern.scores[pattern.label]
                found.setdefault(pattern.label, []).append((score, number, head))
    if not found:
        return None
    table = Table("pattern", "heads (layer.head, score)", "untrained", box=None, pad_edge=False)
    for label in sorted(found, key=lambda name: -len(found[name])):
        best = sorted(found[label], reverse=True)
        shown = ", ".join(f"{layer}.{head} {score:.2f}" for score, layer, head in best[:SHOWN])
        more = f" and {len(best) - SHOWN} more" if len(best) > SHOWN else ""
        table.add_row(Text(printable(label)), shown + more, _control(side, label))
    return table


def _control(side: Side, label: str) -> str:
    scores = [
        pattern.scores[label]
        for patterns in side.control or []
        for pattern in patterns
        if label in pattern.scores
    ]
    return f"{sum(scores) / len(scores):.2f}" if scores else ""
