"""Run folders: their layout and version, settings, metrics, checkpoints and lock.

Only this package knows the names and formats of the files in a run folder. It imports neither torch
nor numpy, so that listing runs is fast.
"""

from __future__ import annotations

from attnlab.run_folder._config import RunConfig, read_config
from attnlab.run_folder._folder import RunFolder, check_folder
from attnlab.run_folder._start_mode import StartMode

__all__ = ["RunConfig", "RunFolder", "StartMode", "check_folder", "read_config"]
