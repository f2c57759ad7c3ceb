"""What is recorded of one attention call, computed on the side.

Letters: B batch, H heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.huggingface._mask_arguments import Sight
from attnlab.huggingface._query_positions import nature, pick_heads
from attnlab.huggingface._register import is_ours, spec_of
from attnlab.huggingface._replace_attention import prepare
from attnlab.interpret._attention_call import Call, accurate, key_heads
from attnlab.mechanisms._head_groups import name_of, scale_of

PART = 2**25  # weights computed at once: 128 MB
NAMES = ("query", "key", "value", "attention_mask")


class Arguments:
    """What an attention function was called with."""

    def __init__(
        self,
        implementation: str,
        eager: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.implementation, self.eager = implementation, eager
        options = {**kwargs, **dict(zip(NAMES, args, strict=False))}
        self.query: Tensor = options.pop("query")  # (B, H, T, D)
        self.key: Tensor = options.pop("key")  # (B, G, S, D)
        self.value: Tensor = options.pop("value")  # (B, G, S, M)
        self.mask: Any = options.pop("attention_mask", None)
        self.options = options


def fill(
    call: Call,
    module: nn.Module,
    given: Arguments,
    sight: Sight,
    result: Any,
    row: int,
    wants_weights: bool,
) -> None:
    """Everything that is asked for, of one row and the call's heads."""
    H, S = call.all_heads, sight.length
    q, k, v = (_row(x, row) for x in (given.query, given.key, given.value))
    k, v = k[:, :, :S], v[:, :, :S]
    if k.shape[1] != v.shape[1]:  # one of them is shared by more heads
        k, v = (x.repeat_interleave(H // x.shape[1], dim=1) for x in (k, v))
    kept, call.groups = key_heads(call.heads, H, k.shape[1])
    call.q, call.k, call.v = q[0, call.heads], k[0, kept], v[0, kept]
    call.scale = _scale(given.options.get("scaling"), q.shape[3])
    call.allowed = sight.allowed
    if sight.bias is not None:
        call.bias = sight.bias if len(sight.bias) == 1 else sight.bias[call.heads]
    _output(call, given, result, row, v.shape[3])
    if module.training and given.options.get("dropout"):
        call.checked = False
        call.note += " Dropout is on: the weights are those before it, and are not checked."
    if is_ours(given.implementation):
        _fill_own(call, module, given, row, S, wants_weights)
    elif wants_weights:
        weights = _returned(call, module, given, result, row, S)
        if weights is None:
            weights = _eager(call, module, given, sight, row, (q, k, v))
        call.weights = weights
        call.signed, call.normalised = nature(weights)


def _fill_own(
    call: Call, module: nn.Module, given: Arguments, row: int, S: int, wants_weights: bool
) -> None:
    """One of attnlab's mechanisms is at work: the weights are its own, not eager softmax's."""
    spec, options = spec_of(given.implementation, module), {**given.options, "dropout": 0.0}
    q, k, v = (accurate(x) for x in (given.query, given.key, given.value))
    ready = prepare(spec, module, q, k, v, given.mask, options, row)
    card = ready.mechanism.card
    call.mechanism, call.scale = name_of(ready.mechanism), scale_of(ready.mechanism)
    call.signed, call.normalised = card.signed, card.rows_sum_to_one
    if wants_weights:
        weights = ready.weights()[0]
        weights = F.pad(weights, (0, S - weights.shape[-1]))  # free slots have no weight
        call.weights = pick_heads(weights, call.heads)
        call.condition = pick_heads(ready.condition()[0], call.heads)


def _scale(scaling: Any, D: int) -> float | None:
    if scaling is None:
        return float(D**-0.5)
    if isinstance(scaling, Tensor) and scaling.numel() != 1:
        return None  # one for each head
    return float(scaling)


def _output(call: Call, given: Arguments, result: Any, row: int, M: int) -> None:
    output = result[0] if isinstance(result, tuple) else result
    B, H, T, _ = given.query.shape
    if not isinstance(output, Tensor) or output.numel() != B * T * H * M:
        call.checked = False
        return
    heads = call.heads

    def pick(x: Tensor) -> Tensor:
        return x.reshape(B, T, H, M)[row, :, heads].transpose(0, 1)  # (H, T, M)

    call.output, call.pick, call.given = output, pick, pick(output.detach())


def _returned(
    call: Call, module: nn.Module, given: Arguments, result: Any, row: int, S: int
) -> Tensor | None:
    """(kept heads, T, S) where an eager function gave them; while training they have dropout."""
    if module.training or not isinstance(result, tuple) or len(result) < 2:
        return None
    weights = result[1]
    if not isinstance(weights, Tensor) or weights.dim() != 4:
        return None
    if weights.shape[:3] != given.query.shape[:3] or weights.shape[3] != given.key.shape[2]:
        return None
    return weights.detach()[row, call.heads, :, :S]  # a copy: the model may go on with its own


def _eager(
    call: Call,
    module: nn.Module,
    given: Arguments,
    sight: Sight,
    row: int,
    qkv: tuple[Tensor, Tensor, Tensor],
) -> Tensor:
    """(kept heads, T, S) of the model's own eager function, some queries at a time."""
    q, k, v = map(accurate, qkv)
    H, T, S = call.all_heads, q.shape[2], k.shape[2]
    step = max(1, PART // max(1, H * S))
    found = []
    for at in range(0, T, step):
        part = slice(at, at + step)
        options = {name: _of_row(x, row, len(given.query)) for name, x in given.options.items()}
        options["dropout"] = 0.0  # nothing is drawn: the model's own draws stay the same
        if sight.position is not None:
            options["position_bias"] = sight.position[:, :, part]
        mask = None if sight.additive is None else sight.additive[:, :, part]
        try:
            weights: Tensor = given.eager(module, q[:, :, part], k, v, mask, **options)[1]
        except Exception as error:
            raise ValueError(
                f"capture: {call.name} cannot compute its weights, because its own eager attention "
                f"fails where {given.implementation} does not ({error}); "
                "leave it out with layers=[...]"
            ) from error
        if sight.blind is not None:  # the fused function gives zeros there
            weights = weights.masked_fill(sight.blind[:, :, part], 0)
        found.append(pick_heads(weights[0], call.heads))
    return found[0] if len(found) == 1 else torch.cat(found, dim=1)


def _of_row(option: Any, row: int, B: int) -> Any:
    over_batch = isinstance(option, Tensor) and option.dim() > 2 and len(option) == B > 1
    return option[row : row + 1] if over_batch else option


def _row(x: Tensor, row: int) -> Tensor:
    return x.detach()[row : row + 1] if len(x) > 1 else x.detach()
