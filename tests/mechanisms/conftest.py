from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from attnlab.mechanisms._compiled import build
from tests.support.c_compiler import FakeCompiler, built_library, forget_library
from tests.support.unwritten_memory import nan_in_unwritten_memory


@pytest.fixture(autouse=True)
def unwritten_memory() -> Iterator[None]:
    with nan_in_unwritten_memory():
        yield


@pytest.fixture
def unbuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new, empty cache for the C kernels; afterwards the real library again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(build.SWITCH, raising=False)
    forget_library()
    yield tmp_path
    forget_library()


@pytest.fixture(scope="session")
def library() -> bytes:
    """The library as the compiler wrote it. Of the session, since `unbuilt` hides it."""
    return built_library()


@pytest.fixture
def compiler(library: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCompiler:
    """A compiler for `unbuilt` that takes no time."""
    fake = FakeCompiler(tmp_path / "compiler", library)
    monkeypatch.setenv("CC", str(fake.path))
    return fake
