"""Formats texts and numbers of a report, safe for every kind of output."""

from __future__ import annotations

import html
import math

from attnlab._confidence_intervals import Estimate, format_number
from attnlab.report._content import Cell, Table


def clean(text: str) -> str:
    """Replaces characters that break the line, change its direction or are invisible."""
    joiners = "\u200c\u200d"  # Persian, Hindi and emoji need these
    return "".join(
        c if c.isprintable() or c in joiners else " " if c.isspace() else "\ufffd" for c in text
    )


def escape(text: str) -> str:
    """Text for an element or a quoted attribute of HTML or XML."""
    return html.escape(clean(text))


def format_short(value: float) -> str:
    """A number with three digits."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "inf" if value > 0 else "-inf"
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return f"{value:,.0f}" if size >= 100 else f"{value:.3g}"


def cell_text(cell: Cell, intervals: bool = True) -> str:
    if isinstance(cell, Estimate):
        value = _format_estimate(cell.value)
        if not intervals or cell.low is None or cell.high is None:
            return value
        return f"{value} ({_format_estimate(cell.low)} to {_format_estimate(cell.high)})"
    if isinstance(cell, str):
        return clean(cell)
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return format_short(cell).replace("-", "−") if isinstance(cell, float) else format_number(cell)


def _format_estimate(value: float) -> str:
    """Two decimals, so that the numbers of an interval are easy to compare."""
    in_range = value == 0 or 0.1 <= abs(value) < 1000
    return (f"{value:.2f}" if in_range else format_short(value)).replace("-", "−")


def numeric_columns(table: Table) -> list[bool]:
    """For each column whether it holds numbers, which are aligned right."""
    columns = [[row[index] for row in table.rows] for index in range(len(table.header))]
    return [
        all(not isinstance(cell, str) or _is_number(cell) for cell in column) for column in columns
    ]


def _is_number(cell: str) -> bool:
    return cell.lstrip("+-−<>≤≥ ")[:1].isdigit() or cell in ("", "–", "-", "∞", "−∞")
