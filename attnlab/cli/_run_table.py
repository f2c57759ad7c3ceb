"""The table of runs that `attnlab runs` prints."""

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
    """Print a table of all runs in a folder and below it, then a line for each unreadable one."""
    console = console or Console()
    if not folder.is_dir():
        reason = "is not a folder" if folder.exists() else "does not exist"
        raise ValueError(f"{printable(str(folder))}: {reason}; give one that holds runs")
    runs = [summarize(path, folder) for path in find_runs(folder)]
    if as_json:
        print(json.dumps([without_nan(asdict(run)) for run in runs], indent=2, allow_nan=False))
    elif not runs:
        example = next(kind.example for kind in TASKS.values() if kind.example)
        line = f"no runs found below {printable(str(folder))}; "
        line += f"make one: {example.command} runs/first"
        console.print(cell(line, console, 4096), soft_wrap=True)
    else:
        readable = [run for run in runs if run.problem is None]
        if readable:
            console.print(runs_table(readable, console))
        for run in runs:
            if run.problem is not None:
                text = f"{printable(run.run)}: {run.problem}"
                console.print(cell(text, console, 400, "red"), soft_wrap=True)


def without_nan(values: dict[str, Any]) -> dict[str, Any]:
    """None in place of NaN and infinity, which JSON does not have."""
    not_finite = {k for k, x in values.items() if isinstance(x, float) and not math.isfinite(x)}
    return {key: None if key in not_finite else value for key, value in values.items()}


def runs_table(runs: Sequence[Summary], console: Console) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    table.add_column("run", style="bold", overflow="fold", min_width=8)
    for heading in ("task", "mechanism"):
        table.add_column(heading, no_wrap=True, overflow="crop")
    for heading in ("params", "progress", "loss", "best", "age"):
        wide = heading == "best"  # two words, in two lines if the terminal is narrow
        table.add_column(heading, no_wrap=not wide, overflow="fold", justify="right")
    for run in runs:
        name = cell(run.run, console, 200)
        best = "-" if run.best is None else f"{printable(run.headline, 8)} {run.best:.3g}"
        table.add_row(
            name,
            cell(run.task or "-", console, 10),
            cell(run.mechanism or "-", console, 12),
            format_count(run.parameters),
            format_progress(run),
            "-" if run.loss is None else f"{run.loss:.3g}",
            cell(best, console, 17),
            "-" if run.modified is None else format_age(run.modified),
        )
    return table


def printable(text: str, limit: int = 200) -> str:
    """Text without control, direction or broken characters, cut to `limit`."""
    text = "".join(c if c.isprintable() else "?" for c in text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 2] + ".."


def cell(text: str, console: Console, limit: int, style: str = "") -> Text:
    """Text that is not read as markup. Characters that the console cannot print become "?"."""
    encoding = console.encoding
    return Text(printable(text, limit).encode(encoding, "replace").decode(encoding), style)


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
