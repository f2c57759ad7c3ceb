"""An extension with a task that trains in milliseconds: copy a few letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, ClassVar

from attnlab.tasks.registry import register_task
from attnlab.tasks.simple import IGNORE, Row, SimpleTask

ROWS = {"train": 40, "validation": 7, "test": 11}


@register_task
@dataclass(frozen=True)
class TinyCopy(SimpleTask):
    """Copy a few letters."""

    letters: Annotated[int, "Letters of a row."] = 3

    name = "tiny-copy"
    alphabet = "abcde>"
    model: ClassVar[dict[str, Any]] = {"width": 8, "layers": 1, "heads": 2}
    training: ClassVar[dict[str, Any]] = {"steps": 3, "batch_size": 5, "device": "cpu"}
    quick: ClassVar[dict[str, Any]] = {"letters": 2, "training": {"steps": 2}}

    @property
    def chance(self) -> float:
        return 0.2

    def rows(self, part: str, random: Random) -> Sequence[Row]:
        words = ["".join(random.choices("abcde", k=self.letters)) for _ in range(ROWS[part])]
        return [self.text_row(f"{word}>", word) for word in words]

    def count_correct(
        self, rows: Sequence[Row], predictions: Sequence[Sequence[int]]
    ) -> dict[str, tuple[int, int]]:
        right = [
            all(a == b for a, b in zip(guess, row.targets, strict=True) if b != IGNORE)
            for row, guess in zip(rows, predictions, strict=True)
        ]
        return {"accuracy": (sum(right), len(right))}
