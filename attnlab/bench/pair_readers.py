"""Encoder-decoders: they read one text and write another, with heads that look at either.

Of a file of pairs the writer reads the summaries; of a plain text what the model itself writes
after each window of it.

Letters: S source tokens, T target tokens, V vocabulary, W width.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from attnlab.bench.material import Material
from attnlab.bench.readers import Reader, Window, Windows, halves, pieces
from attnlab.bench.settings import ModelSettings
from attnlab.bench.text_readers import WINDOWS, encoded, framed, output_of
from attnlab.generate import generate
from attnlab.looking.own_subjects import OwnSubject, SummarySubject
from attnlab.models import Seq2Seq
from attnlab.tasks.summary.wording import spaced

WRITTEN = 64  # tokens that a model writes at most


class PairReader(Reader):
    headed = True
    """It can write."""

    @property
    @abstractmethod
    def limits(self) -> tuple[int | None, int | None]:
        """Tokens that it can read and write."""

    @abstractmethod
    def encode(self, text: str) -> list[int]: ...

    @abstractmethod
    def frame(self) -> tuple[list[int], list[int]]:
        """What stands before and behind each text that it reads."""

    @abstractmethod
    def target(self, summary: str) -> list[int]:
        """A summary as the writer sees it, from what begins it to its end."""

    @abstractmethod
    def written(self, source: list[int], count: int) -> list[int]:
        """The same of what it writes itself, at most so many tokens."""

    def _windows(self, material: Material, settings: ModelSettings) -> Windows:
        read, written = self.limits
        before, behind = self.frame()
        size = min(settings.tokens, read or settings.tokens) - len(before) - len(behind)
        most = min(settings.tokens, written or settings.tokens)
        count = 2 * settings.count(WINDOWS)
        if material.pairs:
            sources, targets = self._pairs(material, size, most, count)
        else:
            sources = pieces(self.encode(material.whole), size, count, self.label)
            targets = [None] * len(sources)
        found = []
        for source, given in zip(sources, targets, strict=True):
            ids = [*before, *source, *behind]
            target = given or self._own_words(ids, most)
            found.append(self._window(ids, target))
        longest = max(max(x.shape[1] for x in each.inputs.values()) for each in found)
        return halves(found, longest)

    def _pairs(
        self, material: Material, size: int, most: int, count: int
    ) -> tuple[list[list[int]], list[list[int] | None]]:
        """Spread over the file; what is too long is cut at its end."""
        if len(material.pairs) < 2:
            raise ValueError(
                f"{self.label}: one pair; give 2 or more, half to choose on and half to check on"
            )
        self.measure = "loss of the summaries" if self.headed else "distance"
        pairs = material.pairs[:: max(1, len(material.pairs) // count)][:count]
        pairs = pairs[: len(pairs) // 2 * 2]
        sources = [self.encode(pair.text)[:size] for pair in pairs]
        return sources, [self.target(pair.summary)[:most] for pair in pairs]

    def _own_words(self, ids: list[int], most: int) -> list[int]:
        if not self.headed:  # as transformers does by itself: the same text once more
            return ids[:most]
        self.measure = "loss of its own words"
        found = self.written(ids, min(WRITTEN, most - 1))
        if len(found) < 2:
            raise ValueError(
                f"{self.label}: writes nothing after a window of this text; give texts with their "
                "summaries, --text FILE.jsonl"
            )
        return found

    def _window(self, source: list[int], target: list[int]) -> Window:
        inputs = {"source": self.at_home(source), "target": self.at_home(target)}
        if not self.headed:
            return Window(inputs)
        return Window({**inputs, "target": inputs["target"][:, :-1]}, inputs["target"][0, 1:])


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

    def frame(self) -> tuple[list[int], list[int]]:
        return [], []

    def target(self, summary: str) -> list[int]:
        end = self.subject.tokenizer.end
        return [end, *self.encode(summary), end]

    def written(self, source: list[int], count: int) -> list[int]:
        end = self.subject.tokenizer.end
        found = generate(
            self.seq2seq, [[end]], new_tokens=count, stop=end,
            context={"source": self.at_home(source)},
        )  # fmt: skip
        return [end, *found[0][0].ids]

    def run(self, window: Window) -> Tensor:
        out: Tensor = self.seq2seq(**window.inputs)
        return out


class HuggingFacePairs(PairReader):
    """An encoder-decoder of the transformers library."""

    def __init__(self, subject: Any) -> None:
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
        limit: int | None = self.subject.limit()  # type: ignore[attr-defined]
        return limit, limit

    def encode(self, text: str) -> list[int]:
        return encoded(self.reader, text)

    def frame(self) -> tuple[list[int], list[int]]:
        return framed(self.reader)

    def target(self, summary: str) -> list[int]:
        start: int = self.subject.start  # type: ignore[attr-defined]
        return [start, *self.reader(text_target=summary)["input_ids"]]

    def written(self, source: list[int], count: int) -> list[int]:
        inputs = {"input_ids": torch.tensor([source])}
        found: list[int] = self.subject.written(inputs, count)  # type: ignore[attr-defined]
        return found

    def run(self, window: Window) -> Tensor:
        source, target = window.inputs["source"], window.inputs["target"]
        out = self.model(input_ids=source, decoder_input_ids=target, use_cache=False)
        return output_of(out, not self.headed)
