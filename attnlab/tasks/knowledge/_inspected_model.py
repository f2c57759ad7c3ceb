"""A knowledge run that `look` can open. It encodes questions as in training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from attnlab.interpret._attnlab_models import InspectedAttnlabModel, tokenizer_in
from attnlab.interpret._inspected_model import PreparedInput, display_name
from attnlab.interpret._options import LookInput
from attnlab.models import Decoder
from attnlab.tasks.knowledge._answers import max_context
from attnlab.tasks.knowledge._document_reader import reader_prompt
from attnlab.tasks.knowledge._reader_votes import ANSWER_TOKENS
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.training import Run


def open_run(folder: Path) -> InspectedAttnlabModel:
    """Open a run by its training stage. A run that is only pretrained reads a text as it is."""
    run = Run(folder)
    stage = run.config()["task"].get("stage")
    kinds = {"pretrain": InspectedAttnlabModel, "reader": InspectedReader}
    kind = kinds.get(str(stage), InspectedAnswerModel)
    return kind(run.model(), tokenizer_in(folder), display_name(folder))


class InspectedAnswerModel(InspectedAttnlabModel):
    """A run that answers: it reads a question and a mask, and writes up to the next mask."""

    @property
    def stop(self) -> int:
        return self.tokenizer.mask

    def encode(self, text: str) -> list[int]:
        encoding = KnowledgeTextEncoding(self.tokenizer)
        encoding.check_characters(text, "the text")
        return encoding.encode_question(text)


class InspectedReader(InspectedAnswerModel):
    """A reader of `learn`. The first text is a document, the second text a question about it."""

    question: str | None = None

    def prepare(self, look_input: LookInput) -> PreparedInput:
        self.question = look_input.pair
        return super().prepare(replace(look_input, pair=None))

    def encode(self, text: str) -> list[int]:
        if self.question is None:
            return super().encode(text)
        assert isinstance(self.model, Decoder)
        encoding = KnowledgeTextEncoding(self.tokenizer)
        for part, label in ((text, "the document"), (self.question, "the question")):
            encoding.check_characters(part, label)
        return reader_prompt(text, self.question, encoding, max_context(self.model) - ANSWER_TOKENS)
