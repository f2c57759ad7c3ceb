"""Capture what any model attends to, open it in a page or a notebook, and change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab.interpret._capture import capture as capture
    from attnlab.interpret._look import look as look

__all__ = ["capture", "look"]
__getattr__ = lazy_names(
    __name__,
    {
        "capture": "attnlab.interpret._capture",
        "look": "attnlab.interpret._look",
    },
)
