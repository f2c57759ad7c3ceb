"""Writing summaries: greedy, by beams or drawn, several for each text, many texts at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch

from attnlab.generate import Generated, Sampling, beam_search, generate
from attnlab.generate.threads import side_by_side
from attnlab.models import Seq2Seq
from attnlab.tasks.summary.wording import Wording
from attnlab.training.data import mix, pad_rows

BEAMS = 4  # with these and the length penalty ROUGE-L on validation texts is best (docs/summary.md)
ROWS = 128  # summaries that are written at once
LOOP = 3  # times that a word may not stand in a row
DRAWS = 4  # times as many are drawn as are wanted, because some will be alike


@dataclass(frozen=True)
class Way:
    """How summaries are written. The command line's help is made from this."""

    count: Annotated[int, "different summaries of each text, the best first"] = 1
    beams: Annotated[
        int | None, "search the likeliest with so many beams; 1: greedy; default 4, unless drawn"
    ] = None
    length_penalty: Annotated[float, "beams: compare by score / length ** this"] = 1.0
    temperature: Annotated[float, "draw; 1: as likely as the model says; 0: the likeliest"] = 0.0
    top_k: Annotated[int | None, "draw among the k likeliest tokens"] = None
    top_p: Annotated[float | None, "draw among the likeliest tokens that have p together"] = None
    block_repeats: Annotated[int | None, "no n tokens in a row twice; 0: as often as it likes"] = 3
    tokens: Annotated[int | None, "longest summary, if not what the model learned"] = None
    seed: Annotated[int, "of what is drawn"] = 0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count is {self.count}; give 1 or more")
        if self.beams is not None and self.temperature > 0:
            raise ValueError("beams and temperature; give one of them")
        if self.tokens is not None and self.tokens < 1:
            raise ValueError(f"tokens is {self.tokens}; give 1 or more")
        if (self.top_k is not None or self.top_p is not None) and not self.temperature:
            raise ValueError("top-k and top-p choose what is drawn; give a temperature too")
        self.sampling()

    def sampling(self, seed: int | None = None) -> Sampling:
        seed = self.seed if seed is None else seed
        return Sampling(self.temperature, self.top_k, self.top_p, seed)

    @property
    def width(self) -> int | None:
        """Of the search, if there is one: several different summaries need several beams."""
        if self.temperature > 0 or (self.beams == 1 and self.count == 1):
            return None
        return max(self.beams or BEAMS, 2 * self.count if self.count > 1 else 1)


SEARCH, GREEDY = Way(), Way(beams=1)


@dataclass(frozen=True)
class Written:
    """One summary."""

    text: str
    log_probability: float
    """Of the whole summary, its end included."""
    finished: bool
    """It came to its end, and was not stopped for its length."""
    ids: list[int]


def check_texts(texts: Sequence[str], wording: Wording) -> list[str]:
    """A text without words is refused by its number; a note for each that had to be cut."""
    notes = []
    for number, text in enumerate(texts, 1):
        if not text.strip():
            raise ValueError(f"text {number} is empty; give at least a sentence")
        kept, cut = wording.source(text)
        if cut:
            notes.append(
                f"text {number} has {len(kept) + cut} tokens; this model reads {len(kept)}: "
                f"the last {cut} were cut off"
            )
    return notes


def write_all(
    model: Seq2Seq,
    wording: Wording,
    texts: Sequence[str],
    way: Way = SEARCH,
    *,
    on_token: Callable[[int, int, int], None] | None = None,
    on_best: Callable[[int, list[int]], None] | None = None,
) -> list[list[Written]]:
    """For each text up to `count` different summaries, the best first.

    There are fewer only where the search or the draws found no more. `on_token` gets the text's
    index, the draw's and each token that is chosen, `on_best` the text's index and the likeliest
    beam after each step of a search.
    """
    sources = [torch.tensor(wording.source(text)[0]) for text in texts]
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    each = way.width or (1 if way.temperature == 0 else _draws(way))
    size = max(1, ROWS // each)
    found: list[list[Written]] = [[] for _ in texts]

    def write(start: int) -> None:
        part = order[start : start + size]
        hear = _Hear(part, on_token, on_best)
        rows = _write(model, wording, [sources[i] for i in part], way, start // size, hear)
        for i, written in zip(part, rows, strict=True):
            found[i] = _different(written, wording, way)

    starts = range(0, len(order), size)
    if on_token is None and on_best is None:
        side_by_side(model, write, starts)
    else:  # who listens hears one part after the other
        for start in starts:
            write(start)
    return found


@dataclass(frozen=True)
class _Hear:
    """Who listens; numbers within a part become those of the texts."""

    part: Sequence[int]
    token: Callable[[int, int, int], None] | None
    best: Callable[[int, list[int]], None] | None

    def on_token(self, prompt: int, sample: int, token: int, log_probability: float) -> None:
        del log_probability
        if self.token is not None:
            self.token(self.part[prompt], sample, token)

    def on_best(self, prompt: int, ids: list[int]) -> None:
        if self.best is not None:
            self.best(self.part[prompt], ids)


def _draws(way: Way) -> int:
    return 1 if way.count == 1 else DRAWS * way.count


def _write(
    model: Seq2Seq,
    wording: Wording,
    sources: Sequence[torch.Tensor],
    way: Way,
    number: int,
    hear: _Hear,
) -> list[list[Generated]]:
    """Texts of about one length."""
    tokens = wording.tokenizer
    device = next(model.parameters()).device
    ids, keys = pad_rows(sources, tokens.pad)
    context = {"source": ids.to(device)}
    if not bool(keys.all()):
        context["source_keys"] = keys.to(device)
    prompts = [[tokens.end]] * len(sources)
    longest = way.tokens or wording.longest_summary
    room = longest if model.max_length is None else min(longest, model.max_length - 1)
    block = way.block_repeats or None
    if way.width is not None:
        return beam_search(
            model, prompts, new_tokens=room, stop=tokens.end, width=way.width, best=way.width,
            length_penalty=way.length_penalty, block_repeats=block, context=context,
            on_best=hear.on_best if hear.best else None,
        )  # fmt: skip
    return generate(
        model, prompts, new_tokens=room, stop=tokens.end, samples=_draws(way),
        sampling=way.sampling(mix(way.seed, number) if number else way.seed),
        block_repeats=block, context=context, on_token=hear.on_token if hear.token else None,
    )  # fmt: skip


def _different(rows: Sequence[Generated], wording: Wording, way: Way) -> list[Written]:
    """What reads alike comes once; beams keep their order, draws come by their likelihood. What
    loops or came to no end comes after all others."""
    made = [Written(wording.read(row.ids), row.score, row.finished, row.ids) for row in rows]
    made = [row for row in made if row.text] or made[:1]
    if way.temperature > 0:
        made.sort(key=lambda row: -row.log_probability)
    made.sort(key=lambda row: loops(row.text) or not row.finished)
    found: dict[str, Written] = {}
    for row in made:
        found.setdefault(row.text, row)
    return list(found.values())[: way.count]


def loops(text: str) -> bool:
    """Whether a text goes round: one word again and again, or the same three words."""
    words = text.lower().split()
    again = any(len({*words[i : i + LOOP]}) == 1 for i in range(len(words) - LOOP + 1))
    spans = [tuple(words[i : i + 3]) for i in range(len(words) - 2)]
    return again or any(spans.count(span) >= 2 for span in set(spans))
