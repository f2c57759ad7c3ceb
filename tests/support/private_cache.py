"""A cache folder of a test's own."""

from __future__ import annotations

import shutil
from pathlib import Path

from attnlab._cache import cache_folder
from attnlab.mechanisms import _compiled as compiled


def private_cache(folder: Path) -> str:
    """This folder, for XDG_CACHE_HOME. It is empty but for the C kernels, because a process that
    has to build them computes for 20 seconds."""
    compiled.status()  # builds them, if no one has
    kernels = cache_folder("compiled")
    if kernels.is_dir():
        shutil.copytree(kernels, folder / "attnlab" / "compiled", dirs_exist_ok=True)
    return str(folder)
