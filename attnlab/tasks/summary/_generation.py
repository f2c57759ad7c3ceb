"""Writing summaries: greedy, by beams or drawn, several for each text, many texts at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, TypeVar

import torch

from attnlab._help_groups import COMMON, GENERATION
from attnlab.generate import Generated, Sampling, beam_search, generate
from attnlab.generate._threads import map_in_threads
from attnlab.models import Seq2Seq
from attnlab.tasks.summary._token_ids import Wording
from attnlab.training._batches import pad_rows

Row = TypeVar("Row")
BEAMS = 4  # with these and the length penalty ROUGE-L on validation texts is best (docs/summary.md)
PENALTY = 1.0
ROWS = 128  # summaries that are written at once
SPAN = 3  # words in a row that a text says once
DRAWS = 4  # times as many are drawn as are wanted, at most, where some are alike


@dataclass(frozen=True)
class Way:
    """How summaries are written. The sentences are also the help of the command line."""

    count: Annotated[
        int, "Number of summaries of each text. The best comes first.", GENERATION, COMMON
    ] = 1
    beams: Annotated[
        int | None,
        "Number of beams of the search for the most likely summary; 1 is greedy. Without it, 4, or "
        "none with a temperature.",
        GENERATION,
        COMMON,
    ] = None
    length_penalty: Annotated[
        float, "Beam search divides a log-probability by the length to this power.", GENERATION
    ] = PENALTY
    temperature: Annotated[
        float,
        "Sampling temperature. 1 follows the model's probabilities; 0 samples nothing and takes "
        "the most likely.",
        GENERATION,
        COMMON,
    ] = 0.0
    top_k: Annotated[int | None, "Sample from the k most likely tokens only.", GENERATION] = None
    top_p: Annotated[
        float | None,
        "Sample from the most likely tokens whose probabilities add up to p.",
        GENERATION,
    ] = None
    block_repeats: Annotated[
        int | None, "Never write the same n tokens in a row twice. 0 disables it.", GENERATION
    ] = 3
    max_new_tokens: Annotated[
        int | None,
        "Largest number of tokens to write. Without it, as many as the model was trained for.",
        GENERATION,
    ] = None
    seed: Annotated[int, "Random seed for sampling.", GENERATION] = 0

    def __post_init__(self) -> None:
        for name in ("count", "beams", "max_new_tokens"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ValueError(f"{name} is {number}; give 1 or more")
        if self.block_repeats is not None and self.block_repeats < 0:
            raise ValueError(
                f"block-repeats is {self.block_repeats}; give 1 or more, or 0 to let it repeat"
            )
        if self.beams is not None and self.temperature > 0:
            raise ValueError("beams and temperature; give one of them")
        if (self.top_k is not None or self.top_p is not None) and not self.temperature:
            raise ValueError("top-k and top-p choose what is drawn; give a temperature too")
        if not math.isfinite(self.length_penalty):
            raise ValueError(f"length-penalty is {self.length_penalty}; give a finite number")
        self.sampling()
        if self.length_penalty != PENALTY and self.width is None:
            how = "these are drawn" if self.temperature > 0 else "one beam is greedy"
            raise ValueError(f"length-penalty compares beams, but {how}; leave one of them")

    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed)

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
    score: float | None = None
    """By which a search compares: log-probability / length ** length penalty."""


def check_texts(
    texts: Sequence[str], wording: Wording, names: Sequence[str] | None = None
) -> list[str]:
    """A text without words is refused by its name; a note for each that had to be cut."""
    notes = []
    names = [f"text {number}" for number in range(1, len(texts) + 1)] if names is None else names
    for name, text in zip(names, texts, strict=True):
        if not text.strip():
            raise ValueError(f"{name} is empty; give at least a sentence")
        kept, cut = wording.source(text)
        if cut:
            notes.append(
                f"{name} has {len(kept) + cut} tokens; this model reads {len(kept)}: "
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
    on_best: Callable[[int, list[list[int]]], None] | None = None,
) -> list[list[Written]]:
    """For each text up to `count` different summaries: those of a search the best first, drawn
    ones as they were drawn, which depends on the seed and the text alone.

    There are fewer only where the search or the draws found no more. `on_token` gets the text's
    index, the summary's and each token that is chosen for it, `on_best` the text's index and the
    ids of all its summaries so far, in place of all that was told of it before: after each step of
    a search, and after draws of which some read alike. What was told last is what is returned.
    """
    sources, keys = [torch.tensor(wording.source(text)[0]) for text in texts], _keys(texts)
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    size = max(1, ROWS // (way.width or way.count))
    found: list[list[Written]] = [[] for _ in texts]

    def write(start: int) -> None:
        part = order[start : start + size]
        writer = _Writer(
            model, wording, way, [sources[i] for i in part], [keys[i] for i in part],
            on_token and (lambda i, *rest: on_token(part[i], *rest)),
            on_best and (lambda i, ids: on_best(part[i], ids)),
        )  # fmt: skip
        rows = writer.draw() if way.width is None else writer.search(way.width)
        for i, written in zip(part, rows, strict=True):
            found[i] = written

    starts = range(0, len(order), size)
    if on_token is None and on_best is None:
        map_in_threads(model, write, starts)
    else:  # who listens hears one part after the other
        for start in starts:
            write(start)
    return found


def _keys(texts: Iterable[str]) -> list[int]:
    """What a text's draws depend on: what it says, and how often that was there before."""
    seen: Counter[str] = Counter()
    keys = []
    for text in texts:
        content = f"{seen[text]} {text}".encode("utf-8", "surrogatepass")
        keys.append(int.from_bytes(sha256(content).digest()[:8], "little"))
        seen[text] += 1
    return keys


