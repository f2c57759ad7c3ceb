"""Who writes into a run folder holds its lock; it goes with the process."""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from attnlab._safe_files import open_regular
from attnlab.run_folder._file_names import LOCK

TRIES = 10


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Refuse a second writer. Removes what a process that was killed left half written."""
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
                f"{folder}: another run is writing here; wait for it or choose another"
            )
        for part in folder.rglob(".*.part"):
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process trains there."""
    try:
        with open_regular(folder / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _acquire(file: IO[str]) -> bool:
    """Tries for a moment: `is_locked` of another process holds the lock for an instant."""
    for _ in range(TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False
