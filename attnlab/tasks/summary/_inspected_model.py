"""A summary run to be looked at: it reads a text as in training."""

from __future__ import annotations

from pathlib import Path

from attnlab.interpret._attnlab_models import InspectedAttnlabModel, tokenizer_in
from attnlab.interpret._inspected_model import PreparedInput, display_name
from attnlab.interpret._options import LookInput
from attnlab.models import Model
from attnlab.tasks.summary._token_ids import Wording
from attnlab.training import Run


def open_subject(folder: Path) -> InspectedAttnlabModel:
    run, tokens = Run(folder), tokenizer_in(folder)
    model, task = run.model(), run.config()["task"]
    if tokens is None:
        return InspectedAttnlabModel(model, tokens, display_name(folder))  # says that it has none
    wording = Wording(tokens, task["text_tokens"], task["summary_tokens"])
    return SummarySubject(model, wording, display_name(folder))


def explained(folder: str | Path, summary: list[int]) -> SummarySubject:
    """A summary run that wrote these ids, to be looked at: where each word came from."""
    subject = open_subject(Path(folder))
    if not isinstance(subject, SummarySubject):
        raise ValueError(f"{folder}: not a summary run; look at it with attnlab look")
    subject.written = summary
    return subject


class SummarySubject(InspectedAttnlabModel):
    """A text that is too long is cut, and a note says so."""

    written: list[int] | None = None
    """The ids of a summary that was written already; else the second text's."""

    def __init__(self, model: Model, wording: Wording, label: str) -> None:
        super().__init__(model, wording.tokenizer, label)
        self.wording = wording

    def prepare(self, given: LookInput) -> PreparedInput:
        prepared = super().prepare(given)
        cut = self.wording.source(given.text or "")[1]
        if cut:
            prepared.notes.append(f"{self.label}: the last {cut} tokens of the text were cut off.")
        return prepared

    def generates_target(self, given: LookInput) -> bool:
        return self.written is not None or super().generates_target(given)

    def encode(self, text: str) -> list[int]:
        ids = self.wording.source(text)[0]
        self.check_length(ids, None)
        return ids

    def encode_target(self, text: str) -> list[int]:
        return self.wording.summary(text)[:-1] if self.written is None else self.written
