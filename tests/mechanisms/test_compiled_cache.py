"""The folder with the built C kernels: nothing there is trusted, and one process builds for all."""

from __future__ import annotations

import _ctypes
import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from attnlab import Mask, create_mechanism
from attnlab._cache import cache_folder
from attnlab.mechanisms._compiled import build, library_cache
from tests.support.c_compiler import FakeCompiler, forget_library, needs_compiler

pytestmark = needs_compiler

STRANGER = 12345
ANOTHER_LIBRARY = Path(_ctypes.__file__)
IN_PROCESSES = """
import os, sys
from attnlab.mechanisms import compiled_status
children = []
for _ in range(int(sys.argv[1])):
    if not (child := os.fork()):
        os._exit(0 if compiled_status().active else 1)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
"""


def stored() -> Path:
    """The only library in the cache."""
    (path,) = cache_folder("compiled").glob("kernels-*.so")
    return path


def in_c_and_in_torch() -> tuple[torch.Tensor, torch.Tensor]:
    mechanism = create_mechanism("favor", head_dim=4, heads=2)
    x = torch.linspace(-1, 1, 3 * 2 * 5 * 4).view(3, 1, 2, 5, 4)
    in_c = mechanism(*x, Mask(True))
    mechanism.use_compiled = False
    return in_c, mechanism(*x, Mask(True))


