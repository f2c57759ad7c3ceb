"""The command line as a person calls it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest

from attnlab.cli import main


def call(arguments: str, program: Callable[[list[str]], Any] = main) -> Any:
    """Exit code."""
    try:
        program(shlex.split(arguments))
    except SystemExit as ending:
        return ending.code or 0
    return 0


def run(
    arguments: str,
    capsys: pytest.CaptureFixture[str],
    program: Callable[[list[str]], Any] = main,
) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    code = call(arguments, program)
    captured = capsys.readouterr()
    return code, captured.out, captured.err
