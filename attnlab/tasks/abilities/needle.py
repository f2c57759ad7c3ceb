"""One fact in a long text, after the "needle in a haystack" tests of language models.

    the b a the FACT c a the b the ASK        the answer is c

The text has random words with Zipf's frequencies, as text has. Somewhere, at every place with the
same probability, the token FACT stands before one word; the row ends with ASK, and the answer is
that word. It occurs elsewhere in the text too, so the model must find FACT. With one special token
to find, this is the induction task of H3 and Mamba (Gu and Dao 2023, arXiv:2312.00752) in a longer
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from attnlab.tasks._task_options import Bounds
from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.simple import IGNORE

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Needle(Ability):
    """A long text with one fact, and a question about it at the end."""

    name = "needle"
    length: Annotated[int, "Tokens in a row.", Bounds(3, 65_536)] = 256
    words: Annotated[int, "Number of different words.", Bounds(2, 65_534)] = 64

    quick: ClassVar[dict[str, Any]] = {"length": 128, "training": {"steps": 300}}
    example: ClassVar[dict[str, Any]] = {"length": 14, "words": 9}

    @property
    def vocabulary(self) -> int:  # type: ignore[override]
        return self.words + 2

    @property
    def answers(self) -> Sequence[int]:
        return range(self.words)

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        fact, ask = self.words, self.words + 1
        frequency = 1 / np.arange(1, self.words + 1)
        ids = rng.choice(self.words, (count, self.length), p=frequency / frequency.sum())
        answer = rng.integers(0, self.words, count)
        index, place = np.arange(count), rng.integers(0, self.length - 2, count)
        ids[index, place], ids[index, place + 1], ids[:, -1] = fact, answer, ask
        targets = np.full_like(ids, IGNORE)
        targets[:, -1] = answer
        return ids, targets

    def word(self, token: int) -> str:
        return {self.words: "FACT", self.words + 1: "ASK"}.get(token, str(token))
