"""Texts and numbers as a reader sees them, safe in any medium."""

from __future__ import annotations

import html
import math

from attnlab._confidence_intervals import Estimate, format_number
from attnlab.report._content import Cell, Table


def clean(text: str) -> str:
    """What would break a line, turn its direction or hide in it becomes a visible mark."""
    joiners = "\u200c\u200d"  # Persian, Hindi and emoji are not written without
    return "".join(
        c if c.isprintable() or c in joiners else " " if c.isspace() else "\ufffd" for c in text
    )


def escape(text: str) -> str:
    """Text for an element or a quoted attribute, of HTML and of XML."""
    return html.escape(clean(text))


def short(value: float) -> str:
    """Three digits."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "inf" if value > 0 else "-inf"
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}"


def cell_text(cell: Cell, intervals: bool = True) -> str:
    if isinstance(cell, Estimate):
        value = _estimated(cell.value)
        if not intervals or cell.low is None or cell.high is None:
            return value
        return f"{value} ({_estimated(cell.low)} to {_estimated(cell.high)})"
    if isinstance(cell, str):
        return clean(cell)
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return short(cell).replace("-", "−") if isinstance(cell, float) else format_number(cell)


def _estimated(value: float) -> str:
    """Two decimals, so that the numbers of an interval compare at a glance."""
    plain = value == 0 or 0.1 <= abs(value) < 1000
    return (f"{value:.2f}" if plain else short(value)).replace("-", "−")


def numeric(table: Table) -> list[bool]:
    """For each column whether it holds numbers, which are set to the right."""
    columns = [[row[place] for row in table.rows] for place in range(len(table.header))]
    return [
        all(not isinstance(cell, str) or _numeric(cell) for cell in column) for column in columns
    ]


def _numeric(cell: str) -> bool:
    return cell.lstrip("+-−<>≤≥ ")[:1].isdigit() or cell in ("", "–", "-", "∞", "−∞")
