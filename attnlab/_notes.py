"""Notes for users. The command line prints each as one line on standard error."""

from __future__ import annotations

import sys
import warnings


def warn_caller(note: str) -> None:
    """Warn at the line of the user's code that called attnlab, perhaps through PyTorch."""
    depth, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(("attnlab", "torch")):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(note, stacklevel=depth)