def belongs_to_a_stranger(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root can give a file away; for others, attnlab runs as a stranger."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, STRANGER)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)


def replace_by_link(path: Path) -> None:
    path.rename(path.with_suffix(".target"))
    path.symlink_to(path.with_suffix(".target"))


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def change_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def store_under_another_key(path: Path) -> None:
    content = built_content(path)
    path.write_bytes(content + library_cache._digest("another key", content))


def built_content(path: Path) -> bytes:
    return path.read_bytes()[:-32]


DAMAGE: dict[str, Callable[[Path], object]] = {
    "one page": lambda path: os.truncate(path, 4096),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "a byte less": lambda path: os.truncate(path, path.stat().st_size - 1),
    "a byte more": lambda path: path.write_bytes(path.read_bytes() + b"0"),
    "empty": lambda path: path.write_bytes(b""),
    "a terabyte of zeros": lambda path: os.truncate(path, 1 << 40),
    "a bit": change_a_bit,
    "text": lambda path: path.write_text("not a library"),
    "of an older attnlab": lambda path: path.write_bytes(built_content(path)),
    "another library": lambda path: path.write_bytes(ANOTHER_LIBRARY.read_bytes()),
    "the library of another key": store_under_another_key,
    "a link": replace_by_link,
    "a pipe": replace_by_pipe,
    "writable by the group": lambda path: path.chmod(0o664),
    "writable by all": lambda path: path.chmod(0o646),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_library_is_built_again(
    damage: Callable[[Path], object], unbuilt: Path, compiler: FakeCompiler
) -> None:
    """The system kills a process that loads a truncated library."""
    del unbuilt
    assert build.status().active
    content = stored().read_bytes()
    damage(stored())
    forget_library()
    assert build.status().active
    assert len(compiler.calls) == 2
    assert stored().read_bytes() == content
    assert stored().stat().st_mode & 0o777 == 0o644
    torch.testing.assert_close(*in_c_and_in_torch())
    forget_library()
    assert build.status().active
    assert len(compiler.calls) == 2


def test_a_library_is_used_again(unbuilt: Path, compiler: FakeCompiler) -> None:
    """Nothing is written then: the folder may be read-only."""
    del unbuilt
    assert build.status().active
    (cache_folder("compiled") / library_cache.LOCK).unlink()
    before = cache_folder("compiled").stat()
    forget_library()
    assert build.status().active
    assert cache_folder("compiled").stat() == before
    assert len(compiler.calls) == 1


def test_damage_after_loading_does_not_matter(unbuilt: Path, compiler: FakeCompiler) -> None:
    del unbuilt
    assert build.status().active
    os.truncate(stored(), 0)
    torch.testing.assert_close(*in_c_and_in_torch())
    assert len(compiler.calls) == 1


def test_systems_without_files_in_memory(
    unbuilt: Path, compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(unbuilt / "temporary"))
    (unbuilt / "temporary").mkdir()
    assert build.status().active
    os.truncate(stored(), 0)
    torch.testing.assert_close(*in_c_and_in_torch())
    assert not list((unbuilt / "temporary").iterdir())
    assert len(compiler.calls) == 1


# Other users


def test_a_library_of_another_user_is_not_loaded(
    unbuilt: Path, compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    del unbuilt
    assert build.status().active
    belongs_to_a_stranger(stored(), monkeypatch)
    forget_library()
    assert build.status().active == (os.getuid() == 0)  # else the folder is a stranger's too
    assert len(compiler.calls) == 1 + (os.getuid() == 0)
    assert stored().stat().st_uid == os.getuid()


@pytest.mark.parametrize("level", ["attnlab", "attnlab/compiled"])
def test_a_folder_of_another_user_is_not_used(
    level: str, unbuilt: Path, compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build.status().active
    before = stored().stat()
    belongs_to_a_stranger(unbuilt / "cache" / level, monkeypatch)
    forget_library()
    assert not build.status().active
    assert "another user can write there" in build.status().reason
    assert "set XDG_CACHE_HOME to a folder of your own" in build.status().reason
    assert stored().stat() == before
    assert len(compiler.calls) == 1
    stored().unlink()
    forget_library()
    assert not build.status().active
    assert len(compiler.calls) == 1


@pytest.mark.parametrize("level", ["attnlab", "attnlab/compiled"])
@pytest.mark.parametrize("mode", [0o775, 0o1777])
def test_others_lose_access_to_the_folder(
    level: str, mode: int, unbuilt: Path, compiler: FakeCompiler
) -> None:
    assert build.status().active
    (unbuilt / "cache" / level).chmod(mode)
    forget_library()
    assert build.status().active
    assert (unbuilt / "cache" / level).stat().st_mode & 0o022 == 0
    assert len(compiler.calls) == 1


def test_files_do_not_depend_on_the_umask(unbuilt: Path, compiler: FakeCompiler) -> None:
    del unbuilt
    previous = os.umask(0)
    try:
        assert build.status().active
    finally:
        os.umask(previous)
    assert cache_folder("compiled").stat().st_mode & 0o777 == 0o755
    assert stored().stat().st_mode & 0o777 == 0o644
    forget_library()
    assert build.status().active
    assert len(compiler.calls) == 1


# What cannot be built


def status_on_a_full_disk() -> build.Status:
    """No file can have more than 1,000 bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        return build.status()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("before", ["", "ulimit -S -f unlimited"], ids=["compiler", "attnlab"])
def test_a_full_disk_is_no_error(
    before: str, library: bytes, unbuilt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither if the compiler cannot write, nor if only attnlab cannot."""
    full = FakeCompiler(unbuilt / "compiler", library, before)
    monkeypatch.setenv("CC", str(full.path))
    assert not status_on_a_full_disk().active
    assert full.calls
    assert [path.name for path in cache_folder("compiled").iterdir()] == [library_cache.LOCK]
    forget_library()
    assert build.status().active  # when there is space again


@pytest.mark.parametrize("output", [b"not a library", ANOTHER_LIBRARY.read_bytes()])
def test_a_library_that_does_not_work_is_not_stored(
    output: bytes, unbuilt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = FakeCompiler(unbuilt / "compiler", output)
    monkeypatch.setenv("CC", str(wrong.path))
    assert not build.status().active
    assert "cannot be loaded" in build.status().reason
    assert [path.name for path in cache_folder("compiled").iterdir()] == [library_cache.LOCK]


def test_a_folder_in_place_of_the_library_is_no_error(
    unbuilt: Path, compiler: FakeCompiler
) -> None:
    del unbuilt
    assert build.status().active
    path = stored()
    path.unlink()
    path.mkdir()
    forget_library()
    assert not build.status().active
    assert compiler.calls


# Several processes


def start_processes(count: int, compiler: FakeCompiler) -> subprocess.Popen[str]:
    """Forked, because each import of torch takes seconds."""
    return subprocess.Popen(
        [sys.executable, "-c", IN_PROCESSES, str(count)],
        env={**os.environ, "CC": str(compiler.path)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_that_start_together_compile_once(library: bytes, unbuilt: Path) -> None:
    slow = FakeCompiler(unbuilt / "compiler", library, before="sleep 1")
    with start_processes(4, slow) as process:
        _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert len(slow.calls) == 1


def test_a_killed_builder_leaves_nothing_behind(unbuilt: Path, compiler: FakeCompiler) -> None:
    """Although its compiler lives on."""
    builder = unbuilt / "builder"
    endless = FakeCompiler(
        unbuilt / "endless",
        b"",
        before=f"echo $PPID > {builder}.part\nmv {builder}.part {builder}\nexec sleep 1000",
    )
    with start_processes(1, endless) as process:
        while not builder.exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(int(builder.read_text()), signal.SIGKILL)
        process.communicate()
    try:
        assert list(cache_folder("compiled").glob("building-*"))
        assert build.status().active, build.status().reason
    finally:
        os.kill(endless.calls[0], signal.SIGKILL)
    assert len(compiler.calls) == 1
    names = {path.name for path in cache_folder("compiled").iterdir()}
    assert names == {library_cache.LOCK, stored().name}


def test_a_builder_that_never_ends_stops_nobody(
    unbuilt: Path, compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    del unbuilt
    monkeypatch.setattr(library_cache, "WAIT", 0.1)
    building = cache_folder("compiled") / "building-here"
    building.mkdir(parents=True)
    with (cache_folder("compiled") / library_cache.LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert build.status().active
    assert len(compiler.calls) == 1
    assert building.exists()  # its builder may still need it
