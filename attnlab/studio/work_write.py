"""In a worker: summaries and continuations, told token by token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.generate import Generated, Pieces, Sampling, beam_search, generate
from attnlab.models import Decoder, Seq2Seq
from attnlab.studio import limits
from attnlab.studio.models import MODELS
from attnlab.studio.origins import source_words, words_of
from attnlab.studio.refusals import Refused
from attnlab.studio.worker import Teller
from attnlab.tasks.language.recipe import load_language
from attnlab.tasks.summary.recipe import load_summary
from attnlab.tasks.summary.wording import Wording
from attnlab.tasks.summary.writing import Way, Written, check_texts, write_all
from attnlab.tokens import Tokenizer
from attnlab.training import Run

BLOCKED = 3  # tokens in a row that a summary does not repeat


def write(given: dict[str, Any], content: bytes, tell: Teller) -> tuple[Any, bytes]:
    del content
    opened = MODELS.get("write", given["folder"], open_writer)
    if isinstance(opened[0], Seq2Seq):
        summarise(*opened, given, tell)
    else:
        go_on(*opened, given, tell)
    return {}, b""


def open_writer(folder: Path) -> tuple[Any, Any]:
    """Model and wording of a summary run, model and tokeniser of a language run."""
    name = Run(folder).config()["task"].get("name")
    if name == "summary":
        return load_summary(folder)[:2]
    if name != "language":
        raise ValueError(f"{folder.name}: a run of task {name!r}; it writes no text")
    model, tokenizer, _ = load_language(folder)
    if not isinstance(model, Decoder):
        raise ValueError(f"{folder.name}: a masked model fills gaps, it cannot write")
    return model, tokenizer


class Drafts:
    """So many sequences, told while they are written; what was told last is what they are."""

    def __init__(
        self, tell: Teller, count: int, read: Callable[[list[int]], str], end: int | None
    ) -> None:
        self.tell, self.end, self.read = tell, end, read
        self.pieces = [Pieces(read) for _ in range(count)]

    def on_token(self, _: int, place: int, token: int, *__: Any) -> None:
        if token != self.end:
            self.tell("token", {"summary": place, "text": self.pieces[place].add(token)})

    def on_best(self, _: int, several: list[list[int]]) -> None:
        """All sequences as they are now; one that nobody found is empty."""
        for place, pieces in enumerate(self.pieces):
            ids = several[place] if place < len(several) else []
            if ids != pieces.ids:
                self.pieces[place] = Pieces(self.read, ids)
                self.tell("draft", {"summary": place, "text": self.read(ids)})

    def close(self) -> None:
        """Bytes that never became a character are shown as such at the end."""
        for place, pieces in enumerate(self.pieces):
            rest = pieces.rest()
            if rest:
                self.tell("token", {"summary": place, "text": rest})


def summarise(model: Seq2Seq, wording: Wording, given: dict[str, Any], tell: Teller) -> None:
    text, block = given["text"], given["block"]
    check_texts([text], wording)
    beams = given["beams"]
    if beams is None and given["temperature"] == 0 and given["count"] == 1:
        beams = 1  # greedy: each token is told as soon as it is chosen
    way = Way(
        count=given["count"],
        beams=beams,
        temperature=given["temperature"],
        top_k=given["top_k"],
        top_p=given["top_p"],
        block_repeats=BLOCKED if block is None else block,
        seed=given["seed"],
    )
    source, cut = wording.source(text)
    if cut:
        words, owners = source_words(wording, text, source)
        last = None if owners is None else max((o for o in owners if o < len(words)), default=None)
        at = None if last is None else words[last].end
        tell("cut", {"read": len(source), "cut": cut, "at": at})
    drafts = Drafts(tell, way.count, wording.read, wording.tokenizer.end)
    found = write_all(
        model, wording, [text], way, on_token=drafts.on_token, on_best=drafts.on_best
    )[0]
    drafts.close()
    for number, each in enumerate(found):
        tell("summary", told(number, each, words_of(model, wording, text, each.ids, each.text)))


def told(number: int, written: Written, words: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "summary": number,
        "text": written.text,
        "log_probability": written.log_probability,
        "finished": written.finished,
        "words": words,
    }


def go_on(model: Decoder, tokenizer: Tokenizer, given: dict[str, Any], tell: Teller) -> None:
    """A language model continues the text."""
    prompt = [tokenizer.end, *tokenizer.encode(given["text"])]
    limit = model.max_length
    room = limits.TOKENS if limit is None else min(limits.TOKENS, limit - len(prompt))
    if room < 1:
        raise Refused(
            422, f"The text has {len(prompt) - 1} tokens; this model reads at most {limit}."
        )
    how = Sampling(given["temperature"], given["top_k"], given["top_p"], given["seed"])
    count, beams = given["count"], given["beams"]
    drafts = Drafts(tell, count, tokenizer.decode, tokenizer.end)
    rest: dict[str, Any] = {"new_tokens": room, "stop": tokenizer.end}
    rest["block_repeats"] = given["block"] or None
    if beams is not None:
        width = max(beams, count)
        rows = beam_search(
            model, [prompt], width=width, best=count, on_best=drafts.on_best, **rest
        )[0]
    else:
        rows = generate(
            model, [prompt], sampling=how, samples=count, on_token=drafts.on_token, **rest
        )[0]
    drafts.close()
    for number, each in enumerate(rows):
        tell("summary", told(number, *continued(tokenizer, each)))


def continued(tokenizer: Tokenizer, row: Generated) -> tuple[Written, list[dict[str, Any]]]:
    text = tokenizer.decode(row.ids)
    written = Written(text, row.score, row.finished, row.ids)
    return written, [{"text": text, "sources": [], "copied": None}]
