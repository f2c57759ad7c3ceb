"""The cache folder: one process makes a file, and what a killed process leaves does no harm."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from attnlab._cache import cache_folder, load_or_make

MAKE = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from attnlab._cache import load_or_make
    folder = Path(sys.argv[1])
    def load(path):
        return path.read_text() if path.exists() else None
    def make(part):
        part.write_text("a part of")
        print("making", flush=True)
        while not (folder / "go").exists():
            time.sleep(0.01)
        part.write_text("the content")
    def wait():
        print("waiting", flush=True)
    path = folder / "cache" / "file.txt"
    print(load_or_make(path, load, make, max_bytes=10**6, on_wait=wait))
""")


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MAKE, str(folder)], stdout=subprocess.PIPE, text=True
    )


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_one_process_makes_a_file_and_the_others_wait(tmp_path: Path) -> None:
    with start(tmp_path) as first:
        assert next_line(first) == "making\n"
        with start(tmp_path) as second, start(tmp_path) as third:
            assert next_line(second) == next_line(third) == "waiting\n"
            (tmp_path / "go").touch()
            outputs = [process.communicate()[0] for process in (first, second, third)]
    assert outputs == ["the content\n"] * 3
    assert names(tmp_path / "cache") == ["file.txt"]


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with start(tmp_path) as killed:
        assert next_line(killed) == "making\n"
        with start(tmp_path) as waiting:
            assert next_line(waiting) == "waiting\n"
            killed.kill()
            assert next_line(waiting) == "making\n"
            (tmp_path / "go").touch()
            assert waiting.communicate()[0] == "the content\n"
    assert names(tmp_path / "cache") == ["file.txt"]


def make_file(path: Path, content: str, max_bytes: int = 100) -> str:
    def load(path: Path) -> str | None:
        return path.read_text() if path.exists() else None

    def write(part: Path) -> None:
        part.write_text(content)

    return load_or_make(path, load, write, max_bytes=max_bytes)


def test_a_file_in_use_is_newer_than_others(tmp_path: Path) -> None:
    for name in "abc":
        make_file(tmp_path / name, name * 30)
        os.utime(tmp_path / name, (1, 1))
    make_file(tmp_path / "b", "")
    make_file(tmp_path / "d", "d" * 30)
    assert "b" in names(tmp_path)
    assert len(names(tmp_path)) == 3


def test_failures_leave_no_file(tmp_path: Path) -> None:
    def fail(part: Path) -> None:
        part.write_text("half")
        raise ValueError("no text")

    with pytest.raises(ValueError, match="no text"):
        load_or_make(tmp_path / "file", lambda _: None, fail, max_bytes=9)
    assert names(tmp_path) == []
    (tmp_path / "blocked").write_text("")
    with pytest.raises(ValueError, match="set XDG_CACHE_HOME to another folder"):
        make_file(tmp_path / "blocked" / "file", "")
    with pytest.raises(OSError, match="check the disk"):
        load_or_make(tmp_path / "file", lambda _: None, lambda part: part.touch(), max_bytes=9)


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def folder(**variables: Any) -> Path:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return cache_folder("corpora")

    monkeypatch.chdir(tmp_path)
    assert folder(XDG_CACHE_HOME="here") == tmp_path / "here" / "attnlab" / "corpora"
    assert folder(XDG_CACHE_HOME="", HOME="/h") == Path("/h/.cache/attnlab/corpora")
