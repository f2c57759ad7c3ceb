"""Calls of the C kernels with tensors.

Letters: B batch, H heads, T tokens.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from attnlab.mechanisms.compiled.build import status

TYPES = {torch.float32: "float", torch.float64: "double"}
ARRAYS = 16  # the most that a kernel takes
Arrays = ctypes.c_int64 * (4 * ARRAYS)
Plain = int | float | bool


class Sizes(ctypes.Structure):
    """As in job.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("B", "H", "T", "C", "M", "logs", "threads")),
        *((name, ctypes.c_int64) for name in ("block", "columns", "causal", "window")),
        ("scale", ctypes.c_double),
    )


@torch.compiler.assume_constant_result
def ready() -> bool:
    """The kernels are built and loaded."""
    return status().active


def serves(x: Tensor) -> bool:
    """The kernels can compute with tensors like this one."""
    return x.dtype in TYPES and x.device.type == "cpu" and ready()


@lru_cache(maxsize=64)
def _kernel(name: str, dtype: torch.dtype) -> Any:
    return getattr(status().library, f"attnlab_{name}_{TYPES[dtype]}")


def run(kernel: str, arrays: Sequence[Tensor | None], like: Tensor, **sizes: Plain) -> None:
    """Call a kernel with its arrays in the order of job.h, on the tokens of `like` (B, H, T, _)."""
    B, H, T = like.shape[:3]
    places: list[int] = []
    for x in arrays:
        if x is None or not x.numel():
            places += (0, 0, 0, 0)
        else:
            places += (x.data_ptr(), *(*x.stride(), 0, 0)[:3])
    given = Sizes(B=B, H=H, T=T, threads=torch.get_num_threads(), **sizes)
    if _kernel(kernel, like.dtype)(ctypes.byref(given), Arrays(*places)):
        raise MemoryError(f"{kernel}: no memory to work in, for {B} x {H} x {T} tokens")


def most_scratch() -> int:
    """Bytes that kernels worked in at once, at most, since this was last asked."""
    library = status().library
    if library is None:
        return 0
    library.attnlab_most_scratch.restype = ctypes.c_int64
    return int(library.attnlab_most_scratch())


def dense(x: Tensor) -> Tensor:
    """The numbers of a token must lie side by side; tokens may lie anywhere."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def all_dense(inputs: Sequence[Any]) -> list[Any]:
    """The same with dense tensors; what is no tensor stays."""
    return [dense(x) if isinstance(x, Tensor) else x for x in inputs]
