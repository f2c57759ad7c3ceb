"""What `attnlab runs` prints: the run folders below a folder, or one run with its curves."""

from __future__ import annotations

from attnlab.runs.one import print_run
from attnlab.runs.table import print_runs

__all__ = ["print_run", "print_runs"]
