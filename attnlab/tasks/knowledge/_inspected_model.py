"""A knowledge run to be looked at: it reads questions as in training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from attnlab.interpret._attnlab_models import InspectedAttnlabModel, tokenizer_in
from attnlab.interpret._inspected_model import PreparedInput, display_name
from attnlab.interpret._options import LookInput
from attnlab.models import Decoder
from attnlab.tasks.knowledge._answers import reach
from attnlab.tasks.knowledge._document_reader import prompt
from attnlab.tasks.knowledge._reader_votes import ANSWER
from attnlab.tasks.knowledge._rows import Wording
from attnlab.training import Run


def open_subject(folder: Path) -> InspectedAttnlabModel:
    """By the stage of its training: one that has only read a corpus reads a text as it is."""
    run = Run(folder)
    stage = run.config()["task"].get("stage")
    kinds = {"pretrain": InspectedAttnlabModel, "reader": ReaderSubject}
    kind = kinds.get(str(stage), AskedSubject)
    return kind(run.model(), tokenizer_in(folder), display_name(folder))


class AskedSubject(InspectedAttnlabModel):
    """A run that answers: it reads a question and a mask, and writes up to the next mask."""

    @property
    def stop(self) -> int:
        return self.tokenizer.mask

    def encode(self, text: str) -> list[int]:
        wording = Wording(self.tokenizer)
        wording.check(text, "the text")
        return wording.question(text)


class ReaderSubject(AskedSubject):
    """A reader of `learn`: a second text is the question about the first, which is a document."""

    question: str | None = None

    def prepare(self, given: LookInput) -> PreparedInput:
        self.question = given.pair
        return super().prepare(replace(given, pair=None))

    def encode(self, text: str) -> list[int]:
        if self.question is None:
            return super().encode(text)
        assert isinstance(self.model, Decoder)
        wording = Wording(self.tokenizer)
        for each, what in ((text, "the document"), (self.question, "the question")):
            wording.check(each, what)
        return prompt(text, self.question, wording, reach(self.model) - ANSWER)
