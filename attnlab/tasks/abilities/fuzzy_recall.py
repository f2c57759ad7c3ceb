"""Fuzzy in-context recall of the MAD suite (Poli et al. 2024, arXiv:2403.17844).

Keys and values are groups of tokens. A row shows every pair once, then again in another order. When
a key comes again, all tokens of its value are answers.

    a1 a4 b2 | a3 a2 b7 b0 | a3 a2 b7 b0 | a1 a4 b2        answers: b7 b0, then b2 (| is not there)

As in `generate_fuzzy_in_context_recall_instance` of mad-lab when it tests: keys have the largest
size, values have one token or more; no token occurs twice in a group; padding is on the left.
Different: mad-lab trains with keys of all sizes, where the end of a key is ambiguous, and draws the
pairs of a row at random from all groups, so that few come twice; here each comes exactly twice, in
training too. The loss counts only the answers. The last token of a value is known only by what
follows it, so no answer asks whether a value ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from attnlab.tasks._task_options import Bounds
from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.simple import IGNORE

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class FuzzyRecall(Ability):
    """Pairs of groups of tokens: the value of a key that comes again is the answer."""

    name = "fuzzy_recall"
    pairs: Annotated[int, "Number of key-value pairs in a row.", Bounds(1, 1024)] = 5
    key_size: Annotated[int, "Tokens of a key.", Bounds(1, 8)] = 2
    value_size: Annotated[int, "Largest number of tokens of a value.", Bounds(1, 8)] = 2
    vocabulary: Annotated[
        int, "Number of token ids. Half of them are for keys, half for values.", Bounds(4, 65_536)
    ] = 32

    quick: ClassVar[dict[str, Any]] = {"training": {"steps": 300}}
    example: ClassVar[dict[str, Any]] = {"pairs": 2, "vocabulary": 13}

    def __post_init__(self) -> None:
        super().__post_init__()
        size = max(self.key_size, self.value_size)
        keys = math.perm(self.symbols, self.key_size)
        if self.symbols < size or keys < 2 * self.pairs:  # half are left, so drawing one is fast
            raise ValueError(
                f"fuzzy_recall: a vocabulary of {self.vocabulary} is too small for {self.pairs} "
                f"pairs of groups of {size} tokens; give a larger vocabulary"
            )

    @property
    def symbols(self) -> int:
        """Tokens for keys; as many are for values, and one is padding."""
        return (self.vocabulary - 1) // 2

    @property
    def length(self) -> int:
        return 2 * self.pairs * (self.key_size + self.value_size)

    @property
    def answers(self) -> Sequence[int]:
        return range(self.symbols, 2 * self.symbols)

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        from attnlab.tasks.abilities._arrays import draw_distinct

        pairs, size = self.pairs, self.key_size + self.value_size
        keys = self._draw_keys(count, rng)  # (R, pairs, key size)
        shape = (count, pairs, self.value_size)
        values = self.symbols + draw_distinct(rng, count * pairs, self.value_size, self.symbols)
        groups = np.concatenate([keys, values.reshape(shape)], 2)  # (R, pairs, size)
        sizes = rng.integers(1, self.value_size + 1, (count, pairs))
        order = np.tile(np.arange(pairs), (count, 2))
        order[:, pairs:] = rng.permuted(order[:, pairs:], axis=1)  # (R, 2 pairs)
        tokens = np.take_along_axis(groups, order[..., None], 1)  # (R, 2 pairs, size)
        ends = self.key_size + np.take_along_axis(sizes, order, 1)  # (R, 2 pairs)
        place = np.arange(size)
        exists = place < ends[..., None]
        asked = exists & (place >= self.key_size) & (np.arange(2 * pairs) >= pairs)[:, None]
        flat = exists.reshape(count, -1)
        left = np.argsort(flat, 1, kind="stable")  # padding first, the rest in its order
        ids = np.where(exists, tokens, 2 * self.symbols).reshape(count, -1)
        answers = np.where(asked, tokens, IGNORE).reshape(count, -1)
        ids, answers = (np.take_along_axis(each, left, 1) for each in (ids, answers))
        return ids[:, :-1], answers[:, 1:]

    def _draw_keys(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """(R, pairs, key size): all keys of a row differ."""
        import numpy as np

        from attnlab.tasks.abilities._arrays import draw_distinct, is_repeated

        def draw(keys: int) -> np.ndarray:
            return draw_distinct(rng, keys, self.key_size, self.symbols)

        keys = draw(count * self.pairs).reshape(count, self.pairs, self.key_size)
        powers = self.symbols ** np.arange(self.key_size)
        while (again := is_repeated((keys * powers).sum(2))).any():
            keys[again] = draw(int(again.sum()))
        return keys

    def longer(self, factor: int) -> FuzzyRecall:
        return replace(self, pairs=factor * self.pairs)

    def word(self, token: int) -> str:
        kind, number = divmod(token, self.symbols)
        return f"{'ab'[kind]}{number}" if kind < 2 else "_"
