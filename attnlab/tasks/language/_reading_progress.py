"""Progress of reading a large text: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from attnlab.training import is_main_process
from attnlab.training._progress import SECONDS_BETWEEN_LINES, shows_progress

Advance = Callable[[int], object]
"""Called with the number of bytes that were read since the last call."""


@contextmanager
def reading_progress(label: str, total: int, *, quiet: bool) -> Iterator[Advance]:
    """Shows how much of `total` bytes was read."""
    console = Console(file=sys.stderr)
    if quiet or not is_main_process() or not shows_progress():
        yield lambda _: None
    elif not console.is_terminal:
        yield _lines(label, total)
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(label, total=total)
            yield lambda count: bar.advance(task, count)


def _lines(label: str, total: int) -> Advance:
    begin = last = time.monotonic()
    done = 0

    def advance(count: int) -> None:
        nonlocal done, last
        done += count
        now = time.monotonic()
        if now - last > SECONDS_BETWEEN_LINES:
            speed = done / (now - begin)
            print(
                f"{label}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB  {speed / 1e6:.1f} MB/s  "
                f"{(total - done) / speed:,.0f} s left",
                file=sys.stderr,
            )
            last = now

    return advance
