"""Run a command in a forked process that kills itself at a chosen file operation.

Every function that changes files is replaced: it counts an operation before it does its work, and a
write counts another one when half of the bytes are on disk. A killed process leaves what the disk
has at that moment, as with SIGKILL from outside. To fork takes milliseconds, to start Python and
import torch takes seconds.
"""

from __future__ import annotations

import builtins
import io
import mmap
import os
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from tests.support.command_line import call

PATH_FUNCTIONS = ("rename", "replace", "unlink", "remove", "rmdir", "mkdir", "truncate", "chmod")
HANDLE_FUNCTIONS = ("ftruncate", "write")
WRITES = 2  # that count in a new file; matplotlib writes a figure in thousands of pieces
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True)
class Outcome:
    """How a command in a forked process ended."""

    killed: bool
    code: int
    operations: int
    """File operations up to the end."""
    errors: str


def run_forked(
    command: str,
    folder: Path,
    *,
    kill_at: int | None = None,
    kill_after: float | None = None,
) -> Outcome:
    """Run an attnlab command. Kill it at an operation below `folder`, or after some seconds."""
    counter, log = mmap.mmap(-1, 8), folder.parent / "forked.log"
    child = os.fork()
    if child == 0:
        code = 99
        try:
            _print_into(log)
            torch.set_num_threads(1)
            if kill_after is None:
                FileOperations(folder, counter, kill_at).install()
            code = call(command)
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    killed = os.WIFSIGNALED(status)
    code = -os.WTERMSIG(status) if killed else os.WEXITSTATUS(status)
    (count,) = struct.unpack("q", counter[:8])
    return Outcome(killed, code, count, log.read_text())


def _print_into(log: Path) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    builtins.print = _print_to_handle  # pytest has replaced sys.stderr


def _print_to_handle(*values: object, **_: object) -> None:
    os.write(2, (" ".join(map(str, values)) + "\n").encode())


class FileOperations:
    """Counts the operations that change files below a folder. `counter` is shared memory."""

    def __init__(self, folder: Path, counter: mmap.mmap, kill_at: int | None) -> None:
        self.folder, self.counter, self.kill_at = folder.resolve(), counter, kill_at
        self.count = 0

    def reach(self, prepare: Callable[[], object] = lambda: None) -> None:
        """One operation. If it is the chosen one, `prepare` the files and die."""
        if self.count == self.kill_at:
            prepare()
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1
        self.counter[:8] = struct.pack("q", self.count)

    def watches(self, path: Any, dir_fd: int | None = None) -> bool:
        if isinstance(path, int):
            full = Path(f"/proc/self/fd/{path}").readlink()
        elif dir_fd is not None:
            full = Path(f"/proc/self/fd/{dir_fd}").readlink() / path
        else:
            full = Path.cwd() / os.fsdecode(path)
        return full.is_relative_to(self.folder)

    def install(self) -> None:
        for name in PATH_FUNCTIONS + HANDLE_FUNCTIONS:
            setattr(os, name, self.counted(getattr(os, name)))
        os.fsync = self.counted(lambda _: None)  # a kill loses nothing that was written
        os.open = self.counted(os.open, lambda flags=0, *_, **__: bool(flags & WRITING))
        io.open = builtins.open = self.counted_open(io.open)
        tensors: Any = safetensors.torch
        tensors.serialize_file = self.counted_serialize(tensors.serialize_file)

    def counted(self, original: Any, changes: Callable[..., bool] = lambda *_, **__: True) -> Any:
        def function(path: Any, *rest: Any, **options: Any) -> Any:
            if changes(*rest, **options) and self.watches(path, options.get("dir_fd")):
                self.reach()
            return original(path, *rest, **options)

        return function

    def counted_open(self, original: Any) -> Any:
        def function(path: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if not set(mode) & set("wax+") or not self.watches(path):
                return original(path, mode, *rest, **options)
            self.reach()
            limit = None if "a" in mode else WRITES
            return CountedFile(original(path, mode, *rest, **options), self, limit)

        return function

    def counted_serialize(self, original: Any) -> Any:
        """safetensors writes a temporary file beside the other one, from Rust."""

        def function(tensors: Any, path: Any, *rest: Any, **options: Any) -> Any:
            if self.watches(path):
                self.reach()
                self.reach(lambda: os.mkfifo(Path(path).with_name(".tmp-of-safetensors")))
            return original(tensors, path, *rest, **options)

        return function


class CountedFile:
    """A file opened for writing. Only the first `limit` writes count."""

    def __init__(self, file: Any, operations: FileOperations, limit: int | None) -> None:
        self.file, self.operations, self.limit = file, operations, limit

    def write(self, content: Any) -> Any:
        def write_half() -> None:
            self.file.write(content[: len(content) // 2])
            self.file.flush()

        if self.limit is None or self.limit > 0:
            self.operations.reach()
            self.operations.reach(write_half)
            self.limit = None if self.limit is None else self.limit - 1
        return self.file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> CountedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
