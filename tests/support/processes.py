"""Wait for processes, without a limit that a busy machine could reach."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

HANG = 300.0  # seconds; ends only what hangs


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end, "this never happened"
        time.sleep(0.02)


def wait_until_ended(processes: Iterable[int]) -> None:
    """Wait until none of these processes runs. One that nobody has waited for has ended, too."""
    remaining = list(processes)
    wait_until(lambda: not any(map(is_running, remaining)))


def is_running(process: int) -> bool:
    return _status(process)[:1] not in ([], ["Z"])


def children_of(process: int) -> list[int]:
    """The processes that this one started."""
    numbers = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [number for number in numbers if _status(number)[1:2] == [str(process)]]


def _status(process: int) -> list[str]:
    """State, parent and more, as in /proc/*/stat after the name; empty if there is no process."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
