"""The C kernels as PyTorch operators, with gradients, and with shapes for `torch.compile`.

A sign that is None has a gradient of no elements, since an operator cannot return None.

Letters: B batch, H heads, T tokens, C features (or 1 for logs that all features of a token share),
M value size, P pieces of a sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnlab.mechanisms.compiled.calls import dense, maybe_dense, run
from attnlab.mechanisms.scan import Features

CHUNK = 24  # tokens of a piece, as in kernels.c
Signs = Tensor | None
_library = torch.library.Library("attnlab", "DEF")


def causal(query: Features, key: Features, value: Tensor) -> Tensor:
    """`scan.causal_scan` on (B, H, T, ...) tensors."""
    return torch.ops.attnlab.causal(*query, *key, value)[0]


def sums(key: Features, value: Tensor) -> tuple[Tensor, Tensor]:
    """sum of phi(k) [v, 1] (B, H, C, M+1) relative to the peak (B, H, 1, C) of each feature."""
    return torch.ops.attnlab.sums(*key, value)


def read(query: Features, sums: Tensor, peak: Tensor) -> Tensor:
    """What queries (B, H, T, C) read from such sums: (B, H, T, M)."""
    return torch.ops.attnlab.read(*query, sums, peak)[0]


def operator(
    name: str, takes: str, gives: int, room: Callable[..., Any], compute: Callable[..., Any]
) -> None:
    """Define attnlab::name; `room` allocates what it returns, `compute` fills that."""
    many = ", ".join(["Tensor"] * gives)
    _library.define(f"{name}({takes}) -> ({many})")

    def call(*inputs: Any) -> Any:
        inputs = tuple(maybe_dense(x) for x in inputs)
        results = room(*inputs)
        compute(*inputs, *results)
        return results

    def shapes(*inputs: Any) -> Any:
        return room(*(maybe_dense(x) for x in inputs))

    _library.impl(name, call, "CPU")
    torch.library.register_fake(f"attnlab::{name}", shapes, lib=_library)


def gradients_of(*inputs: Signs) -> tuple[Tensor, ...]:
    """Room for the gradient of each."""
    some = next(x for x in inputs if x is not None)
    return tuple(some.new_empty(0) if x is None else torch.empty_like(dense(x)) for x in inputs)


def differentiable(
    name: str, outputs: int, backward: Callable[..., tuple[Tensor | None, ...]]
) -> None:
    """The first `outputs` results have gradients; `backward` gets them, all inputs and results."""

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output[outputs:])
        ctx.save_for_backward(*inputs, *output)

    def back(ctx: Any, *grads: Any) -> Any:
        return backward(*ctx.saved_tensors, *grads[:outputs])

    torch.library.register_autograd(f"attnlab::{name}", back, setup_context=keep, lib=_library)


# Causal attention


def _causal_room(qs: Signs, ql: Tensor, ks: Signs, kl: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """out, bottom (B, H, T, 1), peaks (B, H, P, C)"""
    B, H, T, _ = value.shape
    del qs, ql, ks
    pieces = value.new_empty(B, H, -(-T // CHUNK), kl.shape[3])
    return torch.empty_like(value), value.new_empty(B, H, T, 1), pieces


def _causal(qs: Signs, ql: Tensor, ks: Signs, kl: Tensor, value: Tensor, *results: Tensor) -> None:
    inputs = {"query_sign": qs, "query_log": ql, "key_sign": ks, "key_log": kl, "value": value}
    found = dict(zip(("out", "bottom", "peaks"), results, strict=True))
    run("causal", ks, kl, value.shape[3], **inputs, **found)


def _causal_grads(
    qs: Signs, ql: Tensor, ks: Signs, kl: Tensor, value: Tensor, *rest: Tensor
) -> tuple[Tensor, ...]:
    del rest
    return gradients_of(qs, ql, ks, kl, value)


def _causal_backward(
    qs: Signs, ql: Tensor, ks: Signs, kl: Tensor, value: Tensor, *rest: Tensor
) -> None:
    inputs = {"query_sign": qs, "query_log": ql, "key_sign": ks, "key_log": kl, "value": value}
    names = ("out", "bottom", "peaks", "grad", *(f"{name}_grad" for name in inputs))
    found = dict(zip(names, rest, strict=True))
    run("causal_backward", ks, kl, value.shape[3], **inputs, **found)


FIVE = "Tensor? query_sign, Tensor query_log, Tensor? key_sign, Tensor key_log, Tensor value"
operator("causal", FIVE, 3, _causal_room, _causal)
operator(
    "causal_backward",
    f"{FIVE}, Tensor out, Tensor bottom, Tensor peaks, Tensor grad",
    5,
    _causal_grads,
    _causal_backward,
)


def _causal_chain(*saved: Any) -> tuple[Tensor | None, ...]:
    signed = saved[0] is not None
    d_qs, d_ql, d_ks, d_kl, d_value = torch.ops.attnlab.causal_backward(*saved)
    return d_qs if signed else None, d_ql, d_ks if signed else None, d_kl, d_value


differentiable("causal", 1, _causal_chain)


# Sums over all keys


def _sums_room(ks: Signs, kl: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """sums (B, H, C, M+1), peak (B, H, 1, C)"""
    B, H, _, M = value.shape
    C = (kl if ks is None else ks).shape[3]
    return value.new_empty(B, H, C, M + 1), value.new_empty(B, H, 1, kl.shape[3])


def _sums(ks: Signs, kl: Tensor, value: Tensor, sums: Tensor, peak: Tensor) -> None:
    inputs = {"key_sign": ks, "key_log": kl, "value": value}
    run("sums", ks, kl, value.shape[3], **inputs, sums=sums, peaks=peak)


def _sums_grads(ks: Signs, kl: Tensor, value: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    del rest
    return gradients_of(ks, kl, value)


def _sums_backward(ks: Signs, kl: Tensor, value: Tensor, *rest: Tensor) -> None:
    inputs = {"key_sign": ks, "key_log": kl, "value": value}
    names = ("peaks", "sums_grad", *(f"{name}_grad" for name in inputs))
    found = dict(zip(names, rest, strict=True))
    run("sums_backward", ks, kl, value.shape[3], **inputs, **found)


THREE = "Tensor? key_sign, Tensor key_log, Tensor value"
operator("sums", THREE, 2, _sums_room, _sums)
operator("sums_backward", f"{THREE}, Tensor peak, Tensor sums_grad", 3, _sums_grads, _sums_backward)


def _sums_chain(
    ks: Signs, kl: Tensor, value: Tensor, sums: Tensor, peak: Tensor, grad: Tensor
) -> tuple[Tensor | None, ...]:
    del sums
    d_ks, d_kl, d_value = torch.ops.attnlab.sums_backward(ks, kl, value, peak, grad.contiguous())
    return None if ks is None else d_ks, d_kl, d_value


differentiable("sums", 1, _sums_chain)


# Queries that read them


def _read_room(qs: Signs, ql: Tensor, sums: Tensor, peak: Tensor) -> tuple[Tensor, ...]:
    """out (B, H, T, M), bottom (B, H, T, 1)"""
    del qs, peak
    shape = ql.shape[:3]
    return ql.new_empty(*shape, sums.shape[3] - 1), ql.new_empty(*shape, 1)


def _read(qs: Signs, ql: Tensor, sums: Tensor, peak: Tensor, *results: Tensor) -> None:
    inputs = {"query_sign": qs, "query_log": ql, "sums": sums, "peaks": peak}
    found = dict(zip(("out", "bottom"), results, strict=True))
    run("read", qs, ql, sums.shape[3] - 1, **inputs, **found)


def _read_grads(qs: Signs, ql: Tensor, sums: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    del rest
    return (*gradients_of(qs, ql), sums.new_empty(sums.shape))


def _read_backward(qs: Signs, ql: Tensor, sums: Tensor, peak: Tensor, *rest: Tensor) -> None:
    inputs = {"query_sign": qs, "query_log": ql, "sums": sums, "peaks": peak}
    names = ("out", "bottom", "grad", "query_sign_grad", "query_log_grad", "sums_grad")
    found = dict(zip(names, rest, strict=True))
    run("read_backward", qs, ql, sums.shape[3] - 1, **inputs, **found)


FOUR = "Tensor? query_sign, Tensor query_log, Tensor sums, Tensor peak"
operator("read", FOUR, 2, _read_room, _read)
operator(
    "read_backward",
    f"{FOUR}, Tensor out, Tensor bottom, Tensor grad",
    3,
    _read_grads,
    _read_backward,
)


def _read_chain(*saved: Any) -> tuple[Tensor | None, ...]:
    d_qs, d_ql, d_sums = torch.ops.attnlab.read_backward(*saved)
    return None if saved[0] is None else d_qs, d_ql, d_sums, None


differentiable("read", 1, _read_chain)
