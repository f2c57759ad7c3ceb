"""Run folders as they lie on the disk: found, read and summed up, and nothing in them trusted.

Read here and not through `attnlab.training.Run`: that imports torch, which takes seconds, and a
list must also survive folders that others made.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import IO, Any

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
    "seen.safetensors": "digests of the images that it learned from",
    "skipped.txt": "images that could not be read",
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
