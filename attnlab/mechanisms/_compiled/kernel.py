"""Kernel attention in C: the causal scan, sums over all keys, and queries that read them.

Letters: B batch, H heads, T tokens, C features (or 1 for logs that all features of a token share),
M value size, P pieces of a sequence.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab.mechanisms._compiled.calls import all_dense, dense, run
from attnlab.mechanisms._compiled.operators import differentiable, gradients_of, operator, require
from attnlab.mechanisms._scan import Features

CHUNK = 24  # tokens of a piece, as in kernels.c
Signs = Tensor | None


def causal(query: Features, key: Features, value: Tensor) -> Tensor:
    """`scan.causal_scan` on (B, H, T, ...) tensors."""
    return torch.ops.attnlab.causal(*query, *key, value)[0]


def sums(key: Features, value: Tensor) -> tuple[Tensor, Tensor]:
    """sum of phi(k) [v, 1] (B, H, C, M+1) relative to the peak (B, H, 1, C) of each feature."""
    return torch.ops.attnlab.sums(*key, value)


def read(query: Features, sums: Tensor, peak: Tensor) -> Tensor:
    """What queries (B, H, T, C) read from such sums: (B, H, T, M)."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return torch.ops.attnlab.read(*query, sums, peak)[0]
    sign, log = all_dense(query)  # a decoding step: the dispatcher costs more than the kernel
    out = log.new_empty((*log.shape[:3], sums.shape[3] - 1))
    if out.numel():
        _read(sign, log, sums, peak, out, None)
    return out


def absorb_in_place(key: Features, value: Tensor, sums: Tensor, peak: Tensor) -> None:
    """One token (B, H, 1, ...) more in contiguous sums and their peak, written over."""
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


