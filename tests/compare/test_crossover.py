"""Finding where two curves cross."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.compare._crossover import crossings, find_crossover


def test_crossings() -> None:
    assert crossings([10, 1000], [1.0, -1.0]) == pytest.approx([100])
    two = crossings([10, 100, 1000], [1.0, -1.0, 1.0])
    assert two == pytest.approx([10 * 10**0.5, 100 * 10**0.5])
    assert crossings([10, 1000], [1.0, 2.0]) == []
    assert crossings([10, 1000], [1.0, 0.0]) == [1000]
    assert crossings([10, 100, 1000], [1.0, 0.0, 2.0]) == [100]  # touched, not crossed
    assert crossings([10, 100, 1000, 2000], [1.0, 0.0, 0.0, -1.0]) == [100]  # a stretch of zeros
    assert crossings([10, 100], [0.0, 0.0]) == []
    assert crossings([10, 100, 1000], [0.0, 0.0, 1.0]) == []  # equal at first, then apart
    assert crossings([10, 100, 1000], [0.0, 1.0, 0.0]) == [1000]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=7))
def test_every_change_of_sign_is_a_crossing(values: list[int]) -> None:
    sizes = [10 * 3**i for i in range(len(values))]
    zeros = crossings(sizes, values)
    assert zeros == sorted(zeros)
    signs = [value > 0 for value in values if value]
    changes = sum(a != b for a, b in itertools.pairwise(signs))
    assert changes <= len(zeros) <= changes + values.count(0)
    for zero in zeros:
        interpolated = np.interp(math.log(zero), np.log(sizes), values)
        assert interpolated == pytest.approx(0, abs=1e-9)


def test_uncertainty_of_a_crossover() -> None:
    sizes = [10, 100, 1000]
    clear = find_crossover(sizes, [[0.2, 0.21, 0.19], [0.1, 0.11, 0.09], [-0.1, -0.11, -0.09]])
    assert clear.last == pytest.approx(100 * 10**0.5)
    assert clear.share == pytest.approx(1, abs=0.01)
    low, high = clear.low or 0.0, clear.high or 0.0
    assert 200 < low < 100 * 10**0.5 < high < 500
    never = find_crossover(sizes, [[0.3, 0.31], [0.3, 0.31], [0.3, 0.31]])
    assert never.last is None
    vague = find_crossover(sizes, [[0.2, -0.2], [0.1, -0.2], [-0.2, 0.1]])
    assert vague.low is not None
    assert vague.low < 50
    one = find_crossover([10, 1000], [[0.1], [-0.1]])
    assert one.last == pytest.approx(100)
    assert one.share is None
