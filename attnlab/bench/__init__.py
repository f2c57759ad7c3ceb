"""Measure error, speed, memory and decoding of the mechanisms on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab._lazy import lazy_names

if TYPE_CHECKING:
    from attnlab.bench._run_bench import bench as bench

__all__ = ["bench"]
__getattr__ = lazy_names(
    __name__,
    {
        "bench": "attnlab.bench._run_bench",
    },
)
