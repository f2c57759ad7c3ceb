"""Writes summaries with a summary run and sends them token by token, for the studio."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Seq2Seq
from attnlab.tasks.serving import DraftStream, Request, SendEvent, generation_event
from attnlab.tasks.summary._generation import GenerationMethod, check_texts, write_summaries
from attnlab.tasks.summary._token_ids import SummaryTextEncoding
from attnlab.tasks.summary._training import load_summary
from attnlab.tasks.summary._word_origins import source_words, summary_words

BLOCK_REPEATS = 3  # tokens in a row that a summary does not repeat


@dataclass(frozen=True)
class SummaryService:
    """Summarizes the text of a request."""

    model: Seq2Seq
    encoding: SummaryTextEncoding

    @classmethod
    def open(cls, folder: Path) -> SummaryService:
        return cls(*load_summary(folder)[:2])

    def __call__(self, request: Request, send: SendEvent) -> Any:
        text, method = request["text"], method_of_request(request)
        check_texts([text], self.encoding)
        self._send_cut(text, send)
        drafts = DraftStream(
            send, method.count, self.encoding.decode_summary, self.encoding.tokenizer.end
        )
        summaries = write_summaries(
            self.model,
            self.encoding,
            [text],
            method,
            on_token=drafts.on_token,
            on_best=drafts.on_best,
        )[0]
        drafts.close()
        for number, summary in enumerate(summaries):
            words = summary_words(self.model, self.encoding, text, summary.ids, summary.text)
            event = generation_event(
                number, summary.text, summary.log_probability, summary.finished, words
            )
            send("generation", event)
        return {}

    def _send_cut(self, text: str, send: SendEvent) -> None:
        """Send where the text is cut, if the model cannot read all of it."""
        source, cut = self.encoding.encode_source(text)
        if not cut:
            return
        words, owners = source_words(self.encoding, text, source)
        last = None if owners is None else max((o for o in owners if o < len(words)), default=None)
        at = None if last is None else words[last].end
        send("cut", {"read": len(source), "cut": cut, "at": at})


def method_of_request(request: Request) -> GenerationMethod:
    beams, block = request["beams"], request["block"]
    if beams is None and request["temperature"] == 0 and request["count"] == 1:
        beams = 1  # greedy, so that each token can be sent at once
    return GenerationMethod(
        count=request["count"],
        beams=beams,
        temperature=request["temperature"],
        top_k=request["top_k"],
        top_p=request["top_p"],
        block_repeats=BLOCK_REPEATS if block is None else block,
        seed=request["seed"],
    )
