"""Fill unwritten memory with NaN, so that a kernel that forgets a row is detected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def nan_in_unwritten_memory() -> Iterator[None]:
    """PyTorch's own switch: whatever `empty`, `new_empty` or `empty_like` return is NaN, or the
    largest whole number of its type."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
