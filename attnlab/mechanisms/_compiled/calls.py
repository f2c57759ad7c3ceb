"""Calls of the C kernels with tensors.

Letters: B batch, H heads, T tokens.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from attnlab.mechanism import needs_definition_gradients
from attnlab.mechanisms._compiled.build import status

TYPES = {torch.float32: "float", torch.float64: "double"}
# As in job.h. Packed bytes: a ctypes.Structure takes longer to fill than a step to compute.
SIZES = struct.Struct("11qd")
ARRAYS = struct.Struct("64q")  # 16, the most that a kernel takes: address and three strides
NOWHERE = (0,) * 64
LARGE = 1 << 22  # bytes from which fresh memory is asked for in large pages, as NumPy does


@torch.compiler.assume_constant_result
def is_built() -> bool:
    """The kernels are built and loaded."""
    return status().active


def can_run(x: Tensor) -> bool:
    """The kernels can compute with tensors like this one."""
    return (
        x.dtype in TYPES
        and x.device.type == "cpu"
        and is_built()
        and not needs_definition_gradients()
    )


@lru_cache(maxsize=64)
def _kernel(name: str, dtype: torch.dtype) -> Any:
    return getattr(status().library, f"attnlab_{name}_{TYPES[dtype]}")


def run(
    kernel: str,
    arrays: Sequence[Tensor | None],
    like: Tensor,
    *,
    C: int,
    M: int,
    logs: int = 0,
    block: int = 0,
    columns: int = 0,
    causal: int = 0,
    window: int = 0,
    scale: float = 0.0,
) -> None:
    """Call a kernel with its arrays in the order of job.h, on the tokens of `like` (B, H, T, _)."""
    B, H, T = like.shape[:3]
    places: list[int] = []
    for x in arrays:
        if x is None or not x.numel():
            places += NOWHERE[:4]
        else:
            places += (x.data_ptr(), *(*x.stride(), 0, 0)[:3])
    threads = torch.get_num_threads()
    sizes = SIZES.pack(B, H, T, C, M, logs, threads, block, columns, causal, window, scale)
    where = ARRAYS.pack(*places, *NOWHERE[len(places) :])
    if _kernel(kernel, like.dtype)(sizes, where):
        raise MemoryError(f"{kernel}: no memory to work in, for {B} x {H} x {T} tokens")


def peak_scratch_bytes() -> int:
    """Bytes that kernels worked in at once, at most, since this was last asked."""
    library = status().library
    if library is None:
        return 0
    library.attnlab_most_scratch.restype = ctypes.c_int64
    return int(library.attnlab_most_scratch())


def in_large_pages(fresh: Sequence[Tensor]) -> None:
    """Ask for large pages behind tensors that nobody has written to yet: see pages.h."""
    for x in fresh:
        size = x.numel() * x.element_size()
        if size >= LARGE:
            address, length = ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(size)
            status().library.attnlab_large_pages(address, length)  # type: ignore[union-attr]


def dense(x: Tensor) -> Tensor:
    """The numbers of a token must lie side by side; tokens may lie anywhere."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def all_dense(inputs: Sequence[Any]) -> list[Any]:
    """The same with dense tensors; what is no tensor stays."""
    return [dense(x) if isinstance(x, Tensor) else x for x in inputs]
