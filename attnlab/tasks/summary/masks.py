"""The four masks of a batch, drawn: who may look at whom while a summary is learned.

Letters: B batch, S source tokens, T target tokens.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch
from torch import Tensor

from attnlab.mask import Mask
from attnlab.tasks.summary.baselines import first_words
from attnlab.tasks.summary.pairs import Columns, Pair
from attnlab.tasks.summary.recipe import learned, load_summary
from attnlab.tasks.summary.sources import load_pairs
from attnlab.tasks.summary.task import collate, rows_of
from attnlab.tasks.summary.wording import Wording

CELL, GAP, TITLE, LEFT = 7, 34, 40, 16  # pixels of the picture
MOST = 8  # texts
LONGEST_SUMMARY = 40
FULL, EMPTY = "█", "·"


@dataclass(frozen=True)
class Drawn:
    """One mask of every text: (B, rows, columns), True where a query may look."""

    name: str
    meaning: str
    allowed: Tensor


def masks_of(pairs: Sequence[Pair], wording: Wording) -> list[Drawn]:
    """As the model makes them of this batch."""
    if not 1 <= len(pairs) <= MOST:
        raise ValueError(f"{len(pairs)} texts; give 1 to {MOST}, so that masks can be seen")
    rows, too_long = rows_of(pairs, wording)
    if too_long:
        raise ValueError(
            f"{too_long} of the summaries have more than {wording.longest_summary} tokens; "
            "give shorter ones"
        )
    batch = collate(rows, wording.tokenizer.pad, wording.tokenizer.end)
    source, target = batch["keys"], batch["labels"] >= 0
    S, T = source.shape[1], target.shape[1]
    return [
        _drawn(
            "encoder padding", "each token of the text looks at the text", Mask(keys=source), S, S
        ),
        _drawn("decoder padding", "which tokens of the summary are real", Mask(keys=target), T, T),
        _drawn("cross", "each token of the summary looks at the text", Mask(keys=source), T, S),
        _drawn(
            "decoder self",
            "each token of the summary looks at itself and those before",
            Mask(causal=True, keys=target),
            T,
            T,
        ),
    ]


def example(
    data: str | Path,
    columns: Columns,
    *,
    run: Path | None = None,
    texts: int = 3,
    tokens: int = 24,
    seed: int = 0,
) -> list[Drawn]:
    """The masks of some pairs of a source, as a run's tokeniser or one of its own reads them."""
    pairs = load_pairs(data, columns)
    chosen = random.Random(seed).sample(pairs, min(max(texts, 0), len(pairs)))
    known = learned(chosen, 1000) if run is None else load_summary(run)[1].tokenizer
    wording = Wording(known, tokens, LONGEST_SUMMARY)
    # each as long as it likes: masks of equal lengths would show no padding
    shorter = [
        Pair(" ".join(pair.text.split()[: tokens - 5 * i]), first_words(pair.summary, 8))
        for i, pair in enumerate(chosen)
    ]
    return masks_of(shorter, wording)


def _drawn(name: str, meaning: str, mask: Mask, rows: int, columns: int) -> Drawn:
    allowed = mask.allowed(rows, columns, torch.device("cpu"))
    assert allowed is not None
    assert mask.keys is not None
    return Drawn(name, meaning, allowed[:, 0].expand(len(mask.keys), rows, columns))


def in_terminal(masks: Sequence[Drawn]) -> str:
    """Rows are queries, columns keys; a full block where a query may look."""
    lines = []
    for mask in masks:
        lines.append(f"{mask.name}: {mask.meaning}")
        cells = [
            ["".join(FULL if seen else EMPTY for seen in row) for row in each]
            for each in mask.allowed.tolist()
        ]
        lines += ["  ".join(row) for row in zip(*cells, strict=True)]
        lines.append("")
    return "\n".join(lines)


def as_picture(masks: Sequence[Drawn]) -> str:
    """An SVG: a row for each mask, a square for each text."""
    parts, y, widest = [], 10, 0
    for mask in masks:
        B, rows, columns = mask.allowed.shape
        parts.append(
            f'<text x="{LEFT}" y="{y + 14}" class="name">{escape(mask.name)}</text>'
            f'<text x="{LEFT}" y="{y + 30}">{escape(mask.meaning)}</text>'
        )
        y += TITLE
        for b in range(B):
            x = LEFT + b * (columns * CELL + GAP)
            parts.append(_square(mask.allowed[b], x, y, f"{mask.name}, text {b + 1}"))
            widest = max(widest, x + columns * CELL)
        y += rows * CELL + GAP
    style = (
        "svg{background:#fff;font-family:system-ui,sans-serif;font-size:12px}"
        "text{fill:#333}.name{font-weight:600;font-size:14px}"
        ".frame{fill:#eceff3}.seen{fill:#2a6fb0}"
    )
    size = f'width="{max(widest, 420) + LEFT}" height="{y}"'
    box = f'viewBox="0 0 {max(widest, 420) + LEFT} {y}"'
    title = "<title>The four masks of a batch; a filled place may be looked at</title>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {box}>{title}'
        f"<style>{style}</style>{''.join(parts)}</svg>\n"
    )


def _square(allowed: Tensor, x: int, y: int, label: str) -> str:
    """One path for all places that may be looked at: runs along each row."""
    rows, columns = allowed.shape
    runs = []
    for i, row in enumerate(allowed.tolist()):
        start = None
        for j, seen in enumerate([*row, False]):
            if seen and start is None:
                start = j
            elif not seen and start is not None:
                width = (j - start) * CELL
                runs.append(f"M{x + start * CELL} {y + i * CELL}h{width}v{CELL - 1}h-{width}z")
                start = None
    return (
        f'<g><title>{escape(label)}</title><rect class="frame" x="{x}" y="{y}" '
        f'width="{columns * CELL}" height="{rows * CELL}"/><path class="seen" d="{"".join(runs)}"/>'
        "</g>"
    )
