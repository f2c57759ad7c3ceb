"""The C kernels are built once, for this machine, and a failed build is no error."""

from __future__ import annotations

import json
import multiprocessing
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab import MECHANISMS, Mask, create_mechanism
from attnlab.mechanisms._compiled import build, calls
from tests.support.c_compiler import forget_library, needs_compiler
from tests.support.command_line import run
from tests.support.law_trials import make_mechanism, single_inputs, usual_mask

NOTE = "the C kernels are off"


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


@pytest.fixture
def no_compiler(unbuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(unbuilt))
    monkeypatch.delenv("CC", raising=False)


@pytest.mark.usefixtures("no_compiler")
def test_no_compiler_is_no_error() -> None:
    assert not build.status().active
    assert "no C compiler" in build.status().reason


def attend_with(name: str, dtype: torch.dtype = torch.float32) -> None:
    mechanism = create_mechanism(name, head_dim=4, heads=2).to(dtype)
    mechanism(*torch.ones(3, 1, 2, 5, 4, dtype=dtype), Mask(True))


@pytest.mark.usefixtures("no_compiler")
def test_a_note_when_the_kernels_are_off() -> None:
    """Once, where they would be used, at the line of the caller."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        attend_with("softmax")
        assert not notes
        attend_with("favor")
        attend_with("favor")
        attend_with("window")
    assert [note.filename for note in notes] == [__file__]
    sentence = str(notes[0].message)
    assert NOTE in sentence
    assert "no C compiler (cc, gcc or clang) was found; install one" in sentence
    assert "ATTNLAB_COMPILED=0 hides this note" in sentence
    assert "\n" not in sentence


@pytest.mark.filterwarnings("error")
@pytest.mark.usefixtures("no_compiler")
def test_no_note_where_it_would_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(build.SWITCH, "0")
        attend_with("favor")
    forget_library()
    with monkeypatch.context() as patch:  # a pool of processes would repeat it
        patch.setattr(multiprocessing, "parent_process", lambda: "another process")
        attend_with("favor")
    forget_library()
    attend_with("window", dtype=torch.bfloat16)  # the kernels have other types
    with pytest.raises(UserWarning, match=NOTE):
        attend_with("window")


@needs_compiler
def test_no_note_with_the_kernels() -> None:
    forget_library()
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        attend_with("favor")
    assert notes == []


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("no_compiler")
def test_commands_print_the_note_as_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("to be or not to be. " * 50)
    train = f"language train {tmp_path}/text.txt --layers 2 --heads 2 --width 8 --context 16"
    for attention, count in (("softmax", 0), ("favor", 1), ("elu", 0)):
        out = f"--attention {attention} --steps 2 --out {tmp_path}/{attention}"
        code, _, err = run(f"{train} {out}", capsys)
        assert code == 0, err
        notes = [line for line in err.splitlines() if NOTE in line]
        assert len(notes) == count
        assert all(line.startswith("attnlab: note: ") for line in notes)
    assert NOTE not in run("--help", capsys)[2]


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
    assert "set XDG_CACHE_HOME to a folder of your own" in build.status().reason


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


@needs_compiler
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_the_mechanisms_that_have_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`compilable` is true: forward calls a kernel, unless `use_compiled` is False."""
    used, find = [], calls._kernel

    def counted(kernel: str, dtype: torch.dtype) -> Any:
        used.append(kernel)
        return find(kernel, dtype)

    monkeypatch.setattr(calls, "_kernel", counted)
    mechanism = make_mechanism(name)
    x, mask = single_inputs(mechanism), usual_mask(mechanism)
    out = x.output(mechanism, mask)
    assert bool(used) == mechanism.compilable
    used.clear()
    mechanism.use_compiled = False
    assert torch.allclose(x.output(mechanism, mask), out, rtol=1e-4, atol=1e-5)
    assert not used


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
