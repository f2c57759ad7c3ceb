"""Kernel attention in C: the causal scan, sums over all keys, and queries that read them.

Letters: B batch, H heads, T tokens, C features (or 1 for logs that all features of a token share),
M value size, P pieces of a sequence.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab._compiling import is_mapped
from attnlab.mechanisms._compiled.calls import all_dense, dense, run
from attnlab.mechanisms._compiled.operators import (
    allocate_gradients,
    operator,
    register_gradient,
    require,
)
from attnlab.mechanisms._scan import Features

CHUNK = 24  # tokens per piece, as in kernels.c
Signs = Tensor | None


def causal(query: Features, key: Features, value: Tensor) -> Tensor:
    """`_scan.causal_scan` on (B, H, T, ...) tensors."""
    return torch.ops.attnlab.causal(*query, *key, value)[0]


def causal_projected(
    q: Tensor, k: Tensor, value: Tensor, directions: Tensor, keys: Tensor | None, half: float
) -> Tensor:
    """The same with the logs w.q and w.k - half |k|^2 of q and k (B, H, T, D), for the rows w of
    `directions` (C, D), which get no gradient. `keys` (B, T) is False for padding."""
    return torch.ops.attnlab.projected(q, k, value, directions, keys, half)[0]


def sums(key: Features, value: Tensor) -> tuple[Tensor, Tensor]:
    """sum of phi(k) [v, 1] (B, H, C, M+1) relative to the peak (B, H, 1, C) of each feature."""
    return torch.ops.attnlab.sums(*key, value)


def read(query: Features, sums: Tensor, peak: Tensor) -> Tensor:
    """The outputs (B, H, T, M) of queries (B, H, T, C) that read such sums."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or is_mapped():
        return torch.ops.attnlab.read(*query, sums, peak)[0]
    sign, log = all_dense(query)  # a decoding step, where the dispatcher costs more than the kernel
    out = log.new_empty((*log.shape[:3], sums.shape[3] - 1))
    if out.numel():
        _read(sign, log, sums, peak, out, None)
    return out


def absorb_in_place(key: Features, value: Tensor, sums: Tensor, peak: Tensor) -> None:
    """Add one token (B, H, 1, ...) to contiguous sums and their peak, in place."""
    sign = None if key.sign is None else dense(key.sign)
    arrays = (None, None, sign, dense(key.log), dense(value), None, None, peak, sums)
    run("absorb", arrays, key.log, **_sizes(key.sign, key.log, value.shape[3]))


def _sizes(sign: Signs, log: Tensor, width: int) -> dict[str, int]:
    C, logs = (log if sign is None else sign).shape[3], log.shape[3]
    require(logs in (1, C), f"a log for each of {C} features or one for all, not {logs}")
    return {"C": C, "logs": logs, "M": width}


def _sizes_with(sign: Signs, log: Tensor, sums: Tensor, width: int) -> dict[str, int]:
    sizes = _sizes(sign, log, width)
    fits = sums.shape[2:] == (sizes["C"], width + 1)
    require(fits, f"sums of {sizes['C']} features, {width} values and a one")
    return sizes


# Causal attention


