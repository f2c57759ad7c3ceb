"""Read metrics.jsonl, one row per step. Long files are sampled, and bad rows are skipped."""

from __future__ import annotations

import io
import json
import math
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from attnlab._safe_files import open_regular
from attnlab.run_folder._config import TaskSection, to_count

METRICS_BYTES = 2**29  # only the end of a longer file is read
END_BYTES = 2**18  # searched for the last row and the last validation
LINE_BYTES = 2**16
TAIL_LINES = 16  # among which the last complete row is searched
BLOCK_BYTES = 2**20
VALIDATION = b'"validation"'
SAMPLES = 20_000  # rows of a plotted curve
NAMES = 30  # metrics of a validation
LARGEST = 1e100  # beyond it differences overflow; treated as infinite
MAX_KEYS, MAX_CHARACTERS = 64, 200  # of a row, and of a string in it


@dataclass
class Metrics:
    """The part of metrics.jsonl that pages and tables show."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    validations: list[dict[str, Any]] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    best: float | None = None
    best_step: int | None = None


def read_metrics(path: Path, task: TaskSection, samples: int = 0) -> Metrics:
    """The last row, the best validation and, with `samples`, about that many of all rows.

    Parsing takes most of the time, so only sampled rows and validations are parsed. Without
    `samples`, other lines are not even separated.
    """
    count = sum(1 for _ in _lines(path)) if samples else 0
    stride = math.ceil(count / samples) if count else 0
    metrics, tail = Metrics(), deque[bytes](maxlen=TAIL_LINES)
    for index, line in enumerate(_lines(path) if samples else _validations_and_tail(path)):
        tail.append(line)
        sampled = stride > 0 and index % stride == 0
        if not sampled and VALIDATION not in line:
            continue
        row = parse_row(line) or {}
        if sampled and row:
            metrics.rows.append(_curve_values(row))
        validation = row.get("validation")
        if not isinstance(validation, dict):
            continue
        value = to_float(validation.get(task.headline))
        if value is not None and math.isfinite(value) and _improves(value, metrics.best, task):
            metrics.best, metrics.best_step = value, to_count(row.get("step"))
        values = dict(list(validation.items())[:NAMES])
        metrics.validations.append({**values, "step": row.get("step")})
        if len(metrics.validations) > 2 * SAMPLES:
            del metrics.validations[::2]
    # the last line may be incomplete
    metrics.last = next((row for row in map(parse_row, reversed(tail)) if row), {})
    if stride and metrics.last and metrics.rows[-1:] != [_curve_values(metrics.last)]:
        metrics.rows.append(_curve_values(metrics.last))
    return metrics


def last_row(path: Path) -> dict[str, Any]:
    """The last complete row, with the last validation near the end of the file."""
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - END_BYTES))
            content = file.read(END_BYTES)
    except OSError:
        return {}
    last: dict[str, Any] = {}
    end = content.rfind(b"\n")  # after it, a line is incomplete
    while end >= 0:
        start = content.rfind(b"\n", 0, end)
        line = content[start + 1 : end]
        end = start
        if last and VALIDATION not in line:
            continue
        row = clean_row(parse_row(line) or {})
        last = last or row
        if isinstance(row.get("validation"), dict):
            return {**last, "validation": row["validation"]}
    return last


def parse_row(content: bytes) -> dict[str, Any] | None:
    """The JSON object of a line; empty for other JSON, None if the line is not JSON."""
    try:
        row = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else {}


def clean_row(row: dict[str, Any]) -> dict[str, Any]:
    """Only numbers and short strings, nested one level: JSON that every reader accepts."""
    clean: dict[str, Any] = {}
    for name, value in list(row.items())[:MAX_KEYS]:
        if isinstance(value, dict):
            inner = {k[:MAX_CHARACTERS]: json_value(v) for k, v in list(value.items())[:MAX_KEYS]}
            clean[name[:MAX_CHARACTERS]] = inner
        else:
            clean[name[:MAX_CHARACTERS]] = json_value(value)
    return clean


def json_value(value: Any) -> Any:
    """The value as JSON; numbers that JSON lacks become strings such as "inf"."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else float(value) if abs(value) < 1e300 else "inf"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value[:MAX_CHARACTERS] if isinstance(value, str) else None


def to_float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if abs(value) > LARGEST:  # before the conversion, because an int may exceed every float
        return math.inf if value > 0 else -math.inf
    return float(value)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with open_regular(path, follow_links=True) as file:
            _seek_start(file)
            yield from iter(lambda: file.readline(LINE_BYTES), b"")
    except OSError:
        return


def _validations_and_tail(path: Path) -> Iterator[bytes]:
    """Of the lines of `_lines`, those with a validation, and at least the last TAIL_LINES.

    It searches whole blocks, which is many times faster than separating all lines.
    """
    try:
        with open_regular(path, follow_links=True) as file:
            _seek_start(file)
            while block := file.read(BLOCK_BYTES):
                block += file.readline(LINE_BYTES)  # up to the end of a line
                lines = _select_lines(block)
                if max(map(len, lines)) > LINE_BYTES:
                    file.seek(-len(block), os.SEEK_CUR)
                    break
                yield from lines
            yield from iter(lambda: file.readline(LINE_BYTES), b"")  # all, after a long line
    except OSError:
        return


def _select_lines(block: bytes) -> list[bytes]:
    tail = len(block)
    for _ in range(TAIL_LINES):
        tail = block.rfind(b"\n", 0, max(0, tail - 1)) + 1  # where the line before it starts
    lines = []
    position = block.find(VALIDATION, 0, tail)
    while position >= 0:
        end = block.index(b"\n", position) + 1
        lines.append(block[block.rfind(b"\n", 0, position) + 1 : end])
        position = block.find(VALIDATION, end, tail)
    return [*lines, *io.BytesIO(block[tail:])]


def _seek_start(file: IO[bytes]) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - METRICS_BYTES))


def _curve_values(row: dict[str, Any]) -> dict[str, Any]:
    return {name: to_float(row.get(name)) for name in ("step", "loss", "padding")}


def _improves(value: float, best: float | None, task: TaskSection) -> bool:
    return best is None or (value > best if task.better == "higher" else value < best)
