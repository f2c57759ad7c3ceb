"""One demo for all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnlab.demo._settings import Demo
from tests.support.demo_runs import run_quick


@pytest.fixture(scope="session")
def quick_demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Demo, str]:
    out = tmp_path_factory.mktemp("demo") / "out"
    return (out, *run_quick(out))
