"""What mechanisms cost and how far they are from exact attention, measured on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab.bench._run_bench import bench as bench

__all__ = ["bench"]


def __getattr__(name: str) -> Any:
    # Resolved on first use: the command line reads the settings here, and must not wait for torch.
    if name not in __all__:
        raise AttributeError(f"module 'attnlab.bench' has no attribute {name!r}")
    from attnlab.bench._run_bench import bench

    return bench
