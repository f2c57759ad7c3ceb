"""Writing that leaves either the old file or the new one, and reading that trusts no file."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file or folder beside `path`, then move it there in one step."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(beside)
        _sync(beside)
        if beside.is_dir() and path.exists():
            shutil.rmtree(path)
        beside.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise OSError(
            f"{path}: could not be written ({error.strerror or error}); "
            "make room or choose another folder; what was there before is untouched"
        ) from error
    finally:
        if beside.is_dir():
            shutil.rmtree(beside, ignore_errors=True)
        else:
            beside.unlink(missing_ok=True)


def check_new(path: Path, overwrite: bool) -> None:
    """That a file can be written there, before anything is computed for it."""
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; name a file")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if path.exists() and not overwrite:
        raise ValueError(f"{path}: is there already; give --overwrite or another name")
    check_writable(path)


def check_writable(path: Path) -> None:
    """That its folder takes files: modes do not tell, not to root and not of /proc."""
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise ValueError(
            f"{path}: nothing can be written to {path.parent} ({error.strerror or error}); "
            "choose another folder"
        ) from None


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """As UTF-8; a mistake in it is told before anything is written."""
    content = text.encode("utf-8")

    def write(part: Path) -> None:
        part.write_bytes(content)

    write_whole(path, write)


def open_regular(path: Path, *, follow_links: bool = False) -> IO[bytes]:
    """Only a regular file: a pipe would block for ever, a device never end."""
    no_links = 0 if follow_links else os.O_NOFOLLOW
    handle = os.open(path, os.O_RDONLY | no_links | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path.name}: is not a file")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_json(path: Path, most: int, *, follow_links: bool = False) -> Any:
    """The JSON of a file of at most so many bytes; a ValueError of a few words says what it is."""
    try:
        with open_regular(path, follow_links=follow_links) as file:
            content = file.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError("is missing") from None
    except OSError as error:
        raise ValueError("is a link" if error.errno == errno.ELOOP else "cannot be read") from None
    if len(content) > most:
        raise ValueError("is too large")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None


def _sync(path: Path) -> None:
    """Everything on the disk before the name changes."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    for file in files:
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    if path.is_dir():
        _sync_folder(path)


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
