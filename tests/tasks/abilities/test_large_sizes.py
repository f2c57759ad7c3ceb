"""Generators at large sizes need few random numbers and little memory."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import numpy as np
import pytest

from attnlab.tasks.abilities._arrays import draw_distinct, is_repeated
from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.abilities.fuzzy_recall import FuzzyRecall
from attnlab.tasks.abilities.listops import Listops
from attnlab.tasks.abilities.noisy_recall import NoisyRecall
from attnlab.tasks.abilities.recall import Recall
from tests.tasks.abilities.solvers import SOLVERS


class LimitedGenerator:
    """A random generator that refuses to go on after 300 calls."""

    def __init__(self) -> None:
        self.rng, self.left = np.random.default_rng(0), 300

    def __getattr__(self, name: str) -> Any:
        self.left -= 1
        assert self.left > 0, "too many draws"
        return getattr(self.rng, name)


class LimitedRandom(Random):
    """A source of random numbers that refuses to go on after 100,000."""

    left = 100_000

    def random(self) -> float:
        self.left -= 1
        assert self.left > 0, "too many draws"
        return super().random()


@pytest.mark.parametrize(
    "ability",
    [
        Recall(pairs=1024, length=4096, vocabulary=65_536),
        FuzzyRecall(pairs=256, vocabulary=65),
        FuzzyRecall(pairs=3, key_size=3, vocabulary=7),  # half of all keys
    ],
)
def test_only_repeated_entries_are_drawn_again(ability: Ability) -> None:
    ids, targets = ability.generate(3, LimitedGenerator())  # type: ignore[arg-type]
    for row, expected in zip(ids.tolist(), targets.tolist(), strict=True):
        assert SOLVERS[ability.name](ability, row) == expected


@pytest.mark.parametrize(("count", "size"), [(3, 5), (3, 70)])  # sorted, drawn again
def test_distinct_numbers_are_equally_likely(count: int, size: int) -> None:
    drawn = draw_distinct(np.random.default_rng(0), 70_000, count, size)  # (R, count)
    assert not is_repeated(drawn).any()
    expected = len(drawn) / size
    for column in drawn.T:
        counts = np.bincount(column, minlength=size)
        assert np.abs(counts - expected).max() < 5 * expected**0.5


def test_sorting_in_chunks_changes_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = draw_distinct(np.random.default_rng(0), 11, 3, 7)
    monkeypatch.setattr("attnlab.tasks.abilities._arrays.CHUNK", 15)  # two rows
    assert (draw_distinct(np.random.default_rng(0), 11, 3, 7) == whole).all()


def test_impossible_keys_are_refused() -> None:
    """Four different tokens out of four have only 24 orders."""
    assert FuzzyRecall(pairs=12, key_size=4, vocabulary=9).symbols == 4
    with pytest.raises(ValueError, match="a vocabulary of 9 is too small for 25 pairs"):
        FuzzyRecall(pairs=25, key_size=4, vocabulary=9)


def test_the_memory_of_noisy_recall_is_linear_in_the_length() -> None:
    ability = NoisyRecall(length=4096)
    tracemalloc.start()
    ids, targets = ability.generate(3, np.random.default_rng(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * ids.nbytes
    for row, expected in zip(ids.tolist(), targets.tolist(), strict=True):
        assert SOLVERS["noisy_recall"](ability, row) == expected


def test_listops_stops_at_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listops, "row_counts", {"test": 50})
    ability = Listops(length=11, arguments=20, depth=20)
    rows = ability.rows("test", LimitedRandom(0))
    assert max(len(row.ids) for row in rows) == 11
    for row in rows:
        assert SOLVERS["listops"](ability, list(row.ids)) == row.targets
