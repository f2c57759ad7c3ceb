"""Reversing a sequence of random tokens.

    3 7 7 1 : -> 1 7 7 3

As `copy`, but the first answer is the newest token and the last the oldest: the distance to the
token that must be found grows with every answer (Delétang et al. 2022, arXiv:2207.02098).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from attnlab.tasks._task_options import Bounds
from attnlab.tasks.abilities._sequence import SequenceAbility

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Reverse(SequenceAbility):
    """Random tokens: write them backwards."""

    name = "reverse"
    length: Annotated[int, "Tokens to reverse; a row has twice as many.", Bounds(1, 16_384)] = 16
    symbols: Annotated[int, "Number of different tokens.", Bounds(2, 65_535)] = 32

    quick: ClassVar[dict[str, Any]] = {"training": {"steps": 300}}

    def transform(self, items: np.ndarray) -> np.ndarray:
        return items[:, ::-1]
