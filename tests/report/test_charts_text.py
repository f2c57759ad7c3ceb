"""The texts, numbers and ticks of charts."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.charts import clean, escape, number
from attnlab.charts.scales import Axis, extent, fitted, log_ticks, tick_texts, ticks, width_of
from tests.support.chart_checks import HOSTILE


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_is_one_harmless_text(text: str) -> None:
    root = ElementTree.fromstring(f'<a b="{escape(text)}">{escape(text)}</a>')
    assert len(root) == 0
    assert root.text == root.attrib["b"] == clean(text)
    assert all(c.isprintable() for c in clean(text))
    assert len(clean(text)) == len(text)  # what was there leaves a mark


def test_names_of_all_scripts_stay() -> None:
    for name in ("Dávid Kovács", "東京", "שלום", "नरेन्द्र", "می\u200cخواهم", "O'Brien"):
        assert clean(name) == name


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0, "0"),
        (-0.0, "0"),
        (1234567, "1,234,567"),
        (1234.5, "1,234"),
        (0.5, "0.5"),
        (100.0, "100"),
        (2.34567, "2.346"),
        (-0.00123, "−0.00123"),
        (1e6, "1e6"),
        (-1.5e-7, "−1.5e−7"),
        (1e300, "1e300"),
        (None, "–"),
        (math.nan, "–"),
        (-math.inf, "−∞"),
    ],
)
def test_number(value: float | None, wanted: str) -> None:
    assert number(value) == wanted


def test_percent() -> None:
    assert number(0.8725, percent=True) == "87.2%"
    assert number(1, percent=True) == "100%"
    assert number(0.004, percent=True) == "0.4%"


def test_fitted() -> None:
    assert fitted("Bonn", 40) == "Bonn"
    assert fitted("Llanfairpwllgwyngyll", 60) == "Llanfa…"
    assert width_of(fitted("東京都" * 9, 60)) <= 60


# Axes

anything = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0, 10, ["0", "2", "4", "6", "8", "10"]),
        (0.93, 1.02, ["0.94", "0.96", "0.98", "1.00", "1.02"]),
        (-1, 1, ["−1.0", "−0.5", "0.0", "0.5", "1.0"]),
        (0, 12_000, ["0", "2,500", "5,000", "7,500", "10,000"]),
        (0, 5e9, ["0e0", "1e9", "2e9", "3e9", "4e9", "5e9"]),
    ],
)
def test_ticks_by_eye(low: float, high: float, wanted: list[str]) -> None:
    assert tick_texts(ticks(low, high)) == wanted


@given(st.lists(anything, max_size=4), st.booleans())
def test_ticks_of_anything(values: list[float], log: bool) -> None:
    values = [abs(value) or 1.0 for value in values] if log else values
    low, high = extent(values, log)
    assert low < high
    found = log_ticks(low, high) if log else ticks(low, high)
    assert 1 <= len(found) <= 9
    assert found == sorted(set(found))
    slack = 1e-6 * max(abs(low), abs(high))
    assert low - slack <= found[0]
    assert found[-1] <= high + slack
    axis = Axis(low, high, 7, 311, log)
    assert axis.ticks() == found
    assert len(set(axis.texts())) == len(found)
    assert all(7 <= axis(value) <= 311 for value in [*values, *found])
    assert axis(low) == pytest.approx(7)
    assert axis(high) == pytest.approx(311)


def test_log_ticks_by_eye() -> None:
    assert log_ticks(1, 1000) == [1, 10, 100, 1000]
    assert log_ticks(3, 80) == [5, 10, 20, 50]
    assert len(log_ticks(1e-9, 1e12)) <= 8
