"""The four masks of a batch, drawn: who may look at whom while a summary is learned.

Letters: B batch, S source tokens, T target tokens.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from textwrap import wrap

import torch
from torch import Tensor

from attnlab.mask import Mask
from attnlab.tasks.summary import _docstrings as docstrings
from attnlab.tasks.summary._data_sources import load_pairs
from attnlab.tasks.summary._pairs import Columns, Pair
from attnlab.tasks.summary._task import collate, rows_of
from attnlab.tasks.summary._token_ids import Wording
from attnlab.tasks.summary._training import learned, load_summary

CELL, GAP, TITLE, LEFT = 7, 34, 40, 16  # pixels of the picture
NARROWEST = 540  # pixels, so that every line of text has room
MOST = 8  # texts
USUAL_TOKENS, MOST_TOKENS = 32, 200
READ = 300  # pairs from which those that are drawn are chosen
VOCABULARY = 1000
FULL, EMPTY, SPACE = "█", "·", "  "
REAL = "tokens of the summary that are real and have a label; the model needs no mask for it"
BACK = "a token of the summary looks at itself and back; padding is behind all real ones"


@dataclass(frozen=True)
class Drawn:
    """One mask of every text: (B, rows, columns), True where a query may look."""

    name: str
    meaning: str
    allowed: Tensor


def masks_of(pairs: Sequence[Pair], wording: Wording) -> list[Drawn]:
    """What the model is told of this batch, and which tokens of the summaries are real.

    No mask tells the decoder of the padding of summaries: it stands behind every real token, where
    the causal mask hides it already, and what is written there has no label.
    """
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
    (B, S), T = source.shape, target.shape[1]
    return [
        _drawn("encoder padding", "a token of the text looks at the text", source, S, S),
        _drawn("decoder padding", REAL, target, T, T),
        _drawn("cross", "a token of the summary looks at the text", source, T, S),
        _drawn("decoder self", BACK, None, T, T, B),
    ]


def example(
    data: str | Path,
    columns: Columns,
    *,
    run: Path | None = None,
    texts: int = 3,
    tokens: int | None = None,
    seed: int = 0,
) -> list[Drawn]:
    """The masks of some pairs of a source, as a run's tokenizer or one of its own reads them.

    Texts and summaries are whole, and their lengths differ where the source has such. Unless told,
    they have at most 32 tokens, or as many as are needed where all are longer.
    """
    for name, number, most in (("texts", texts, MOST), ("tokens", tokens, MOST_TOKENS)):
        if number is not None and not 1 <= number <= most:
            raise ValueError(f"{name} is {number}; give 1 to {most}, so that masks can be seen")
    pairs = _some_pairs(data, columns, random.Random(seed))
    known = learned(pairs, VOCABULARY) if run is None else load_summary(run)[1].tokenizer
    longest = MOST_TOKENS if tokens is None else tokens
    whole = _whole_pairs(pairs, Wording(known, longest, longest))
    if len(whole) < texts:
        advice = "" if tokens is None else "; give more tokens"
        raise ValueError(
            f"{data}: {len(whole)} of the {len(pairs)} pairs that were read have a text and a "
            f"summary of at most {longest} tokens, {texts} are asked for{advice}"
        )
    if tokens is None:
        needed = sorted(max(lengths) for _, lengths in whole)[texts - 1]
        longest = max(USUAL_TOKENS, needed)
    different: dict[int, Pair] = {}
    others: list[Pair] = []
    for pair, lengths in whole:
        if max(lengths) <= longest and different.setdefault(lengths[0], pair) is not pair:
            others.append(pair)
    chosen = [*different.values(), *others][:texts]
    return masks_of(chosen, Wording(known, longest, longest))


def _whole_pairs(pairs: Sequence[Pair], wording: Wording) -> list[tuple[Pair, tuple[int, int]]]:
    """Those of which nothing is cut off, with the tokens of text and summary."""
    found = []
    for pair in pairs:
        (ids, cut), summary = wording.source(pair.text), wording.summary(pair.summary)
        if not cut and len(summary) <= wording.longest_summary:
            found.append((pair, (len(ids), len(summary))))
    return found


def _some_pairs(data: str | Path, columns: Columns, draw: random.Random) -> list[Pair]:
    """In random order. Of docstrings only so many as are needed: to read all takes a minute."""
    if str(data) != "docstrings":
        pairs = load_pairs(data, columns)
        return draw.sample(pairs, min(READ, len(pairs)))
    files = list(docstrings.sources())
    draw.shuffle(files)
    found: list[Pair] = []
    for module, path in files:
        if len(found) >= READ:
            break
        found += docstrings.pairs_in(module, path)
    return found


def _drawn(
    name: str, meaning: str, keys: Tensor | None, rows: int, columns: int, batch: int = 0
) -> Drawn:
    """With keys (B, columns) that may be looked at, or causal."""
    allowed = Mask(causal=keys is None, keys=keys).allowed(rows, columns, torch.device("cpu"))
    assert allowed is not None
    B = batch if keys is None else len(keys)
    return Drawn(name, meaning, allowed[:, 0].expand(B, rows, columns))


def in_terminal(masks: Sequence[Drawn], width: int = 80) -> str:
    """Rows are queries, columns keys; a full block where a query may look.

    As many texts beside each other as the width has room for.
    """
    lines = []
    for mask in masks:
        lines += wrap(f"{mask.name}: {mask.meaning}", width)
        texts, _, columns = mask.allowed.shape
        beside = (width + len(SPACE)) // (columns + len(SPACE))
        if not beside:
            lines += wrap(f"{columns} tokens are too wide to be drawn in {width} columns", width)
        for first in range(0, texts, beside) if beside else ():
            lines += [
                SPACE.join("".join(FULL if seen else EMPTY for seen in row) for row in rows)
                for rows in zip(*mask.allowed[first : first + beside].tolist(), strict=True)
            ]
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
    size = f'width="{max(widest, NARROWEST) + LEFT}" height="{y}"'
    box = f'viewBox="0 0 {max(widest, NARROWEST) + LEFT} {y}"'
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
