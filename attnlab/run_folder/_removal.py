"""Remove a run, so that a kill in between leaves no half of it that looks like a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attnlab._safe_files import sync_folder
from attnlab.run_folder._checkpoints import list_checkpoints
from attnlab.run_folder._file_names import CHECKPOINTS, METRICS, REMOVING, WEIGHTS


@contextmanager
def removal(folder: Path, first: str) -> Iterator[None]:
    """Remove `first`, which says what the folder holds. Inside the context, remove the rest.

    A mark stays until all of it is removed. `removal_began` finds it after a kill.
    """
    mark = folder / REMOVING
    try:
        (folder / first).replace(mark)
    except FileNotFoundError:
        mark.touch()
    sync_folder(folder)
    yield
    mark.unlink(missing_ok=True)


def removal_began(folder: Path) -> bool:
    """Whether a process was killed while it removed a run here."""
    return (folder / REMOVING).exists()


def remove_empty_folders(folder: Path) -> None:
    """Remove a folder and its subfolders, except for those that hold a file."""
    for path, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):  # it is not empty
            Path(path).rmdir()


def has_remains(folder: Path) -> bool:
    """Whether there are files that only a run has; without config.json, they are of no use."""
    files = any(os.path.lexists(folder / name) for name in (WEIGHTS, METRICS))
    return files or bool(list_checkpoints(folder / CHECKPOINTS))
