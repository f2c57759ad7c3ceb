"""Linear attention with decay and the delta rule in C, token by token.

Letters: B batch, H query heads, G key heads, T tokens, C key size, M value size, L decays of a
token (1 or C).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab.mechanisms._compiled.calls import all_dense, run
from attnlab.mechanisms._compiled.operators import (
    allocate_gradients,
    operator,
    register_gradient,
    require,
)

Gate = Tensor | None
REMEMBERED = 32  # tokens of a chunk in the backward pass of the delta rule, as in kernels.c


def attend(
    q: Tensor, k: Tensor, v: Tensor, decay: Gate, strength: Gate, delta: bool, scale: float
) -> Tensor:
    """The outputs (B, H, T, M). `decay` (B, G, T, L) is a logarithm, `strength` is (B, G, T, 1)."""
    inputs = (q, k, v, decay, strength)
    needs_grad = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    keep = delta and needs_grad  # what its backward pass needs
    return torch.ops.attnlab.recurrent(*inputs, delta, scale, keep)[0]


def absorb(
    k: Tensor, v: Tensor, decay: Gate, strength: Gate, delta: bool, first: Tensor | None
) -> Tensor:
    """The state (B, G, C, M) after these tokens, from the state `first` or from zeros."""
    last = v.new_empty(*k.shape[:2], k.shape[3], v.shape[3])
    k, v, decay, strength = all_dense((k, v, decay, strength))
    first = None if first is None else first.contiguous()
    if last.numel():
        arrays = (None, k, v, decay, strength, first, None, last, None, None)
        run("recurrent", arrays, k, **_sizes(k, v, decay, delta, 1), scale=1.0)
    return last


def _queries_per_key(q: Tensor, k: Tensor) -> int:
    require(q.shape[1] % k.shape[1] == 0, "query heads that are a multiple of the key heads")
    return q.shape[1] // k.shape[1]


def _sizes(k: Tensor, v: Tensor, decay: Gate, delta: bool, queries: int) -> dict[str, int]:
    C, logs = k.shape[3], 1 if decay is None else decay.shape[3]
    require(logs in (1, C), f"a decay for each of {C} channels or one for all, not {logs}")
    return {"C": C, "M": v.shape[3], "logs": logs, "causal": int(delta), "columns": queries}


def _allocate(
    q: Tensor, k: Tensor, v: Tensor, decay: Gate, strength: Gate, delta: bool, scale: float,
    keep: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """out (B, H, T, M); to keep: errors (B, G, T, M) and the states before chunks (B, G, P, CM)"""
    del decay, strength, delta, scale
    B, G, T, C = k.shape
    M, tokens, chunks = v.shape[3], T if keep else 0, -(-T // REMEMBERED) if keep else 0
    out = v.new_empty(*q.shape[:3], M)
    return out, v.new_empty(B, G, tokens, M), v.new_empty(B, G, chunks, C * M)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, decay: Gate, strength: Gate, delta: bool, scale: float,
    keep: bool, out: Tensor, errors: Tensor, starts: Tensor,
) -> None:  # fmt: skip
    sizes = _sizes(k, v, decay, delta, _queries_per_key(q, k))
    kept = (errors, starts) if keep else (None, None)
    run("recurrent", (q, k, v, decay, strength, None, out, None, *kept), k, **sizes, scale=scale)


def _allocate_backward(*inputs: Any) -> tuple[Tensor, ...]:
    return allocate_gradients(*inputs[:5])


def _backward(
    q: Tensor, k: Tensor, v: Tensor, decay: Gate, strength: Gate, delta: bool, scale: float,
    errors: Tensor, starts: Tensor, grad: Tensor, *grads: Tensor,
) -> None:  # fmt: skip
    sizes = _sizes(k, v, decay, delta, _queries_per_key(q, k))
    T, C, M = *k.shape[2:], v.shape[3]
    kept = (errors.shape == v.shape, starts.shape[2:] == (-(-T // REMEMBERED), C * M))
    require(not delta or all(kept), "the errors and states that the forward pass kept")
    arrays = (q, k, v, decay, strength, None, None, None, errors, starts, grad, *grads)
    run("recurrent_backward", arrays, k, **sizes, scale=scale)


def _gradients(*saved: Any) -> tuple[Tensor | None, ...]:
    inputs, (errors, starts, grad) = saved[:7], saved[-3:]
    grads = torch.ops.attnlab.recurrent_backward(*inputs, errors, starts, grad)
    missing = [x is None for x in inputs[:5]]
    return (*(None if m else g for m, g in zip(missing, grads, strict=True)), None, None, None)


INPUTS = "Tensor q, Tensor k, Tensor v, Tensor? decay, Tensor? strength, bool delta, float scale"
LAYOUT = "BHTC BGTC BGTM BGTL BGT1"
operator("recurrent", f"{INPUTS}, bool keep", 3, LAYOUT, _allocate, _attend)
operator(
    "recurrent_backward", f"{INPUTS}, Tensor errors, Tensor starts, Tensor grad", 5,
    f"{LAYOUT} BGEM BGPS BHTM",
    _allocate_backward, _backward,
)  # fmt: skip
register_gradient("recurrent", _gradients)
