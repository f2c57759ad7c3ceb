"""Computes what is recorded of one attention call: queries, keys, values, weights, masks.

Letters: B batch, H heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.huggingface._mask_arguments import RowMask
from attnlab.huggingface._query_positions import select_heads, signed_and_normalized
from attnlab.huggingface._register import is_attnlab_implementation, spec_of
from attnlab.huggingface._replace_attention import prepare_call
from attnlab.interpret._attention_call import AttentionCall, key_heads
from attnlab.mechanisms._mechanism_per_head_group import name_of, scale_of

CHUNK_SIZE = 2**25  # weights computed at once: 128 MB
ARGUMENT_NAMES = ("query", "key", "value", "attention_mask")


class CallArguments:
    """The arguments of an attention function."""

    def __init__(
        self,
        implementation: str,
        eager: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.implementation, self.eager = implementation, eager
        options = {**kwargs, **dict(zip(ARGUMENT_NAMES, args, strict=False))}
        self.query: Tensor = options.pop("query")  # (B, H, T, D)
        self.key: Tensor = options.pop("key")  # (B, G, S, D)
        self.value: Tensor = options.pop("value")  # (B, G, S, M)
        self.mask: Any = options.pop("attention_mask", None)
        self.options = options


def fill_call(
    call: AttentionCall,
    module: nn.Module,
    arguments: CallArguments,
    row_mask: RowMask,
    result: Any,
    row: int,
    wants_weights: bool,
) -> None:
    """Fill in the tensors of one row for the call's heads; with gradients unless under no_grad."""
    H, S = call.all_heads, row_mask.length
    q, k, v = (_row(x, row) for x in (arguments.query, arguments.key, arguments.value))
    k, v = k[:, :, :S], v[:, :, :S]
    if k.shape[1] != v.shape[1]:  # more heads share one of them
        k, v = (x.repeat_interleave(H // x.shape[1], dim=1) for x in (k, v))
    used, call.groups = key_heads(call.heads, H, k.shape[1])
    call.q, call.k, call.v = q[0, call.heads], k[0, used], v[0, used]
    call.scale = _scale(arguments.options.get("scaling"), q.shape[3])
    call.allowed = row_mask.allowed
    if row_mask.bias is not None:
        call.bias = row_mask.bias if len(row_mask.bias) == 1 else row_mask.bias[call.heads]
    _fill_output(call, arguments, result, row, v.shape[3])
    if module.training and arguments.options.get("dropout"):
        call.checkable = False
        call.note += " Dropout is on: the weights are those before dropout, and are not checked."
    if is_attnlab_implementation(arguments.implementation):
        _fill_from_mechanism(call, module, arguments, row, S, wants_weights)
    elif wants_weights:
        weights = _returned_weights(call, module, arguments, result, row, S)
        if weights is None:
            weights = _eager_weights(call, module, arguments, row_mask, row, (q, k, v))
        call.weights = weights = _with_sink(call, module, row_mask, weights)
        call.signed, call.normalized = signed_and_normalized(weights)


def _fill_from_mechanism(
    call: AttentionCall,
    module: nn.Module,
    arguments: CallArguments,
    row: int,
    S: int,
    wants_weights: bool,
) -> None:
    """For a layer that runs an attnlab mechanism: the weights are the mechanism's own."""
    spec, options = spec_of(arguments.implementation, module), {**arguments.options, "dropout": 0.0}
    q, k, v = (_in_float32(x) for x in (arguments.query, arguments.key, arguments.value))
    prepared = prepare_call(spec, module, q, k, v, arguments.mask, options, row)
    card = prepared.mechanism.card
    call.mechanism, call.scale = name_of(prepared.mechanism), scale_of(prepared.mechanism)
    call.signed, call.normalized = card.signed, card.rows_sum_to_one
    if wants_weights:
        weights = prepared.weights()[0]
        weights = F.pad(weights, (0, S - weights.shape[-1]))  # free slots have no weight
        call.weights = select_heads(weights, call.heads)
        if prepared.terms.sink is not None:
            call.normalized = False
        call.condition = select_heads(prepared.condition()[0], call.heads)


def _scale(scaling: Any, D: int) -> float | None:
    if scaling is None:
        return float(D**-0.5)
    if isinstance(scaling, Tensor) and scaling.numel() != 1:
        return None  # one for each head
    return float(scaling)


def _fill_output(
    call: AttentionCall, arguments: CallArguments, result: Any, row: int, M: int
) -> None:
    output = result[0] if isinstance(result, tuple) else result
    B, H, T, _ = arguments.query.shape
    if not isinstance(output, Tensor) or output.numel() != B * T * H * M:
        call.checkable = False
        return
    heads = call.heads

    def select(x: Tensor) -> Tensor:
        return x.reshape(B, T, H, M)[row, :, heads].transpose(0, 1)  # (H, T, M)

    call.output, call.select, call.head_outputs = output, select, select(output.detach())


def _returned_weights(
    call: AttentionCall, module: nn.Module, arguments: CallArguments, result: Any, row: int, S: int
) -> Tensor | None:
    """(H, T, S) if an eager function returned them (in training they include dropout)."""
    if module.training or not isinstance(result, tuple) or len(result) < 2:
        return None
    weights = result[1]
    if not isinstance(weights, Tensor) or weights.dim() != 4:
        return None
    if weights.shape[:3] != arguments.query.shape[:3] or weights.shape[3] != arguments.key.shape[2]:
        return None
    return weights[row, call.heads, :, :S]  # a copy: the model may change its own


def _eager_weights(
    call: AttentionCall,
    module: nn.Module,
    arguments: CallArguments,
    row_mask: RowMask,
    row: int,
    qkv: tuple[Tensor, Tensor, Tensor],
) -> Tensor:
    """(H, T, S) from the model's own eager function, some queries at a time."""
    q, k, v = map(_in_float32, qkv)
    H, T, S = call.all_heads, q.shape[2], k.shape[2]
    step = max(1, CHUNK_SIZE // max(1, H * S))
    parts = []
    for start in range(0, T, step):
        part = slice(start, start + step)
        options = {
            name: _option_of_row(x, row, len(arguments.query))
            for name, x in arguments.options.items()
        }
        options["dropout"] = 0.0  # leaves the random state unchanged
        if row_mask.position_bias is not None:
            options["position_bias"] = row_mask.position_bias[:, :, part]
        mask = None if row_mask.additive is None else row_mask.additive[:, :, part]
        try:
            weights: Tensor = arguments.eager(module, q[:, :, part], k, v, mask, **options)[1]
        except Exception as error:
            raise ValueError(
                f"capture: cannot record the weights of {call.name}, because its eager attention "
                f"fails ({error}); choose other layers with layers=[...]"
            ) from error
        if row_mask.fully_masked is not None:  # the fused function returns zeros there
            weights = weights.masked_fill(row_mask.fully_masked[:, :, part], 0)
        parts.append(select_heads(weights[0], call.heads))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _with_sink(
    call: AttentionCall, module: nn.Module, row_mask: RowMask, weights: Tensor
) -> Tensor:
    """Some models scale the output of a layer for its sink, and return weights without it."""
    sinks = getattr(module, "sinks", None)
    if not isinstance(sinks, Tensor) or not signed_and_normalized(weights)[1]:
        return weights
    assert call.q is not None
    assert call.k is not None
    if call.scale is None or not weights.numel():
        return weights
    q, k = _in_float32(call.q), _in_float32(call.k)[call.groups]
    scores = call.scale * q @ k.mT  # (H, T, S)
    if row_mask.additive is not None:
        mask = row_mask.additive[0]
        scores = scores + (mask if len(mask) == 1 else mask[call.heads])
    sink = _in_float32(sinks).reshape(-1)[call.heads][:, None]  # (H, 1)
    return weights * (scores.logsumexp(-1) - sink).sigmoid()[..., None]


def _option_of_row(option: Any, row: int, B: int) -> Any:
    over_batch = isinstance(option, Tensor) and option.dim() > 2 and len(option) == B > 1
    return option[row : row + 1] if over_batch else option


def _row(x: Tensor, row: int) -> Tensor:
    return x[row : row + 1] if len(x) > 1 else x[:1]


def _in_float32(x: Tensor) -> Tensor:
    """As `at_least_float32`, with gradients."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
