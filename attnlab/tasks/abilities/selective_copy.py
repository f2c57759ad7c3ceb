"""Selective copying of the MAD suite and of Mamba (Gu and Dao 2023, arXiv:2312.00752).

Tokens stand at random places among blanks. After the token `copy` only blanks follow, and there the
tokens are the answers, in their order.

    _ a _ _ c b _ copy _ _ _        answers: a c b

As in `generate_selective_copying_instance` of mad-lab: the last two ids are the blank and the token
`copy`, the model does not see its answers, and a token may come twice. Different: all places are
equally likely (mad-lab never puts blanks after the last token), and every epoch has new rows.
mad-lab copies 16 tokens of a row of 256.
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
class SelectiveCopy(Ability):
    """Tokens among blanks: write the tokens in their order."""

    name = "selective_copy"
    tokens: Annotated[int, "Number of tokens to copy.", Bounds(1, 4096)] = 8
    length: Annotated[int, "Tokens in a row, with the answers.", Bounds(3, 65_536)] = 48
    vocabulary: Annotated[int, "Number of token ids.", Bounds(4, 65_536)] = 16

    quick: ClassVar[dict[str, Any]] = {"tokens": 5, "length": 32, "training": {"steps": 300}}
    example: ClassVar[dict[str, Any]] = {"tokens": 3, "length": 13, "vocabulary": 10}

    def __post_init__(self) -> None:
        super().__post_init__()
        if 2 * self.tokens + 1 > self.length:
            raise ValueError(
                f"selective_copy: {self.tokens} tokens do not fit into a length of {self.length}; "
                f"give at most {(self.length - 1) // 2} tokens, or a length of "
                f"{2 * self.tokens + 1} or more"
            )

    @property
    def answers(self) -> Sequence[int]:
        return range(self.vocabulary - 2)

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        from attnlab.tasks.abilities._arrays import draw_distinct

        blank, copy = self.vocabulary - 2, self.vocabulary - 1
        before = self.length - self.tokens - 1
        items = rng.integers(0, blank, (count, self.tokens))
        places = np.sort(draw_distinct(rng, count, self.tokens, before), 1)
        ids = np.full((count, self.length), blank)
        np.put_along_axis(ids, places, items, 1)
        ids[:, before] = copy
        targets = np.full_like(ids, IGNORE)
        targets[:, before + 1 :] = items
        return ids, targets

    def word(self, token: int) -> str:
        special = {self.vocabulary - 2: "_", self.vocabulary - 1: "copy"}
        return special.get(token, str(token))
