"""What `attnlab runs` prints: the run folders below a folder, or one run with its curves.

Files are read here and not through `attnlab.training.Run`: that imports torch, which takes seconds,
and a list must also survive folders that others made. Nothing that stands in a file is trusted.
"""

from __future__ import annotations

import json
import math
import os
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

CONFIG, WEIGHTS, METRICS, CHECKPOINTS = (
    "config.json",
    "model.safetensors",
    "metrics.jsonl",
    "checkpoints",
)
PURPOSE = {
    CONFIG: "all settings, seed and versions",
    WEIGHTS: "the trained weights",
    "tokenizer.json": "the tokeniser",
    METRICS: "one row for each step",
    CHECKPOINTS: "what --resume goes on from",
}

DEPTH = 4  # folders below DIR that are searched
CONFIG_BYTES = 2**20
METRICS_BYTES = 2**29  # of a longer file the end is read
LINE_BYTES = 2**16
SAMPLES = 20_000  # rows that a curve is drawn from
LARGEST = 1e100  # beyond it differences overflow; drawn as if infinite
LAST_STEP = 10**15  # beyond it a float skips whole numbers
SHOWN = 30  # settings, files, checkpoints and curves of one run

Point = tuple[float, float]
"""A step and a value."""


# Reading


@dataclass
class Metrics:
    """metrics.jsonl, thinned to what is shown."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    validations: list[dict[str, Any]] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    best: float | None = None
    best_step: int | None = None


@dataclass(frozen=True)
class Summary:
    """One line of the list; `problem` says why a folder has no more than a name."""

    run: str
    folder: str
    problem: str | None = None
    task: str | None = None
    mechanism: str | None = None
    parameters: int | None = None
    step: int = 0
    steps: int | None = None
    done: bool = False
    loss: float | None = None
    headline: str = "loss"
    better: str = "lower"
    best: float | None = None
    best_step: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    modified: float | None = None


def find_runs(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """Folders with a config.json, by name; links are not followed, what is hidden is left out."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    holds_run = any(entry.name == CONFIG for entry in entries)
    if holds_run:
        yield folder
    for name in names:
        if depth and not name.startswith(".") and not (holds_run and name == CHECKPOINTS):
            yield from find_runs(folder / name, depth - 1)


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration, if `Run.config` accepts it; else a ValueError of few words."""
    try:
        with open_regular(folder / CONFIG) as file:
            content = file.read(CONFIG_BYTES + 1)
    except FileNotFoundError:
        raise ValueError("no config.json") from None
    except OSError:
        raise ValueError("unreadable") from None
    if len(content) > CONFIG_BYTES:
        raise ValueError("too large")
    config = parse(content)
    if config is None:
        raise ValueError("not JSON")
    if not {"task", "model", "training"} <= set(config):
        raise ValueError("not a run")
    return config


def open_regular(path: Path) -> IO[bytes]:
    """A pipe would block for ever, a device never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path}: not a file")
    return path.open("rb")


