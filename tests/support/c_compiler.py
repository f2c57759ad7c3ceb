"""Tests of the C kernels: skipped where they cannot be built, and compilers that only pretend."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import pytest

from attnlab._cache import cache_folder
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms._compiled import build, calls

needs_compiler = pytest.mark.skipif(
    not compiled.status().active, reason=f"no C kernels: {compiled.status().reason}"
)


def forget_library() -> None:
    """As in a new process."""
    for function in (build.status, build.note_if_off, calls._kernel):
        function.cache_clear()


def built_library() -> bytes:
    """The library as the compiler wrote it."""
    assert compiled.status().active
    compiler = build._compiler()
    assert compiler is not None
    path = cache_folder("compiled") / f"kernels-{build._key(compiler)}.so"
    return path.read_bytes()[: -hashlib.sha256().digest_size]


class FakeCompiler:
    """A program that counts its calls, and copies a library that was built before."""

    def __init__(self, folder: Path, library: bytes, before: str = "") -> None:
        """`before` is a shell command that runs first."""
        folder.mkdir()
        self.path, self.log, self.library = (folder / name for name in ("fake-cc", "log", "so"))
        self.library.write_bytes(library)
        log, source = (shlex.quote(str(each)) for each in (self.log, self.library))
        self.path.write_text(
            f"#!/bin/sh\necho $$ >> {log}\n{before}\n"
            f'while [ "$1" != -o ]; do shift; done\ncp {source} "$2"\n'
        )
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[int]:
        """The process id of each call."""
        return [int(line) for line in self.log.read_text().split()] if self.log.exists() else []
