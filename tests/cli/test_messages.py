"""What commands print on standard error: notes and refusals, one line each."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnlab._create_mechanism import note_alias
from tests.support.command_line import run

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.filterwarnings("default")
def test_a_warning_is_a_note_of_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    note_alias.cache_clear()  # another test may have used the alias
    code, _, err = run(
        f"language train {README} --attention performer --steps 1 --context 8 --width 8 "
        f"--layers 1 --heads 1 --out {out}",
        capsys,
    )
    assert code == 0, err
    notes = [line for line in err.splitlines() if line.startswith("attnlab: note: ")]
    assert len(notes) == 1
    assert "performer" in notes[0]
    assert "favor" in notes[0]
    assert "UserWarning" not in err


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ("--context 1000000000", "give at most 16,777,216"),
        ("--layers 1000000000", "give at most 2,048"),
        ("--width 8000000", "give smaller sizes"),
    ],
)
def test_a_model_that_fits_no_memory_is_refused(
    options: str, limit: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(f"language train {README} {options} --out {tmp_path}/run", capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    name, size = options.removeprefix("--").split()
    assert name in err
    assert f"{int(size):,}" in err
    assert limit in err
    assert not (tmp_path / "run" / "config.json").exists()
