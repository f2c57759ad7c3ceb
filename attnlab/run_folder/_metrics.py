"""metrics.jsonl: one row for each step; long files are thinned, and nothing in them is trusted."""

from __future__ import annotations

import json
import math
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab._safe_files import open_regular
from attnlab.run_folder._config import LAST_STEP, TaskPart

METRICS_BYTES = 2**29  # of a longer file the end is read
END_BYTES = 2**18  # where the last row and the last validation are looked for
LINE_BYTES = 2**16
SAMPLES = 20_000  # rows that a curve is drawn from
NAMES = 30  # metrics of a validation
LARGEST = 1e100  # beyond it differences overflow; drawn as if infinite
KEYS, LETTERS = 64, 200  # of a row, and of a text in it


@dataclass
class Metrics:
    """metrics.jsonl, thinned to what is shown."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    validations: list[dict[str, Any]] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    best: float | None = None
    best_step: int | None = None


def read_metrics(path: Path, task: TaskPart, samples: int = 0) -> Metrics:
    """The last row, the best validation and, if asked for, about so many rows of all.

    Parsing is what costs, so only rows that are kept or hold a validation are parsed.
    """
    count = sum(1 for _ in _lines(path)) if samples else 0
    stride = math.ceil(count / samples) if count else 0
    metrics, tail = Metrics(), deque[bytes](maxlen=16)
    for index, line in enumerate(_lines(path)):
        tail.append(line)
        sampled = stride > 0 and index % stride == 0
        if not sampled and b'"validation"' not in line:
            continue
        row = parse_row(line) or {}
        if sampled and row:
            metrics.rows.append(_slim(row))
        validation = row.get("validation")
        if not isinstance(validation, dict):
            continue
        value = number(validation.get(task.headline))
        if value is not None and math.isfinite(value) and _improves(value, metrics.best, task):
            metrics.best, metrics.best_step = value, integer(row.get("step"))
        kept = dict(list(validation.items())[:NAMES])
        metrics.validations.append({**kept, "step": row.get("step")})
        if len(metrics.validations) > 2 * SAMPLES:
            del metrics.validations[::2]
    # the last line may be half written, or just now being written
    metrics.last = next((row for row in map(parse_row, reversed(tail)) if row), {})
    if stride and metrics.last and metrics.rows[-1:] != [_slim(metrics.last)]:
        metrics.rows.append(_slim(metrics.last))
    return metrics


def last_row(path: Path) -> dict[str, Any]:
    """The last row that is whole, with the last validation near the end."""
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - END_BYTES))
            lines = file.read(END_BYTES).split(b"\n")[:-1]
    except OSError:
        return {}
    last: dict[str, Any] = {}
    for line in reversed(lines):
        if last and b'"validation"' not in line:
            continue
        row = clean_row(parse_row(line) or {})
        last = last or row
        if isinstance(row.get("validation"), dict):
            return {**last, "validation": row["validation"]}
    return last


def parse_row(content: bytes) -> dict[str, Any] | None:
    """A JSON object, an empty one for other JSON; None where a crash or a stranger wrote."""
    try:
        row = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else {}


def clean_row(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers and short texts, one level of names within: JSON that every reader accepts."""
    clean: dict[str, Any] = {}
    for name, value in list(row.items())[:KEYS]:
        if isinstance(value, dict):
            inner = {k[:LETTERS]: json_value(v) for k, v in list(value.items())[:KEYS]}
            clean[name[:LETTERS]] = inner
        else:
            clean[name[:LETTERS]] = json_value(value)
    return clean


def json_value(value: Any) -> Any:
    """A number that JSON lacks becomes its name."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else float(value) if abs(value) < 1e300 else "inf"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value[:LETTERS] if isinstance(value, str) else None


def number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if abs(value) > LARGEST:  # compared before it is converted: an int may be larger than floats
        return math.inf if value > 0 else -math.inf
    return float(value)


def integer(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < LAST_STEP else None


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with open_regular(path, follow_links=True) as file:
            if file.seek(0, os.SEEK_END) > METRICS_BYTES:
                file.seek(-METRICS_BYTES, os.SEEK_END)
            else:
                file.seek(0)
            yield from iter(lambda: file.readline(LINE_BYTES), b"")
    except OSError:
        return


def _slim(row: dict[str, Any]) -> dict[str, Any]:
    return {name: number(row.get(name)) for name in ("step", "loss", "padding")}


def _improves(value: float, best: float | None, task: TaskPart) -> bool:
    return best is None or (value > best if task.better == "higher" else value < best)
