"""A summary run that `look` can open. It encodes a text as in training."""

from __future__ import annotations

from pathlib import Path

from attnlab.interpret._attnlab_models import InspectedAttnlabModel, tokenizer_in
from attnlab.interpret._inspected_model import PreparedInput, display_name
from attnlab.interpret._options import LookInput
from attnlab.models import Model, Seq2Seq
from attnlab.tasks.summary._token_ids import SummaryTextEncoding
from attnlab.tasks.summary._training import text_encoding
from attnlab.training import Run


def open_run(folder: Path) -> InspectedAttnlabModel:
    run, tokens = Run(folder), tokenizer_in(folder)
    model, task = run.model(), run.config()["task"]
    if tokens is None or not isinstance(model, Seq2Seq):
        # its error says that there is no tokenizer
        return InspectedAttnlabModel(model, tokens, display_name(folder))
    encoding = text_encoding(model, tokens, task, folder)
    return InspectedSummaryModel(model, encoding, display_name(folder))


def open_run_with_summary(folder: str | Path, summary: list[int]) -> InspectedSummaryModel:
    """A summary run that wrote these ids, so that `look` shows where each word came from."""
    inspected = open_run(Path(folder))
    if not isinstance(inspected, InspectedSummaryModel):
        raise ValueError(f"{folder}: is not a summary run; open it with attnlab look")
    inspected.written = summary
    return inspected


class InspectedSummaryModel(InspectedAttnlabModel):
    """A summary model. A text that is too long is cut, and a note says so."""

    written: list[int] | None = None
    """The ids of a summary that the run wrote. Without it, the second text is the summary."""

    def __init__(self, model: Model, encoding: SummaryTextEncoding, label: str) -> None:
        super().__init__(model, encoding.tokenizer, label)
        self.encoding = encoding

    def prepare(self, look_input: LookInput) -> PreparedInput:
        prepared = super().prepare(look_input)
        cut = self.encoding.encode_source(look_input.text or "")[1]
        if cut:
            prepared.notes.append(f"{self.label}: the last {cut} tokens of the text were cut off.")
        return prepared

    def generates_target(self, look_input: LookInput) -> bool:
        return self.written is not None or super().generates_target(look_input)

    def encode(self, text: str) -> list[int]:
        ids = self.encoding.encode_source(text)[0]
        self.check_length(ids, None)
        return ids

    def encode_target(self, text: str) -> list[int]:
        return self.encoding.encode_summary(text)[:-1] if self.written is None else self.written
