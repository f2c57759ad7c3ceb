"""ListOps (Nangia and Bowman 2018, arXiv:1804.06028; Long Range Arena, arXiv:2011.04006).

Nested operations on digits: MIN, MAX, MED (the median, rounded down) and SM (the sum modulo 10).

    [MAX 2 [MIN 8 3 ] 1 ]        the answer is 3

As in `lra_benchmarks/data/listops.py`: the operators, two arguments or more, an argument is an
operation with probability 1/4 below the largest depth. Different: rows are short (Long Range Arena
has 500 to 2,000 tokens, 10 arguments and a depth of 10); the root is always an operation; and the
value of every operation is asked at its closing bracket, not that of the root alone, which is a
single answer for a whole row. `root_only` asks as the original does. A model that always gives the
most frequent answer is better than chance: minima are small and maxima large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from attnlab.tasks._task_options import Bounds
from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.simple import IGNORE, Row

if TYPE_CHECKING:
    import numpy as np

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
WORDS = (*"0123456789", *OPERATORS, "]")
CLOSE = len(WORDS) - 1
NESTED = 0.25  # probability that an argument is an operation


@dataclass(frozen=True)
class Listops(Ability):
    """Nested operations on digits: the value of each."""

    name, vocabulary = "listops", len(WORDS)
    length: Annotated[int, "Largest number of tokens in a row.", Bounds(4, 65_536)] = 40
    arguments: Annotated[int, "Largest number of arguments.", Bounds(2, 100)] = 4
    depth: Annotated[int, "Largest depth.", Bounds(1, 50)] = 3
    root_only: Annotated[bool, "Ask only for the value of the whole row."] = False

    row_counts: ClassVar[dict[str, int]] = {"train": 4096, "validation": 256, "test": 1024}
    quick: ClassVar[dict[str, Any]] = {"training": {"steps": 300}}
    example: ClassVar[dict[str, Any]] = {"length": 14}

    @property
    def answers(self) -> Sequence[int]:
        return range(10)

    def rows(self, part: str, random: Random) -> Sequence[Row]:
        rows: list[Row] = []
        while len(rows) < self.row_counts[part]:
            row = Row([], [])
            if self._extend(row, 1, random) is not None:
                rows.append(row)
        return rows

    def _extend(self, row: Row, depth: int, random: Random) -> int | None:
        """Append an operation to the row and return its value; None if the row gets too long. It
        stops there, because a whole tree can be far too large."""
        assert isinstance(row.ids, list)
        assert isinstance(row.targets, list)
        operator = random.randrange(len(OPERATORS))
        row.ids.append(10 + operator)
        row.targets.append(IGNORE)
        values: list[int] = []
        for _ in range(random.randint(2, self.arguments)):
            if len(row.ids) + depth >= self.length:  # every open bracket is closed later
                return None
            if depth < self.depth and random.random() < NESTED:
                value = self._extend(row, depth + 1, random)
                if value is None:
                    return None
            else:
                value = random.randrange(10)
                row.ids.append(value)
                row.targets.append(IGNORE)
            values.append(value)
        value = evaluate(OPERATORS[operator], values)
        row.ids.append(CLOSE)
        row.targets.append(IGNORE if self.root_only and depth > 1 else value)
        return value

    def longer(self, factor: int) -> Self:
        del factor
        raise ValueError(
            "listops: length is only an upper limit, so it has no longer rows; choose another "
            "ability"
        )

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError("rows have several lengths")

    def word(self, token: int) -> str:
        return WORDS[token]


def evaluate(operator: str, values: Sequence[int]) -> int:
    """The value of one operation."""
    if operator == "[SM":
        return sum(values) % 10
    if operator == "[MED":
        ordered, half = sorted(values), len(values) // 2
        return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) // 2
    return min(values) if operator == "[MIN" else max(values)
