"""Keep the built library in a folder, and load only what this user or root wrote there in full.

A file there may be truncated, belong to someone else or be another library, and loading such a file
kills the process or runs foreign code. So a stored library ends with a digest of its key and its
content. The file is read once, its owner and its digest are checked, and a copy of what was read is
loaded: whatever happens to the file afterwards does not matter.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attnlab._safe_files import open_regular

WAIT = 120.0  # seconds for another process that builds; then build too, which is only a waste
MAX_BYTES = 1 << 24
LOCK = "lock"
BUILDING = "building-"
A_FUNCTION = "attnlab_use_team"
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def load_or_build(folder: Path, key: str, compile_to: Callable[[Path], None]) -> ctypes.CDLL:
    """The library of this key. Processes that start together build it once."""
    for each in (folder.parent, folder):
        _require_safe(each)
    path = folder / f"kernels-{key}.so"
    library = _load_stored(path, key)
    if library is None:
        with _one_builder(folder) as alone:
            library = _load_stored(path, key) or _build(path, key, compile_to, alone)
    return library


def _require_safe(folder: Path) -> None:
    """Make the folder if necessary; others must not be able to write to it."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid == os.geteuid() and status.st_mode & WRITABLE_BY_OTHERS:
        folder.chmod(stat.S_IMODE(status.st_mode) & ~WRITABLE_BY_OTHERS)
    elif not _is_safe(status):
        raise PermissionError(f"{folder}: another user can write there, so nothing is loaded")


def _is_safe(status: os.stat_result) -> bool:
    """Whether only this user and root can have written the content."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & WRITABLE_BY_OTHERS


def _load_stored(path: Path, key: str) -> ctypes.CDLL | None:
    try:
        with open_regular(path) as file:
            if not _is_safe(os.fstat(file.fileno())):
                return None
            stored = file.read(MAX_BYTES)
        size = hashlib.sha256().digest_size
        content = stored[:-size]
        return load(content) if stored == content + _digest(key, content) else None
    except OSError:
        return None


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + content).digest()


def load(content: bytes) -> ctypes.CDLL:
    """Load the library with this content, from a file that no other process can change."""
    try:
        handle = os.memfd_create("attnlab-kernels")
    except (AttributeError, OSError):  # not Linux, or forbidden
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernels.so"
            path.write_bytes(content)
            library = ctypes.CDLL(str(path))
    else:
        try:
            with open(handle, "wb", closefd=False) as file:
                file.write(content)
            library = ctypes.CDLL(f"/proc/self/fd/{handle}")
            # stays open: the loader would take the next file of this name for this one
        except BaseException:
            os.close(handle)
            raise
    if not hasattr(library, A_FUNCTION):
        raise OSError(f"the library has no function {A_FUNCTION}")
    return library


@contextmanager
def _one_builder(folder: Path) -> Iterator[bool]:
    """Wait while another process builds. Gives whether all others wait for this one."""
    with (folder / LOCK).open("a") as file:
        yield _acquire(file.fileno())


def _acquire(handle: int) -> bool:
    """Wait for the lock, which the system frees if its holder is killed."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        except OSError:  # a file system without locks
            return False
        else:
            return True
    return False


def _build(path: Path, key: str, compile_to: Callable[[Path], None], alone: bool) -> ctypes.CDLL:
    if alone:  # remove what killed processes left
        for each in path.parent.glob(f"{BUILDING}*"):
            shutil.rmtree(each)
    with tempfile.TemporaryDirectory(prefix=BUILDING, dir=path.parent) as folder:
        output = Path(folder) / "kernels.so"
        compile_to(output)
        content = output.read_bytes()
        try:
            library = load(content)  # before it is stored: it must work
        except OSError as error:
            raise RuntimeError(f"they cannot be loaded: {error}") from error
        # only this user can open this folder, so no other user can hold the file open for writing
        output.write_bytes(content + _digest(key, content))
        output.chmod(0o644)
        output.replace(path)
    return library
