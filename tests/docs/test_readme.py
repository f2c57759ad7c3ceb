"""Runs every command and every Python block of the README in a real shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.markdown_blocks import ROOT, read_blocks


def readme_script() -> str:
    """The commands in the order of the page, without `make`, which ran before the tests."""
    parts = []
    for language, block in read_blocks("README.md"):
        if language == "sh":
            parts += [line for line in block.splitlines() if not line.startswith("make ")]
        elif language == "python":
            parts.append(f"python - <<'PYTHON'\n{block}PYTHON")
    return "\n".join(parts)


def test_script_contains_the_page() -> None:
    script = readme_script()
    assert script.splitlines()[0].startswith(". .venv/bin/activate")
    assert script.count("attnlab ") > 20
    assert script.count("PYTHON") == 2 * 5


@pytest.mark.slow
def test_all_commands_run_in_a_shell(tmp_path: Path) -> None:
    prefix = Path(sys.prefix)
    if not (prefix / "bin" / "activate").exists():
        pytest.skip("these tests do not run in a virtual environment, which the README activates")
    (tmp_path / ".venv").symlink_to(prefix)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    kept_variables = re.compile(r"PATH|HOME|LANG|TMPDIR|XDG_|OMP_|CC$")
    environment = {k: v for k, v in os.environ.items() if kept_variables.match(k)}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", readme_script()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("runs/digits/test.html", "what.html", "playground.html", "runs/first"):
        assert (tmp_path / name).exists(), name
