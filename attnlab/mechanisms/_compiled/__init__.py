"""Kernel, block-sparse and recurrent attention in C: the same as the modules of these names."""

from __future__ import annotations

from attnlab.mechanisms._compiled.build import note_if_off, status
from attnlab.mechanisms._compiled.calls import can_run, peak_scratch_bytes
from attnlab.mechanisms._compiled.kernel import (
    absorb_in_place,
    causal,
    causal_projected,
    read,
    sums,
)
from attnlab.mechanisms._compiled.recurrent import absorb as recurrent_absorb
from attnlab.mechanisms._compiled.recurrent import attend as recurrent_attend
from attnlab.mechanisms._compiled.sparse import attend_blocks

__all__ = [
    "absorb_in_place",
    "attend_blocks",
    "can_run",
    "causal",
    "causal_projected",
    "note_if_off",
    "peak_scratch_bytes",
    "read",
    "recurrent_absorb",
    "recurrent_attend",
    "status",
    "sums",
]
