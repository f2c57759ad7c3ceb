"""The README in a real shell, as a newcomer types it: every command and every piece of Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.markdown_blocks import ROOT, blocks


def script() -> str:
    """All of it in the order of the page; `make` has been done where tests run."""
    parts = []
    for language, block in blocks("README.md"):
        if language == "sh":
            parts += [line for line in block.splitlines() if not line.startswith("make ")]
        elif language == "python":
            parts.append(f"python - <<'PYTHON'\n{block}PYTHON")
    return "\n".join(parts)


def test_the_script_is_the_page() -> None:
    found = script()
    assert found.splitlines()[0].startswith(". .venv/bin/activate")
    assert found.count("attnlab ") > 25
    assert found.count("PYTHON") == 2 * 4


@pytest.mark.slow
def test_all_commands_in_a_shell(tmp_path: Path) -> None:
    prefix = Path(sys.prefix)
    if not (prefix / "bin" / "activate").exists():
        pytest.skip("these tests do not run in a virtual environment, which the README activates")
    (tmp_path / ".venv").symlink_to(prefix)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    kept = re.compile(r"PATH|HOME|LANG|TMPDIR|XDG_|OMP_|CC$")
    environment = {k: v for k, v in os.environ.items() if kept.match(k)}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("runs/digits/test.html", "what.html", "playground.html", "runs/first"):
        assert (tmp_path / name).exists(), name
