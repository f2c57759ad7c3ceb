"""Compares our softmax with a layer's own eager attention function when the layer first runs.

Models without fused attention have a reason for it: a soft cap, a sink, a bias, which we read from
the arguments, or something that we do not know. The comparison tells these apart.

Letters: B batch, H heads, T queries, S keys, M value size.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from attnlab.huggingface._replace_attention import ALTERNATIVE, PreparedCall, prepare_call
from attnlab.huggingface._trace_attention import TracedCall
from attnlab.interpret._attention_call import at_least_float32

TOLERANCE = 1e-3  # of the largest value
_checked: WeakSet[nn.Module] = WeakSet()


@torch.no_grad()
def check_against_eager(
    module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Any, options: dict[str, Any]
) -> None:
    """Raise if the layer's eager function is more than a softmax with the terms that we know."""
    eager = eager_function(module)
    if module in _checked or eager is None:
        return
    settings = {**options, "dropout": 0.0}
    q, k, v = (at_least_float32(x) for x in (q, k, v))
    prepared = prepare_call("softmax", module, q, k, v, mask, settings)
    expected = eager(module, q, k, v, _additive(mask, q.dtype), **settings)[0]  # (B, T, H, M)
    _compare(module, prepared, expected.transpose(1, 2), "its eager attention")
    _checked.add(module)


@torch.no_grad()
def check_traced(module: nn.Module, call: TracedCall, options: dict[str, Any]) -> None:
    """Raise if our softmax is not what a traced layer computed: its code was misread."""
    if module in _checked or call.dropout:
        return
    q, k, v = (at_least_float32(x) for x in (call.query, call.key, call.value))
    prepared = prepare_call("softmax", module, q, k, v, call.mask, options)
    _compare(module, prepared, call.output, "what it computes", _rounding(call))
    _checked.add(module)


def _rounding(call: TracedCall) -> float:
    """How much of the largest value the layer itself may lose: it rounds its scores, its weights
    and its output to its own precision, and we compute in float32."""
    repeats = call.query.shape[1] // call.key.shape[1]
    scores = call.scaling * call.query @ call.key.repeat_interleave(repeats, 1).mT  # (B, H, T, S)
    largest = float(scores.abs().amax()) if scores.numel() else 0.0
    return torch.finfo(call.output.dtype).eps * (4 + largest)


def _compare(
    module: nn.Module, prepared: PreparedCall, expected: Tensor, what: str, rounding: float = 0.0
) -> None:
    """Compare outputs (B, H, T, M) of queries that see at least one key."""
    output, allowed = prepared.output(), prepared.allowed()
    if output.shape != expected.shape:
        return
    if allowed is not None:  # an eager function spreads the weight of a row without any key
        some = allowed.any(-1, keepdim=True)  # (B or 1, H or 1, T, 1)
        output, expected = (x.masked_fill(~some, 0) for x in (output, expected))
    difference = float((output - expected).abs().amax()) if output.numel() else 0.0
    if not difference <= max(TOLERANCE, rounding) * max(1.0, float(prepared.v.abs().amax())):
        raise ValueError(
            f"{type(module).__name__}: {what} is more than a softmax of scores with a bias "
            f"(outputs differ by {difference:.2g}); {ALTERNATIVE}"
        )


def eager_function(module: nn.Module) -> Callable[..., Any] | None:
    """The eager attention function in the file of the layer's class."""
    files = (sys.modules.get(base.__module__) for base in type(module).__mro__)
    functions = (getattr(file, "eager_attention_forward", None) for file in files)
    return next((function for function in functions if function is not None), None)


def _additive(mask: Any, dtype: torch.dtype) -> Tensor | None:
    if not isinstance(mask, Tensor) or mask.is_floating_point():
        return mask
    zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill(~mask.bool(), torch.finfo(dtype).min)
