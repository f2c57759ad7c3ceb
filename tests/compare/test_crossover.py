"""Where two curves cross."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.compare._crossover import crossings, find_crossover


def test_where_lines_cross() -> None:
    assert crossings([10, 1000], [1.0, -1.0]) == pytest.approx([100])
    both = crossings([10, 100, 1000], [1.0, -1.0, 1.0])
    assert both == pytest.approx([10 * 10**0.5, 100 * 10**0.5])
    assert crossings([10, 1000], [1.0, 2.0]) == []
    assert crossings([10, 1000], [1.0, 0.0]) == [1000]
    assert crossings([10, 100, 1000], [1.0, 0.0, 2.0]) == [100]  # touched, not crossed
    assert crossings([10, 100, 1000, 2000], [1.0, 0.0, 0.0, -1.0]) == [100]  # a level stretch
    assert crossings([10, 100], [0.0, 0.0]) == []
    assert crossings([10, 100, 1000], [0.0, 0.0, 1.0]) == []  # level at first, and then apart
    assert crossings([10, 100, 1000], [0.0, 1.0, 0.0]) == [1000]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=7))
def test_a_place_for_every_change_of_sign(values: list[int]) -> None:
    sizes = [10 * 3**i for i in range(len(values))]
    places = crossings(sizes, values)
    assert places == sorted(places)
    signs = [value > 0 for value in values if value]
    changes = sum(a != b for a, b in itertools.pairwise(signs))
    assert changes <= len(places) <= changes + values.count(0)
    for place in places:  # on the line through the values there is nothing left
        line = np.interp(math.log(place), np.log(sizes), values)
        assert line == pytest.approx(0, abs=1e-9)


def test_how_sure_a_crossover_is() -> None:
    sizes = [10, 100, 1000]
    clear = find_crossover(sizes, [[0.2, 0.21, 0.19], [0.1, 0.11, 0.09], [-0.1, -0.11, -0.09]])
    assert clear.at == pytest.approx(100 * 10**0.5)
    assert clear.share == pytest.approx(1, abs=0.01)
    low, high = clear.low or 0.0, clear.high or 0.0
    assert 200 < low < 100 * 10**0.5 < high < 500
    never = find_crossover(sizes, [[0.3, 0.31], [0.3, 0.31], [0.3, 0.31]])
    assert never.at is None
    vague = find_crossover(sizes, [[0.2, -0.2], [0.1, -0.2], [-0.2, 0.1]])
    assert vague.low is not None
    assert vague.low < 50
    one = find_crossover([10, 1000], [[0.1], [-0.1]])
    assert one.at == pytest.approx(100)
    assert one.share is None
