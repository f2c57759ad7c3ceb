"""Noisy in-context recall of the MAD suite (Poli et al. 2024, arXiv:2403.17844).

A row is a list of pairs. A key keeps its value within a row, and when it comes again its value is
the answer. Some pairs are replaced by two noise tokens from a vocabulary of their own.

    k1 v3 n2 n7 k4 v0 k1 v3        after the second k1 the answer is v3

As in `generate_noisy_in_context_recall_instance` of mad-lab with `multi_query`: keys, values and
noise share the vocabulary; every pair is noise with the same probability; the last pair always
repeats a key. Different: the loss counts only the answers (mad-lab trains on every next token and
tests on the answers), and every epoch has new rows. The last key is that of a random pair, so a key
that came often is more likely; mad-lab draws it uniformly from the keys that came. There is more
noise: 0.4 of the pairs, 0.2 in mad-lab, whose default has 128 tokens and a vocabulary of 32, of
which 16 are noise.
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
class NoisyRecall(Ability):
    """Pairs with noise between them: the value of a key that comes again is the answer."""

    name = "noisy_recall"
    length: Annotated[int, "Tokens in a row, two for each pair.", Bounds(4, 65_536)] = 64
    vocabulary: Annotated[
        int,
        "Number of token ids: half are noise, a quarter keys, a quarter values.",
        Bounds(4, 65_536),
    ] = 64
    noise: Annotated[float, "Fraction of the pairs that are noise.", Bounds(0, 0.95)] = 0.4

    quick: ClassVar[dict[str, Any]] = {"training": {"steps": 300}}
    example: ClassVar[dict[str, Any]] = {"length": 16, "vocabulary": 16}

    @property
    def keys(self) -> int:
        return self.vocabulary // 4

    @property
    def answers(self) -> Sequence[int]:
        return range(self.keys, 2 * self.keys)

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        from attnlab.tasks.abilities._arrays import is_repeated

        pairs = self.length // 2
        table = self.keys + rng.integers(0, self.keys, (count, self.keys))  # value of each key
        keys = rng.integers(0, self.keys, (count, pairs))  # (R, pairs)
        is_noise = rng.random((count, pairs)) < self.noise
        # one pair before the last is no noise, and the last repeats it
        index, kept = np.arange(count), rng.integers(0, pairs - 1, count)
        is_noise[index, kept] = is_noise[:, -1] = False
        keys[:, -1] = keys[index, kept]
        values = np.take_along_axis(table, keys, 1)
        # noise repeats nothing: it counts as a key that occurs once
        seen = is_repeated(np.where(is_noise, self.keys + np.arange(pairs), keys))  # (R, pairs)
        noise = rng.integers(2 * self.keys, self.vocabulary, (2, count, pairs))
        ids = np.empty((count, 2 * pairs), dtype=np.int64)
        ids[:, 0::2] = np.where(is_noise, noise[0], keys)
        ids[:, 1::2] = np.where(is_noise, noise[1], values)
        targets = np.full_like(ids, IGNORE)
        targets[:, 0::2] = np.where(seen, values, IGNORE)
        return ids[:, :-1], targets[:, :-1]

    def word(self, token: int) -> str:
        kind, number = divmod(token, self.keys)
        return f"{'kv'[kind]}{number}" if kind < 2 else f"n{token - 2 * self.keys}"
