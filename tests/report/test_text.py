"""Formatting of texts and numbers."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from attnlab._confidence_intervals import Estimate, format_number
from attnlab.report import Cell, Table
from attnlab.report._text import cell_text, clean, escape, format_short, numeric_columns
from tests.support.claim_ledgers import HOSTILE


@pytest.mark.parametrize("text", [*HOSTILE, "two\nlines\r\n\ttab", "half \ud800 \udfff \ufffe"])
def test_escaped_text_is_safe(text: str) -> None:
    root = ElementTree.fromstring(f'<a b="{escape(text)}">{escape(text)}</a>')
    assert len(root) == 0
    assert root.text == root.attrib["b"] == clean(text)
    assert all(c.isprintable() for c in clean(text))
    assert len(clean(text)) == len(text)  # removed characters leave a mark


def test_names_in_all_scripts_are_kept() -> None:
    for name in ("Dávid Kovács", "東京", "שלום", "नरेन्द्र", "می\u200cخواهم", "O'Brien"):
        assert clean(name) == name


@pytest.mark.parametrize(
    ("value", "expected"),
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
def test_number(value: float | None, expected: str) -> None:
    assert format_number(value) == expected


def test_percent() -> None:
    assert format_number(0.8725, percent=True) == "87.2%"
    assert format_number(1, percent=True) == "100%"
    assert format_number(0.004, percent=True) == "0.4%"


def test_short_numbers() -> None:
    numbers = (0.0, 0.01234, 1.2345, 99.94, 1234.5, 1234567.0, 1e-7, math.inf)
    assert [format_short(value) for value in numbers] == [
        "0", "0.0123", "1.23", "99.9", "1,234", "1e6", "1e-7", "inf"
    ]  # fmt: skip


def test_cells() -> None:
    cells = (
        "a\nb",
        1234,
        0.5,
        -2.0,
        None,
        math.nan,
        True,
        Estimate(0.97, 0.9, 1.0),
        Estimate(1e-9),
    )
    assert [cell_text(cell) for cell in cells] == [
        "a b", "1,234", "0.5", "−2", "–", "–", "yes", "0.97 (0.90 to 1.00)", "1e−9"
    ]  # fmt: skip
    assert cell_text(Estimate(0.97, 0.9, 1.0), intervals=False) == "0.97"


def test_numeric_columns() -> None:
    rows: list[list[Cell]] = [
        ["Bonn", 3, "7%", "1,200 (1 to 2)", "all"],
        ["7", None, "−1.5%", "∞", "1"],
    ]
    table = Table("t", ["place", "n", "share", "x", "from"], rows)
    assert numeric_columns(table) == [False, True, True, True, False]
