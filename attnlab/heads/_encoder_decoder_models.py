"""Encoder-decoders: they read one text and write another, with heads that look at either.

Of a file of pairs the writer reads the summaries; of a plain text what the model itself writes
after each window of it.

Letters: S source tokens, T target tokens, V vocabulary, W width.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnlab.generate import generate
from attnlab.heads._inputs import Material, spread
from attnlab.heads._model_reader import Reader, Window, Windows, halves, pieces
from attnlab.heads._settings import HeadSettings
from attnlab.heads._text_models import WINDOWS, encoded, framed, output_of
from attnlab.interpret._attnlab_models import OwnSubject
from attnlab.models import Seq2Seq
from attnlab.tasks.summary._inspected_model import SummarySubject
from attnlab.tasks.summary._token_ids import spaced

if TYPE_CHECKING:
    from attnlab.huggingface._inspected_models import HuggingFaceSubject

WRITTEN = 64  # tokens that a model writes at most
FEW = 8


class PairReader(Reader):
    headed = True
    """It can write."""

    @property
    @abstractmethod
    def limits(self) -> tuple[int | None, int | None]:
        """Tokens that it can read and write."""

    @abstractmethod
    def encode(self, text: str) -> list[int]: ...

    def frame(self) -> tuple[list[int], list[int]]:
        """What stands before and behind each text that it reads."""
        return [], []

    @abstractmethod
    def target(self, summary: str) -> tuple[list[int], list[int]]:
        """A summary as the writer reads it, and as it should write it, to its end."""

    @abstractmethod
    def written(self, source: list[int], count: int) -> list[int]:
        """What begins all that it writes, and what it writes then, at most so many tokens."""

    def _windows(self, material: Material, settings: HeadSettings) -> Windows:
        read, written = self.limits
        before, behind = self.frame()
        size = min(settings.tokens, read or settings.tokens) - len(before) - len(behind)
        most = min(settings.tokens, written or settings.tokens)
        count = 2 * settings.count(WINDOWS)
        if material.pairs:
            found = self._pairs(material, size, most, count)
        else:
            sources = pieces(material.whole, self.encode, size, count, self.label)
            found = [self._own_words([*before, *source, *behind], most) for source in sources]
        longest = max(max(x.shape[1] for x in each.inputs.values()) for each in found)
        return halves(found, longest)

    def _pairs(self, material: Material, size: int, most: int, count: int) -> list[Window]:
        """Spread over the file; what is too long is cut at its end."""
        self.measure = "loss of the summaries" if self.headed else "distance"
        before, behind = self.frame()
        found = []
        for place in spread(len(material.pairs), count):
            pair = material.pairs[place]
            source, (read, wanted) = self.encode(pair.text)[:size], self.target(pair.summary)
            if source and read:
                ids = [*before, *source, *behind]
                found.append(self._window(ids, read[:most], wanted[:most]))
        if len(found) < 2:
            raise ValueError(
                f"{self.label}: {len(found) or 'no'} pair with tokens on both sides; give 2 or "
                "more, half to choose on and half to check on"
            )
        return found[: len(found) // 2 * 2]

    def _own_words(self, ids: list[int], most: int) -> Window:
        if not self.headed:  # as transformers does by itself: the same text once more
            return self._window(ids, ids[:most], [])
        self.measure = "loss of its own words"
        found = self.written(ids, min(WRITTEN, most - 1))
        if len(found) < 2:
            raise ValueError(
                f"{self.label}: writes nothing after a window of this text; give texts with their "
                "summaries, --text FILE.jsonl"
            )
        few = (
            f"{self.label} writes fewer than {FEW} tokens after a window, so its decoder is "
            "measured on little; texts with summaries (--text FILE.jsonl) tell more."
        )
        if len(found) <= FEW:
            self.note(few)
        return self._window(ids, found[:-1], found[1:])

    def _window(self, source: list[int], read: list[int], wanted: list[int]) -> Window:
        inputs = {"source": self.batch(source), "target": self.batch(read)}
        return Window(inputs, self.batch(wanted)[0] if self.headed else None)


class OwnPairs(PairReader):
    """An encoder-decoder of attnlab."""

    subject: OwnSubject

    def __init__(self, subject: OwnSubject) -> None:
        super().__init__(subject)
        if self.seq2seq.copy is not None:
            self.notes.append(
                f"{self.label}: its copy head is left out: it needs weights that are probabilities."
            )

    @property
    def seq2seq(self) -> Seq2Seq:
        assert isinstance(self.subject.model, Seq2Seq)
        return self.subject.model

    @property
    def limits(self) -> tuple[int | None, int | None]:
        read, written = self.seq2seq.encoder.max_length, self.seq2seq.max_length
        if isinstance(self.subject, SummarySubject):
            longest = self.subject.wording.longest_text
            read = longest if read is None else min(read, longest)
        return read, written

    def encode(self, text: str) -> list[int]:
        words = spaced(text) if isinstance(self.subject, SummarySubject) else text
        return self.subject.tokenizer.encode(words)

    def target(self, summary: str) -> tuple[list[int], list[int]]:
        end, ids = self.subject.tokenizer.end, self.encode(summary)
        return [end, *ids], [*ids, end]

    def written(self, source: list[int], count: int) -> list[int]:
        end = self.subject.tokenizer.end
        found = generate(
            self.seq2seq, [[end]], new_tokens=count, stop=end,
            context={"source": self.batch(source)},
        )  # fmt: skip
        return [end, *found[0][0].ids]

    def run(self, window: Window) -> Tensor:
        out: Tensor = self.seq2seq(**window.inputs)
        return out


class HuggingFacePairs(PairReader):
    """An encoder-decoder of the transformers library."""

    subject: HuggingFaceSubject

    def __init__(self, subject: HuggingFaceSubject) -> None:
        super().__init__(subject)
        self.reader = subject.reader
        self.headed = bool(subject.model.can_generate())
        self.measure = "distance"
        if not self.headed:
            self.notes.append(
                f"{self.label} has no head for tokens: of a plain text its decoder reads the same "
                "window as its encoder."
            )

    @property
    def limits(self) -> tuple[int | None, int | None]:
        return self.subject.limit("encoder"), self.subject.limit("decoder")

    def encode(self, text: str) -> list[int]:
        return encoded(self.reader, text)

    def frame(self) -> tuple[list[int], list[int]]:
        return framed(self.reader)

    def target(self, summary: str) -> tuple[list[int], list[int]]:
        wanted = list(self.reader(text_target=summary)["input_ids"])
        moved = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
        if moved is None or not wanted:
            return [self.subject.start, *wanted[:-1]], wanted
        return moved(labels=torch.tensor([wanted]))[0].tolist(), wanted  # not all begin alike

    def written(self, source: list[int], count: int) -> list[int]:
        return self.subject.written({"input_ids": torch.tensor([source])}, count)

    def run(self, window: Window) -> Tensor:
        source, target = window.inputs["source"], window.inputs["target"]
        with self.subject.told():
            out = self.model(input_ids=source, decoder_input_ids=target, use_cache=False)
        return output_of(out, not self.headed)
