"""How many cores this process may use."""

from __future__ import annotations

import os


def available_cores() -> int:
    """The cores that this process may use; all of them where the system does not say, as macOS.

    >>> from attnlab._cores import available_cores
    >>> available_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