def parse(content: bytes) -> dict[str, Any] | None:
    """A JSON object, an empty one for other JSON; None where a crash or a stranger wrote."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else {}


def lines_of(path: Path) -> Iterator[bytes]:
    try:
        with open_regular(path) as file:
            if file.seek(0, os.SEEK_END) > METRICS_BYTES:
                file.seek(-METRICS_BYTES, os.SEEK_END)
            else:
                file.seek(0)
            yield from iter(lambda: file.readline(LINE_BYTES), b"")
    except OSError:
        return


def read_metrics(path: Path, config: dict[str, Any], samples: int = 0) -> Metrics:
    """The last row, the best validation and, if asked for, about so many rows of all.

    Parsing is what costs, so only rows that are kept or hold a validation are parsed.
    """
    headline, better = headline_of(config)
    count = sum(1 for _ in lines_of(path)) if samples else 0
    stride = math.ceil(count / samples) if count else 0
    metrics, tail = Metrics(), deque[bytes](maxlen=16)
    for index, line in enumerate(lines_of(path)):
        tail.append(line)
        sampled = stride > 0 and index % stride == 0
        if not sampled and b'"validation"' not in line:
            continue
        row = parse(line) or {}
        if sampled and row:
            metrics.rows.append(slim(row))
        validation = row.get("validation")
        if not isinstance(validation, dict):
            continue
        value = number(validation.get(headline))
        if value is not None and math.isfinite(value) and improves(value, metrics.best, better):
            metrics.best, metrics.best_step = value, integer(row.get("step"))
        kept = dict(list(validation.items())[:SHOWN])
        metrics.validations.append({**kept, "step": row.get("step")})
        if len(metrics.validations) > 2 * SAMPLES:
            del metrics.validations[::2]
    # the last line may be half written, or just now being written
    metrics.last = next((row for row in map(parse, reversed(tail)) if row), {})
    if stride and metrics.last and metrics.rows[-1:] != [slim(metrics.last)]:
        metrics.rows.append(slim(metrics.last))
    return metrics


def slim(row: dict[str, Any]) -> dict[str, Any]:
    return {name: number(row.get(name)) for name in ("step", "loss", "padding")}


def improves(value: float, best: float | None, better: str) -> bool:
    return best is None or (value > best if better == "higher" else value < best)


def headline_of(config: dict[str, Any]) -> tuple[str, str]:
    task = mapping(config.get("task"))
    headline = task.get("headline", "loss")
    higher = task.get("better") == "higher"
    return headline if isinstance(headline, str) else "loss", "higher" if higher else "lower"


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if abs(value) > LARGEST:  # compared before it is converted: an int may be larger than floats
        return math.inf if value > 0 else -math.inf
    return float(value)


def integer(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < LAST_STEP else None


def mechanism_of(model: Any) -> str | None:
    """The attention of the model, or of encoder, decoder and between them; equal ones once."""
    model = mapping(model)
    parts = [part.get("attention") for part in (model, *map(mapping, model.values()))]
    parts.append(model.get("cross_attention"))
    return " / ".join(dict.fromkeys(filter(None, map(one_text, parts)))) or None


def one_text(value: Any) -> str:
    """A setting in one line: equal neighbours of a list are counted, what is nested is left out."""
    if isinstance(value, list):
        texts = ["" if isinstance(each, list) else one_text(each) for each in value]
        found = [(name, len(list(same))) for name, same in groupby(texts)]
        return ", ".join(f"{name} x{count}" if count > 1 else name for name, count in found if name)
    return str(value) if isinstance(value, (str, int, float)) else ""


def summarise(folder: Path, root: Path) -> Summary:
    name, where = str(folder.relative_to(root)), str(folder)
    name = folder.resolve().name if name == "." else name
    try:
        config = read_config(folder)
    except ValueError as error:
        return Summary(name, where, problem=str(error))
    metrics = read_metrics(folder / METRICS, config)
    return summary_of(name, folder, config, metrics)


def summary_of(name: str, folder: Path, config: dict[str, Any], metrics: Metrics) -> Summary:
    headline, better = headline_of(config)
    step = integer(metrics.last.get("step")) or 0
    steps = integer(mapping(config["training"]).get("steps"))
    reached = steps is not None and step >= steps
    changes = [modified(folder / file) for file in (CONFIG, METRICS, WEIGHTS)]
    return Summary(
        run=name,
        folder=str(folder),
        task=one_text(mapping(config["task"]).get("name")) or None,
        mechanism=mechanism_of(config["model"]),
        parameters=integer(config.get("parameters")),
        step=step,
        steps=steps,
        done=reached and changes[-1] is not None,
        loss=number(metrics.last.get("loss")),
        headline=headline,
        better=better,
        best=metrics.best,
        best_step=metrics.best_step,
        tokens=integer(metrics.last.get("tokens")),
        seconds=number(metrics.last.get("seconds")),
        modified=max((change for change in changes if change is not None), default=None),
    )


def modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


# The list


def print_runs(folder: Path, as_json: bool, console: Console | None = None) -> None:
    """A table of all runs at or below a folder."""
    console = console or Console()
    if not folder.is_dir():
        reason = "not a folder" if folder.exists() else "no such folder"
        raise ValueError(f"{printable(str(folder))}: {reason}; give one that holds runs")
    runs = [summarise(each, folder) for each in find_runs(folder)]
    if as_json:
        print(json.dumps([strict(asdict(each)) for each in runs], indent=2, allow_nan=False))
    elif not runs:
        line = f"no runs found below {printable(str(folder))}; "
        line += "make one: attnlab language train --out runs/first"
        console.print(cell(line, console, 4096), soft_wrap=True)
    else:
        console.print(table_of(runs, console))


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
        if each.problem is not None:
            table.add_row(name, cell(f"({each.problem})", console, 12, "red"), *"------")
            continue
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


# One run


def print_run(folder: Path, console: Console | None = None) -> None:
    """A run's facts, curves, files and checkpoints."""
    console = console or Console()
    try:
        config = read_config(folder)
    except ValueError as error:
        raise ValueError(
            f"{printable(str(folder))}: not a run folder ({error}); `attnlab runs DIR` lists them"
        ) from None
    metrics = read_metrics(folder / METRICS, config, SAMPLES)
    run = summary_of(folder.resolve().name, folder, config, metrics)
    console.print(cell(run.run, console, 200, "bold"))
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, text in facts_of(run, config, metrics):
        facts.add_row(cell(name, console, 20), cell(text, console, 1000))
    console.print(facts)
    for title, points in curves_of(metrics):
        console.print()
        console.print(cell(caption(title, points), console, 200, "bold"), soft_wrap=True)
        ascii_only = not console.encoding.lower().startswith("utf")
        for line in chart(points, min(console.width, 100), 7, ascii_only):
            console.print(Text(line), soft_wrap=True)
    console.print()
    console.print(files_table(folder, console))
    checkpoints = checkpoints_table(folder / CHECKPOINTS, console)
    if checkpoints.row_count:
        console.print()
        console.print(checkpoints)


