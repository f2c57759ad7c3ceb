"""Multi-query associative recall, the task of Zoology (Arora et al. 2023, arXiv:2312.04927).

A row begins with key-value pairs. Later each key comes once more, and its value is the answer. The
gaps between a pair and its question follow a power law, as those of repeated bigrams in text do.

    k3 v9 k5 v1 v4 k8 k5 v2 k3 k6        after k5 the answer is v1, after k3 it is v9

As in `zoology/data/multiquery_ar.py`: one half of the vocabulary are keys, the other values; keys
and values of a row are all different; questions stand at every second place, drawn without
replacement with probabilities $p_i \\propto i^{a - 1}$ (`power` is $a$); what follows a question is
not its answer; the other places hold random tokens. Different: those random tokens are never a key
of the row, so each question has one answer (with Zoology's vocabulary of 8,192 that is rare, with
256 it is not); the id 0 is a key like others; every epoch has new rows. Zoology trains and tests on
a mix of sizes; here all rows have one size.
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
class Recall(Ability):
    """Pairs of a key and a value, then the keys again: the answer is the value."""

    name = "recall"
    pairs: Annotated[int, "Number of key-value pairs in a row.", Bounds(1, 4096)] = 8
    length: Annotated[int, "Tokens in a row, at least four for each pair.", Bounds(4, 65_536)] = 64
    vocabulary: Annotated[
        int, "Number of token ids. Half of them are keys, half are values.", Bounds(4, 65_536)
    ] = 256
    power: Annotated[
        float,
        "Exponent of the power law of the gaps: near 0 most questions come early, with 1 all gaps "
        "are equally likely.",
        Bounds(0, 10),
    ] = 0.01

    quick: ClassVar[dict[str, Any]] = {
        "pairs": 4,
        "length": 32,
        "vocabulary": 64,
        "training": {"steps": 500},
    }
    example: ClassVar[dict[str, Any]] = {"pairs": 3, "length": 16, "vocabulary": 16}

    def __post_init__(self) -> None:
        super().__post_init__()
        if 4 * self.pairs > self.length:
            raise ValueError(
                f"recall: {self.pairs} pairs do not fit into a length of {self.length}; give at "
                f"most {self.length // 4} pairs, or a length of {4 * self.pairs} or more"
            )
        if self.pairs > self.keys:
            raise ValueError(
                f"recall: a vocabulary of {self.vocabulary} has {self.keys} keys, but there are "
                f"{self.pairs} pairs; give a vocabulary of {2 * self.pairs} or more"
            )

    @property
    def keys(self) -> int:
        return self.vocabulary // 2

    @property
    def answers(self) -> Sequence[int]:
        return range(self.keys, self.vocabulary)

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        from attnlab.tasks.abilities._arrays import draw_distinct

        context = 2 * self.pairs
        keys = draw_distinct(rng, count, self.pairs, self.keys)  # (R, pairs)
        values = self.keys + draw_distinct(rng, count, self.pairs, len(self.answers))
        is_key = np.zeros((count, self.vocabulary), dtype=bool)
        np.put_along_axis(is_key, keys, True, 1)
        ids = rng.integers(0, self.vocabulary, (count, self.length))
        while (wrong := np.take_along_axis(is_key, ids, 1)).any():
            ids[wrong] = rng.integers(0, self.vocabulary, int(wrong.sum()))
        ids[:, 0:context:2], ids[:, 1:context:2] = keys, values
        places = (self.length - context) // 2
        weights = np.log(np.arange(1, places + 1)) * (self.power - 1)
        # the largest of log p + Gumbel noise are a draw without replacement (Gumbel-top-k)
        order = np.argsort(-(weights + rng.gumbel(size=(count, places))), 1)
        questions = context + 2 * order[:, : self.pairs]  # (R, pairs)
        np.put_along_axis(ids, questions, keys, 1)
        targets = np.full_like(ids, IGNORE)
        np.put_along_axis(targets, questions, values, 1)
        return ids, targets

    def word(self, token: int) -> str:
        return f"k{token}" if token < self.keys else f"v{token - self.keys}"
