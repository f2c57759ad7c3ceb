"""In a worker: where each word of a summary came from.

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
from attnlab.tasks.summary._token_ids import Wording, spaced

SOURCES, LEAST = 4, 0.05  # places of a word that are told, and the weight from which on
SPACE = re.compile(rb"[^ \t\n\r\x0b\x0c]+")


@dataclass(frozen=True)
class Word:
    """Of the text that was given: characters as JavaScript counts them."""

    start: int
    end: int


def words_of(
    model: Seq2Seq, wording: Wording, text: str, ids: list[int], summary: str
) -> list[dict[str, Any]]:
    """The words of a summary, which joined are the summary, each with where it came from.

    A copied word came from where it stands; a written one from where the model looked.
    """
    whole: list[dict[str, Any]] = [{"text": summary, "sources": [], "copied": None}]
    places = token_words([wording.tokenizer.content(i) for i in ids], summary)
    source = wording.source(text)[0]
    words, owners = source_words(wording, text, source)
    if places is None or owners is None or not ids or not source:
        return whole
    weights, copied = weights_of(model, wording, source, ids)  # (T, S), (T,)
    by_word = torch.zeros(len(ids), len(words) + 1)
    by_word.index_add_(1, torch.tensor(owners), weights)  # the last column: tokens of no word
    found = []
    for number, each in enumerate(summary.split(" ")):
        rows = [t for t, place in enumerate(places) if place == number]
        mean = by_word[rows, :-1].mean(0)
        best = mean.argsort(descending=True)[:SOURCES].tolist()
        sources = [
            {"start": words[w].start, "end": words[w].end, "weight": round(float(mean[w]), 4)}
            for w in best
            if float(mean[w]) >= LEAST
        ]
        share = None if copied is None else round(float(copied[rows].mean()), 4)
        found.append({"text": f" {each}" if number else each, "sources": sources, "copied": share})
    return found


def token_words(contents: list[bytes], summary: str) -> list[int | None] | None:
    """The word that each token belongs to; None for all where bytes and words do not agree."""
    raw = b"".join(contents)
    spans = [match.span() for match in SPACE.finditer(raw)]
    read = [raw[begin:end].decode("utf-8", "replace") for begin, end in spans]
    if not summary or read != summary.split(" "):
        return None
    found: list[int | None] = []
    at = 0
    for content in contents:
        inside = [n for n, (b, e) in enumerate(spans) if b < at + len(content) and e > at]
        found.append(inside[0] if inside else None)
        at += len(content)
    return found if set(range(len(spans))) <= set(found) else None


def source_words(
    wording: Wording, text: str, source: list[int]
) -> tuple[list[Word], list[int] | None]:
    """The words of the text, and the number of the word that each source token begins in.

    The model reads the text with its spaces made even; what is no space stays, in its order.
    """
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    wide = [0]
    for character in text:  # a character beyond the first 65,536 counts twice in JavaScript
        wide.append(wide[-1] + (2 if ord(character) > 0xFFFF else 1))
    words = [Word(wide[begin], wide[end]) for begin, end in spans]
    word_at = [n for n, (begin, end) in enumerate(spans) for _ in range(begin, end)]
    owner_of_byte: list[int] = []
    solid = 0
    for character in spaced(text):
        space = character.isspace()
        owner = len(words) if space or solid >= len(word_at) else word_at[solid]
        owner_of_byte += [owner] * len(character.encode("utf-8"))
        solid += not space
    owners, at = [], 0
    read = spaced(text).encode("utf-8")
    for i in source:
        content = wording.tokenizer.content(i)
        if read[at : at + len(content)] != content:
            return words, None
        inside = [o for o in owner_of_byte[at : at + len(content)] if o < len(words)]
        owners.append(inside[0] if inside else len(words))
        at += len(content)
    return words, owners


@torch.no_grad()
def weights_of(
    model: Seq2Seq, wording: Wording, source: list[int], ids: list[int]
) -> tuple[Tensor, Tensor | None]:
    """Where each written token came from (T, S), and how surely it was copied (T,)."""
    device = next(model.parameters()).device
    read = torch.tensor([source], device=device)  # (1, S)
    before = torch.tensor([[wording.tokenizer.end, *ids[:-1]]], device=device)  # (1, T)
    if model.copy is None:
        return looked_at(model, read, before), None
    memory = model.encoder(read, None)
    x = model.decoder(before, None, memory, None)  # (1, T, W)
    kept = model.copy.absorb(memory, read, None)
    looked = model.copy.weights(x, kept)  # (1, T, S)
    written, copied = model.copy.gate_log_probabilities(x, looked)  # (1, T)
    tokens = torch.tensor(ids, device=device)  # (T,)
    own = model.head(x).log_softmax(-1)[0].gather(1, tokens[:, None])[:, 0]  # (T,)
    same = looked[0] * (read == tokens[:, None])  # (T, S)
    mass = same.sum(1)  # (T,)
    by_copy = copied[0].exp() * mass
    share = by_copy / (by_copy + (own + written[0]).exp()).clamp(min=1e-30)  # (T,)
    exact = same / mass[:, None].clamp(min=1e-30)  # (T, S)
    mixed = share[:, None] * exact + (1 - share[:, None]) * looked[0]
    return mixed.float().cpu(), share.float().cpu()


def looked_at(model: Seq2Seq, read: Tensor, before: Tensor) -> Tensor:
    """The mean of all cross-attention (T, S); negative weights count as none."""
    with capture(model) as seen:
        model(read, before)
    crossed = [
        x.weights.mean(0) for x in seen.layers if x.kind == "cross" and x.weights is not None
    ]
    mean = torch.stack(crossed).mean(0).clamp(min=0)  # (T, S)
    return mean / mean.sum(1, keepdim=True).clamp(min=1e-30)
