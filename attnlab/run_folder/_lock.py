"""The lock of a run folder. A process that writes there holds it until it ends."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from attnlab import _safe_files
from attnlab._safe_files import remove_partial_files
from attnlab.run_folder._file_names import CHECKPOINTS, LOCK

TRIES = 10


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Refuse a second writer, and remove partial files that a killed process left."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise ValueError(
            f"{folder}: cannot write there ({error.strerror}); choose another folder"
        ) from None
    with file:
        if not _acquire(file):
            raise ValueError(
                f"{folder}: another process is training here; wait for it or choose another folder"
            )
        for part in (folder, folder / CHECKPOINTS):
            remove_partial_files(part)
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process is training there."""
    return _safe_files.is_locked(folder / LOCK)


def _acquire(file: IO[str]) -> bool:
    """Try several times, because `is_locked` in another process holds the lock for an instant."""
    for _ in range(TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False
