"""Compare mechanisms on any task, trained with equal budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab.compare._engine import compare as compare

__all__ = ["compare"]
__getattr__ = lazy_names(
    __name__,
    {
        "compare": "attnlab.compare._engine",
    },
)
