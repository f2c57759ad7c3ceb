"""Induction (Elhage et al. 2021; Olsson et al. 2022, arXiv:2209.11895).

A sequence of random tokens comes twice in a row, at random places. From its second token on, the
second copy can be predicted: find the previous token in the first copy and write what followed it.

    7 2 [5 9 4] 1 8 [5 9 4] 3        answers: 9 after the second 5, 4 after the second 9

Olsson et al. repeat random tokens to find induction heads; H3 and Mamba mark the token to find with
one special token and ask once. Here any token can be the one to find, and the distance between the
copies is random, so that a fixed distance does not help. All tokens of the sequence differ, and the
other tokens of the row do not occur in it: each answer is certain.
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
class Induction(Ability):
    """A sequence comes twice: continue its second copy."""

    name = "induction"
    tokens: Annotated[int, "Tokens of the sequence that comes twice.", Bounds(2, 4096)] = 8
    length: Annotated[int, "Tokens in a row.", Bounds(4, 65_536)] = 64
    vocabulary: Annotated[int, "Number of token ids.", Bounds(3, 65_536)] = 64

    quick: ClassVar[dict[str, Any]] = {
        "tokens": 6,
        "length": 32,
        "vocabulary": 32,
        "training": {"steps": 500},
    }
    example: ClassVar[dict[str, Any]] = {"tokens": 3, "length": 14, "vocabulary": 20}

    def __post_init__(self) -> None:
        super().__post_init__()
        if 2 * self.tokens > self.length:
            raise ValueError(
                f"induction: {self.tokens} tokens do not fit twice into a length of {self.length}; "
                f"give at most {self.length // 2} tokens, or a length of {2 * self.tokens} or more"
            )
        if self.tokens >= self.vocabulary:
            raise ValueError(
                f"induction: a sequence of {self.tokens} different tokens needs a vocabulary of "
                f"{self.tokens + 1} or more, not {self.vocabulary}"
            )

    @property
    def answers(self) -> Sequence[int]:
        return range(self.vocabulary)

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        from attnlab.tasks.abilities._arrays import draw_distinct

        size = self.tokens
        chosen = draw_distinct(rng, count, size, self.vocabulary)  # (R, size)
        in_sequence = np.zeros((count, self.vocabulary), dtype=bool)
        np.put_along_axis(in_sequence, chosen, True, 1)
        ids = rng.integers(0, self.vocabulary, (count, self.length))
        while (wrong := np.take_along_axis(in_sequence, ids, 1)).any():
            ids[wrong] = rng.integers(0, self.vocabulary, int(wrong.sum()))
        # two places among those left when the copies are taken out, in order
        free = self.length - 2 * size + 1
        first, second = np.sort(rng.integers(0, free, (count, 2)), 1).T
        inside = np.arange(size)
        np.put_along_axis(ids, first[:, None] + inside, chosen, 1)
        places = second[:, None] + size + inside  # (R, size) the second copy
        np.put_along_axis(ids, places, chosen, 1)
        targets = np.full_like(ids, IGNORE)
        np.put_along_axis(targets, places[:, :-1], chosen[:, 1:], 1)
        return ids, targets
