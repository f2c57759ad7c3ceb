"""A small training run in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STEPS = 200
SIZES = ["--width", "16", "--layers", "1", "--heads", "2", "--context", "16"]


@contextmanager
def training(folder: Path, *options: str, steps: int = STEPS) -> Iterator[subprocess.Popen[bytes]]:
    """Start a small training run in its own process."""
    text = folder.parent / "text.txt"
    text.write_text("to be or not to be. " * 200)
    command = [sys.executable, "-m", "attnlab", "language", "train", str(text), *SIZES]
    command += ["--steps", str(steps), "--batch-tokens", "64", "--out", str(folder), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads that wait for cores take minutes
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
