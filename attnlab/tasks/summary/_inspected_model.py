"""A summary run to be looked at: it reads a text as in training."""

from __future__ import annotations

from pathlib import Path

from attnlab.interpret._attnlab_models import OwnSubject, tokenizer_in
from attnlab.interpret._inspected_model import Prepared, shown_name
from attnlab.interpret._options import LookInput
from attnlab.models import Model
from attnlab.tasks.summary._token_ids import Wording
from attnlab.training import Run


def open_subject(folder: Path) -> OwnSubject:
    run, tokens = Run(folder), tokenizer_in(folder)
    model, task = run.model(), run.config()["task"]
    if tokens is None:
        return OwnSubject(model, tokens, shown_name(folder))  # says that it has none
    wording = Wording(tokens, task["text_tokens"], task["summary_tokens"])
    return SummarySubject(model, wording, shown_name(folder))


def explained(folder: str | Path, summary: list[int]) -> SummarySubject:
    """A summary run that wrote these ids, to be looked at: where each word came from."""
    subject = open_subject(Path(folder))
    if not isinstance(subject, SummarySubject):
        raise ValueError(f"{folder}: not a summary run; look at it with attnlab look")
    subject.written = summary
    return subject


class SummarySubject(OwnSubject):
    """A text that is too long is cut, and a note says so."""

    written: list[int] | None = None
    """The ids of a summary that was written already; else the second text's."""

    def __init__(self, model: Model, wording: Wording, label: str) -> None:
        super().__init__(model, wording.tokenizer, label)
        self.wording = wording

    def prepare(self, given: LookInput) -> Prepared:
        prepared = super().prepare(given)
        cut = self.wording.source(given.text or "")[1]
        if cut:
            prepared.notes.append(f"{self.label}: the last {cut} tokens of the text were cut off.")
        return prepared

    def writes(self, given: LookInput) -> bool:
        return self.written is not None or super().writes(given)

    def encode(self, text: str) -> list[int]:
        ids = self.wording.source(text)[0]
        self.check_length(ids, None)
        return ids

    def encode_target(self, text: str) -> list[int]:
        return self.wording.summary(text)[:-1] if self.written is None else self.written
