"""Show the four masks of a batch: which token may attend to which in training.

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
from attnlab.tasks.summary._task import collate, make_rows
from attnlab.tasks.summary._token_ids import SummaryTextEncoding
from attnlab.tasks.summary._training import load_summary, train_tokenizer

CELL, GAP, TITLE, LEFT = 7, 34, 40, 16  # pixels of the picture
MIN_WIDTH = 540  # pixels, so that every line of text fits
MAX_TEXTS = 8
DEFAULT_TOKENS, MAX_TOKENS = 32, 200
CANDIDATES = 300  # pairs from which the texts are sampled
VOCABULARY = 1000
FULL, EMPTY, SPACE = "█", "·", "  "
REAL = "real tokens of the summary, which have a label; the model needs no mask for them"
BACK = "a token of the summary attends to itself and earlier ones; padding comes after them"


@dataclass(frozen=True)
class BatchMask:
    """One mask for every text: (B, rows, columns), True where a query may attend."""

    name: str
    meaning: str
    allowed: Tensor


def batch_masks(pairs: Sequence[Pair], encoding: SummaryTextEncoding) -> list[BatchMask]:
    """The masks of this batch, and which tokens of the summaries are real.

    The decoder needs no mask for the padding of summaries: it comes after every real token, where
    the causal mask already hides it, and it has no labels.
    """
    if not 1 <= len(pairs) <= MAX_TEXTS:
        raise ValueError(
            f"got {len(pairs)} texts; give 1 to {MAX_TEXTS}, so that the masks stay readable"
        )
    rows, too_long = make_rows(pairs, encoding)
    if too_long:
        raise ValueError(
            f"{too_long} of the summaries have more than {encoding.longest_summary} tokens; "
            "give shorter ones"
        )
    batch = collate(rows, encoding.tokenizer.pad, encoding.tokenizer.end)
    source, target = batch["keys"], batch["labels"] >= 0
    (B, S), T = source.shape, target.shape[1]
    return [
        _make_mask("encoder padding", "a token of the text attends to the text", source, S, S),
        _make_mask("decoder padding", REAL, target, T, T),
        _make_mask("cross", "a token of the summary attends to the text", source, T, S),
        _make_mask("decoder self", BACK, None, T, T, B),
    ]


def example_masks(
    data: str | Path,
    columns: Columns,
    *,
    run: Path | None = None,
    texts: int = 3,
    tokens: int | None = None,
    seed: int = 0,
) -> list[BatchMask]:
    """The masks of some pairs of a source, encoded by a run's tokenizer or by a new one.

    Texts and summaries are not cut, and their lengths differ if possible. By default they have at
    most 32 tokens, or as many as necessary if all are longer.
    """
    for name, number, most in (("texts", texts, MAX_TEXTS), ("tokens", tokens, MAX_TOKENS)):
        if number is not None and not 1 <= number <= most:
            raise ValueError(
                f"{name} is {number}; give 1 to {most}, so that the masks stay readable"
            )
    pairs = _sample_pairs(data, columns, random.Random(seed))
    tokenizer = (
        train_tokenizer(pairs, VOCABULARY) if run is None else load_summary(run)[1].tokenizer
    )
    longest = MAX_TOKENS if tokens is None else tokens
    uncut = _uncut_pairs(pairs, SummaryTextEncoding(tokenizer, longest, longest))
    if len(uncut) < texts:
        advice = "" if tokens is None else "; give more tokens"
        raise ValueError(
            f"{data}: only {len(uncut)} of {len(pairs)} pairs have a text and a summary of at most "
            f"{longest} tokens, but you want {texts}{advice}"
        )
    if tokens is None:
        needed = sorted(max(lengths) for _, lengths in uncut)[texts - 1]
        longest = max(DEFAULT_TOKENS, needed)
    by_length: dict[int, Pair] = {}
    others: list[Pair] = []
    for pair, lengths in uncut:
        if max(lengths) <= longest and by_length.setdefault(lengths[0], pair) is not pair:
            others.append(pair)
    selected = [*by_length.values(), *others][:texts]
    return batch_masks(selected, SummaryTextEncoding(tokenizer, longest, longest))


def _uncut_pairs(
    pairs: Sequence[Pair], encoding: SummaryTextEncoding
) -> list[tuple[Pair, tuple[int, int]]]:
    """The pairs that fit without a cut, with the lengths of text and summary in tokens."""
    uncut = []
    for pair in pairs:
        (ids, cut), summary = (
            encoding.encode_source(pair.text),
            encoding.encode_summary(pair.summary),
        )
        if not cut and len(summary) <= encoding.longest_summary:
            uncut.append((pair, (len(ids), len(summary))))
    return uncut


def _sample_pairs(data: str | Path, columns: Columns, generator: random.Random) -> list[Pair]:
    """Pairs in random order. It reads only as many docstrings as needed: all take a minute."""
    if str(data) != "docstrings":
        loaded = load_pairs(data, columns)
        return generator.sample(loaded, min(CANDIDATES, len(loaded)))
    files = list(docstrings.sources())
    generator.shuffle(files)
    pairs: list[Pair] = []
    for module, path in files:
        if len(pairs) >= CANDIDATES:
            break
        pairs += docstrings.docstring_pairs(module, path)
    return pairs


def _make_mask(
    name: str, meaning: str, keys: Tensor | None, rows: int, columns: int, batch: int = 0
) -> BatchMask:
    """A mask with keys (B, columns) that may be attended to, or without keys a causal mask."""
    allowed = Mask(causal=keys is None, keys=keys).allowed(rows, columns, torch.device("cpu"))
    assert allowed is not None
    B = batch if keys is None else len(keys)
    return BatchMask(name, meaning, allowed[:, 0].expand(B, rows, columns))


def format_masks(masks: Sequence[BatchMask], width: int = 80) -> str:
    """The masks as text. Rows are queries, columns are keys; a full block means: may attend.

    It puts as many texts next to each other as fit into the width.
    """
    lines = []
    for mask in masks:
        lines += wrap(f"{mask.name}: {mask.meaning}", width)
        texts, _, columns = mask.allowed.shape
        per_line = (width + len(SPACE)) // (columns + len(SPACE))
        if not per_line:
            lines += wrap(f"{columns} tokens do not fit into {width} columns", width)
        for first in range(0, texts, per_line) if per_line else ():
            lines += [
                SPACE.join("".join(FULL if allowed else EMPTY for allowed in row) for row in rows)
                for rows in zip(*mask.allowed[first : first + per_line].tolist(), strict=True)
            ]
            lines.append("")
    return "\n".join(lines)


def render_svg(masks: Sequence[BatchMask]) -> str:
    """The masks as SVG: a row for each mask, a square for each text."""
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
            parts.append(_svg_matrix(mask.allowed[b], x, y, f"{mask.name}, text {b + 1}"))
            widest = max(widest, x + columns * CELL)
        y += rows * CELL + GAP
    style = (
        "svg{background:#fff;font-family:system-ui,sans-serif;font-size:12px}"
        "text{fill:#333}.name{font-weight:600;font-size:14px}"
        ".frame{fill:#eceff3}.seen{fill:#2a6fb0}"
    )
    size = f'width="{max(widest, MIN_WIDTH) + LEFT}" height="{y}"'
    box = f'viewBox="0 0 {max(widest, MIN_WIDTH) + LEFT} {y}"'
    title = "<title>The four masks of a batch; a query may attend to a filled cell</title>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {box}>{title}'
        f"<style>{style}</style>{''.join(parts)}</svg>\n"
    )


def _svg_matrix(allowed: Tensor, x: int, y: int, label: str) -> str:
    """One path for all allowed cells, made of runs along each row."""
    rows, columns = allowed.shape
    runs = []
    for i, row in enumerate(allowed.tolist()):
        start = None
        for j, is_allowed in enumerate([*row, False]):
            if is_allowed and start is None:
                start = j
            elif not is_allowed and start is not None:
                width = (j - start) * CELL
                runs.append(f"M{x + start * CELL} {y + i * CELL}h{width}v{CELL - 1}h-{width}z")
                start = None
    return (
        f'<g><title>{escape(label)}</title><rect class="frame" x="{x}" y="{y}" '
        f'width="{columns * CELL}" height="{rows * CELL}"/><path class="seen" d="{"".join(runs)}"/>'
        "</g>"
    )
