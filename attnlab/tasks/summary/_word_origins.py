"""Find the words of the text that each word of a summary came from.

Letters: T written tokens, S source tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlab.interpret._capture import capture
from attnlab.models import Seq2Seq
from attnlab.tasks.summary._token_ids import SummaryTextEncoding, normalize_spaces

MAX_SOURCES, MIN_WEIGHT = 4, 0.05  # source words of a word, and their least weight
NOT_SPACE = re.compile(rb"[^ \t\n\r\x0b\x0c]+")


@dataclass(frozen=True)
class WordSpan:
    """A word of the text. Start and end count characters as JavaScript does."""

    start: int
    end: int


def summary_words(
    model: Seq2Seq, encoding: SummaryTextEncoding, text: str, ids: list[int], summary: str
) -> list[dict[str, Any]]:
    """The words of a summary (joined, they are the summary), each with its source words.

    A copied word comes from the word that was copied; a generated word from the words that the
    model attended to.
    """
    without_sources: list[dict[str, Any]] = [{"text": summary, "sources": [], "copied": None}]
    word_indices = token_words([encoding.tokenizer.content(i) for i in ids], summary)
    source = encoding.encode_source(text)[0]
    words, owners = source_words(encoding, text, source)
    if word_indices is None or owners is None or not ids or not source:
        return without_sources
    weights, copied = source_weights(model, encoding, source, ids)  # (T, S), (T,)
    by_word = torch.zeros(len(ids), len(words) + 1)  # the last column: tokens outside words
    by_word.index_add_(1, torch.tensor(owners), weights)
    explained = []
    for number, word in enumerate(summary.split(" ")):
        rows = [t for t, index in enumerate(word_indices) if index == number]
        mean = by_word[rows, :-1].mean(0)
        best = mean.argsort(descending=True)[:MAX_SOURCES].tolist()
        sources = [
            {"start": words[w].start, "end": words[w].end, "weight": round(float(mean[w]), 4)}
            for w in best
            if float(mean[w]) >= MIN_WEIGHT
        ]
        fraction = None if copied is None else round(float(copied[rows].mean()), 4)
        explained.append(
            {"text": f" {word}" if number else word, "sources": sources, "copied": fraction}
        )
    return explained


def token_words(contents: list[bytes], summary: str) -> list[int | None] | None:
    """The index of the word that each token belongs to, or None if bytes and words do not match."""
    raw = b"".join(contents)
    spans = [match.span() for match in NOT_SPACE.finditer(raw)]
    words = [raw[begin:end].decode("utf-8", "replace") for begin, end in spans]
    if not summary or words != summary.split(" "):
        return None
    indices: list[int | None] = []
    position = 0
    for content in contents:
        inside = [
            n for n, (b, e) in enumerate(spans) if b < position + len(content) and e > position
        ]
        indices.append(inside[0] if inside else None)
        position += len(content)
    return indices if set(range(len(spans))) <= set(indices) else None


def source_words(
    encoding: SummaryTextEncoding, text: str, source: list[int]
) -> tuple[list[WordSpan], list[int] | None]:
    """The words of the text, and the index of the word that each source token begins in.

    The model reads the text with normalized spaces; all other characters stay in order.
    """
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    offsets = [0]
    for character in text:  # JavaScript counts a character above U+FFFF twice
        offsets.append(offsets[-1] + (2 if ord(character) > 0xFFFF else 1))
    words = [WordSpan(offsets[begin], offsets[end]) for begin, end in spans]
    word_at = [n for n, (begin, end) in enumerate(spans) for _ in range(begin, end)]
    owner_of_byte: list[int] = []
    characters = 0
    for character in normalize_spaces(text):
        space = character.isspace()
        owner = len(words) if space or characters >= len(word_at) else word_at[characters]
        owner_of_byte += [owner] * len(character.encode("utf-8"))
        characters += not space
    owners, position = [], 0
    normalized = normalize_spaces(text).encode("utf-8")
    for i in source:
        content = encoding.tokenizer.content(i)
        if normalized[position : position + len(content)] != content:
            return words, None
        inside = [o for o in owner_of_byte[position : position + len(content)] if o < len(words)]
        owners.append(inside[0] if inside else len(words))
        position += len(content)
    return words, owners


@torch.no_grad()
def source_weights(
    model: Seq2Seq, encoding: SummaryTextEncoding, source: list[int], ids: list[int]
) -> tuple[Tensor, Tensor | None]:
    """The source weights of each written token (T, S), and its probability of being a copy (T,)."""
    device = next(model.parameters()).device
    source_ids = torch.tensor([source], device=device)  # (1, S)
    previous_ids = torch.tensor([[encoding.tokenizer.end, *ids[:-1]]], device=device)  # (1, T)
    if model.copy is None:
        return cross_attention_weights(model, source_ids, previous_ids), None
    memory = model.encoder(source_ids, None)
    x = model.decoder(previous_ids, None, memory, None)  # (1, T, W)
    absorbed = model.copy.absorb(memory, source_ids, None)
    attention = model.copy.weights(x, absorbed)  # (1, T, S)
    log_generate, copied = model.copy.gate_log_probabilities(x, attention)  # (1, T)
    tokens = torch.tensor(ids, device=device)  # (T,)
    log_own = model.head(x).log_softmax(-1)[0].gather(1, tokens[:, None])[:, 0]  # (T,)
    matches = attention[0] * (source_ids == tokens[:, None])  # (T, S)
    match_weight = matches.sum(1)  # (T,)
    copy_probability = copied[0].exp() * match_weight
    total = copy_probability + (log_own + log_generate[0]).exp()
    fraction = copy_probability / total.clamp(min=1e-30)  # (T,)
    copy_weights = matches / match_weight[:, None].clamp(min=1e-30)  # (T, S)
    combined = fraction[:, None] * copy_weights + (1 - fraction[:, None]) * attention[0]
    return combined.float().cpu(), fraction.float().cpu()


def cross_attention_weights(model: Seq2Seq, source_ids: Tensor, previous_ids: Tensor) -> Tensor:
    """The mean of all cross-attention weights (T, S). Negative weights count as 0."""
    with capture(model) as recorded:
        model(source_ids, previous_ids)
    per_layer = [
        x.weights.mean(0) for x in recorded.layers if x.kind == "cross" and x.weights is not None
    ]
    mean = torch.stack(per_layer).mean(0).clamp(min=0)  # (T, S)
    return mean / mean.sum(1, keepdim=True).clamp(min=1e-30)
