"""Calls of the C kernels with tensors.

Letters: B batch, H heads, T tokens, C features (or 1 for logs that all features of a token share),
M value size.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from attnlab.mechanisms.compiled.build import status

ARRAYS = (  # the order of job.h
    "query_sign",
    "query_log",
    "key_sign",
    "key_log",
    "value",
    "out",
    "bottom",
    "peaks",
    "sums",
    "grad",
    "query_sign_grad",
    "query_log_grad",
    "key_sign_grad",
    "key_log_grad",
    "value_grad",
    "sums_grad",
)
PLACE = {name: 4 * place for place, name in enumerate(ARRAYS)}
TYPES = {torch.float32: "float", torch.float64: "double"}
Arrays = ctypes.c_int64 * (4 * len(ARRAYS))
Sizes = ctypes.c_int64 * 7


@torch.compiler.assume_constant_result
def ready() -> bool:
    """The kernels are built and loaded."""
    return status().active


def serves(x: Tensor) -> bool:
    """The kernels can compute with tensors like this one."""
    return x.dtype in TYPES and x.device.type == "cpu" and ready()


def run(kernel: str, sign: Tensor | None, log: Tensor, width: int, **arrays: Tensor | None) -> None:
    """Call a kernel on the tokens of `log` (B, H, T, C), with values of this width."""
    library = status().library
    assert library is not None
    B, H, T, logs = log.shape
    C = logs if sign is None else sign.shape[3]
    places = Arrays()
    for name, x in arrays.items():
        if x is not None and x.numel():
            at = PLACE[name]
            places[at : at + 4] = (x.data_ptr(), *x.stride()[:3])
    sizes = Sizes(B, H, T, C, width, logs, torch.get_num_threads())
    if getattr(library, f"attnlab_{kernel}_{TYPES[log.dtype]}")(sizes, places):
        raise MemoryError(f"{kernel}: no memory for {C} features of {width} values")


def dense(x: Tensor) -> Tensor:
    """The numbers of a token must lie side by side; tokens may lie anywhere."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def maybe_dense(x: Tensor | None) -> Tensor | None:
    return None if x is None else dense(x)
