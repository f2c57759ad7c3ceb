"""Every row of metrics.jsonl: append while training, and cut at a step when a run is resumed."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from attnlab._safe_files import could_not_write, open_regular, write_atomically
from attnlab.run_folder._config import to_count
from attnlab.run_folder._metrics import LINE_BYTES, parse_row


class MetricsFile:
    """metrics.jsonl while training appends to it. Each row is written at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("ab", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.file.close()

    def append(self, row: dict[str, Any]) -> None:
        line = json.dumps(row).encode() + b"\n"
        try:
            if self.file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise could_not_write(self.path, error, "continue with --resume") from error

    def sync(self) -> None:
        """Flush to disk, so that a checkpoint never has more steps than the metrics."""
        os.fsync(self.file.fileno())


def read_rows(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Each line and its row. The row is None if the line is no JSON object with a step.

    A last line that was cut short is left out.
    """
    try:
        with open_regular(path, follow_links=True) as file:
            while line := file.readline(LINE_BYTES):
                too_long = not line.endswith(b"\n") and len(line) == LINE_BYTES
                while too_long and line and not line.endswith(b"\n"):
                    line = file.readline(LINE_BYTES)
                row = None if too_long else _row(line)
                if row is not None or line.endswith(b"\n"):
                    yield line, row
    except FileNotFoundError:
        return
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read ({error.strerror or 'it is not a file'}); move it away"
        ) from None


def keep_rows(path: Path, step: int) -> list[str]:
    """Keep only the rows up to this step. Return a sentence about damaged lines, if any."""
    damaged: list[int] = []

    def write(part: Path) -> None:
        with part.open("wb") as file:
            for number, (line, row) in enumerate(read_rows(path), 1):
                if row is None:
                    damaged.append(number)
                elif row["step"] <= step:
                    file.write(line.rstrip(b"\n") + b"\n")

    write_atomically(path, write)
    if not damaged:
        return []
    lines = "1 damaged line" if len(damaged) == 1 else f"{len(damaged)} damaged lines"
    return [f"{path}: left out {lines}, the first is line {damaged[0]}"]


def _row(line: bytes) -> dict[str, Any] | None:
    row = parse_row(line)
    return row if row and to_count(row.get("step")) is not None else None
