"""Kernel attention in C: the same numbers as scan.py and kernel.py, many times faster."""

from __future__ import annotations

from attnlab.mechanisms.compiled.build import status
from attnlab.mechanisms.compiled.calls import serves
from attnlab.mechanisms.compiled.ops import causal, read, sums

__all__ = ["causal", "read", "serves", "status", "sums"]
