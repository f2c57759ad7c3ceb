"""Block-sparse softmax in C.

Letters: B batch, H heads, S tokens, D head size, M value size, Q query blocks, W key blocks that a
query block attends to.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab.mechanisms._compiled.calls import run
from attnlab.mechanisms._compiled.operators import (
    allocate_gradients,
    operator,
    register_gradient,
    require,
)


def attend_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor | None,
    table: Tensor,
    block: int,
    causal: bool,
    window: int,
    scale: float,
    sinks: int = 0,
    bounds: Tensor | None = None,
) -> Tensor:
    """`_block_sparse.attend_blocks` without dropout, for as many key heads as query heads.

    A window of 0 allows any distance. The first `sinks` keys are visible beyond the window.
    `bounds` (B, S, 2) has the first key of each query's document, and the first after it.
    """
    options = (block, causal, window, sinks, scale)
    return torch.ops.attnlab.blocks(q, k, v, keys, table, bounds, *options)[0]


def _allocate(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """out (B, H, S, M), fit (B, H, S, 2): each query's largest score, and 1 / sum"""
    del k, rest
    return torch.empty_like(v), q.new_empty(*q.shape[:3], 2)


def _sizes(q: Tensor, v: Tensor, table: Tensor, options: tuple[Any, ...]) -> dict[str, Any]:
    block, causal, window, sinks, scale = options
    blocks = -(-q.shape[2] // max(block, 1))
    inside = len(table) == blocks and (
        not table.numel() or (int(table.min()) >= -1 and int(table.max()) < blocks)
    )
    require(block > 0 and inside, f"a table of {blocks} query blocks that lists key blocks or -1")
    sizes = {"C": q.shape[3], "M": v.shape[3], "columns": table.shape[1]}
    sizes |= {"block": block, "causal": causal, "window": window, "sinks": sinks}
    return {**sizes, "scale": scale}


def _blocks(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None, table: Tensor, bounds: Tensor | None,
    *rest: Any,
) -> None:  # fmt: skip
    options, results = rest[:5], rest[5:]
    table, bounds = table.contiguous(), _contiguous(bounds)
    arrays = (q, k, v, *results, keys, table, bounds)
    run("blocks", arrays, q, **_sizes(q, v, table, options))


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _allocate_backward(*inputs: Any) -> tuple[Tensor, ...]:
    return allocate_gradients(*inputs[:3])


def _backward(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None, table: Tensor, bounds: Tensor | None,
    *rest: Any,
) -> None:  # fmt: skip
    options, (out, fit, grad, *grads) = rest[:5], rest[5:]
    table, bounds = table.contiguous(), _contiguous(bounds)
    arrays = (q, k, v, out, fit, keys, table, bounds, grad, *grads)
    run("blocks_backward", arrays, q, **_sizes(q, v, table, options))


def _gradients(*saved: Any) -> tuple[Tensor | None, ...]:
    return (*torch.ops.attnlab.blocks_backward(*saved), *[None] * 8)


ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, Tensor? keys, Tensor table, Tensor? bounds, "
    "int block, bool causal, int window, int sinks, float scale"
)
INPUTS = "BHSD BHSD BHSM BS:bool QW:int64 BS2:int64"
operator("blocks", ARGUMENTS, 2, INPUTS, _allocate, _blocks)
operator(
    "blocks_backward",
    f"{ARGUMENTS}, Tensor out, Tensor fit, Tensor grad",
    3,
    f"{INPUTS} BHSM BHS2 BHSM",
    _allocate_backward,
    _backward,
)
register_gradient("blocks", _gradients)
