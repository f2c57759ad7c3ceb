"""Which keys each query may attend to, by the arguments of transformers' attention functions.

Letters: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

MASKED = -9000.0  # masks add -10000, the type's minimum or -inf; biases are never that low


@dataclass
class RowMask:
    """The mask of one row of the batch."""

    length: int
    """Number of real keys: a static cache has free slots after them."""
    additive: Tensor | None = None  # (1, 1 or H, T, S), for an eager function
    allowed: Tensor | None = None  # (T, S), None means everywhere
    position_bias: Tensor | None = None  # (1, 1 or H, T, S): not included in `additive`
    bias: Tensor | None = None  # (1 or H, T, S): everything added to the scores, without the mask
    fully_masked: Tensor | None = None
    """(1, 1 or H, T, 1): True for queries without any key, whose output is zero."""
    note: str = ""


def read_row_mask(
    implementation: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    mask: Any,
    options: Mapping[str, Any],
    row: int,
) -> RowMask:
    """The mask between `row` of the queries (B, H, T, D) and its keys (B, G, S, D)."""
    T, S = query.shape[2], key.shape[2]
    bias = options.get("position_bias")
    bias = None if bias is None else _row(bias, row)[..., :S]  # (1, 1 or H, T or 1, S)
    if implementation.startswith("flash") or "|flash" in implementation:
        visible = _flash_mask(module, T, S, query.device, mask, options, row)
    elif mask is None:
        visible = None
        if implementation != "eager":
            visible = _causal_mask(module, T, S, query.device, options)
        if visible is not None and S > T:  # transformers cuts the keys there itself
            S = T
            visible, bias = visible[..., :T], None if bias is None else bias[..., :T]
    elif isinstance(mask, Tensor):
        visible = _row(mask, row)[..., :S]
    else:
        visible = _block_mask(mask, T, S, query.device, row)
    return _to_row_mask(visible, bias, T, S)


def _to_row_mask(mask: Tensor | None, bias: Tensor | None, T: int, S: int) -> RowMask:
    """From a mask (1, 1 or H, T or 1, S), boolean or additive, and a bias of the same shape."""
    row_mask = RowMask(length=S)
    visible: Tensor | None = None  # (1, 1 or H, T, S)
    if bias is not None:
        row_mask.position_bias = bias.expand(-1, -1, T, S)
        visible = row_mask.position_bias > MASKED  # some models put their mask in there
        row_mask.bias = row_mask.position_bias[0].masked_fill(~visible[0], 0)
    if mask is not None:
        mask = mask.expand(-1, -1, T, -1)
        unmasked = mask if mask.dtype == torch.bool else mask > MASKED
        visible = unmasked if visible is None else unmasked & visible
        _set_additive(row_mask, mask, unmasked)
    if visible is None:
        return row_mask
    allowed = visible[0].any(0)  # (T, S)
    if not bool((visible[0] == allowed).all()):
        row_mask.note = (
            "Its heads have different masks; the page shows which keys any head may attend to."
        )
    row_mask.allowed = None if bool(allowed.all()) else allowed
    # no query sees the free slots of a cache; nor padding at the end, but that has queries too
    last = int(allowed.any(0).nonzero().amax()) + 1 if bool(allowed.any()) else 0
    row_mask.length = max(last, min(T, S))
    if bias is not None and not bool(visible.any(-1).all()):
        row_mask.length = S  # with a bias, a query without any key has weight on every slot
    return row_mask


def _set_additive(row_mask: RowMask, mask: Tensor, unmasked: Tensor) -> None:
    """Set what an eager function must add to the scores for this mask (1, 1 or H, T, S)."""
    if mask.dtype == torch.bool:
        lowest = torch.finfo(torch.float32).min
        zeros = torch.zeros(mask.shape, device=mask.device)
        row_mask.additive = zeros.masked_fill(~mask, lowest)
        fully_masked = ~mask.any(-1, keepdim=True)
        if bool(fully_masked.any()) and row_mask.position_bias is None:  # a bias makes -inf finite
            row_mask.fully_masked = fully_masked
        return
    row_mask.additive = mask.to(torch.promote_types(mask.dtype, torch.float32))
    extra = row_mask.additive.masked_fill(~unmasked, 0)[0]  # the mask may contain a bias
    if bool(extra.any()):
        row_mask.bias = extra if row_mask.bias is None else row_mask.bias + extra


def without_free_slots(row_mask: RowMask, S: int, *, cross: bool) -> RowMask:
    """The same mask without the free slots of a cache of S keys. Cross-attention has none: its
    last keys may only be padding."""
    if cross:
        additive = row_mask.additive
        return replace(row_mask, length=S if additive is None else additive.shape[-1])
    if row_mask.length >= S:
        return row_mask

    def cut(x: Tensor | None) -> Tensor | None:
        return None if x is None else x[..., : row_mask.length]

    allowed = cut(row_mask.allowed)
    return replace(
        row_mask,
        additive=cut(row_mask.additive),
        allowed=None if allowed is None or bool(allowed.all()) else allowed,
        position_bias=cut(row_mask.position_bias),
        bias=cut(row_mask.bias),
    )


def _row(x: Tensor, row: int) -> Tensor:
    """(T, S), (B, T, S) or (B, H, T, S) -> (1, 1 or H, T, S) of one row."""
    if x.dim() == 2:
        x = x[None, None]
    elif x.dim() == 3:
        x = x[:, None]
    return x[row : row + 1] if len(x) > 1 else x


def is_causal(module: nn.Module, options: Mapping[str, Any]) -> bool:
    """Decided as transformers does: by the call's option, or else by the module's attribute."""
    option = options.get("is_causal")
    return bool(getattr(module, "is_causal", True) if option is None else option)


def _causal_mask(
    module: nn.Module, T: int, S: int, device: torch.device, options: Mapping[str, Any]
) -> Tensor | None:
    """As PyTorch's fused function: the first query sees the first key, a single query sees all."""
    if T == 1 or not is_causal(module, options):
        return None
    return torch.ones(T, S, dtype=torch.bool, device=device).tril()[None, None]


def _flash_mask(
    module: nn.Module,
    T: int,
    S: int,
    device: torch.device,
    mask: Tensor | None,
    options: Mapping[str, Any],
    row: int,
) -> Tensor | None:
    """The last query sees the last key; `mask` (B, S) marks padding; a window is an option."""
    query_positions = torch.arange(S - T, S, device=device)[:, None]
    key_positions = torch.arange(S, device=device)
    visible = torch.ones(T, S, dtype=torch.bool, device=device)
    window = options.get("sliding_window")
    if is_causal(module, options):
        visible &= key_positions <= query_positions
    if window is not None:
        visible &= (query_positions - key_positions).abs() < window
    if mask is not None:
        visible &= mask[row if len(mask) > 1 else 0, -S:].bool()
    return visible[None, None]


def _block_mask(mask: Any, T: int, S: int, device: torch.device, row: int) -> Tensor:
    """The dense form of a flex attention mask, evaluated for each query and key."""
    from torch.nn.attention.flex_attention import create_mask

    def rule(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return mask.mask_mod(batch + row, head, query, key)

    return create_mask(rule, 1, 1, T, S, device=str(device))
