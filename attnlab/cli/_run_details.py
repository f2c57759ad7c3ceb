"""The settings, curves and files of a run that `attnlab runs show` prints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnlab.cli._run_curves import chart, metric_curves, title_with_range
from attnlab.cli._run_table import cell, format_age, format_count, format_progress, printable
from attnlab.run_folder import RunConfig, read_config
from attnlab.run_folder._checkpoints import list_checkpoints, missing_files
from attnlab.run_folder._file_names import CHECKPOINTS, METRICS, PURPOSES
from attnlab.run_folder._metrics import SAMPLES, Metrics, read_metrics, to_float
from attnlab.run_folder._run_list import (
    Summary,
    dict_or_empty,
    format_setting,
    make_summary,
    modified_time,
    purpose_of,
    visible_files,
)
from attnlab.tasks.registry import task_of

MAX_ROWS = 30  # of settings, files and checkpoints


def print_run(folder: Path, console: Console | None = None) -> None:
    console = console or Console()
    try:
        config = read_config(folder)
    except ValueError as error:
        raise ValueError(
            f"{printable(str(folder))}: {error}; `attnlab runs DIR` lists the runs"
        ) from None
    kind = task_of(config.content)
    metrics = read_metrics(folder / METRICS, config.task, SAMPLES)
    run = make_summary(folder.resolve().name, folder, config, metrics)
    console.print(cell(run.run, console, 200, "bold"))
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, text in run_facts(run, config, metrics):
        facts.add_row(cell(name, console, 20), cell(text, console, 1000))
    console.print(facts)
    for title, points in metric_curves(metrics):
        console.print()
        console.print(cell(title_with_range(title, points), console, 200, "bold"), soft_wrap=True)
        ascii_only = not console.encoding.lower().startswith("utf")
        for line in chart(points, min(console.width, 100), 7, ascii_only):
            console.print(Text(line), soft_wrap=True)
    console.print()
    console.print(files_table(folder, {**PURPOSES, **(kind.files if kind else {})}, console))
    checkpoints = checkpoints_table(folder / CHECKPOINTS, console)
    if checkpoints.row_count:
        console.print()
        console.print(checkpoints)


def run_facts(run: Summary, config: RunConfig, metrics: Metrics) -> Iterator[tuple[str, str]]:
    yield "task", format_settings(config.content["task"], ("name",))
    model = config.model
    yield "model", format_settings(model, ("model",))
    for name in ("encoder", "decoder"):
        if isinstance(model.get(name), dict):
            yield name, format_settings(model[name])
    yield "parameters", "-" if run.parameters is None else f"{run.parameters:,}"
    yield "training", format_settings(config.content["training"])
    yield "versions", format_settings(config.versions)
    yield "progress", f"{run.step:,} steps, done" if run.done else format_progress(run)
    if run.best is not None:
        step = "" if run.best_step is None else f" at step {run.best_step}"
        yield "best", f"{printable(run.headline, 40)} {run.best:.6g}{step}"
    if run.seconds is not None and math.isfinite(run.seconds):
        yield "time trained", format_duration(run.seconds)
    if run.tokens is not None:
        yield "tokens", f"{run.tokens:,}"
    padding = finite_values(to_float(row.get("padding")) for row in metrics.rows)
    if padding:
        yield "padding", f"{sum(padding) / len(padding):.1%} of a batch on average"


def format_settings(settings: Any, without_name: Sequence[str] = ()) -> str:
    """`name value` of all that are set, and only the value for those `without_name`."""
    texts = []
    for name, value in list(dict_or_empty(settings).items())[:MAX_ROWS]:
        text = printable(format_setting(value), 80)
        if value is True:
            texts.append(printable(name, 40))
        elif text and value is not False:
            texts.append(text if name in without_name else f"{printable(name, 40)} {text}")
    return ", ".join(texts) or "-"


def finite_values(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def format_duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.1f} s"


def files_table(folder: Path, purposes: Mapping[str, str], console: Console) -> Table:
    table = list_table("file", "size", "what it is for")
    entries = visible_files(folder)
    for path in entries[:MAX_ROWS]:
        purpose = "a link" if path.is_symlink() else purpose_of(path.name, purposes)
        table.add_row(cell(path.name, console, 60), format_size(path), purpose)
    if len(entries) > MAX_ROWS:
        table.add_row(f"and {len(entries) - MAX_ROWS} more", "", "")
    return table


def checkpoints_table(folder: Path, console: Console) -> Table:
    table = list_table("checkpoint", "size", "age")
    for path in list_checkpoints(folder)[-MAX_ROWS:]:
        missing = missing_files(path)
        changed = modified_time(path)
        state = "-" if changed is None else format_age(changed)
        state = f"{state}, lacks {', '.join(missing)}" if missing else state
        table.add_row(cell(path.name, console, 60), format_size(path), state)
    return table


def list_table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    for heading in headings:
        right = heading == "size"
        table.add_column(heading, overflow="fold", justify="right" if right else "left")
    return table


def format_size(path: Path) -> str:
    """The size of a file, or of all files in a folder and its subfolders."""
    total = 0
    try:
        total = path.lstat().st_size
        if path.is_dir() and not path.is_symlink():
            files = [file for file in path.glob("*") if not file.is_symlink()]
            files += [file for folder in files if folder.is_dir() for file in folder.glob("*")]
            total = sum(file.lstat().st_size for file in files if file.is_file())
    except OSError:
        return "-"
    return f"{format_count(total)}B" if total > 999 else f"{total} B"
