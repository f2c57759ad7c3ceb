"""Translates the mask of a Hugging Face model into attnlab's `Mask`.

transformers creates a mask once for all layers, with a function registered for the attention
implementation; without one it silently creates none. Our function creates the mask that `sdpa` gets
(None if causal or not is all there is) and attaches a note: the positions of queries and keys,
which a boolean tensor does not contain. A mask without a note is interpreted by its values.

Letters: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from attnlab._compiling import never_compiled
from attnlab.huggingface._attention_modules import is_cross
from attnlab.huggingface._mask_arguments import MASKED, is_causal
from attnlab.mask import Mask

NOTE_ATTRIBUTE = "_attnlab_note"

ONLY_EAGER = "_attnlab_only_eager"
"""An attribute of the configurations of models that support only eager attention. A copy of the
model has it too."""


def mark_only_eager(config: Any) -> None:
    """Note that a model has only eager attention: without a mask, its layers see every key."""
    setattr(config, ONLY_EAGER, True)


def leave_mark_out_of_files(kind: Any) -> None:
    """Make transformers save configurations without the mark, as without the implementation."""
    remove = kind._remove_keys_not_serialized
    if getattr(remove, "removes_mark", False):
        return

    @wraps(remove)
    def remove_mark_too(self: Any, d: dict[str, Any]) -> None:
        d.pop(ONLY_EAGER, None)
        remove(self, d)

    remove_mark_too.removes_mark = True  # type: ignore[attr-defined]
    kind._remove_keys_not_serialized = remove_mark_too


def has_only_eager(module: nn.Module) -> bool:
    return bool(getattr(getattr(module, "config", None), ONLY_EAGER, False))


@dataclass(frozen=True)
class MaskNote:
    """What the mask function knows about a mask, and the last interpretation of it."""

    version: int
    """Version of the tensor: a change in place makes the note invalid."""
    start: int
    """Index of the first query among the keys."""
    first_key: int = 0
    """Position of the first key. It is above 0 if a sliding cache has dropped older keys."""
    plain_causal: bool | None = None
    """True or False if the mask is just causal or not, and padding; None if it may be more."""
    cached: tuple[tuple[bool, torch.Size, torch.Size], MaskMeaning] | None = None
    """The interpretation for this causality and these shapes of queries and keys."""


@dataclass(frozen=True)
class MaskMeaning:
    """A mask in attnlab's terms."""

    mask: Mask
    """The whole mask, or only the start position if `allowed` is set."""
    allowed: Tensor | None = None
    """(B, H or 1, T, S): True where a query may attend, if `mask` cannot express it."""
    length: int = 0
    """Number of real keys: a static cache has free slots after them."""
    first_key: int = 0
    bias: Tensor | None = None
    """(B, H or 1, T, S): what the mask adds to the scores where a query may attend."""

    def row(self, row: int) -> MaskMeaning:
        """The mask of one row of the batch."""

        def select(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[row : row + 1] if len(x) > 1 else x

        mask = replace(self.mask, keys=select(self.mask.keys))
        return replace(self, mask=mask, allowed=select(self.allowed), bias=select(self.bias))


@never_compiled  # compiled code could not attach a note
def make_mask(
    *args: Any,
    q_offset: int | Tensor = 0,
    kv_offset: int | Tensor = 0,
    mask_function: Any = None,
    **options: Any,
) -> Tensor | None:
    """The mask function of all attnlab implementations; transformers calls it."""
    library = import_module("transformers.masking_utils")
    rule = library.causal_mask_function if mask_function is None else mask_function
    if getattr(
        options.get("config"), ONLY_EAGER, False
    ):  # it may compute with what eager attention gets
        eager: Tensor | None = library.eager_mask(
            *args, q_offset=q_offset, kv_offset=kv_offset, mask_function=rule, **options
        )
        return eager
    mask: Tensor | None = library.sdpa_mask(
        *args, q_offset=q_offset, kv_offset=kv_offset, mask_function=rule, **options
    )
    if mask is None:
        return None
    plain = {library.causal_mask_function: True, library.bidirectional_mask_function: False}
    start, first_key = int(q_offset), int(kv_offset)
    note = MaskNote(_version(mask), start - first_key, first_key, plain.get(rule))
    _attach_note(mask, note)
    return mask


def interpret_mask(
    module: nn.Module, query: Tensor, key: Tensor, mask: Any, options: dict[str, Any]
) -> MaskMeaning:
    """Which keys (B, G, S, D) each query (B, H, T, D) may attend to."""
    T, S = query.shape[2], key.shape[2]
    causal = is_causal(module, options) and not is_cross(module)
    if mask is None:
        return _unmasked(T, S, causal and not has_only_eager(module))
    if not isinstance(mask, Tensor):
        raise ValueError(
            f"a mask of type {type(mask).__name__} is for another attention function; give None, "
            "(B, S) or (B, 1, T, S)"
        )
    note, case = _read_note(mask), (causal, query.shape, key.shape)
    if note is not None and note.cached is not None and note.cached[0] == case:
        return note.cached[1]
    visible, bias = _split_mask(mask, len(query), T, S)
    start = _guess_start(visible, causal) if note is None else note.start
    meaning = _to_meaning(visible, start, causal, None if note is None else note.plain_causal)
    if bias is not None:
        meaning = replace(meaning, bias=bias)
    if note is not None:
        meaning = replace(meaning, first_key=note.first_key)
        _attach_note(mask, replace(note, cached=(case, meaning)))
    return meaning


def _unmasked(T: int, S: int, causal: bool) -> MaskMeaning:
    """As `sdpa` without a mask: the first query sees the first key, a single query sees all."""
    if not causal:
        return MaskMeaning(Mask(), length=S)
    if T == 1:
        return MaskMeaning(Mask(causal=True, start=S - 1), length=S)
    return MaskMeaning(Mask(causal=True), length=min(T, S))


def _split_mask(mask: Tensor, B: int, T: int, S: int) -> tuple[Tensor, Tensor | None]:
    """(B, H or 1, T, S): True where a query may attend, and what the mask adds to the scores."""
    shape = tuple(mask.shape)
    mask = mask[None] if mask.dim() == 2 else mask  # (T, S)
    mask = mask[:, None] if mask.dim() == 3 else mask  # (B, T, S)
    if (
        mask.dim() != 4
        or mask.shape[2] not in (1, T)
        or mask.shape[3] < S
        or len(mask) not in (1, B)
    ):
        raise ValueError(
            f"a mask of shape {shape} does not fit {T} queries and {S} keys; "
            "give (B, S) to the model, or (B, 1, T, S)"
        )
    mask = mask[..., :S]
    if not mask.is_floating_point():
        return mask.bool().expand(B, -1, T, -1), None
    visible = mask > MASKED
    bias = mask.masked_fill(~visible, 0)
    has_bias = bool((bias.detach() != 0).any())
    visible, bias = visible.expand(B, -1, T, -1), bias.expand(B, -1, T, -1)
    return visible, bias if has_bias else None


def _guess_start(visible: Tensor, causal: bool) -> int:
    """The index of the first query, of a mask without a note: the last query sees the last key."""
    T, S = visible.shape[2:]
    if not causal or T == S:
        return 0
    visible_keys = visible.flatten(0, 2).any(0).nonzero()
    return max(0, int(visible_keys.amax()) + 1 - T) if len(visible_keys) else S - T


def _to_meaning(visible: Tensor, start: int, causal: bool, plain: bool | None) -> MaskMeaning:
    """As a `Mask` if it can express the tensor, otherwise as a tensor."""
    T, S = visible.shape[2:]
    length = min(S, start + T) if causal else S
    same_for_all = visible.stride(2) == 0 or T == 1  # all queries have the same mask
    if visible.shape[1] == 1:
        keys = visible[:, 0, 0] if same_for_all else visible[:, 0].any(1)  # (B, S)
        for candidate in (True, False) if causal else (False, True):
            if plain is not None and plain != candidate:
                continue
            mask = Mask(candidate, keys, start if candidate else 0)
            if plain is not None or _is_equal(mask, visible, same_for_all):
                key_count = length if candidate else S
                return MaskMeaning(_shorten(mask, key_count), length=key_count)
    return MaskMeaning(Mask(causal, start=start), visible[..., :length], length)


def _is_equal(mask: Mask, visible: Tensor, same_for_all: bool) -> bool:
    """Whether `mask` allows the same as the tensor (B, 1, T, S)."""
    T, S = visible.shape[2:]
    if not mask.causal and same_for_all:
        return True
    allowed = mask.allowed(T, S, visible.device)
    assert allowed is not None
    return bool((allowed == visible).all())


def _shorten(mask: Mask, length: int) -> Mask:
    """Without free slots, and without `keys` if there is no padding, which is faster."""
    assert mask.keys is not None
    keys = mask.keys[:, :length]
    return replace(mask, keys=None if bool(keys.all()) else keys)


def _read_note(mask: Tensor) -> MaskNote | None:
    note = getattr(mask, NOTE_ATTRIBUTE, None)
    return note if isinstance(note, MaskNote) and note.version == _version(mask) else None


def _attach_note(mask: Tensor, note: MaskNote) -> None:
    setattr(mask, NOTE_ATTRIBUTE, note)


def _version(mask: Tensor) -> int:
    return 0 if mask.is_inference() else mask._version
