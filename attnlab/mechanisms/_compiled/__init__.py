"""Kernel and block-sparse attention in C: the same as _scan.py, kernel.py and _block_sparse.py."""

from __future__ import annotations

from attnlab.mechanisms._compiled.build import note_if_off, status
from attnlab.mechanisms._compiled.calls import can_run, peak_scratch_bytes
from attnlab.mechanisms._compiled.kernel import absorb_in_place, causal, read, sums
from attnlab.mechanisms._compiled.sparse import attend_blocks

__all__ = [
    "absorb_in_place",
    "attend_blocks",
    "can_run",
    "causal",
    "note_if_off",
    "peak_scratch_bytes",
    "read",
    "status",
    "sums",
]
