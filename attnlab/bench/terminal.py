"""A report in a terminal: what was found in words, tables, maps and curves."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table as Drawn_table
from rich.text import Text

from attnlab.bench.results import Cell, Drawn, Report, Section, Table
from attnlab.charts import number
from attnlab.charts.plots import Bars, Heatmap
from attnlab.charts.scales import clean
from attnlab.charts.terminal import bars, plot
from attnlab.charts.terminal_heatmap import heatmap, short
from attnlab.intervals import Estimate
from attnlab.words import joined

HEIGHT, WIDEST = 12, 110
BETWEEN = 2  # characters after each column
FOLDED = 20  # characters that a long name may be folded to


def print_report(report: Report, console: Console, charts: bool = True) -> None:
    """`charts`: curves too, which take a screen each."""
    width = min(console.width, WIDEST)
    for section in report.sections:
        console.print(Text(clean(section.title), "bold underline"))
        console.print(Text(_settings(section), "dim"), "", soft_wrap=False)
        _words(section.findings, console, width)
        if section.advice:
            console.print(Text("What to use", "bold"))
            _words(section.advice, console, width)
        for part in section.parts:
            if isinstance(part, Table):
                _table(part, console)
            elif charts or isinstance(part.plot, Heatmap):
                _drawing(part, console, width)
    about = [f"{name} {value}" for name, value in report.versions.items()]
    about += [f"{name} {value}" for name, value in report.machine.items() if value is not None]
    console.print(Text(clean(", ".join(about)), "dim"))


def _settings(section: Section) -> str:
    return clean("; ".join(
        f"{name} {' '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in section.settings.items()
    ))  # fmt: skip


def _words(lines: Sequence[str], console: Console, width: int) -> None:
    for line in lines:
        text = textwrap.fill(clean(line), width, initial_indent="- ", subsequent_indent="  ")
        console.print(Text(text))
    console.print()


def _table(table: Table, console: Console) -> None:
    """With intervals where they fit, and as many columns as fit: names stay."""
    console.print(Text(clean(table.title), "bold"))
    columns = list(range(len(table.header)))
    intervals = _width(table, columns, True) <= console.width
    named = [place for each in table.drop for place in columns[1:] if table.header[place] == each]
    leaving = iter(dict.fromkeys([*named, *columns[1:]]))
    while len(columns) > 2 and _width(table, columns, intervals) > console.width:
        columns.remove(next(leaving))
    console.print(_made(table, columns, intervals))
    left = [clean(name) for place, name in enumerate(table.header) if place not in columns]
    note = f"For want of width without {joined(left)}. " * bool(left) + clean(table.note)
    if note:
        console.print(Text(note, "dim"))
    console.print()


def _width(table: Table, columns: Sequence[int], intervals: bool) -> int:
    """The first column may be folded."""
    rows = [table.header, *([_cell(cell, intervals) for cell in row] for row in table.rows)]
    widths = [max(len(clean(row[place])) for row in rows) + BETWEEN for place in columns]
    return min(widths[0], FOLDED) + sum(widths[1:])


def _made(table: Table, columns: Sequence[int], intervals: bool) -> Drawn_table:
    made = Drawn_table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for place in columns:
        wordy = any(isinstance(row[place], str) for row in table.rows) and place == 0
        justify: JustifyMethod = "left" if wordy else "right"
        name = clean(table.header[place])
        made.add_column(name, justify=justify, no_wrap=place > 0, overflow="fold")
    for row in table.rows:
        made.add_row(*(Text(_cell(row[place], intervals)) for place in columns))
    return made


def _cell(cell: Cell, intervals: bool) -> str:
    if isinstance(cell, Estimate):
        if not intervals or cell.low is None or cell.high is None:
            return f"{cell.value:.2f}".replace("-", "−")
        return f"{cell.value:.2f} ({cell.low:.2f} to {cell.high:.2f})".replace("-", "−")
    if isinstance(cell, str):
        return clean(cell)
    return short(cell) if isinstance(cell, float) else number(cell)


def _drawing(part: Drawn, console: Console, width: int) -> None:
    drawn, plain = part.plot, not console.encoding.startswith("utf")
    console.print(Text(clean(part.title), "bold"))
    if isinstance(drawn, Heatmap):
        console.print(Text(clean(drawn.z), "dim"))
        lines = heatmap(drawn, width=width, ascii_only=plain)
    elif isinstance(drawn, Bars):
        console.print(Text(clean(drawn.y), "dim"))
        values = [(clean(name), figure.value) for name, figure in drawn.values.items()]
        lines = bars(values, width=width, ascii_only=plain)
    else:
        console.print(Text(clean(f"{drawn.y} by {drawn.x}"), "dim"))
        lines = plot(
            drawn.series, width=width, height=HEIGHT, x_log=drawn.x_log, y_log=drawn.y_log,
            ascii_only=plain,
        )  # fmt: skip
    for line in lines:
        console.print(line, no_wrap=True, crop=True)
    if part.note:
        console.print(Text(clean(part.note), "dim"))
    console.print()
