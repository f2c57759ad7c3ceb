"""Find out which mechanism could replace softmax in each head of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab.heads._run_heads import heads as heads

__all__ = ["heads"]
__getattr__ = lazy_names(
    __name__,
    {
        "heads": "attnlab.heads._run_heads",
    },
)
