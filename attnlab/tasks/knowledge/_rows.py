"""Training rows: ids, and how much each of them counts as a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from attnlab.tokenizer import Characters, Tokenizer


@dataclass
class Row:
    """One sequence: `weights[i]` is what predicting `ids[i]` counts; the first is not predicted."""

    ids: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, ids: Sequence[int], weight: float) -> Row:
        self.ids += ids
        self.weights += [weight] * len(ids)
        return self

    def __len__(self) -> int:
        return len(self.ids)


class Wording:
    """Text to ids such that a name has the same ids wherever it stands.

    Byte pairs take a space before a word as part of it. A question, a title or an answer begins
    without one, so it gets one: else "Rome" at the start of an answer and " Rome" inside a
    document would be two tokens that know nothing of each other.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.mask = tokenizer.mask
        self.plain = isinstance(tokenizer, Characters)
        self._words: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        if self.plain:
            return self.tokenizer.encode(text)
        ids: list[int] = []
        for word in text.split():
            known = self._words.get(word)
            if known is None:
                known = self._words[word] = self.tokenizer.encode(f" {word}")
            ids += known
        return ids

    def check(self, text: str, what: str) -> None:
        """Refuse characters that the tokenizer never saw: their ids mean nothing to a model."""
        unknown = sorted(self.tokenizer.encode_counting(text)[1]) if self.plain else []
        if unknown:
            shown = ", ".join(map(repr, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
            raise ValueError(f"{what} has characters that the model never saw: {shown}")

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids).strip()

    def question(self, question: str) -> list[int]:
        """What the model is asked: the question, and the mask after which it answers."""
        return [*self.encode(question), self.mask]

    def pair(self, question: str, answer: str, *, weight: float = 1.0) -> Row:
        """`question MASK answer MASK`; only what follows the question is learned."""
        row = Row().add(self.encode(question), 0.0)
        return row.add([self.mask, *self.encode(answer), self.mask], weight)