def _allocate_causal(
    qs: Signs, ql: Tensor, ks: Signs, kl: Tensor, value: Tensor
) -> tuple[Tensor, ...]:
    """out, bottom (B, H, T, 1), peaks (B, H, P, C)"""
    del qs, ql, ks
    B, H, T, _ = value.shape
    peaks = value.new_empty(B, H, -(-T // CHUNK), kl.shape[3])
    return torch.empty_like(value), value.new_empty(B, H, T, 1), peaks


def _causal(qs: Signs, ql: Tensor, ks: Signs, kl: Tensor, value: Tensor, *results: Tensor) -> None:
    require((qs is None) == (ks is None), "signs of queries and of keys, or of neither")
    run("causal", (qs, ql, ks, kl, value, *results), kl, **_sizes(ks, kl, value.shape[3]))


def _allocate_causal_backward(*inputs: Any) -> tuple[Tensor, ...]:
    return allocate_gradients(*inputs[:5])


def _causal_backward(
    qs: Signs, ql: Tensor, ks: Signs, kl: Tensor, value: Tensor, *rest: Tensor
) -> None:
    (out, bottom, peaks, grad), grads = rest[:4], rest[4:]
    require((qs is None) == (ks is None), "signs of queries and of keys, or of neither")
    require(peaks.shape[2] == -(-kl.shape[2] // CHUNK), f"a peak for each {CHUNK} tokens")
    arrays = (qs, ql, ks, kl, value, out, bottom, peaks, None, grad, *grads)
    run("causal_backward", arrays, kl, **_sizes(ks, kl, value.shape[3]))


def _causal_gradients(*saved: Any) -> tuple[Signs, ...]:
    d_qs, d_ql, d_ks, d_kl, d_value = torch.ops.attnlab.causal_backward(*saved)
    signed = saved[0] is not None
    return d_qs if signed else None, d_ql, d_ks if signed else None, d_kl, d_value


CAUSAL_INPUTS = (
    "Tensor? query_sign, Tensor query_log, Tensor? key_sign, Tensor key_log, Tensor value"
)
RESULTS = "Tensor out, Tensor bottom, Tensor peaks, Tensor grad"
INPUTS = "BHTC BHTL BHTC BHTL BHTM"
operator("causal", CAUSAL_INPUTS, 3, INPUTS, _allocate_causal, _causal)
operator(
    "causal_backward",
    f"{CAUSAL_INPUTS}, {RESULTS}",
    5,
    f"{INPUTS} BHTM BHT1 BHPL BHTM",
    _allocate_causal_backward,
    _causal_backward,
)
register_gradient("causal", _causal_gradients)


# Causal attention with logs that are computed from q and k


def _allocate_projected(
    q: Tensor, k: Tensor, value: Tensor, directions: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    del k, rest
    logs = value.new_empty(0, 0, 0, len(directions))
    return _allocate_causal(None, q, None, logs, value)


def _projected(
    q: Tensor, k: Tensor, value: Tensor, directions: Tensor, keys: Signs, half: float,
    *results: Tensor,
) -> None:  # fmt: skip
    arrays = (None, q, None, k, value, *results, directions, *(None,) * 6, keys)
    run("causal", arrays, k, **_projected_sizes(value, directions), scale=half)


def _allocate_projected_backward(*inputs: Any) -> tuple[Tensor, ...]:
    return allocate_gradients(*inputs[:3])


def _projected_backward(
    q: Tensor, k: Tensor, value: Tensor, directions: Tensor, keys: Signs, half: float,
    *rest: Tensor,
) -> None:  # fmt: skip
    out, bottom, peaks, grad, d_q, d_k, d_value = rest
    require(peaks.shape[2] == -(-k.shape[2] // CHUNK), f"a peak for each {CHUNK} tokens")
    results = (out, bottom, peaks, directions, grad, None, d_q, None, d_k, d_value, keys)
    sizes = _projected_sizes(value, directions)
    run("causal_backward", (None, q, None, k, value, *results), k, **sizes, scale=half)


def _projected_sizes(value: Tensor, directions: Tensor) -> dict[str, int]:
    C, D = directions.shape
    return {"C": C, "logs": C, "M": value.shape[3], "columns": D}


def _projected_gradients(*saved: Any) -> tuple[Tensor | None, ...]:
    return (*torch.ops.attnlab.projected_backward(*saved), None, None, None)


PROJECTED_INPUTS = "Tensor q, Tensor k, Tensor value, Tensor directions, Tensor? keys, float half"
PROJECTED_LAYOUT = "BHTD BHTD BHTM CD BT:bool"
operator("projected", PROJECTED_INPUTS, 3, PROJECTED_LAYOUT, _allocate_projected, _projected)
operator(
    "projected_backward",
    f"{PROJECTED_INPUTS}, {RESULTS}",
    3,
    f"{PROJECTED_LAYOUT} BHTM BHT1 BHPC BHTM",
    _allocate_projected_backward,
    _projected_backward,
)
register_gradient("projected", _projected_gradients)


# Sums over all keys


def _allocate_sums(ks: Signs, kl: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """sums (B, H, C, M+1), peak (B, H, 1, C)"""
    B, H, _, M = value.shape
    C = (kl if ks is None else ks).shape[3]
    return value.new_empty(B, H, C, M + 1), value.new_empty(B, H, 1, kl.shape[3])


def _sums(ks: Signs, kl: Tensor, value: Tensor, sums: Tensor, peak: Tensor) -> None:
    arrays = (None, None, ks, kl, value, None, None, peak, sums)
    run("sums", arrays, kl, **_sizes(ks, kl, value.shape[3]))


def _allocate_sums_backward(*inputs: Any) -> tuple[Tensor, ...]:
    return allocate_gradients(*inputs[:3])


def _sums_backward(ks: Signs, kl: Tensor, value: Tensor, *rest: Tensor) -> None:
    peak, sums_grad, *grads = rest
    peak = peak.contiguous()
    arrays = (None, None, ks, kl, value, None, None, peak, None, None, None, None, *grads)
    sizes = _sizes_with(ks, kl, sums_grad, value.shape[3])
    run("sums_backward", (*arrays, sums_grad.contiguous()), kl, **sizes)


def _sums_gradients(
    ks: Signs, kl: Tensor, value: Tensor, sums: Tensor, peak: Tensor, grad: Tensor
) -> tuple[Signs, ...]:
    del sums
    d_ks, d_kl, d_value = torch.ops.attnlab.sums_backward(ks, kl, value, peak, grad)
    return None if ks is None else d_ks, d_kl, d_value


SUMS_INPUTS = "Tensor? key_sign, Tensor key_log, Tensor value"
operator("sums", SUMS_INPUTS, 2, "BHTC BHTL BHTM", _allocate_sums, _sums)
operator(
    "sums_backward",
    f"{SUMS_INPUTS}, Tensor peak, Tensor grad",
    3,
    "BHTC BHTL BHTM BH1L BHCN",
    _allocate_sums_backward,
    _sums_backward,
)
register_gradient("sums", _sums_gradients)


# Queries that read the sums


def _allocate_read(qs: Signs, ql: Tensor, sums: Tensor, peak: Tensor) -> tuple[Tensor, ...]:
    """out (B, H, T, M), bottom (B, H, T, 1)"""
    del qs, peak
    shape = ql.shape[:3]
    return ql.new_empty(*shape, sums.shape[3] - 1), ql.new_empty(*shape, 1)


def _read(qs: Signs, ql: Tensor, sums: Tensor, peak: Tensor, *results: Signs) -> None:
    arrays = (qs, ql, None, None, None, *results, peak.contiguous(), sums.contiguous())
    run("read", arrays, ql, **_sizes_with(qs, ql, sums, sums.shape[3] - 1))


def _allocate_read_backward(
    qs: Signs, ql: Tensor, sums: Tensor, *rest: Tensor
) -> tuple[Tensor, ...]:
    del rest
    return (*allocate_gradients(qs, ql), sums.new_empty(sums.shape))


def _read_backward(qs: Signs, ql: Tensor, sums: Tensor, peak: Tensor, *rest: Tensor) -> None:
    out, bottom, grad, d_qs, d_ql, d_sums = rest
    sums, peak = sums.contiguous(), peak.contiguous()
    arrays = (qs, ql, None, None, None, out, bottom, peak, sums, grad, d_qs, d_ql)
    sizes = _sizes_with(qs, ql, sums, out.shape[3])
    run("read_backward", (*arrays, None, None, None, d_sums), ql, **sizes)


def _read_gradients(*saved: Any) -> tuple[Signs, ...]:
    d_qs, d_ql, d_sums = torch.ops.attnlab.read_backward(*saved)
    return None if saved[0] is None else d_qs, d_ql, d_sums, None


READ_INPUTS = "Tensor? query_sign, Tensor query_log, Tensor sums, Tensor peak"
operator("read", READ_INPUTS, 2, "BHTC BHTL BHCN BH1L", _allocate_read, _read)
operator(
    "read_backward",
    f"{READ_INPUTS}, Tensor out, Tensor bottom, Tensor grad",
    3,
    "BHTC BHTL BHCN BH1L BHTM BHT1 BHTM",
    _allocate_read_backward,
    _read_backward,
)
register_gradient("read", _read_gradients)
