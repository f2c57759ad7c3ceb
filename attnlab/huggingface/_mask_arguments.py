"""Who may look at whom, as each attention function of transformers understands its arguments.

Letters: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

HIDDEN = -9000.0  # additive masks hold -10000, the type's least number or -inf; biases never do


@dataclass
class Sight:
    """Of one row."""

    length: int
    """Keys that count: a static cache has free slots behind them."""
    additive: Tensor | None = None  # (1, 1 or H, T, S), for an eager function
    allowed: Tensor | None = None  # (T, S), None: everywhere
    position: Tensor | None = None  # (1, 1 or H, T, S): a bias that is no part of `additive`
    bias: Tensor | None = None  # (1 or H, T, S): all that is added, the mask aside
    blind: Tensor | None = None
    """(1, 1 or H, T, 1) True for queries with nothing to look at, whose output is zero."""
    note: str = ""


def read_sight(
    implementation: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    mask: Any,
    options: Mapping[str, Any],
    row: int,
) -> Sight:
    """What `row` of the queries (B, H, T, D) may see of the keys (B, G, S, D)."""
    T, S = query.shape[2], key.shape[2]
    bias = options.get("position_bias")
    bias = None if bias is None else _row(bias, row)[..., :S]  # (1, 1 or H, T or 1, S)
    if implementation.startswith("flash") or "|flash" in implementation:
        seen = _flash(module, T, S, query.device, mask, options, row)
    elif mask is None:
        seen = None if implementation == "eager" else _causal(module, T, S, query.device, options)
        if seen is not None and S > T:  # transformers cuts the keys there itself
            S = T
            seen, bias = seen[..., :T], None if bias is None else bias[..., :T]
    elif isinstance(mask, Tensor):
        seen = _row(mask, row)[..., :S]
    else:
        seen = _block_mask(mask, T, S, query.device, row)
    return _sight(seen, bias, T, S)


def _sight(seen: Tensor | None, bias: Tensor | None, T: int, S: int) -> Sight:
    """From a mask (1, 1 or H, T or 1, S), boolean or added to the scores, and a bias like it."""
    sight = Sight(length=S)
    visible: Tensor | None = None  # (1, 1 or H, T, S)
    if bias is not None:
        sight.position = bias.expand(-1, -1, T, S)
        visible = sight.position > HIDDEN  # some put their mask in there
        sight.bias = sight.position[0].masked_fill(~visible[0], 0)
    if seen is not None:
        seen = seen.expand(-1, -1, T, -1)
        clear = seen if seen.dtype == torch.bool else seen > HIDDEN
        visible = clear if visible is None else clear & visible
        _add(sight, seen, clear)
    if visible is None:
        return sight
    allowed = visible[0].any(0)  # (T, S)
    if not bool((visible[0] == allowed).all()):
        sight.note = "Its mask differs between heads; the mask shown is what any of them may see."
    sight.allowed = None if bool(allowed.all()) else allowed
    # nobody sees the free slots of a cache; padding at the end neither, but it has queries
    last = int(allowed.any(0).nonzero().amax()) + 1 if bool(allowed.any()) else 0
    sight.length = max(last, min(T, S))
    return sight


def _add(sight: Sight, seen: Tensor, clear: Tensor) -> None:
    """What an eager function has to add to the scores for this mask (1, 1 or H, T, S)."""
    if seen.dtype == torch.bool:
        least = torch.finfo(torch.float32).min
        sight.additive = torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, least)
        blind = ~seen.any(-1, keepdim=True)
        if bool(blind.any()) and sight.position is None:  # with a bias -inf becomes a number
            sight.blind = blind
        return
    sight.additive = seen.to(torch.promote_types(seen.dtype, torch.float32))
    extra = sight.additive.masked_fill(~clear, 0)[0]  # a bias may hide in the mask
    if bool(extra.any()):
        sight.bias = extra if sight.bias is None else sight.bias + extra


def cut(sight: Sight) -> Sight:
    """The same without a cache's free slots."""

    def short(x: Tensor | None) -> Tensor | None:
        return None if x is None else x[..., : sight.length]

    allowed = short(sight.allowed)
    return replace(
        sight,
        additive=short(sight.additive),
        allowed=None if allowed is None or bool(allowed.all()) else allowed,
        position=short(sight.position),
        bias=short(sight.bias),
    )


def _row(x: Tensor, row: int) -> Tensor:
    """(T, S), (B, T, S) or (B, H, T, S) -> (1, 1 or H, T, S) of one row."""
    if x.dim() == 2:
        x = x[None, None]
    elif x.dim() == 3:
        x = x[:, None]
    return x[row : row + 1] if len(x) > 1 else x


def is_causal(module: nn.Module, options: Mapping[str, Any]) -> bool:
    """As transformers decides it: the call's word, or else the module's."""
    asked = options.get("is_causal")
    return bool(getattr(module, "is_causal", True) if asked is None else asked)


def _causal(
    module: nn.Module, T: int, S: int, device: torch.device, options: Mapping[str, Any]
) -> Tensor | None:
    """As the fused function of PyTorch: the first query sees the first key, a lone one all."""
    if T == 1 or not is_causal(module, options):
        return None
    return torch.ones(T, S, dtype=torch.bool, device=device).tril()[None, None]


def _flash(
    module: nn.Module,
    T: int,
    S: int,
    device: torch.device,
    mask: Tensor | None,
    options: Mapping[str, Any],
    row: int,
) -> Tensor | None:
    """The last query sees the last key; `mask` (B, S) tells padding; windows are an option."""
    query_at = torch.arange(S - T, S, device=device)[:, None]
    key_at = torch.arange(S, device=device)
    seen = torch.ones(T, S, dtype=torch.bool, device=device)
    window = options.get("sliding_window")
    if is_causal(module, options):
        seen &= key_at <= query_at
    if window is not None:
        seen &= (query_at - key_at).abs() < window
    if mask is not None:
        seen &= mask[row if len(mask) > 1 else 0, -S:].bool()
    return seen[None, None]


def _block_mask(mask: Any, T: int, S: int, device: torch.device, row: int) -> Tensor:
    """What a mask of flex attention means, asked place by place."""
    from torch.nn.attention.flex_attention import create_mask

    def rule(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return mask.mask_mod(batch + row, head, query, key)

    return create_mask(rule, 1, 1, T, S, device=str(device))
