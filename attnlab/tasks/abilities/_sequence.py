"""Abilities that read a sequence and then write another of the same length."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from attnlab.tasks._task_options import Bounds
from attnlab.tasks.abilities.ability import Ability

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class SequenceAbility(Ability):
    """Random tokens, the token `:`, and then the answer, of which the model sees what it has
    written so far."""

    length: Annotated[int, "Tokens of the sequence; a row has twice as many.", Bounds(1, 16_384)]
    symbols: Annotated[int, "Number of different tokens.", Bounds(2, 65_535)]

    example: ClassVar[dict[str, Any]] = {"length": 6}

    @property
    def vocabulary(self) -> int:  # type: ignore[override]
        return self.symbols + 1

    @property
    def answers(self) -> Sequence[int]:
        return range(self.symbols)

    @abstractmethod
    def transform(self, items: np.ndarray) -> np.ndarray:
        """The answers to sequences, both (rows, length)."""

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        from attnlab.tasks.abilities._arrays import answer_rows, append_token

        items = rng.integers(0, self.symbols, (count, self.length))
        return answer_rows(append_token(items, self.symbols), self.transform(items))

    def word(self, token: int) -> str:
        return ":" if token == self.symbols else str(token)
