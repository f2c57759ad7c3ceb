"""A summary run that writes, told token by token, for the studio."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.models import Seq2Seq
from attnlab.tasks.serving import Drafts, Request, Tell, written
from attnlab.tasks.summary._generation import Way, check_texts, write_all
from attnlab.tasks.summary._token_ids import Wording
from attnlab.tasks.summary._training import load_summary
from attnlab.tasks.summary._word_origins import source_words, words_of

BLOCKED = 3  # tokens in a row that a summary does not repeat


@dataclass(frozen=True)
class Writing:
    model: Seq2Seq
    wording: Wording

    @classmethod
    def open(cls, folder: Path) -> Writing:
        return cls(*load_summary(folder)[:2])

    def __call__(self, request: Request, tell: Tell) -> Any:
        text, way = request["text"], way_of(request)
        check_texts([text], self.wording)
        self._tell_cut(text, tell)
        drafts = Drafts(tell, way.count, self.wording.read, self.wording.tokenizer.end)
        found = write_all(
            self.model,
            self.wording,
            [text],
            way,
            on_token=drafts.on_token,
            on_best=drafts.on_best,
        )[0]
        drafts.close()
        for number, each in enumerate(found):
            words = words_of(self.model, self.wording, text, each.ids, each.text)
            whole = written(number, each.text, each.log_probability, each.finished, words)
            tell("generation", whole)
        return {}

    def _tell_cut(self, text: str, tell: Tell) -> None:
        """Where the model stops reading."""
        source, cut = self.wording.source(text)
        if not cut:
            return
        words, owners = source_words(self.wording, text, source)
        last = None if owners is None else max((o for o in owners if o < len(words)), default=None)
        at = None if last is None else words[last].end
        tell("cut", {"read": len(source), "cut": cut, "at": at})


def way_of(request: Request) -> Way:
    beams, block = request["beams"], request["block"]
    if beams is None and request["temperature"] == 0 and request["count"] == 1:
        beams = 1  # greedy: each token is told as soon as it is chosen
    return Way(
        count=request["count"],
        beams=beams,
        temperature=request["temperature"],
        top_k=request["top_k"],
        top_p=request["top_p"],
        block_repeats=BLOCKED if block is None else block,
        seed=request["seed"],
    )
