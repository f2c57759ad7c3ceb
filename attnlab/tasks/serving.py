"""What a task's capabilities are made of: a model that is opened once, and asked many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from attnlab.generate import Generated, Sampling, TextStreamer, beam_search, generate
from attnlab.models import Decoder
from attnlab.tokenizer import Tokenizer

Request = Mapping[str, Any]
Tell = Callable[[str, Any], None]
"""Sends an event, by its name, before the end; it raises where nobody listens any more."""


class Served(Protocol):
    """One capability of one run. What is wrong with a run or a request is a ValueError."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Load what it needs; it is kept for the next request."""
        ...

    def __call__(self, request: Request, tell: Tell) -> Any:
        """The response, as JSON can hold it."""
        ...


class Drafts:
    """Several sequences, told while they are written; what was told last is what they are."""

    def __init__(
        self, tell: Tell, count: int, read: Callable[[list[int]], str], end: int | None
    ) -> None:
        self.tell, self.end, self.read = tell, end, read
        self.pieces = [TextStreamer(read) for _ in range(count)]

    def on_token(self, _: int, place: int, token: int, *__: Any) -> None:
        if token != self.end:
            self.tell("token", {"generation": place, "text": self.pieces[place].add(token)})

    def on_best(self, _: int, several: list[list[int]]) -> None:
        """All sequences as they are now; one that nobody found is empty."""
        for place, pieces in enumerate(self.pieces):
            ids = several[place] if place < len(several) else []
            if ids != pieces.ids:
                self.pieces[place] = TextStreamer(self.read, ids)
                self.tell("draft", {"generation": place, "text": self.read(ids)})

    def close(self) -> None:
        """Bytes that never became a character are shown as such at the end."""
        for place, pieces in enumerate(self.pieces):
            rest = pieces.finish()
            if rest:
                self.tell("token", {"generation": place, "text": rest})


def written(
    number: int, text: str, log_probability: float, finished: bool, words: list[dict[str, Any]]
) -> dict[str, Any]:
    """The event `generation`: one whole text, with where each of its words came from."""
    return {
        "generation": number,
        "text": text,
        "log_probability": log_probability,
        "finished": finished,
        "words": words,
    }


def continue_text(
    model: Decoder, tokenizer: Tokenizer, prompt: list[int], request: Request, tell: Tell
) -> None:
    """A decoder writes on, up to the token that ends a text."""
    limit, most = model.max_length, request["tokens"]
    length = most if limit is None else min(most, limit - len(prompt))
    if length < 1:
        raise ValueError(f"The prompt has {len(prompt)} tokens; this model reads at most {limit}.")
    count, beams = request["count"], request["beams"]
    drafts = Drafts(tell, count, tokenizer.decode, tokenizer.end)
    options: dict[str, Any] = {
        "new_tokens": length,
        "stop": tokenizer.end,
        "block_repeats": request["block"] or None,
    }
    rows: list[Generated]
    if beams is not None:
        width = max(beams, count)
        options |= {"width": width, "best": count, "on_best": drafts.on_best}
        rows = beam_search(model, [prompt], **options)[0]
    else:
        sampling = Sampling(*(request[name] for name in ("temperature", "top_k", "top_p", "seed")))
        options |= {"sampling": sampling, "samples": count, "on_token": drafts.on_token}
        rows = generate(model, [prompt], **options)[0]
    drafts.close()
    for number, row in enumerate(rows):
        text = tokenizer.decode(row.ids)
        words: list[dict[str, Any]] = [{"text": text, "sources": [], "copied": None}]
        tell("generation", written(number, text, row.score, row.finished, words))
