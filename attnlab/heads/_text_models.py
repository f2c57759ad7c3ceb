"""Models that read one text: decoders and encoders.

Letters: T tokens, V vocabulary, W width.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.heads._inputs import Material
from attnlab.heads._model_reader import MASKED, Reader, Window, Windows, halves, pieces
from attnlab.heads._settings import HeadSettings
from attnlab.interpret._attnlab_models import OwnSubject
from attnlab.interpret._inspected_model import Subject

if TYPE_CHECKING:
    from attnlab.huggingface._inspected_models import HuggingFaceSubject

WINDOWS = 4


class TextReader(Reader):
    """Judged by the next token, by masked ones, or by its vectors where it has no head."""

    limit: int | None
    """Tokens that it can read at once."""
    mask_id: int | None

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self.causal = subject.kind == "decoder"

    @abstractmethod
    def encode(self, text: str) -> list[int]: ...

    def frame(self) -> tuple[list[int], list[int]]:
        """What stands before and behind each text."""
        return [], []

    def _windows(self, material: Material, settings: HeadSettings) -> Windows:
        """Of the first half of the text to choose on, of the second half to check on."""
        before, behind = self.frame()
        size = min(settings.tokens, self.limit or settings.tokens) - len(before) - len(behind)
        if material.pairs:
            self.notes.append("Of the pairs the texts alone were read, one after the other.")
        count = 2 * settings.count(WINDOWS)
        found = [
            self.batch([*before, *piece, *behind])
            for piece in pieces(material.whole, self.encode, size, count, self.label)
        ]
        return halves([Window({"ids": each}) for each in found], found[0].shape[1])

    @torch.no_grad()
    def judge(self, window: Window, number: int) -> Tensor:
        ids = window.ids
        if self.measure == "distance":
            return super().judge(window, number)
        if self.causal:
            return F.cross_entropy(self.run(window)[0, :-1].float(), ids[0, 1:])
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        hidden = (torch.rand(ids.shape, generator=random) < MASKED).to(ids.device)
        before, behind = map(len, self.frame())
        hidden[:, :before], hidden[:, ids.shape[1] - behind :] = False, False
        hidden[0, before] |= ~hidden.any()  # at least one
        assert self.mask_id is not None
        masked = Window({"ids": ids.masked_fill(hidden, self.mask_id)})
        return F.cross_entropy(self.run(masked)[hidden], ids[hidden])


class OwnTexts(TextReader):
    """A decoder or encoder of attnlab."""

    subject: OwnSubject

    def __init__(self, subject: OwnSubject) -> None:
        super().__init__(subject)
        self.measure = "next-token loss" if self.causal else "masked-token loss"
        limit = self.model.max_length
        self.limit = limit if isinstance(limit, int) else None
        self.mask_id = subject.tokenizer.mask

    def encode(self, text: str) -> list[int]:
        return self.subject.tokenizer.encode(text)

    def run(self, window: Window) -> Tensor:
        out: Tensor = self.model(window.ids)
        return out


class HuggingFaceTexts(TextReader):
    """A decoder or encoder of the transformers library."""

    subject: HuggingFaceSubject

    def __init__(self, subject: HuggingFaceSubject) -> None:
        super().__init__(subject)
        self.reader = subject.reader
        self.limit = subject.limit()
        mask = getattr(self.reader, "mask_token_id", None)
        self.mask_id = mask if isinstance(mask, int) else None
        before, behind = self.frame()
        probe = self.batch([*before, *known_tokens(self.reader), *behind])
        with torch.no_grad(), subject.told():
            out = self.model(input_ids=probe)
        logits = getattr(out, "logits", None)
        words = self.model.config.get_text_config().vocab_size  # type: ignore[union-attr,operator]
        headed = logits is not None and logits.dim() == 3 and logits.shape[2] == words
        self.measure = "distance"
        if headed and (self.causal or self.mask_id is not None):
            self.measure = "next-token loss" if self.causal else "masked-token loss"

    def encode(self, text: str) -> list[int]:
        return encoded(self.reader, text)

    def frame(self) -> tuple[list[int], list[int]]:
        return framed(self.reader)

    def run(self, window: Window) -> Tensor:
        changes = {"use_cache": False} if self.causal else {}
        with self.subject.told():
            out = self.model(input_ids=window.ids, **changes)
        return output_of(out, self.measure == "distance")


def encoded(reader: Any, text: str) -> list[int]:
    """By a tokenizer of transformers, with nothing around."""
    return list(reader(text, add_special_tokens=False, verbose=False)["input_ids"])


def known_tokens(reader: Any) -> list[int]:
    """Ids of some text that it knows: not all know letters."""
    return next(filter(None, (encoded(reader, text) for text in _tries(reader))), [0])


def framed(reader: Any) -> tuple[list[int], list[int]]:
    """What such a tokenizer sets before and behind a text."""
    for text in _tries(reader):
        bare, whole = encoded(reader, text), list(reader(text)["input_ids"])
        for at in range(len(whole) - len(bare) + 1):
            if bare and whole[at : at + len(bare)] == bare:
                return whole[:at], whole[at + len(bare) :]
    raise ValueError("the tokenizer makes no tokens of any word that was tried; is it whole?")


def _tries(reader: Any) -> Iterator[str]:
    """Short texts, then its own words."""
    yield from ("a b c", "a", "A", "0")
    for index in range(min(200, len(reader))):
        word = reader.decode([index], skip_special_tokens=True).strip()
        if word:
            yield word


def output_of(out: Any, vectors: bool) -> Tensor:
    """Logits of a model of transformers, or its last vectors."""
    if not vectors:
        logits: Tensor = out.logits
        return logits
    last = getattr(out, "last_hidden_state", None)
    found: Tensor = out[0] if last is None else last
    return found
