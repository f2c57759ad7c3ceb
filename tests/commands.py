"""The command line as a person calls it."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from attnlab.cli import main


def run(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    code: Any = 0
    try:
        main(shlex.split(arguments))
    except SystemExit as ending:
        code = ending.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err
