"""Which mechanism could take softmax's place in each head of a model, checked by its own loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab.heads._run_heads import heads as heads

__all__ = ["heads"]


def __getattr__(name: str) -> Any:
    # Resolved on first use: the command line reads the settings here, and must not wait for torch.
    if name not in __all__:
        raise AttributeError(f"module 'attnlab.heads' has no attribute {name!r}")
    from attnlab.heads._run_heads import heads

    return heads
