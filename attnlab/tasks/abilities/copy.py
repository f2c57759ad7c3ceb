"""Copying a sequence of random tokens.

    3 7 7 1 : -> 3 7 7 1

The oldest test of memory (Graves et al. 2014, arXiv:1410.5401). Jelassi et al. 2024
(arXiv:2402.01032) show that attention copies strings that a constant state cannot hold. Here all
rows have one length and tokens may repeat, so that finding the last few tokens written is sometimes
not enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from attnlab.tasks._task_options import Bounds
from attnlab.tasks.abilities._sequence import SequenceAbility

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Copy(SequenceAbility):
    """Random tokens: write them again."""

    name = "copy"
    length: Annotated[int, "Tokens to copy; a row has twice as many.", Bounds(1, 16_384)] = 24
    symbols: Annotated[int, "Number of different tokens.", Bounds(2, 65_535)] = 32

    quick: ClassVar[dict[str, Any]] = {"training": {"steps": 300}}

    def transform(self, items: np.ndarray) -> np.ndarray:
        return items
