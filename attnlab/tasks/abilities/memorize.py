"""Memorization of the MAD suite (Poli et al. 2024, arXiv:2403.17844).

A table of keys and values is the same in all rows, of the training and of the tests. The row shows
keys, and the answer after each is its value. Nothing in the row helps: the weights must hold the
table.

    k5 ? k2 ? k5 ?        answers at each `?`: v1 v7 v1

As in `generate_memorization_instance` of mad-lab: half of the vocabulary are keys, half values,
each key has another value, the last id is the token `?`, and the answer is predicted at `?`. The
table has a fixed seed of its own and does not depend on the seed of the run. Test rows show the
same keys in other orders, which is the point: this measures storage, not generalization. Without
noise, as in mad-lab's default.
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

TABLE_SEED = 12345


@dataclass(frozen=True)
class Memorize(Ability):
    """Keys of a fixed table: the answer is the value that the training showed."""

    name = "memorize"
    length: Annotated[int, "Tokens in a row, two for each key.", Bounds(2, 65_536)] = 32
    vocabulary: Annotated[
        int, "Number of token ids. Half of them are keys, half are values.", Bounds(5, 65_536)
    ] = 256

    quick: ClassVar[dict[str, Any]] = {"training": {"steps": 300}}
    example: ClassVar[dict[str, Any]] = {"length": 8, "vocabulary": 17}

    @property
    def keys(self) -> int:
        return (self.vocabulary - 1) // 2

    @property
    def answers(self) -> Sequence[int]:
        return range(self.keys, 2 * self.keys)

    def table(self) -> np.ndarray:
        """The value of each key."""
        import numpy as np

        return self.keys + np.random.default_rng(TABLE_SEED).permutation(self.keys)

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        keys = rng.integers(0, self.keys, (count, self.length // 2))
        ids = np.full((count, 2 * keys.shape[1]), self.vocabulary - 1)
        ids[:, 0::2] = keys
        targets = np.full_like(ids, IGNORE)
        targets[:, 1::2] = self.table()[keys]
        return ids, targets

    def word(self, token: int) -> str:
        if token == self.vocabulary - 1:
            return "?"
        return f"k{token}" if token < self.keys else f"v{token - self.keys}"