@dataclass(frozen=True)
class _Writer:
    """Texts of about one length, to be written at once."""

    model: Seq2Seq
    wording: Wording
    way: Way
    sources: Sequence[torch.Tensor]
    keys: Sequence[int]
    on_token: Callable[[int, int, int], None] | None
    on_best: Callable[[int, list[list[int]]], None] | None

    def search(self, width: int) -> list[list[Written]]:
        """What reads alike comes once; what loops or came to no end comes after all others."""

        def tell(i: int, several: list[list[int]]) -> None:
            assert self.on_best is not None
            self.on_best(i, self._different(several, self.wording.read))

        rows = beam_search(
            **self._asked(range(len(self.sources))), width=width, best=width,
            length_penalty=self.way.length_penalty, on_best=tell if self.on_best else None,
        )  # fmt: skip
        found = []
        for i, several in enumerate(rows):
            made = [self._written(row, self.way.length_penalty) for row in several]
            made.sort(key=lambda row: loops(row.text) or not row.finished)
            found.append(self._different(made, lambda row: row.text) or made[:1])
            if self.on_best is not None:
                self.on_best(i, [row.ids for row in found[-1]])
        return found

    def draw(self) -> list[list[Written]]:
        """The first different ones, in their order; more are drawn only where some are alike.

        Greedy is a draw that has no choice.
        """
        count = self.way.count
        most = DRAWS * count if self.way.temperature > 0 else 1
        drawn: list[list[Written]] = [[] for _ in self.sources]
        found, going, number = list(drawn), list(range(len(drawn))), 0
        while going and number < most:
            places = [len(found[i]) for i in going]
            samples = min(count - min(places), most - number)
            rows = generate(
                **self._asked(going), samples=samples, first_sample=number,
                keys=[self.keys[i] for i in going], sampling=self.way.sampling(),
                on_token=self._listener(going, places, number) if self.on_token else None,
            )  # fmt: skip
            number += samples
            for i, place, several in zip(going, places, rows, strict=True):
                drawn[i] = [*drawn[i], *map(self._written, several)]
                # an empty one is told only where there is no other
                found[i] = self._different(drawn[i], lambda row: row.text)
                found[i] = found[i] or drawn[i][: number == most]
                new = [row.ids for row in found[i][place:]]
                if self.on_best and new != [row.ids for row in several[: count - place]]:
                    self.on_best(i, [row.ids for row in found[i]])
            going = [i for i in going if len(found[i]) < count]
        return found

    def _listener(self, going: Sequence[int], places: Sequence[int], first: int) -> Any:
        """A new draw is told at the next free place of its text's summaries, if there is one."""

        def listen(row: int, sample: int, token: int, _: float) -> None:
            place = places[row] + sample - first
            if self.on_token is not None and place < self.way.count:
                self.on_token(going[row], place, token)

        return listen

    def _asked(self, rows: Sequence[int]) -> dict[str, Any]:
        """What search and draws are told of these texts."""
        tokens, longest = (
            self.wording.tokenizer,
            self.way.max_new_tokens or self.wording.longest_summary,
        )
        device, limit = next(self.model.parameters()).device, self.model.max_length
        ids, keys = pad_rows([self.sources[i] for i in rows], tokens.pad)
        context = {"source": ids.to(device)}
        if not bool(keys.all()):
            context["source_keys"] = keys.to(device)
        return {
            "model": self.model,
            "prompts": [[tokens.end]] * len(rows),
            "new_tokens": longest if limit is None else min(longest, limit - 1),
            "stop": tokens.end,
            "block_repeats": self.way.block_repeats or None,
            "context": context,
        }

    def _written(self, row: Generated, penalty: float | None = None) -> Written:
        score = None if penalty is None else row.score / len(row.log_probabilities) ** penalty
        return Written(self.wording.read(row.ids), row.score, row.finished, row.ids, score)

    def _different(self, rows: Iterable[Row], read: Callable[[Row], str]) -> list[Row]:
        """The first `count` that have words and do not read like one before."""
        found: dict[str, Row] = {}
        for row in rows:
            found.setdefault(read(row), row)
        found.pop("", None)
        return list(found.values())[: self.way.count]


def loops(text: str) -> bool:
    """Whether a text goes round: words that are said again at once, or three in a row twice."""
    words = text.lower().split()
    at_once = any(
        words[i : i + n] == words[i + n : i + 2 * n]
        for n in range(1, len(words) // 2 + 1)
        for i in range(len(words) - 2 * n + 1)
    )
    spans = [tuple(words[i : i + SPAN]) for i in range(len(words) - SPAN + 1)]
    return at_once or len(set(spans)) < len(spans)
