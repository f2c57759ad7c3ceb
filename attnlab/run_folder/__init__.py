"""Run folders: their layout and version, settings, metrics, checkpoints and lock.

Only this package knows the names and formats of the files in a run folder. It imports neither torch
nor numpy, so that listing runs is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab.run_folder._config import RunConfig as RunConfig
    from attnlab.run_folder._config import read_config as read_config
    from attnlab.run_folder._folder import RunFolder as RunFolder
    from attnlab.run_folder._folder import check_folder as check_folder
    from attnlab.run_folder._start_mode import StartMode as StartMode

__all__ = ["RunConfig", "RunFolder", "StartMode", "check_folder", "read_config"]
__getattr__ = lazy_names(
    __name__,
    {
        "RunConfig": "attnlab.run_folder._config",
        "RunFolder": "attnlab.run_folder._folder",
        "StartMode": "attnlab.run_folder._start_mode",
        "check_folder": "attnlab.run_folder._folder",
        "read_config": "attnlab.run_folder._config",
    },
)
