"""A report as a page of the docs: words and tables, maps as tables."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from attnlab.bench.results import Cell, Drawn, Report, Section, Table
from attnlab.charts import number
from attnlab.charts.plots import Bars, Heatmap
from attnlab.charts.scales import clean
from attnlab.charts.terminal_heatmap import short
from attnlab.intervals import Estimate


def marks(name: str = "") -> tuple[str, str]:
    """The two lines of a page that a report goes between; a page may have several such places."""
    if not re.fullmatch(r"[a-z0-9-]{0,40}", name):
        raise ValueError(f"{name[:40]!r} is no name of a place; letters, digits and dashes alone")
    told = f"attnlab bench {name}".strip()
    return f"<!-- {told} -->", f"<!-- /{told} -->"


def report_markdown(report: Report, level: int = 2) -> str:
    """Sections have headings of this level, so that they can stand within another page."""
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items() if value)
    versions = ", ".join(f"{name} {value}" for name, value in report.versions.items())
    parts = [part for section in report.sections for part in _section(section, level)]
    made = f"Measured in {report.seconds:,.0f} s: {machine}; {versions}."
    return "\n\n".join([*parts, _plain(made)]) + "\n"


def placed(page: str, text: str, name: str = "") -> str:
    """A page with this text between the two marks of this name, and all else as it was."""
    begin, end = marks(name)
    lines = page.split("\n")
    found = [n for n, line in enumerate(lines) if line.strip() in (begin, end)]
    if [lines[n].strip() for n in found] != [begin, end]:
        raise ValueError(
            f"a report goes between a line {begin} and a line {end} below it; write each once"
        )
    first, last = found
    return "\n".join([*lines[: first + 1], "", text.strip(), "", *lines[last:]])


def _section(section: Section, level: int) -> list[str]:
    parts = [f"{'#' * level} {_plain(section.title)}", _settings(section)]
    if section.findings:
        parts.append("\n".join(f"- {_plain(each)}" for each in section.findings))
    if section.advice:
        parts += ["What to use:", "\n".join(f"- {_plain(each)}" for each in section.advice)]
    for part in section.parts:
        if not (isinstance(part, Drawn) and part.tabled):
            parts += _part(part)
    return parts


def _settings(section: Section) -> str:
    told = [
        f"{name} {' '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in section.settings.items()
    ]
    return _plain(f"Settings: {'; '.join(told)}.")


def _part(part: Table | Drawn) -> list[str]:
    table = part if isinstance(part, Table) else as_table(part)
    head = f"**{_plain(table.title)}**"
    if not table.rows:
        return [head, "Nothing was measured."]
    lines = [_row(table.header), _row(["---"] + ["---:"] * (len(table.header) - 1))]
    lines += [_row([_cell(cell) for cell in row]) for row in table.rows]
    return [head, "\n".join(lines), *([_plain(table.note)] if table.note else [])]


def as_table(part: Drawn) -> Table:
    """The same numbers where nothing can be drawn."""
    drawn = part.plot
    if isinstance(drawn, Bars):
        rows: list[list[Cell]] = [[name, figure] for name, figure in drawn.values.items()]
        return Table(part.title, ["", drawn.y], rows, part.note)
    if isinstance(drawn, Heatmap):
        rows = [
            [name, *(_named(drawn, value) for value in row)]
            for name, row in zip(drawn.rows, drawn.values, strict=True)
        ]
        header = [f"{drawn.y}, by {drawn.x}", *drawn.columns]
        note = " ".join(filter(None, [f"Values: {drawn.z}.", part.note]))
        return Table(part.title, header, rows, note)
    places = sorted({x for series in drawn.series for x, _ in series.points})
    rows = []
    for series in drawn.series:
        known = dict(series.points)
        rows.append([series.name, *(known.get(x) for x in places)])
    header = [f"{drawn.y}, by {drawn.x}", *(number(x) for x in places)]
    return Table(part.title, header, rows, part.note)


def _named(drawn: Heatmap, value: float | None) -> Cell:
    return drawn.names[int(value)] if drawn.names and value is not None else value


def _cell(cell: Cell) -> str:
    if isinstance(cell, Estimate):
        if cell.low is None or cell.high is None:
            return f"{cell.value:.2f}"
        return f"{cell.value:.2f} ({cell.low:.2f} to {cell.high:.2f})"
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "–"
    return short(cell) if isinstance(cell, float) else str(cell)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell if set(cell) <= set('-:') else _plain(cell) for cell in cells)} |"


def _plain(text: str) -> str:
    """Formulas hold signs that Markdown would take for its own."""
    text = clean(text)
    for sign in ("\\", "`", "_", "<", "|", "*"):
        text = text.replace(sign, f"\\{sign}")
    return text
