"""Call the C kernels with tensors.

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

from attnlab._compiling import constant_result
from attnlab.mechanism import needs_definition_gradients
from attnlab.mechanisms._compiled.build import note_if_off, status

TYPES = {torch.float32: "float", torch.float64: "double"}
# As in job.h. Packed bytes, because filling a ctypes.Structure takes longer than a decoding step.
SIZES = struct.Struct("12qd")
ARRAYS = struct.Struct("64q")  # at most 16 arrays: address and three strides each
NO_ARRAYS = (0,) * 64
LARGE = 1 << 22  # bytes from which new memory uses large pages, as in NumPy


@constant_result
def is_built() -> bool:
    """Whether the kernels are built and loaded; if not, a note says why, once."""
    note_if_off()
    return status().active


def can_run(x: Tensor) -> bool:
    """Whether the kernels support tensors like this one."""
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
    sinks: int = 0,
    scale: float = 0.0,
) -> None:
    """Call a kernel with its arrays in the order of job.h, on the tokens of `like` (B, H, T, _)."""
    B, H, T = like.shape[:3]
    fields: list[int] = []
    for x in arrays:
        if x is None or not x.numel():
            fields += NO_ARRAYS[:4]
        else:
            fields += (x.data_ptr(), *(*x.stride(), 0, 0)[:3])
    threads = torch.get_num_threads()
    blocks = (block, columns, causal, window, sinks)
    sizes = SIZES.pack(B, H, T, C, M, logs, threads, *blocks, scale)
    packed = ARRAYS.pack(*fields, *NO_ARRAYS[len(fields) :])
    if _kernel(kernel, like.dtype)(sizes, packed):
        raise MemoryError(f"{kernel}: not enough memory for {B} x {H} x {T} tokens")


def peak_scratch_bytes() -> int:
    """The most bytes of scratch memory that kernels used since the last call."""
    library = status().library
    if library is None:
        return 0
    library.attnlab_most_scratch.restype = ctypes.c_int64
    return int(library.attnlab_most_scratch())


def use_large_pages(tensors: Sequence[Tensor]) -> None:
    """Request large pages for tensors that were not written to yet: see pages.h."""
    for x in tensors:
        size = x.numel() * x.element_size()
        if size >= LARGE:
            address, length = ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(size)
            status().library.attnlab_large_pages(address, length)  # type: ignore[union-attr]


def dense(x: Tensor) -> Tensor:
    """The tensor with contiguous numbers in each token; tokens may have any stride."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def all_dense(inputs: Sequence[Any]) -> list[Any]:
    """The inputs with dense tensors; other values stay unchanged."""
    return [dense(x) if isinstance(x, Tensor) else x for x in inputs]
