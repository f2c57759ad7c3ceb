"""A report as Markdown: words and tables; figures become tables."""

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
from attnlab.report._text import cell_text, clean, numeric

SPECIAL = ("\\", "`", "_", "<", "|", "*", "[")  # Markdown would take these for its own
MAX_COLUMNS = 24  # of a table of points; longer curves are thinned out


def to_markdown(report: Report, level: int | None = None) -> str:
    """A page of its own; with `level`, sections with headings of this level for another page."""
    title = [] if level else [f"# {plain(report.title)}"]
    parts = [part for section in report.sections for part in _section(section, level or 2)]
    about = _about(report)
    return "\n\n".join([*title, *parts, *([plain(about)] if about else [])]) + "\n"


def _about(report: Report) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items() if value)
    versions = ", ".join(f"{name} {value}" for name, value in report.versions.items())
    about = "; ".join(filter(None, [machine, versions]))
    if not report.seconds:
        return f"Measured with {about}." if about else ""
    return f"Measured in {report.seconds:,.0f} s{f': {about}' if about else ''}."


# A page with places for reports


def markers(name: str = "", kind: str = "bench") -> tuple[str, str]:
    """The two lines of a page that a report goes between; a page may have several such places."""
    if not re.fullmatch(r"[a-z0-9-]{0,40}", name):
        raise ValueError(f"{name[:40]!r} is no name of a place; letters, digits and dashes alone")
    label = f"attnlab {kind} {name}".strip()
    return f"<!-- {label} -->", f"<!-- /{label} -->"


def place_between_markers(page: str, text: str, name: str = "", kind: str = "bench") -> str:
    """A page with this text between the two markers of this name, and all else as it was."""
    begin, end = markers(name, kind)
    lines = page.split("\n")
    places = [n for n, line in enumerate(lines) if line.strip() in (begin, end)]
    if [lines[n].strip() for n in places] != [begin, end]:
        raise ValueError(
            f"a report goes between a line {begin} and a line {end} below it; write each once"
        )
    first, last = places
    return "\n".join([*lines[: first + 1], "", text.strip(), "", *lines[last:]])


# Blocks


def _section(section: Section, level: int) -> list[str]:
    parts = [f"{'#' * level} {plain(section.title)}"]
    if section.settings:
        settings = [
            f"{name} {' '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
            for name, value in section.settings.items()
        ]
        parts.append(plain(f"Settings: {'; '.join(settings)}."))
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
    return "\n".join(f"- {plain(each)}" for each in texts)


def _block(block: Block) -> list[str]:
    match block:
        case Table():
            return _table(block)
        case Figure():
            return [] if block.in_table else _table(figure_table(block))
        case Gallery():
            lines = [": ".join(filter(None, [each.text, each.note])) for each in block.pictures]
            return [*_head(block.title, block.note), *([_items(lines)] if lines else [])]
        case Quote():
            before, word, after = (
                block.text.partition(block.marked) if block.marked else (block.text, "", "")
            )
            marked = f"**{plain(word)}**" if word.strip() else plain(word)
            return [*_head(block.title), f"> {plain(before)}{marked}{plain(after)}"]
        case Strip():
            pairs = zip(block.tokens, block.weights, strict=False)
            words = "; ".join(f"{token} {cell_text(weight)}" for token, weight in pairs)
            return [*_head(block.title, block.note), plain(words)]
        case Command():
            fence = "`" * max(3, *(len(each) + 1 for each in re.findall("`*", block.command)))
            code = f"{fence}sh\n{clean(block.command)}\n{fence}"
            return [*([plain(block.why)] if block.why else []), code]
        case Link():
            return [f"[{plain(block.text)}](<{block.href}>)"]


def _head(title: str, note: str = "") -> list[str]:
    return [*([f"**{plain(title)}**"] if title else []), *([plain(note)] if note else [])]


def _table(table: Table) -> list[str]:
    if not table.rows:
        return [*_head(table.title), "Nothing was measured."]
    rows = [[cell_text(cell) for cell in row] for row in table.rows]
    grid = _grid(table.header, rows, numeric(table))
    return [*_head(table.title), grid, *([plain(table.note)] if table.note else [])]


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
    rule = f"| {' | '.join('---:' if each else '---' for each in numbers)} |"
    return "\n".join([_row(header), rule, *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(plain, cells))} |"


def figure_table(figure: Figure) -> Table:
    """The numbers of a figure where nothing can be drawn."""
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
                [name, *(_named(plot, value) for value in row)]
                for name, row in zip(plot.rows, plot.values, strict=True)
            ]
            note = " ".join(filter(None, [f"Values: {plot.z}.", figure.note]))
            header = [f"{plot.y}, by {plot.x}", *plot.columns]
            return Table(figure.title, header, rows, note)
        case Lines():
            places = sorted({x for series in plot.series for x, _ in series.points})
            every = -(-len(places) // MAX_COLUMNS) or 1
            note = figure.note
            if every > 1:
                note = " ".join(filter(None, [note, f"One of every {every} values."]))
            shown = places[::every]
            known = [dict(series.points) for series in plot.series]
            rows = [
                [series.name, *(points.get(x) for x in shown)]
                for series, points in zip(plot.series, known, strict=True)
            ]
            header = [f"{plot.y}, by {plot.x}", *(format_number(x, plot.x_percent) for x in shown)]
            return Table(figure.title, header, rows, note)


def _named(plot: Heatmap, value: float | None) -> Cell:
    return plot.names[int(value)] if plot.names and value is not None else value


def plain(text: str) -> str:
    """Formulas and names hold signs that Markdown would take for its own."""
    text = clean(text)
    for sign in SPECIAL:
        text = text.replace(sign, f"\\{sign}")
    return text
