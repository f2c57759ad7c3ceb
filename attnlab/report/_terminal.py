"""A report in a terminal: what was found in words, tables, maps and curves."""

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
from attnlab.report._text import cell_text, clean, numeric

HEIGHT, WIDEST = 12, 110
BETWEEN = 2  # characters after each column
FOLDED = 20  # characters that a long name may be folded to
SHADES = ("", "on color(237)", "on color(24)", "white on color(31)", "black on color(75)")


def print_report(
    report: Report, console: Console, charts: bool = True, sections: Sequence[str] = ()
) -> None:
    """`charts`: curves and bars too, which take a screen each; maps are always drawn.
    `sections`: only these, by name."""
    width = min(console.width, WIDEST)
    for section in report.sections:
        if not sections or section.name in sections:
            print_section(section, console, charts)
    about = [f"{name} {value}" for name, value in report.versions.items()]
    about += [f"{name} {value}" for name, value in report.machine.items() if value is not None]
    if about:
        console.print(plain(textwrap.fill(", ".join(about), width), console, "dim"))


def print_section(section: Section, console: Console, charts: bool = True) -> None:
    width = min(console.width, WIDEST)
    console.print(plain(section.title, console, "bold underline"))
    settings = "; ".join(
        f"{name} {' '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in section.settings.items()
    )
    if settings:
        console.print(plain(settings, console, "dim"), "", soft_wrap=False)
    for tile in section.tiles:
        line = plain(f"{tile.name}: ", console, "dim").append_text(plain(tile.value, console))
        note = f" ({tile.note})" if tile.note else ""
        console.print(line.append_text(plain(note, console, "dim")))
    _print_items(section.findings, console, width)
    if section.advice:
        console.print(Text("What to use", "bold"))
        _print_items(section.advice, console, width)
    for block in section.blocks:
        if charts or not isinstance(block, Figure) or isinstance(block.plot, Heatmap):
            _print_block(block, console, width)
    if section.blocks and isinstance(section.blocks[-1], Command | Link):
        console.print()  # other blocks end with an empty line


def plain(text: str, console: Console, style: str = "") -> Text:
    """Text is never read as markup; what the console cannot encode becomes a question mark."""
    encoding = console.encoding
    if not encoding.startswith("utf"):
        text = text.translate(str.maketrans("“”–−…", '""---'))
    lines = [clean(line) for line in text.split("\n")]
    return Text("\n".join(lines).encode(encoding, "replace").decode(encoding), style)


def _print_items(lines: Sequence[str], console: Console, width: int) -> None:
    for line in lines:
        text = textwrap.fill(clean(line), width, initial_indent="- ", subsequent_indent="  ")
        console.print(plain(text, console))
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
            for each in block.pictures:
                console.print(plain(": ".join(filter(None, [each.text, each.note])), console))
            _print_note(block.note, console)
        case Quote():
            _print_title(block.title, console)
            quoted = plain(textwrap.fill(clean(block.text), width), console)
            if block.marked:
                quoted.highlight_words([clean(block.marked)], "reverse")
            console.print(quoted)
        case Strip():
            _print_title(block.title, console)
            console.print(_shaded(block, console))
            _print_note(block.note, console)
        case Command():
            why = plain(f"  # {block.why}" if block.why else "", console, "dim")
            console.print(plain(block.command, console, "bold").append_text(why), soft_wrap=True)
            return
        case Link():
            console.print(plain(f"{block.text}: {block.href}", console))
            return
    console.print()


def _print_title(title: str, console: Console) -> None:
    if title:
        console.print(plain(title, console, "bold"))


def _print_note(note: str, console: Console) -> None:
    if note:
        console.print(plain(note, console, "dim"))


def _shaded(strip: Strip, console: Console) -> Text:
    """The darker the ground, the smaller the weight; only a terminal with colors shows it."""
    most = max(map(abs, strip.weights), default=0.0) or 1.0
    line = Text()
    for token, weight in zip(strip.tokens, strip.weights, strict=False):
        share = min(abs(weight) / most, 1.0)
        shade = SHADES[min(round(share * (len(SHADES) - 1)), len(SHADES) - 1)] if share >= 0 else ""
        line.append_text(plain(token, console, shade)).append(" ")
    return line


# Tables


def print_table(table: Table, console: Console) -> None:
    """With intervals where they fit, and as many columns as fit: names stay."""
    _print_title(table.title, console)
    columns = list(range(len(table.header)))
    intervals = _width(table, columns, True) <= console.width
    named = [place for each in table.drop for place in columns[1:] if table.header[place] == each]
    leaving = iter(dict.fromkeys([*named, *columns[1:]]))
    while len(columns) > 2 and _width(table, columns, intervals) > console.width:
        columns.remove(next(leaving))
    console.print(_rich_table(table, columns, intervals, console))
    left = [clean(name) for place, name in enumerate(table.header) if place not in columns]
    _print_note(
        f"For want of width without {join_words(left)}. " * bool(left) + table.note, console
    )
    console.print()


def _width(table: Table, columns: Sequence[int], intervals: bool) -> int:
    """Columns of words may be folded."""
    rows = [table.header, *([cell_text(cell, intervals) for cell in row] for row in table.rows)]
    widths = [max(len(clean(row[place])) for row in rows) + BETWEEN for place in columns]
    numbers = numeric(table)
    return sum(
        width if numbers[place] and place else min(width, FOLDED)
        for place, width in zip(columns, widths, strict=True)
    )


def _rich_table(
    table: Table, columns: Sequence[int], intervals: bool, console: Console
) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    numbers = numeric(table)
    for place in columns:
        drawn.add_column(
            plain(table.header[place], console),
            justify="right" if numbers[place] else "left",
            no_wrap=numbers[place] and place > 0,
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*(plain(cell_text(row[place], intervals), console) for place in columns))
    return drawn


# Plots


def print_plot(plot: Plot, console: Console, width: int = WIDEST) -> None:
    width, ascii_only = min(width, console.width), not console.encoding.startswith("utf")
    match plot:
        case Heatmap():
            label, lines = plot.z, draw_heatmap(plot, width=width, ascii_only=ascii_only)
        case Bars():
            label, lines = plot.y, draw_bars(plot, width=width, ascii_only=ascii_only)
        case Lines():
            label = f"{plot.y} by {plot.x}"
            lines = draw_lines(plot, width=width, height=HEIGHT, ascii_only=ascii_only)
    console.print(plain(label, console, "dim"))
    for line in lines:
        console.print(line, no_wrap=True, crop=True)