def facts_of(run: Summary, config: dict[str, Any], metrics: Metrics) -> Iterator[tuple[str, str]]:
    yield "task", settings_of(config["task"], ("name",))
    model = mapping(config["model"])
    yield "model", settings_of(model, ("model",))
    for name in ("encoder", "decoder"):
        if isinstance(model.get(name), dict):
            yield name, settings_of(model[name])
    yield "parameters", "-" if run.parameters is None else f"{run.parameters:,}"
    yield "training", settings_of(config["training"])
    yield "versions", settings_of(config.get("versions"))
    yield "progress", progress_of(run) + (", done" if run.done else "")
    if run.best is not None:
        at = "" if run.best_step is None else f" at step {run.best_step}"
        yield "best", f"{printable(run.headline, 40)} {run.best:.6g}{at}"
    if run.seconds is not None and math.isfinite(run.seconds):
        yield "time trained", duration(run.seconds)
    if run.tokens is not None:
        yield "tokens", f"{run.tokens:,}"
    padding = finite(number(row.get("padding")) for row in metrics.rows)
    if padding:
        yield "padding", f"{sum(padding) / len(padding):.1%} of a batch on average"


def settings_of(settings: Any, alone: Sequence[str] = ()) -> str:
    """`name value` of all that are set; of the names in `alone` the value only."""
    found = []
    for name, value in list(mapping(settings).items())[:SHOWN]:
        text = printable(one_text(value), 80)
        if value is True:
            found.append(printable(name, 40))
        elif text and value is not False:
            found.append(text if name in alone else f"{printable(name, 40)} {text}")
    return ", ".join(found) or "-"


def finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{seconds:.1f} s"


def files_table(folder: Path, console: Console) -> Table:
    table = listing("file", "size", "what it is for")
    entries = visible(folder)
    for path in entries[:SHOWN]:
        known = PURPOSE.get(path.name, "")
        purpose = "a link" if path.is_symlink() else known
        table.add_row(cell(path.name, console, 60), size_of(path), purpose)
    if len(entries) > SHOWN:
        table.add_row(f"and {len(entries) - SHOWN} more", "", "")
    return table


def checkpoints_table(folder: Path, console: Console) -> Table:
    table = listing("checkpoint", "size", "age")
    whole = {WEIGHTS, "optimiser.safetensors", "state.json"}
    found = [path for path in visible(folder) if path.name.startswith("step-")]
    for path in found[-SHOWN:]:
        missing = sorted(whole - {each.name for each in visible(path)})
        changed = modified(path)
        state = "-" if changed is None else age(changed)
        state = f"{state}, lacks {', '.join(missing)}" if missing else state
        table.add_row(cell(path.name, console, 60), size_of(path), state)
    return table


