"""Refuses a model that is too large, before PyTorch tries to allocate it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from attnlab._argument_checks import LARGEST_SIZE

LARGEST_DEPTH = 2**11  # blocks
BYTES = 16  # of a weight in training: itself, its gradient and two moments of the optimizer


def block_weights(width: int, layers: int, feed_width: int | None = None) -> int:
    """About how many weights transformer blocks have: attention and feed-forward matrices."""
    return layers * width * (4 * width + 2 * (feed_width or 4 * width))


def check_counts(config: object, *names: str) -> None:
    """Refuse sizes below 1 and those that no machine can hold. None stands for a default."""
    for name in names:
        size = getattr(config, name)
        largest = LARGEST_DEPTH if name in ("layers", "blocks") else LARGEST_SIZE
        if size is not None and size < 1:
            raise ValueError(f"{name} is {size}; give 1 or more")
        if size is not None and size > largest:
            raise ValueError(f"{name} is {size:,}; give at most {largest:,}")


def check_memory(weights: int, sizes: Mapping[str, int]) -> None:
    """Raises an error that names the sizes if the weights need more memory than the machine has."""
    memory = physical_memory()
    if memory is None or BYTES * weights <= memory:
        return
    names = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
    raise ValueError(
        f"a model with {names} has about {weights:,} weights and needs "
        f"{BYTES * weights / 1e9:,.0f} GB in training; "
        f"this machine has {memory / 1e9:,.0f} GB: give smaller sizes"
    )


def physical_memory() -> int | None:
    """In bytes, or None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
