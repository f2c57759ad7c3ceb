"""The C kernels are built once, for this machine, and a failed build is no error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from attnlab import MECHANISMS, Mask, create_mechanism
from attnlab.mechanisms._compiled import build
from tests.support.c_compiler import needs_compiler
from tests.support.command_line import run


@pytest.fixture
def unbuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new, empty cache; afterwards the real library again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(build.SWITCH, raising=False)
    build.status.cache_clear()
    yield tmp_path
    build.status.cache_clear()


def test_the_switch_turns_the_kernels_off(unbuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build.SWITCH, "0")
    assert not build.status().active
    assert build.SWITCH in build.status().reason
    assert not (unbuilt / "cache").exists()
    out = create_mechanism("favor", head_dim=4, heads=2)(*torch.ones(3, 1, 2, 5, 4), Mask(True))
    assert bool(out.isfinite().all())


def test_no_home_is_no_error(unbuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no home folder."""

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", nowhere)
    assert not build.status().active
    assert "home directory" in build.status().reason
    out = create_mechanism("elu", head_dim=4, heads=2)(*torch.ones(3, 1, 2, 5, 4), Mask(True))
    assert bool(out.isfinite().all())
    assert not list(unbuilt.iterdir())


def test_no_compiler_is_no_error(unbuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(unbuilt))
    monkeypatch.delenv("CC", raising=False)
    assert not build.status().active
    assert "no C compiler" in build.status().reason


def test_a_failed_build_is_no_error(unbuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = unbuilt / "broken"
    broken.write_text("#!/bin/sh\necho cannot >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    assert not build.status().active
    assert "cannot" in build.status().reason
    assert not list((unbuilt / "cache").rglob("*.so"))
    assert not list((unbuilt / "cache").rglob("*.part"))


@needs_compiler
def test_a_cache_that_cannot_be_written_is_no_error(
    unbuilt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (unbuilt / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(unbuilt / "file"))
    assert not build.status().active
    assert "could not be built" in build.status().reason


def test_a_library_belongs_to_its_compiler_and_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.write_text("")
    assert build._key(one) == build._key(one)
    assert build._key(one) != build._key(other)
    before = build._key(one)
    monkeypatch.setattr(build, "_processor", lambda: "another")
    assert build._key(one) != before


def test_the_wheel_contains_the_sources() -> None:
    """Hatch packs all files of the package; the kernels are built from these."""
    assert {"kernels.c", "template.h"} <= {path.name for path in build.SOURCES.iterdir()}
    assert {kind.name for kind in MECHANISMS.values() if kind.compilable} == {
        "elu",
        "relu",
        "polynomial",
        "fourier",
        "favor",
        "bigbird",
        "window",
    }


def test_the_list_of_mechanisms_names_the_active_path(
    capsys: pytest.CaptureFixture[str], unbuilt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del unbuilt
    monkeypatch.setenv(build.SWITCH, "0")
    _, out, _ = run("mechanisms", capsys)
    text = " ".join(out.split())  # lines may wrap anywhere
    assert "in PyTorch alone" in text
    assert build.SWITCH in text
    _, raw, _ = run("mechanisms favor --json", capsys)
    assert json.loads(raw)["path"] == "PyTorch"
