"""Majority of bits.

    1 0 1 1 0        answer: 1

Uniform attention averages the row, which is all that is needed (Merrill et al. 2022,
arXiv:2106.16213). The length is odd, so that there is always a majority. With fair bits it is often
a matter of one or two bits, so this measures how exactly a mechanism counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from attnlab.tasks._task_options import Bounds
from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.simple import IGNORE

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Majority(Ability):
    """An odd number of bits: which is more frequent?"""

    name, vocabulary = "majority", 2
    length: Annotated[int, "Number of bits, an odd number.", Bounds(1, 65_535)] = 33

    quick: ClassVar[dict[str, Any]] = {"training": {"steps": 300}}
    example: ClassVar[dict[str, Any]] = {"length": 7}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length % 2 == 0:
            raise ValueError(
                f"majority: length is {self.length}; give an odd number, so that there is always a "
                "majority"
            )

    @property
    def answers(self) -> Sequence[int]:
        return range(2)

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        ids = rng.integers(0, 2, (count, self.length))
        targets = np.full_like(ids, IGNORE)
        targets[:, -1] = 2 * ids.sum(1) > self.length
        return ids, targets

    def longer(self, factor: int) -> Majority:
        return replace(self, length=factor * self.length + (factor + 1) % 2)
