"""The table of runs that `attnlab runs` prints."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment, Segments
from rich.style import Style
from rich.table import Table
from rich.text import Text

from attnlab.run_folder._run_list import Summary, find_runs, summarize
from attnlab.tasks.registry import TASKS

BOLD = Style(bold=True)
COLUMNS: dict[str, dict[str, Any]] = {
    "run": {"style": BOLD, "overflow": "fold", "min_width": 8},
    "task": {"no_wrap": True, "overflow": "crop"},
    "mechanism": {"no_wrap": True, "overflow": "crop"},
    "params": {"no_wrap": True, "overflow": "fold", "justify": "right"},
    "progress": {"no_wrap": True, "overflow": "fold", "justify": "right"},
    "loss": {"no_wrap": True, "overflow": "fold", "justify": "right"},
    # two words, in two lines if the terminal is narrow
    "best": {"overflow": "fold", "justify": "right"},
    "age": {"no_wrap": True, "overflow": "fold", "justify": "right"},
}
"""The columns with their options for rich."""


def example_command() -> str:
    """A command that makes a run."""
    example = next(kind.example for kind in TASKS.values() if kind.example)
    return f"{example.command} runs/first"


def print_runs(folder: Path, as_json: bool, console: Console | None = None) -> None:
    """Print a table of all runs in a folder and below it, then a line for each unreadable one."""
    console = console or Console()
    if not folder.is_dir():
        reason = "is not a folder" if folder.exists() else "does not exist"
        raise ValueError(
            f"{printable(str(folder))}: {reason}; give one that holds runs, or make a run: "
            f"{example_command()}"
        )
    runs = [summarize(path, folder) for path in find_runs(folder)]
    if as_json:
        print(json.dumps([without_nan(asdict(run)) for run in runs], indent=2, allow_nan=False))
    elif not runs:
        line = f"no runs found below {printable(str(folder))}; make one: {example_command()}"
        console.print(cell(line, console, 4096), soft_wrap=True)
    else:
        readable = [run for run in runs if run.problem is None]
        for part in runs_table(readable, console) if readable else ():
            console.print(part)
        for run in runs:
            if run.problem is not None:
                text = f"{printable(run.run)}: {run.problem}"
                console.print(cell(text, console, 400, "red"), soft_wrap=True)


def without_nan(values: dict[str, Any]) -> dict[str, Any]:
    """None in place of NaN and infinity, which JSON does not have."""
    not_finite = {k for k, x in values.items() if isinstance(x, float) and not math.isfinite(x)}
    return {key: None if key in not_finite else value for key, value in values.items()}


def runs_table(runs: Sequence[Summary], console: Console) -> Iterator[RenderableType]:
    """The table in parts. A row in which no text is wrapped or cut is formatted here.

    rich decides how wide the columns are and formats the other rows, which takes 20 times as long.
    """
    rows = [row_texts(run, console) for run in runs]
    probes = [WidthProbe(texts) for texts in zip(*rows, strict=True)]
    console.render_lines(rich_table([probes]))
    widths = [probe.width for probe in probes]
    narrow = any(
        probe.width < max(len(heading), min(probe.maximum, 1000 if "no_wrap" in options else 8))
        for (heading, options), probe in zip(COLUMNS.items(), probes, strict=True)
    )
    if narrow or console.options.ascii_only:  # then rich also draws lines between the columns
        yield rich_table(rows)
        return
    yield rich_table(rows[:1], widths)
    for fits, group in groupby(rows[1:], lambda row: fits_in(row, widths)):
        if fits:
            yield Segments([segment for row in group for segment in format_row(row, widths)])
        else:
            yield rich_table(group, widths, show_header=False)


class WidthProbe:
    """A cell that measures as all texts of a column together, and records the width it gets."""

    def __init__(self, texts: Sequence[str]) -> None:
        words = (word for text in texts for word in text.split())
        self.minimum, self.maximum = max(map(cell_len, words), default=0), max(map(cell_len, texts))
        self.width = 0

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        del console, options
        return Measurement(self.minimum, self.maximum)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        self.width = options.max_width
        yield ""


def rich_table(
    rows: Iterable[Sequence[str | WidthProbe]], widths: Sequence[int] = (), **options: Any
) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False, **options)
    for (heading, column), width in zip_longest(COLUMNS.items(), widths):
        table.add_column(heading, width=width, **column)
    for row in rows:
        table.add_row(*(Text(each) if isinstance(each, str) else each for each in row))
    return table


def fits_in(row: Sequence[str], widths: Sequence[int]) -> bool:
    """Whether rich would print each text as it is, in one line."""
    return all(
        cell_len(text) <= width and text == text.strip()
        for text, width in zip(row, widths, strict=True)
    )


def format_row(row: Sequence[str], widths: Sequence[int]) -> Iterator[Segment]:
    """What rich prints for a row that fits."""
    texts = []
    for text, width, options in zip(row, widths, COLUMNS.values(), strict=True):
        space = " " * (width - cell_len(text))
        texts.append(space + text if options.get("justify") == "right" else text + space)
    yield Segment(texts[0], BOLD)
    yield Segment(" " + " ".join(texts[1:]) + "\n")


def row_texts(run: Summary, console: Console) -> list[str]:
    best = "-" if run.best is None else f"{printable(run.headline, 8)} {run.best:.3g}"
    return [
        encodable(run.run, console, 200),
        encodable(run.task or "-", console, 10),
        encodable(run.mechanism or "-", console, 12),
        format_count(run.parameters),
        format_progress(run),
        "-" if run.loss is None else f"{run.loss:.3g}",
        encodable(best, console, 17),
        "-" if run.modified is None else format_age(run.modified),
    ]


def printable(text: str, limit: int = 200) -> str:
    """Text without control, direction or broken characters, cut to `limit`."""
    text = "".join(c if c.isprintable() else "?" for c in text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 2] + ".."


def cell(text: str, console: Console, limit: int, style: str = "") -> Text:
    """Text that is not read as markup."""
    return Text(encodable(text, console, limit), style)


def encodable(text: str, console: Console, limit: int) -> str:
    """Printable text. Characters that the console cannot print become "?"."""
    encoding = console.encoding
    return printable(text, limit).encode(encoding, "replace").decode(encoding)


def format_count(value: float | None) -> str:
    if value is None:
        return "-"
    for unit in ("", "k", "M", "B", "T"):
        if value < 999.95:
            return f"{value:.1f}{unit}" if unit else f"{value:.0f}"
        value /= 1000
    return f"{value:.0e}P"


def format_progress(run: Summary) -> str:
    """Steps, and their percentage of all if the run ends after a number of steps."""

    def steps(value: int) -> str:
        return str(value) if value < 10_000 else format_count(value).replace(".0", "")

    if run.done:
        return "done"
    if not run.steps:
        return steps(run.step)
    percent = min(100, 100 * run.step // run.steps)
    return f"{steps(run.step)}/{steps(run.steps)} {percent}%"


def format_age(timestamp: float) -> str:
    seconds = max(0.0, time.time() - timestamp)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit}"
    return f"{seconds:.0f}s"
