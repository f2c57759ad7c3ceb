"""Prints a report in a terminal: sentences, tables, heatmaps and curves."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from attnlab._join_words import join_words
from attnlab.report._content import (
    Bars,
    Block,
    Command,
    Figure,
    Gallery,
    Heatmap,
    Lines,
    Link,
    Plot,
    Quote,
    Report,
    Section,
    Strip,
    Table,
)
from attnlab.report._terminal_heatmap import draw_heatmap
from attnlab.report._terminal_lines import draw_bars, draw_lines
from attnlab.report._text import cell_text, clean, numeric_columns

HEIGHT, MAX_WIDTH = 12, 110
COLUMN_GAP = 2  # characters after each column
FOLDED = 20  # least width of a column of words, which can be folded
SHADES = ("", "on color(237)", "on color(24)", "white on color(31)", "black on color(75)")


def print_report(
    report: Report, console: Console, charts: bool = True, sections: Sequence[str] = ()
) -> None:
    """Print a report in the terminal.

    With `charts` it also prints curves and bars, which take a screen each. It always prints
    heatmaps. `sections` are the names of the sections to print; empty means all.

    >>> from rich.console import Console
    >>> from attnlab.report import Report, Section, print_report
    >>> report = Report("example", "Loss by mechanism", [Section("loss", "Loss", [])])
    >>> print_report(report, Console(width=40))
    Loss
    <BLANKLINE>
    """
    width = min(console.width, MAX_WIDTH)
    for section in report.sections:
        if not sections or section.name in sections:
            print_section(section, console, charts)
    details = [f"{name} {value}" for name, value in report.versions.items()]
    details += [f"{name} {value}" for name, value in report.machine.items() if value is not None]
    if details:
        console.print(plain_text(textwrap.fill(", ".join(details), width), console, "dim"))


def print_section(section: Section, console: Console, charts: bool = True) -> None:
    width = min(console.width, MAX_WIDTH)
    console.print(plain_text(section.title, console, "bold underline"))
    settings = "; ".join(
        f"{name} {' '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in section.settings.items()
    )
    if settings:
        console.print(plain_text(settings, console, "dim"), "", soft_wrap=False)
    for tile in section.tiles:
        line = plain_text(f"{tile.name}: ", console, "dim").append_text(
            plain_text(tile.value, console)
        )
        note = f" ({tile.note})" if tile.note else ""
        console.print(line.append_text(plain_text(note, console, "dim")))
    _print_items(section.findings, console, width)
    if section.advice:
        console.print(Text("What to use", "bold"))
        _print_items(section.advice, console, width)
    for block in section.blocks:
        if charts or not isinstance(block, Figure) or isinstance(block.plot, Heatmap):
            _print_block(block, console, width)
    if section.blocks and isinstance(section.blocks[-1], Command | Link):
        console.print()  # other blocks end with an empty line


def plain_text(text: str, console: Console, style: str = "") -> Text:
    """Text without markup; characters that the console cannot encode become question marks."""
    encoding = console.encoding
    if not encoding.startswith("utf"):
        text = text.translate(str.maketrans("“”–−…", '""---'))
    lines = [clean(line) for line in text.split("\n")]
    return Text("\n".join(lines).encode(encoding, "replace").decode(encoding), style)


def _print_items(lines: Sequence[str], console: Console, width: int) -> None:
    for line in lines:
        text = textwrap.fill(clean(line), width, initial_indent="- ", subsequent_indent="  ")
        console.print(plain_text(text, console))
    console.print()


def _print_block(block: Block, console: Console, width: int) -> None:
    match block:
        case Table():
            print_table(block, console)
            return
        case Figure():
            _print_title(block.title, console)
            print_plot(block.plot, console, width)
            _print_note(block.note, console)
        case Gallery():
            _print_title(block.title, console)
            for picture in block.pictures:
                caption = ": ".join(filter(None, [picture.text, picture.note]))
                console.print(plain_text(caption, console))
            _print_note(block.note, console)
        case Quote():
            _print_title(block.title, console)
            quoted = plain_text(textwrap.fill(clean(block.text), width), console)
            if block.marked:
                quoted.highlight_words([clean(block.marked)], "reverse")
            console.print(quoted)
        case Strip():
            _print_title(block.title, console)
            console.print(_shade_tokens(block, console))
            _print_note(block.note, console)
        case Command():
            why = plain_text(f"  # {block.why}" if block.why else "", console, "dim")
            console.print(
                plain_text(block.command, console, "bold").append_text(why), soft_wrap=True
            )
            return
        case Link():
            console.print(plain_text(f"{block.text}: {block.href}", console))
            return
    console.print()


def _print_title(title: str, console: Console) -> None:
    if title:
        console.print(plain_text(title, console, "bold"))


def _print_note(note: str, console: Console) -> None:
    if note:
        console.print(plain_text(note, console, "dim"))


def _shade_tokens(strip: Strip, console: Console) -> Text:
    """Tokens on a background that is darker for a smaller weight; needs a terminal with colors."""
    most = max(map(abs, strip.weights), default=0.0) or 1.0
    line = Text()
    for token, weight in zip(strip.tokens, strip.weights, strict=False):
        fraction = min(abs(weight) / most, 1.0)
        last = len(SHADES) - 1
        shade = SHADES[min(round(fraction * last), last)] if fraction >= 0 else ""
        line.append_text(plain_text(token, console, shade)).append(" ")
    return line


# Tables


def print_table(table: Table, console: Console) -> None:
    """With intervals if they fit, and as many columns as fit; the first column always stays."""
    _print_title(table.title, console)
    columns = list(range(len(table.header)))
    intervals = _width(table, columns, True) <= console.width
    first = [index for name in table.drop for index in columns[1:] if table.header[index] == name]
    removable = iter(dict.fromkeys([*first, *columns[1:]]))
    while len(columns) > 2 and _width(table, columns, intervals) > console.width:
        columns.remove(next(removable))
    console.print(_rich_table(table, columns, intervals, console))
    left = [clean(name) for index, name in enumerate(table.header) if index not in columns]
    _print_note(
        f"Left out, because the terminal is too narrow: {join_words(left)}. " * bool(left)
        + table.note,
        console,
    )
    console.print()


def _width(table: Table, columns: Sequence[int], intervals: bool) -> int:
    """The width of a table whose columns of words are folded."""
    rows = [table.header, *([cell_text(cell, intervals) for cell in row] for row in table.rows)]
    widths = [max(len(clean(row[index])) for row in rows) + COLUMN_GAP for index in columns]
    numbers = numeric_columns(table)
    return sum(
        width if numbers[index] and index else min(width, FOLDED)
        for index, width in zip(columns, widths, strict=True)
    )


def _rich_table(
    table: Table, columns: Sequence[int], intervals: bool, console: Console
) -> RichTable:
    rich_table = RichTable(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    numbers = numeric_columns(table)
    for index in columns:
        rich_table.add_column(
            plain_text(table.header[index], console),
            justify="right" if numbers[index] else "left",
            no_wrap=numbers[index] and index > 0,
            overflow="fold",
        )
    for row in table.rows:
        rich_table.add_row(
            *(plain_text(cell_text(row[index], intervals), console) for index in columns)
        )
    return rich_table


# Plots


def print_plot(plot: Plot, console: Console, width: int = MAX_WIDTH) -> None:
    """Draw one plot in the terminal.

    >>> from rich.console import Console
    >>> from attnlab.claims import Estimate
    >>> from attnlab.report import Bars, print_plot
    >>> plot = Bars("loss", {"softmax": Estimate(2.1, 2.0, 2.2), "favor": Estimate(2.4, 2.3, 2.5)})
    >>> print_plot(plot, Console(width=40))  # doctest: +ELLIPSIS
    loss
    softmax...
    """
    width, ascii_only = min(width, console.width), not console.encoding.startswith("utf")
    match plot:
        case Heatmap():
            label, lines = plot.z, draw_heatmap(plot, width=width, ascii_only=ascii_only)
        case Bars():
            label, lines = plot.y, draw_bars(plot, width=width, ascii_only=ascii_only)
        case Lines():
            label = f"{plot.y} by {plot.x}"
            lines = draw_lines(plot, width=width, height=HEIGHT, ascii_only=ascii_only)
    console.print(plain_text(label, console, "dim"))
    for line in lines:
        console.print(line, no_wrap=True, crop=True)
