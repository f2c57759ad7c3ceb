"""How the studio uses a trained run: a service loads the model once and answers many requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from attnlab.generate import Generated, Sampling, TextStreamer, beam_search, generate
from attnlab.models import Decoder
from attnlab.tokenizer import Tokenizer

Request = Mapping[str, Any]
SendEvent = Callable[[str, Any], None]
"""Sends an event (its name and data) while a request runs; raises once the client is gone."""


class Service(Protocol):
    """One capability of one run. It raises a ValueError for a bad run or a bad request."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Load what the requests need; the studio keeps the service for later requests."""
        ...

    def __call__(self, request: Request, send: SendEvent) -> Any:
        """Handle a request and return a response that JSON can represent."""
        ...


class DraftStream:
    """Sends several sequences while they are generated. The last state sent is the result."""

    def __init__(
        self, send: SendEvent, count: int, decode: Callable[[list[int]], str], end: int | None
    ) -> None:
        self.send, self.end, self.decode = send, end, decode
        self.pieces = [TextStreamer(decode) for _ in range(count)]

    def on_token(self, _: int, index: int, token: int, *__: Any) -> None:
        if token != self.end:
            self.send("token", {"generation": index, "text": self.pieces[index].add(token)})

    def on_best(self, _: int, sequences: list[list[int]]) -> None:
        """Send the sequences that changed. A sequence that the search has not reached is empty."""
        for index, pieces in enumerate(self.pieces):
            ids = sequences[index] if index < len(sequences) else []
            if ids != pieces.ids:
                self.pieces[index] = TextStreamer(self.decode, ids)
                self.send("draft", {"generation": index, "text": self.decode(ids)})

    def close(self) -> None:
        """Send the bytes at the end that never became a whole character."""
        for index, pieces in enumerate(self.pieces):
            rest = pieces.finish()
            if rest:
                self.send("token", {"generation": index, "text": rest})


def generation_event(
    number: int, text: str, log_probability: float, finished: bool, words: list[dict[str, Any]]
) -> dict[str, Any]:
    """The data of the event `generation`: one whole text, and where each of its words came from."""
    return {
        "generation": number,
        "text": text,
        "log_probability": log_probability,
        "finished": finished,
        "words": words,
    }


def continue_text(
    model: Decoder, tokenizer: Tokenizer, prompt: list[int], request: Request, send: SendEvent
) -> None:
    """Let a decoder continue a prompt up to the end token, and send what it writes."""
    limit, requested = model.max_length, request["tokens"]
    length = requested if limit is None else min(requested, limit - len(prompt))
    if length < 1:
        raise ValueError(f"The prompt has {len(prompt)} tokens; this model reads at most {limit}.")
    samples, beams = request["count"], request["beams"]
    drafts = DraftStream(send, samples, tokenizer.decode, tokenizer.end)
    arguments: dict[str, Any] = {
        "new_tokens": length,
        "stop": tokenizer.end,
        "block_repeats": request["block"] or None,
    }
    rows: list[Generated]
    if beams is not None:
        width = max(beams, samples)
        arguments |= {"width": width, "best": samples, "on_best": drafts.on_best}
        rows = beam_search(model, [prompt], **arguments)[0]
    else:
        sampling = Sampling(*(request[name] for name in ("temperature", "top_k", "top_p", "seed")))
        arguments |= {"sampling": sampling, "samples": samples, "on_token": drafts.on_token}
        rows = generate(model, [prompt], **arguments)[0]
    drafts.close()
    for number, row in enumerate(rows):
        text = tokenizer.decode(row.ids)
        words: list[dict[str, Any]] = [{"text": text, "sources": [], "copied": None}]
        send("generation", generation_event(number, text, row.score, row.finished, words))
