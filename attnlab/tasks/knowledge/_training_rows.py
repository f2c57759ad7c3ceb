"""Training rows (ids with target weights), and how texts become ids."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from attnlab.tokenizer import Characters, Tokenizer


@dataclass
class TrainingRow:
    """One sequence. `weights[i]` is the weight of predicting `ids[i]`; the first id is never
    predicted."""

    ids: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, ids: Sequence[int], weight: float) -> TrainingRow:
        self.ids += ids
        self.weights += [weight] * len(ids)
        return self

    def __len__(self) -> int:
        return len(self.ids)


class PackedRows(Sequence[TrainingRow]):
    """Many rows in two arrays. As lists of Python numbers they would take several times as much."""

    def __init__(self, rows: Iterable[TrainingRow] = ()) -> None:
        self._ids, self._weights, self._ends = array("i"), array("f"), array("q", [0])
        for row in rows:
            self._ids.extend(row.ids)
            self._weights.extend(row.weights)
            self._ends.append(len(self._ids))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> TrainingRow:  # type: ignore[override]
        index = range(len(self))[index]
        part = slice(self._ends[index], self._ends[index + 1])
        return TrainingRow(self._ids[part].tolist(), self._weights[part].tolist())

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(np.array(self._ends))


class KnowledgeTextEncoding:
    """Encodes text so that a name has the same ids wherever it occurs.

    Byte pairs include the space before a word. A question, a title or an answer begins without a
    space, so it gets one. Otherwise "Rome" at the start of an answer and " Rome" inside a document
    would be two unrelated tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.mask = tokenizer.mask
        self.is_character_level = isinstance(tokenizer, Characters)
        self._words: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        if self.is_character_level:
            return self.tokenizer.encode(text)
        ids: list[int] = []
        for word in text.split():
            word_ids = self._words.get(word)
            if word_ids is None:
                word_ids = self._words[word] = self.tokenizer.encode(f" {word}")
            ids += word_ids
        return ids

    def check_characters(self, text: str, label: str) -> None:
        """Raise an error for characters that the tokenizer does not know: the model never saw
        them."""
        unknown = sorted(self.tokenizer.encode_counting(text)[1]) if self.is_character_level else []
        if unknown:
            listed = ", ".join(map(repr, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
            raise ValueError(f"{label} has characters that the model never saw: {listed}")

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids).strip()

    def encode_question(self, question: str) -> list[int]:
        """The prompt: the question, and the mask after which the model answers."""
        return [*self.encode(question), self.mask]

    def encode_pair(self, question: str, answer: str, *, weight: float = 1.0) -> TrainingRow:
        """`question MASK answer MASK`. Only the part after the question is a target."""
        row = TrainingRow().add(self.encode(question), 0.0)
        return row.add([self.mask, *self.encode(answer), self.mask], weight)
