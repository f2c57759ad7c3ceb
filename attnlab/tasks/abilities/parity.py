"""Parity of bits.

    1 0 1 1        answers: 1 1 0 1

A state of one bit is enough, if it can flip. Hahn 2020 (arXiv:1906.06755) shows that softmax
attention cannot compute it for all lengths; linear recurrences whose transitions have no negative
eigenvalue cannot either (Grazzi et al. 2024, arXiv:2411.12537). No mechanism here is expected to
learn it for long rows. Both papers ask once, at the end; here the parity so far is asked after
every bit, because a single answer hardly gives a gradient. Answers to the first bits are easy, so
look at `whole_rows` too. `last_only` asks once.
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
class Parity(Ability):
    """Bits: is the number of ones so far odd?"""

    name, vocabulary = "parity", 2
    length: Annotated[int, "Number of bits.", Bounds(1, 65_536)] = 32
    last_only: Annotated[bool, "Ask only after the last bit."] = False

    quick: ClassVar[dict[str, Any]] = {"length": 16, "training": {"steps": 300}}
    example: ClassVar[dict[str, Any]] = {"length": 6}

    @property
    def answers(self) -> Sequence[int]:
        return range(2)

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        ids = rng.integers(0, 2, (count, self.length))
        targets = ids.cumsum(1) % 2
        if self.last_only:
            targets[:, :-1] = IGNORE
        return ids, targets
