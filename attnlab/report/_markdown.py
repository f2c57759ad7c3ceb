"""Renders a report as Markdown: sentences and tables. Figures become tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attnlab._confidence_intervals import format_number
from attnlab.report._content import (
    Bars,
    Block,
    Cell,
    Command,
    Figure,
    Gallery,
    Heatmap,
    Lines,
    Link,
    Quote,
    Report,
    Section,
    Strip,
    Table,
)
from attnlab.report._text import cell_text, clean, numeric_columns

SPECIAL = ("\\", "`", "_", "<", "|", "*", "[")  # characters with a meaning in Markdown
MAX_COLUMNS = 24  # of a table of points; longer curves are thinned


def to_markdown(report: Report, level: int | None = None) -> str:
    """The report as a Markdown page.

    With `level`, only its sections, with headings of this level, to insert into another page.

    >>> from attnlab.report import Report, Section, to_markdown
    >>> report = Report("example", "Loss by mechanism", [Section("loss", "Loss", [])])
    >>> to_markdown(report).splitlines()[0]
    '# Loss by mechanism'
    """
    title = [] if level else [f"# {escape_markdown(report.title)}"]
    parts = [part for section in report.sections for part in _section(section, level or 2)]
    about = _about(report)
    return "\n\n".join([*title, *parts, *([escape_markdown(about)] if about else [])]) + "\n"


def _about(report: Report) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items() if value)
    versions = ", ".join(f"{name} {value}" for name, value in report.versions.items())
    about = "; ".join(filter(None, [machine, versions]))
    if not report.seconds:
        return f"Measured with {about}." if about else ""
    return f"Measured in {report.seconds:,.0f} s{f': {about}' if about else ''}."


# Reports inside a page


def markers(name: str = "", kind: str = "bench") -> tuple[str, str]:
    """The two marker lines that a report goes between; a page may have several pairs."""
    if not re.fullmatch(r"[a-z0-9-]{0,40}", name):
        raise ValueError(
            f"{name[:40]!r}: markers have names of lowercase letters, digits and dashes"
        )
    label = f"attnlab {kind} {name}".strip()
    return f"<!-- {label} -->", f"<!-- /{label} -->"


def place_between_markers(page: str, text: str, name: str = "", kind: str = "bench") -> str:
    """The page with this text between its two markers; nothing else changes."""
    begin, end = markers(name, kind)
    lines = page.split("\n")
    marked = [n for n, line in enumerate(lines) if line.strip() in (begin, end)]
    if [lines[n].strip() for n in marked] != [begin, end]:
        raise ValueError(
            f"a report goes between a line {begin} and a line {end} below it; add each line once"
        )
    first, last = marked
    return "\n".join([*lines[: first + 1], "", text.strip(), "", *lines[last:]])


# Blocks


def _section(section: Section, level: int) -> list[str]:
    parts = [f"{'#' * level} {escape_markdown(section.title)}"]
    if section.settings:
        settings = [
            f"{name} {' '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
            for name, value in section.settings.items()
        ]
        parts.append(escape_markdown(f"Settings: {'; '.join(settings)}."))
    if section.findings:
        parts.append(_items(section.findings))
    if section.tiles:
        rows = [[tile.name, tile.value, tile.note] for tile in section.tiles]
        parts.append(_grid(["", "", ""], rows, [False, True, False]))
    if section.advice:
        parts += ["What to use:", _items(section.advice)]
    for block in section.blocks:
        parts += _block(block)
    return parts


def _items(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape_markdown(text)}" for text in texts)


def _block(block: Block) -> list[str]:
    match block:
        case Table():
            return _table(block)
        case Figure():
            return [] if block.in_table else _table(figure_table(block))
        case Gallery():
            lines = [": ".join(filter(None, [p.text, p.note])) for p in block.pictures]
            return [*_heading(block.title, block.note), *([_items(lines)] if lines else [])]
        case Quote():
            before, word, after = (
                block.text.partition(block.marked) if block.marked else (block.text, "", "")
            )
            marked = f"**{escape_markdown(word)}**" if word.strip() else escape_markdown(word)
            return [
                *_heading(block.title),
                f"> {escape_markdown(before)}{marked}{escape_markdown(after)}",
            ]
        case Strip():
            pairs = zip(block.tokens, block.weights, strict=False)
            words = "; ".join(f"{token} {cell_text(weight)}" for token, weight in pairs)
            return [*_heading(block.title, block.note), escape_markdown(words)]
        case Command():
            fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`*", block.command)))
            code = f"{fence}sh\n{clean(block.command)}\n{fence}"
            return [*([escape_markdown(block.why)] if block.why else []), code]
        case Link():
            return [f"[{escape_markdown(block.text)}](<{block.href}>)"]


def _heading(title: str, note: str = "") -> list[str]:
    return [
        *([f"**{escape_markdown(title)}**"] if title else []),
        *([escape_markdown(note)] if note else []),
    ]


def _table(table: Table) -> list[str]:
    if not table.rows:
        return [*_heading(table.title), "Nothing was measured."]
    rows = [[cell_text(cell) for cell in row] for row in table.rows]
    grid = _grid(table.header, rows, numeric_columns(table))
    return [*_heading(table.title), grid, *([escape_markdown(table.note)] if table.note else [])]


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
    rule = f"| {' | '.join('---:' if right else '---' for right in numbers)} |"
    return "\n".join([_row(header), rule, *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape_markdown, cells))} |"


def figure_table(figure: Figure) -> Table:
    """The numbers of a figure as a table."""
    plot = figure.plot
    match plot:
        case Bars():
            header = ["", plot.y, *([plot.beside_name] if plot.beside else [])]
            rows: list[list[Cell]] = [
                [name, estimate, *([plot.beside.get(name)] if plot.beside else [])]
                for name, estimate in plot.values.items()
            ]
            return Table(figure.title, header, rows, figure.note)
        case Heatmap():
            rows = [
                [name, *(_cell_value(plot, value) for value in row)]
                for name, row in zip(plot.rows, plot.values, strict=True)
            ]
            note = " ".join(filter(None, [f"Values: {plot.z}.", figure.note]))
            header = [f"{plot.y}, by {plot.x}", *plot.columns]
            return Table(figure.title, header, rows, note)
        case Lines():
            xs = sorted({x for series in plot.series for x, _ in series.points})
            every = -(-len(xs) // MAX_COLUMNS) or 1
            note = figure.note
            if every > 1:
                note = " ".join(filter(None, [note, f"One of every {every} values."]))
            columns = xs[::every]
            curves = [dict(series.points) for series in plot.series]
            rows = [
                [series.name, *(points.get(x) for x in columns)]
                for series, points in zip(plot.series, curves, strict=True)
            ]
            header = [
                f"{plot.y}, by {plot.x}",
                *(format_number(x, plot.x_percent) for x in columns),
            ]
            return Table(figure.title, header, rows, note)


def _cell_value(plot: Heatmap, value: float | None) -> Cell:
    return plot.names[int(value)] if plot.names and value is not None else value


def escape_markdown(text: str) -> str:
    """Escapes characters of formulas and names that have a meaning in Markdown."""
    text = clean(text)
    for character in SPECIAL:
        text = text.replace(character, f"\\{character}")
    return text