def listing(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    for heading in headings:
        right = heading == "size"
        table.add_column(heading, overflow="fold", justify="right" if right else "left")
    return table


def visible(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def size_of(path: Path) -> str:
    """Of a file, or of all files in a folder and the folders in it."""
    total = 0
    try:
        total = path.lstat().st_size
        if path.is_dir() and not path.is_symlink():
            inner = [each for each in path.glob("*") if not each.is_symlink()]
            inner += [each for folder in inner if folder.is_dir() for each in folder.glob("*")]
            total = sum(each.lstat().st_size for each in inner if each.is_file())
    except OSError:
        return "-"
    return f"{short(total)}B" if total > 999 else f"{total} B"


# Curves


def curves_of(metrics: Metrics) -> Iterator[tuple[str, list[Point]]]:
    """Titles and points; values that are not finite are among them."""
    yield "training loss, smoothed", smooth(series(metrics.rows, "loss"))
    rows = metrics.validations
    names = list(dict.fromkeys(name for row in rows[:SHOWN] for name in row if name != "step"))
    for name in names[:SHOWN]:
        yield f"validation {printable(name, 40)}", series(rows, name)


def series(rows: Sequence[dict[str, Any]], name: str) -> list[Point]:
    pairs = ((number(row.get("step")), number(row.get(name))) for row in rows)
    known = [(step, value) for step, value in pairs if step is not None and value is not None]
    return sorted((step, value) for step, value in known if 0 <= step < LAST_STEP)


def smooth(points: Sequence[Point]) -> list[Point]:
    """The mean of a window around each point, a fiftieth of all wide; short ends shrink it."""
    good = [point for point in points if math.isfinite(point[1])]
    reach = len(good) // 100
    if not reach:
        return list(points)
    sums = [0.0]
    for _, value in good:
        sums.append(sums[-1] + value)
    smoothed = []
    for i, (step, _) in enumerate(good):
        near = min(reach, i, len(good) - 1 - i)
        smoothed.append((step, (sums[i + near + 1] - sums[i - near]) / (2 * near + 1)))
    return smoothed + [point for point in points if not math.isfinite(point[1])]


def caption(title: str, points: Sequence[Point]) -> str:
    good = [point for point in points if math.isfinite(point[1])]
    if good:
        step, lowest = min(good, key=lambda point: point[1])
        highest = max(value for _, value in good)
        title += f": last {good[-1][1]:.4g}, lowest {lowest:.4g} at step {step:.0f}, "
        title += f"highest {highest:.4g}"
    lost = len(points) - len(good)
    return f"{title}; {lost} not finite" if lost else title


def chart(points: Sequence[Point], width: int, height: int, ascii_only: bool) -> list[str]:
    """The curve with axes: values at the left, the first and the last step below."""
    good = [point for point in points if math.isfinite(point[1])]
    if not good:
        return ["no values yet"]
    low, high = (choose(value for _, value in good) for choose in (min, max))
    labels = [""] * height
    texts = distinct((high, low + (high - low) / 2, low))
    if low == high:
        labels[(height - 1) // 2] = texts[0]
    else:
        labels[0], labels[-1] = texts[0], texts[2]
        if height % 2 and height > 2:
            labels[height // 2] = texts[1]
    margin = max(map(len, labels))
    room = max(8, width - margin - 2)
    tick, bar, corner, line = "||+-" if ascii_only else "┤│└─"
    drawn = canvas(good, room, height, ascii_only)
    body = [
        f"{label:>{margin}} {tick if label else bar}{row}".rstrip()
        for label, row in zip(labels, drawn, strict=True)
    ]
    first, last = (f"{choose(step for step, _ in good):.0f}" for choose in (min, max))
    below = first if first == last else f"{first}{last:>{max(room - len(first), len(last) + 1)}}"
    return [*body, " " * (margin + 1) + corner + line * room, " " * (margin + 2) + below]


def distinct(values: Sequence[float]) -> list[str]:
    """As few digits as tell the values apart."""
    for digits in range(3, 17):
        texts = [f"{value:.{digits}g}" for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def canvas(points: Sequence[Point], width: int, height: int, ascii_only: bool) -> list[str]:
    """The curve alone. A braille character is two dots wide and four high."""
    across, down = (1, 1) if ascii_only else (2, 4)
    dots = dots_of(points, width * across, height * down)
    if ascii_only:
        return ["".join(" *"[(x, y) in dots] for x in range(width)) for y in range(height)]
    bits = [[0x00] * width for _ in range(height)]
    for x, y in dots:
        bits[y // 4][x // 2] |= ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))[x % 2][y % 4]
    return ["".join(chr(0x2800 + each) if each else " " for each in row) for row in bits]


def dots_of(points: Sequence[Point], columns: int, rows: int) -> set[tuple[int, int]]:
    """The mean of each column's points, joined by lines; row 0 is the highest."""
    steps, values = ([point[i] for point in points] for i in (0, 1))
    first, span = min(steps), max(steps) - min(steps)
    high, extent = max(values), max(values) - min(values)
    gathered: dict[int, list[float]] = {}
    for step, value in points:
        column = round((step - first) / span * (columns - 1)) if span else 0
        gathered.setdefault(column, []).append(value)
    dots: set[tuple[int, int]] = set()
    left = before = None
    for x, found in sorted(gathered.items()):
        mean = sum(found) / len(found)
        y = round((high - mean) / extent * (rows - 1)) if extent else (rows - 1) // 2
        y = min(max(y, 0), rows - 1)  # the mean may round to just beyond the extremes
        if left is None or before is None:
            dots.add((x, y))
        else:
            dots |= line_between(left, before, x, y)
        left, before = x, y
    return dots


def line_between(left: int, before: int, x: int, y: int) -> set[tuple[int, int]]:
    """Every dot after the first; a steep line fills its columns from top to bottom."""
    dots, last = set(), before
    for column in range(left + 1, x + 1):
        row = round(before + (y - before) * (column - left) / (x - left))
        step = 1 if row >= last else -1
        dots |= {(column, each) for each in range(last + step, row, step)}
        dots.add((column, row))
        last = row
    return dots
