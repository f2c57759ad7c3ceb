"""A model and a text: windows to choose mechanisms on and others to check them on, and what the
model says of itself: its own loss, or how far its vectors move.

Letters: B batch, T tokens, V vocabulary, W width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.bench.settings import ModelSettings
from attnlab.looking.api import open_subject
from attnlab.looking.own_subjects import OwnSubject
from attnlab.looking.subjects import Subject
from attnlab.models import Decoder

LEAST = 16  # tokens of a window
MASKED = 0.15  # share of an encoder's tokens that it has to guess
MEASURES = {
    "next-token loss": "The loss is of the next token, in nats.",
    "masked-token loss": f"The loss is of {MASKED:.0%} of the tokens, which were masked, in nats.",
    "distance": "The model has no head for tokens: the distance is that of its final vectors from "
    "its own, relative to their length.",
}


@dataclass(frozen=True)
class Windows:
    """Pieces of one text, each (1, T): no token is in two of them."""

    choosing: list[Tensor]
    checking: list[Tensor]

    @property
    def tokens(self) -> int:
        return self.choosing[0].shape[1]


class Reader(ABC):
    """A model that reads windows."""

    kinds: tuple[str, ...] = ("decoder", "encoder")

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.notes = list(subject.notes)
        if subject.kind not in self.kinds:
            raise ValueError(
                f"{subject.label}: a model of kind {subject.kind}; a bench reads texts, and here "
                f"with models of kind {' or '.join(self.kinds)} alone"
            )
        self.label, self.causal = subject.label, subject.kind == "decoder"
        self.seed = 0

    @property
    def model(self) -> nn.Module:
        return self.subject.model

    @property
    def measure(self) -> str:
        """What `said` judges by, in a word or two; see MEASURES."""
        return {"next": "next-token loss", "masked": "masked-token loss", "vectors": "distance"}[
            self.meaning
        ]

    meaning: str
    """next, masked or vectors."""

    @property
    @abstractmethod
    def limit(self) -> int | None:
        """Tokens that it can read at once."""

    @abstractmethod
    def encode(self, text: str) -> list[int]: ...

    @abstractmethod
    def frame(self) -> tuple[list[int], list[int]]:
        """What stands before and behind each text."""

    @abstractmethod
    def run(self, ids: Tensor) -> Tensor:
        """Logits (1, T, V), or vectors (1, T, W) where there is no head."""

    @property
    @abstractmethod
    def mask_id(self) -> int | None: ...

    def windows(self, text: str, settings: ModelSettings) -> Windows:
        """Of the first half of the text to choose on, of the second half to check on."""
        ids = self.encode(text)
        before, behind = self.frame()
        size = min(settings.tokens, self.limit or settings.tokens) - len(before) - len(behind)
        size = min(size, len(ids) // 2)
        if size < LEAST:
            raise ValueError(
                f"{self.label}: the text has {len(ids)} tokens; give one of {2 * LEAST} or more, "
                "half to choose on and half to check on"
            )
        count = min(2 * settings.windows, len(ids) // size)
        step = len(ids) // count  # spread over the whole text
        pieces = [
            torch.tensor([[*before, *ids[at : at + size], *behind]])
            for at in range(0, count * step, step)
        ]
        device = next(self.model.parameters()).device
        pieces = [piece.to(device) for piece in pieces]
        return Windows(pieces[: count // 2], pieces[count // 2 :])

    @torch.no_grad()
    def said(self, ids: Tensor, number: int) -> Tensor:
        """The loss (), or all vectors (T, W): what a change of attention is judged by."""
        if self.meaning == "vectors":
            return self.run(ids)[0].float()
        if self.meaning == "next":
            return F.cross_entropy(self.run(ids)[0, :-1].float(), ids[0, 1:])
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        hidden = (torch.rand(ids.shape, generator=random) < MASKED).to(ids.device)
        before, behind = map(len, self.frame())
        hidden[:, :before], hidden[:, ids.shape[1] - behind :] = False, False
        hidden[0, before] |= ~hidden.any()  # at least one
        assert self.mask_id is not None
        return F.cross_entropy(self.run(ids.masked_fill(hidden, self.mask_id))[hidden], ids[hidden])

    def score(self, said: Tensor, before: Tensor) -> float:
        """One number: the loss, or how far vectors moved from what they were before."""
        if self.meaning == "vectors":
            return float((said - before).norm() / before.norm())
        return float(said)


class OwnReader(Reader):
    """A model of attnlab."""

    subject: OwnSubject

    def __init__(self, subject: OwnSubject) -> None:
        super().__init__(subject)
        self.meaning = "next" if self.causal else "masked"

    @property
    def limit(self) -> int | None:
        found = self.model.max_length
        return found if isinstance(found, int) else None

    @property
    def mask_id(self) -> int:
        return self.subject.tokenizer.mask

    def encode(self, text: str) -> list[int]:
        return self.subject.tokenizer.encode(text)

    def frame(self) -> tuple[list[int], list[int]]:
        return [], []

    def run(self, ids: Tensor) -> Tensor:
        assert isinstance(self.model, Decoder) or not self.causal
        out: Tensor = self.model(ids)
        return out


class HuggingFaceReader(Reader):
    """A model of the transformers library; of an encoder-decoder its encoder, which reads a text
    by itself."""

    kinds = ("decoder", "encoder", "encoder-decoder")

    def __init__(self, subject: Any) -> None:
        super().__init__(subject)
        self.reader = subject.reader
        if subject.kind == "encoder-decoder":
            self.notes.append(
                f"{subject.label} is an encoder-decoder: these are the heads of its encoder, "
                "get_encoder() in transformers."
            )
        self._limit: int | None = subject.limit()
        probe = torch.tensor([[*self.frame()[0], *self.encode("a b c"), *self.frame()[1]]])
        with torch.no_grad():
            out = self.model(input_ids=probe.to(next(self.model.parameters()).device))
        logits = getattr(out, "logits", None)
        words = self.model.config.get_text_config().vocab_size  # type: ignore[union-attr,operator]
        headed = logits is not None and logits.dim() == 3 and logits.shape[2] == words
        self.meaning = "vectors"
        if headed and (self.causal or self.mask_id is not None):
            self.meaning = "next" if self.causal else "masked"

    @property
    def model(self) -> nn.Module:
        whole: Any = self.subject.model
        if self.subject.kind != "encoder-decoder":
            return whole
        encoder: nn.Module = whole.get_encoder()
        return encoder

    @property
    def limit(self) -> int | None:
        return self._limit

    @property
    def mask_id(self) -> int | None:
        found = getattr(self.reader, "mask_token_id", None)
        return found if isinstance(found, int) else None

    def encode(self, text: str) -> list[int]:
        return list(self.reader(text, add_special_tokens=False, verbose=False)["input_ids"])

    def frame(self) -> tuple[list[int], list[int]]:
        bare, framed = self.encode("a"), list(self.reader("a")["input_ids"])
        at = next(i for i in range(len(framed)) if framed[i : i + len(bare)] == bare)
        return framed[:at], framed[at + len(bare) :]

    def run(self, ids: Tensor) -> Tensor:
        out = self.model(input_ids=ids, **({"use_cache": False} if self.causal else {}))
        if self.meaning != "vectors":
            logits: Tensor = out.logits
            return logits
        vectors = getattr(out, "last_hidden_state", None)
        found: Tensor = out[0] if vectors is None else vectors
        return found


def open_reader(path: Path) -> Reader:
    subject = open_subject(path)
    return OwnReader(subject) if isinstance(subject, OwnSubject) else HuggingFaceReader(subject)


def read_text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(f"{path}: cannot be read as a text ({reason})") from None
    return text
