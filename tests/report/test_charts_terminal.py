"""Lines and bars drawn with characters."""

from __future__ import annotations

import math

from attnlab.charts import Series
from attnlab.charts.terminal import bars, plot


def test_lines_in_a_terminal_by_hand() -> None:
    up, level = Series("up", [(1, 1), (10, 10), (100, 100)]), Series("level", [(1, 10), (100, 10)])
    drawn = plot([up, level], width=16, height=3, x_log=True, y_log=True, ascii_only=True)
    assert [line.plain for line in drawn] == [
        "100 |        aaa",
        "    |bbbaaaaabbb",
        "  1 |aaa        ",
        "    +-----------",
        "     1       100",
        "     a up",
        "     b level",
    ]


def test_what_a_terminal_cannot_show_is_left_out() -> None:
    assert [line.plain for line in plot([], width=40, height=5)] == ["no values"]
    odd = Series("a", [(0, 1), (1, -1), (math.nan, 1), (2, math.inf)])
    assert plot([odd], width=40, height=5, x_log=True, y_log=True)[0].plain == "no values"
    one = plot([Series("a", [(3, 3)])], width=40, height=5)
    assert any("\u2800" < letter < "\u28ff" for line in one for letter in line.plain)
    told = [line.plain for line in bars([("a", 2.0), ("bc", -1.0)], width=24)]
    assert told == [" a ████████ 2", "bc ████ −1"]