def _causal_room(qs: Signs, ql: Tensor, ks: Signs, kl: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """out, bottom (B, H, T, 1), peaks (B, H, P, C)"""
    del qs, ql, ks
    B, H, T, _ = value.shape
    peaks = value.new_empty(B, H, -(-T // CHUNK), kl.shape[3])
    return torch.empty_like(value), value.new_empty(B, H, T, 1), peaks


def _causal(qs: Signs, ql: Tensor, ks: Signs, kl: Tensor, value: Tensor, *results: Tensor) -> None:
    require((qs is None) == (ks is None), "signs of queries and of keys, or of neither")
    run("causal", (qs, ql, ks, kl, value, *results), kl, **_sizes(ks, kl, value.shape[3]))


def _causal_back_room(*given: Any) -> tuple[Tensor, ...]:
    return gradients_of(*given[:5])


def _causal_back(
    qs: Signs, ql: Tensor, ks: Signs, kl: Tensor, value: Tensor, *rest: Tensor
) -> None:
    (out, bottom, peaks, grad), grads = rest[:4], rest[4:]
    require((qs is None) == (ks is None), "signs of queries and of keys, or of neither")
    require(peaks.shape[2] == -(-kl.shape[2] // CHUNK), f"a peak for each {CHUNK} tokens")
    arrays = (qs, ql, ks, kl, value, out, bottom, peaks, None, grad, *grads)
    run("causal_backward", arrays, kl, **_sizes(ks, kl, value.shape[3]))


def _causal_chain(*saved: Any) -> tuple[Signs, ...]:
    d_qs, d_ql, d_ks, d_kl, d_value = torch.ops.attnlab.causal_backward(*saved)
    signed = saved[0] is not None
    return d_qs if signed else None, d_ql, d_ks if signed else None, d_kl, d_value


FIVE = "Tensor? query_sign, Tensor query_log, Tensor? key_sign, Tensor key_log, Tensor value"
FOUND = "Tensor out, Tensor bottom, Tensor peaks, Tensor grad"
INPUTS = "BHTC BHTL BHTC BHTL BHTM"
operator("causal", FIVE, 3, INPUTS, _causal_room, _causal)
operator(
    "causal_backward",
    f"{FIVE}, {FOUND}",
    5,
    f"{INPUTS} BHTM BHT1 BHPL BHTM",
    _causal_back_room,
    _causal_back,
)
differentiable("causal", _causal_chain)


# Sums over all keys


def _sums_room(ks: Signs, kl: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """sums (B, H, C, M+1), peak (B, H, 1, C)"""
    B, H, _, M = value.shape
    C = (kl if ks is None else ks).shape[3]
    return value.new_empty(B, H, C, M + 1), value.new_empty(B, H, 1, kl.shape[3])


def _sums(ks: Signs, kl: Tensor, value: Tensor, sums: Tensor, peak: Tensor) -> None:
    arrays = (None, None, ks, kl, value, None, None, peak, sums)
    run("sums", arrays, kl, **_sizes(ks, kl, value.shape[3]))


def _sums_back_room(*given: Any) -> tuple[Tensor, ...]:
    return gradients_of(*given[:3])


def _sums_back(ks: Signs, kl: Tensor, value: Tensor, *rest: Tensor) -> None:
    peak, sums_grad, *grads = rest
    peak = peak.contiguous()
    arrays = (None, None, ks, kl, value, None, None, peak, None, None, None, None, *grads)
    sizes = _sizes_with(ks, kl, sums_grad, value.shape[3])
    run("sums_backward", (*arrays, sums_grad.contiguous()), kl, **sizes)


def _sums_chain(
    ks: Signs, kl: Tensor, value: Tensor, sums: Tensor, peak: Tensor, grad: Tensor
) -> tuple[Signs, ...]:
    del sums
    d_ks, d_kl, d_value = torch.ops.attnlab.sums_backward(ks, kl, value, peak, grad)
    return None if ks is None else d_ks, d_kl, d_value


THREE = "Tensor? key_sign, Tensor key_log, Tensor value"
operator("sums", THREE, 2, "BHTC BHTL BHTM", _sums_room, _sums)
operator(
    "sums_backward",
    f"{THREE}, Tensor peak, Tensor grad",
    3,
    "BHTC BHTL BHTM BH1L BHCN",
    _sums_back_room,
    _sums_back,
)
differentiable("sums", _sums_chain)


# Queries that read them


def _read_room(qs: Signs, ql: Tensor, sums: Tensor, peak: Tensor) -> tuple[Tensor, ...]:
    """out (B, H, T, M), bottom (B, H, T, 1)"""
    del qs, peak
    shape = ql.shape[:3]
    return ql.new_empty(*shape, sums.shape[3] - 1), ql.new_empty(*shape, 1)


def _read(qs: Signs, ql: Tensor, sums: Tensor, peak: Tensor, *results: Signs) -> None:
    arrays = (qs, ql, None, None, None, *results, peak.contiguous(), sums.contiguous())
    run("read", arrays, ql, **_sizes_with(qs, ql, sums, sums.shape[3] - 1))


def _read_back_room(qs: Signs, ql: Tensor, sums: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    del rest
    return (*gradients_of(qs, ql), sums.new_empty(sums.shape))


def _read_back(qs: Signs, ql: Tensor, sums: Tensor, peak: Tensor, *rest: Tensor) -> None:
    out, bottom, grad, d_qs, d_ql, d_sums = rest
    sums, peak = sums.contiguous(), peak.contiguous()
    arrays = (qs, ql, None, None, None, out, bottom, peak, sums, grad, d_qs, d_ql)
    sizes = _sizes_with(qs, ql, sums, out.shape[3])
    run("read_backward", (*arrays, None, None, None, d_sums), ql, **sizes)


def _read_chain(*saved: Any) -> tuple[Signs, ...]:
    d_qs, d_ql, d_sums = torch.ops.attnlab.read_backward(*saved)
    return None if saved[0] is None else d_qs, d_ql, d_sums, None


FOUR = "Tensor? query_sign, Tensor query_log, Tensor sums, Tensor peak"
operator("read", FOUR, 2, "BHTC BHTL BHCN BH1L", _read_room, _read)
operator(
    "read_backward",
    f"{FOUR}, Tensor out, Tensor bottom, Tensor grad",
    3,
    "BHTC BHTL BHCN BH1L BHTM BHT1 BHTM",
    _read_back_room,
    _read_back,
)
differentiable("read", _read_chain)
