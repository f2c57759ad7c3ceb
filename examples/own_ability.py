"""Your own ability in one file: find the token that is not like the others.

    attnlab --extension examples/own_ability.py abilities
    attnlab --extension examples/own_ability.py odd_one train --length 9
    attnlab --extension examples/own_ability.py odd_one evaluate runs/odd_one
    attnlab --extension examples/own_ability.py compare odd_one --attention softmax elu --seeds 2

An ability is a frozen dataclass. Its fields are options of the commands; `generate` makes rows, and
`answers` says which ids can be an answer, from which the chance level follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.registry import register_task
from attnlab.tasks.simple import IGNORE, Bounds


@register_task
@dataclass(frozen=True)
class OddOne(Ability):
    """Find the token that is not like the others."""

    name = "odd_one"
    length: Annotated[int, "Tokens in a row.", Bounds(3, 1000)] = 16
    vocabulary: Annotated[int, "Number of token ids.", Bounds(2, 1000)] = 32

    quick: ClassVar[dict[str, Any]] = {"training": {"steps": 200}}
    example: ClassVar[dict[str, Any]] = {"length": 7}

    @property
    def answers(self) -> Sequence[int]:
        return range(self.vocabulary)

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        usual = rng.integers(0, self.vocabulary, count)
        odd = (usual + rng.integers(1, self.vocabulary, count)) % self.vocabulary
        ids = np.repeat(usual[:, None], self.length, axis=1)  # (rows, length)
        ids[np.arange(count), rng.integers(0, self.length, count)] = odd
        targets = np.full_like(ids, IGNORE)
        targets[:, -1] = odd  # asked after the last token
        return ids, targets
