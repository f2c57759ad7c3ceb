"""Files that can be made again at any time: where they are, and how to make them safely."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from attnlab._safe_files import PART, is_locked, remove_partial_files, write_atomically

T = TypeVar("T")


def cache_folder(name: str) -> Path:
    """The folder for files of this kind, below XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    cache = Path(base).absolute() if base else Path.home() / ".cache"
    return cache / "attnlab" / name


def load_or_make(
    path: Path,
    load: Callable[[Path], T | None],
    make: Callable[[Path], None],
    *,
    max_bytes: int,
    on_wait: Callable[[], None] = lambda: None,
) -> T:
    """What `load` returns for this file. If it returns None, let `make` write the file first.

    `load` must return None for a file that is missing or broken. If several processes need the
    same file, one makes it and the others wait. Then the files that were not used for the longest
    time are removed, until the folder has at most `max_bytes`.
    """
    value = load(path)
    if value is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _lock_of(path).touch()
        except OSError as error:
            raise ValueError(
                f"{path.parent}: cannot write there ({error.strerror}); set XDG_CACHE_HOME to "
                "another folder"
            ) from None
        with _exclusive(_lock_of(path), on_wait):
            value = load(path)
            if value is None:
                write_atomically(path, make)
                remove_oldest(path, max_bytes)
                value = load(path)
        if value is None:
            raise OSError(f"{path}: was damaged as soon as it was written; check the disk")
    with suppress(OSError):
        os.utime(path)  # for remove_oldest
    return value


def remove_oldest(newest: Path, max_bytes: int) -> None:
    """Remove what killed processes left, then the oldest files but the newest one, whose lock this
    process holds.

    A process that still reads a removed file keeps it open, and the system keeps its content.
    """
    for part in newest.parent.glob(f".*{PART}"):
        target = newest.with_name(part.name[1:].rsplit(".", 2)[0])
        if target == newest or not is_locked(_lock_of(target)):
            remove_partial_files(target.parent, target.name)
    for lock in newest.parent.glob("*.lock"):
        if not is_locked(lock):
            lock.unlink(missing_ok=True)
    facts: dict[Path, os.stat_result] = {}
    for file in newest.parent.iterdir():
        with suppress(FileNotFoundError):  # another process may remove old files too
            if file.suffix != ".lock" and file.is_file():
                facts[file] = file.stat()
    total = sum(each.st_size for each in facts.values())
    for file in sorted(facts, key=lambda file: facts[file].st_mtime_ns):
        if total > max_bytes and file != newest:
            file.unlink(missing_ok=True)
            total -= facts[file].st_size


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


@contextmanager
def _exclusive(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold this lock file, after the process that holds it now. The system frees the lock of a
    process that ends in any way."""
    is_first_wait = True
    while True:
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if is_first_wait:
                    on_wait()
                is_first_wait = False
                fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_same_file(file.fileno(), path):
                continue  # its last owner removed it, so no other process would see this lock
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False
