"""Write files atomically, and read files that may be broken or hostile."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any

PART = ".part"  # the end of the name of a temporary folder


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file or folder, then rename it to `path` in one step.

    If anything fails, `path` is unchanged. All temporary files are in one hidden folder, also those
    of libraries, so a killed process leaves nothing else.
    """
    owner = f"{os.getpid()}-{threading.get_ident():x}"
    holder = path.with_name(f".{path.name[:99]}.{owner}{PART}")
    temporary, old = holder / path.name, holder / ".old"
    try:
        shutil.rmtree(holder, ignore_errors=True)
        holder.mkdir()
        write(temporary)
        _sync(temporary)
        if temporary.is_dir() and path.exists():
            path.rename(old)  # a folder that is not empty cannot be replaced
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        if old.exists() and not path.exists():
            old.rename(path)
        raise could_not_write(path, error, "the old file is unchanged") from error
    finally:
        shutil.rmtree(holder, ignore_errors=True)


def could_not_write(path: Path, error: OSError, consequence: str) -> OSError:
    """An error that says which file could not be written, why, and what would work."""
    while isinstance(error.__cause__, OSError):  # a file that is written as a part of another
        error = error.__cause__
    return OSError(
        f"{path}: could not be written ({error.strerror or error}); "
        f"free some space or choose another folder; {consequence}"
    )


def remove_partial_files(folder: Path, name: str = "*") -> None:
    """Remove what `write_atomically` left there of files with this name when its process was
    killed."""
    for path in folder.glob(f".{name}.*{PART}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def check_output_file(path: Path, overwrite: bool) -> None:
    """Refuse an output path that cannot be written, before anything is computed for it."""
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; give a file name")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if path.exists() and not overwrite:
        raise ValueError(f"{path}: already exists; give --overwrite or another name")
    check_writable(path)


def check_writable(path: Path) -> None:
    """Refuse a path whose folder cannot be written; modes alone mislead for root and /proc."""
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise ValueError(
            f"{path}: cannot write to {path.parent} ({error.strerror or error}); "
            "choose another folder"
        ) from None


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8; text that cannot be encoded fails before anything is written."""
    content = text.encode("utf-8")

    def write(part: Path) -> None:
        part.write_bytes(content)

    write_atomically(path, write)


def open_regular(path: Path, *, follow_links: bool = False) -> BufferedReader:
    """Open only a regular file: a pipe would block forever, and a device never end."""
    no_links = 0 if follow_links else os.O_NOFOLLOW
    handle = os.open(path, os.O_RDONLY | no_links | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path.name}: is not a file")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def is_locked(path: Path) -> bool:
    """Whether a process holds this lock file."""
    try:
        with open_regular(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_json(path: Path, max_bytes: int, *, follow_links: bool = False) -> Any:
    """The JSON of a file of at most `max_bytes`; a ValueError says in a few words what is wrong."""
    try:
        with open_regular(path, follow_links=follow_links) as file:
            content = file.read(max_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError("is missing") from None
    except OSError as error:
        raise ValueError("is a link" if error.errno == errno.ELOOP else "cannot be read") from None
    if len(content) > max_bytes:
        raise ValueError("is too large")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None


def _sync(path: Path) -> None:
    """Flush to disk, so that the rename cannot come first."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    for file in files:
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    if path.is_dir():
        sync_folder(path)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
