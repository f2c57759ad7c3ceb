"""What `attnlab runs` prints: a table of runs."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnlab.run_folder._run_list import Summary, find_runs, summarize
from attnlab.tasks.registry import TASKS


def print_runs(folder: Path, as_json: bool, console: Console | None = None) -> None:
    """A table of all runs at or below a folder; below it a line for each that cannot be read."""
    console = console or Console()
    if not folder.is_dir():
        reason = "not a folder" if folder.exists() else "no such folder"
        raise ValueError(f"{printable(str(folder))}: {reason}; give one that holds runs")
    runs = [summarize(each, folder) for each in find_runs(folder)]
    if as_json:
        print(json.dumps([strict(asdict(each)) for each in runs], indent=2, allow_nan=False))
    elif not runs:
        line = f"no runs found below {printable(str(folder))}; "
        first = next(kind.example for kind in TASKS.values() if kind.example)
        line += f"make one: {first.command} runs/first"
        console.print(cell(line, console, 4096), soft_wrap=True)
    else:
        good = [each for each in runs if each.problem is None]
        if good:
            console.print(table_of(good, console))
        for each in runs:
            if each.problem is not None:
                text = f"{printable(each.run)}: {each.problem}"
                console.print(cell(text, console, 400, "red"), soft_wrap=True)


def strict(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    bad = {key for key, x in values.items() if isinstance(x, float) and not math.isfinite(x)}
    return {key: None if key in bad else value for key, value in values.items()}


def table_of(runs: Sequence[Summary], console: Console) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    table.add_column("run", style="bold", overflow="fold", min_width=8)
    for heading in ("task", "mechanism"):
        table.add_column(heading, no_wrap=True, overflow="crop")
    for heading in ("params", "progress", "loss", "best", "age"):
        wide = heading == "best"  # two words, in two lines where room is short
        table.add_column(heading, no_wrap=not wide, overflow="fold", justify="right")
    for each in runs:
        name = cell(each.run, console, 200)
        best = "-" if each.best is None else f"{printable(each.headline, 8)} {each.best:.3g}"
        table.add_row(
            name,
            cell(each.task or "-", console, 10),
            cell(each.mechanism or "-", console, 12),
            short(each.parameters),
            "done" if each.done else progress_of(each),
            "-" if each.loss is None else f"{each.loss:.3g}",
            cell(best, console, 17),
            "-" if each.modified is None else age(each.modified),
        )
    return table


def printable(text: str, limit: int = 200) -> str:
    """No control, direction or broken characters, and not too long."""
    shown = "".join(c if c.isprintable() else "?" for c in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 2] + ".."


def cell(text: str, console: Console, limit: int, style: str = "") -> Text:
    """Text is never read as markup; what the console cannot encode becomes a question mark."""
    encoding = console.encoding
    shown = printable(text, limit).encode(encoding, "replace").decode(encoding)
    return Text(shown, style)


def short(value: float | None) -> str:
    if value is None:
        return "-"
    for unit in ("", "k", "M", "B", "T"):
        if value < 999.95:
            return f"{value:.1f}{unit}" if unit else f"{value:.0f}"
        value /= 1000
    return f"{value:.0e}P"


def progress_of(run: Summary) -> str:
    def steps(value: int) -> str:
        return str(value) if value < 10_000 else short(value).replace(".0", "")

    if not run.steps:
        return steps(run.step)
    percent = min(100, 100 * run.step // run.steps)
    return f"{steps(run.step)}/{steps(run.steps)} {percent}%"


def age(then: float) -> str:
    seconds = max(0.0, time.time() - then)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit}"
    return f"{seconds:.0f}s"
