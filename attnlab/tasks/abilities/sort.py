"""Sorting a sequence of random tokens.

    7 3 9 3 : -> 3 3 7 9

The answer does not depend on the order of the row, only on which tokens it has and how often
(bucket sort in Delétang et al. 2022, arXiv:2207.02098, which has five different tokens).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from attnlab.tasks._task_options import Bounds
from attnlab.tasks.abilities._sequence import SequenceAbility

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Sort(SequenceAbility):
    """Random tokens: write them in ascending order."""

    name = "sort"
    length: Annotated[int, "Tokens to sort; a row has twice as many.", Bounds(1, 16_384)] = 16
    symbols: Annotated[int, "Number of different tokens.", Bounds(2, 65_535)] = 32

    quick: ClassVar[dict[str, Any]] = {"training": {"steps": 300}}

    def transform(self, items: np.ndarray) -> np.ndarray:
        import numpy as np

        return np.sort(items, 1)
