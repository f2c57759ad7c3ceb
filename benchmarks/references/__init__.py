"""The algorithms of other libraries for causal linear attention, written afresh, to compare with.

All take phi(q), phi(k) (B, H, T, C) as numbers and v (B, H, T, M), and include the normalizer;
none has a stabilizer. Letters: B batch, H heads, T tokens, C features, M value size, L chunk.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SOURCE = Path(__file__).parent / "recurrence.c"


def normalized(out: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return out / (q * k.cumsum(2)).sum(-1, keepdim=True)


# fast-transformers: a recurrence in C++, token by token


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    folder = tempfile.mkdtemp(prefix="attnlab-reference-")
    flags = ["-O3", "-ffast-math", "-march=native", "-fopenmp", "-fPIC", "-shared"]
    library = Path(folder) / "recurrence.so"
    subprocess.run(["cc", *flags, "-o", library, SOURCE], check=True)
    return ctypes.CDLL(str(library))


def _call(name: str, tensors: list[Tensor]) -> None:
    B, H, T, C = tensors[0].shape
    sizes = (B * H, T, C, tensors[2].shape[3])
    pointers = [ctypes.c_void_p(x.data_ptr()) for x in tensors]
    getattr(_library(), name)(*pointers, *map(ctypes.c_long, sizes))


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        out = torch.empty_like(v)
        _call("forward", [q, k, v, out])
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        q, k, v = ctx.saved_tensors
        grads = [torch.empty_like(x) for x in (q, k, v)]
        _call("backward", [q, k, v, grad.contiguous(), *grads])
        return tuple(grads)


def recurrence(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As fast-transformers: out_t = q_t S_t, S_t = S_(t-1) + k_t v_t^T, in C."""
    return normalized(_Recurrence.apply(q, k, v), q, k)


# flash-linear-attention: chunks, all at once, in torch


def chunks(q: Tensor, k: Tensor, v: Tensor, L: int = 64) -> Tensor:
    """As flash-linear-attention's torch form: the sums before every chunk at once, by cumsum."""
    B, H, T, C = q.shape
    assert T % L == 0
    M = v.shape[3]
    q_, k_ = (x.view(B, H, T // L, L, C) for x in (q, k))
    v_ = v.view(B, H, T // L, L, M)
    each = k_.mT @ v_  # (B, H, T/L, C, M)
    before = each.cumsum(2) - each
    inside = (q_ @ k_.mT).tril() @ v_
    return normalized((q_ @ before + inside).view(B, H, T, M), q, k)


# performer-pytorch: a running sum of all outer products


def cumulated(q: Tensor, k: Tensor, v: Tensor, L: int = 128) -> Tensor:
    """As performer-pytorch without CUDA: all outer products k v^T of a chunk, then their cumsum."""
    outs, total, state = [], torch.zeros(()), torch.zeros(())
    for start in range(0, q.shape[2], L):
        here = (slice(None), slice(None), slice(start, start + L))
        sums = total + k[here].cumsum(2)  # (B, H, L, C)
        products = k[here][..., None] * v[here][..., None, :]  # (B, H, L, C, M)
        states = state + products.cumsum(2)
        bottom = (q[here] * sums).sum(-1, keepdim=True)
        outs.append((q[here][..., None, :] @ states)[..., 0, :] / bottom)
        total, state = sums[:, :, -1:], states[:, :, -1:]
    return torch.cat(outs, dim=2)


# Decay and the delta rule: chunks in torch, as in the papers on GLA and DeltaNet


def gated_chunks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    strength: Tensor | None,
    delta: bool,
    beta: float,
) -> Tensor:
    """Chunks of 64 tokens, 16 with a decay per channel; everything but the states at once.

    `log_decay` is (B, H, T) or (B, H, T, C), `strength` (B, H, T). Keys are divided by their decay
    since the start of the chunk, so large decays overflow.
    """
    B, H, T, C = q.shape
    L = 16 if log_decay is not None and log_decay.dim() == 4 else 64
    assert T % L == 0
    q_, k_, v_ = (x.reshape(B, H, T // L, L, -1) for x in (beta * q, k, v))
    since = torch.zeros(())
    if log_decay is not None:
        since = log_decay.reshape(B, H, T // L, L, -1).cumsum(3)  # (B, H, T/L, L, 1 or C)
    grown, query = k_ * (-since).exp(), q_ * since.exp()
    inside = (query @ grown.mT).tril()  # (B, H, T/L, L, L)
    write = v_ if strength is None else v_ * strength.reshape(B, H, T // L, L, 1)
    read = None
    if delta:
        weight = strength.reshape(B, H, T // L, L, 1) if strength is not None else torch.ones(())
        key = weight * k_ * since.exp()
        overlap = (key @ grown.mT).tril(-1) + torch.eye(L)
        both = torch.cat([write, key], dim=-1)
        solved = torch.linalg.solve_triangular(overlap, both, upper=False, unitriangular=True)
        write, read = solved.split([v.shape[3], C], dim=-1)
    last = since[..., -1:, :] if log_decay is not None else since
    left = k_ * (last - since).exp()  # (B, H, T/L, L, C)
    state, outs = v.new_zeros(B, H, C, v.shape[3]), []
    for n in range(T // L):
        new = write[:, :, n] if read is None else write[:, :, n] - read[:, :, n] @ state
        outs.append(inside[:, :, n] @ new + query[:, :, n] @ state)
        if log_decay is not None:
            state = last[:, :, n].mT.exp() * state
        state = state + left[:, :, n].mT @ new
    return torch.cat(outs, dim=2)
