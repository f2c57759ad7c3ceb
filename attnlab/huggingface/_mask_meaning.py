"""What a mask that a Hugging Face model passes means, in attnlab's words.

transformers makes a mask once for all layers, by a function registered beside the attention
function; without one it makes none, in silence. Ours makes what `sdpa` gets (nothing, where causal
or not says it all) and notes what it knows: where queries and keys stand, which a tensor of
booleans does not say. A mask that comes without a note is read off its numbers.

Letters: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.huggingface._attention_modules import is_cross
from attnlab.huggingface._mask_arguments import HIDDEN, is_causal
from attnlab.mask import Mask

NOTE = "_attnlab_note"


@dataclass(frozen=True)
class Note:
    """What the mask function knew, and what was read since."""

    version: int
    """Of the tensor: whoever changes it in place makes the note worthless."""
    start: int
    """Where the first query stands among the keys."""
    first: int = 0
    """Position of the first key: a sliding cache forgets what nobody will see again."""
    plain: bool | None = None
    """Causal or not, beyond padding nothing else; None: who knows."""
    read: tuple[tuple[bool, torch.Size, torch.Size], Meaning] | None = None
    """For a module that is causal or not, with queries and keys of these sizes: the meaning."""


@dataclass(frozen=True)
class Meaning:
    mask: Mask
    """The whole meaning; of a mask that no words describe, where the first query stands."""
    allowed: Tensor | None = None
    """(B, H or 1, T, S) True where a query may look, where `mask` cannot say it."""
    length: int = 0
    """Keys that count: a static cache has free slots behind them."""
    first: int = 0

    def row(self, row: int) -> Meaning:
        """The same of one row of the batch."""

        def of(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[row : row + 1] if len(x) > 1 else x

        mask = replace(self.mask, keys=of(self.mask.keys))
        return replace(self, mask=mask, allowed=of(self.allowed))


@torch.compiler.disable  # a compiled one could not take a note
def make_mask(
    *args: Any,
    q_offset: int | Tensor = 0,
    kv_offset: int | Tensor = 0,
    mask_function: Any = None,
    **options: Any,
) -> Tensor | None:
    """The mask function of every attnlab implementation, called by transformers."""
    library = import_module("transformers.masking_utils")
    rule = library.causal_mask_function if mask_function is None else mask_function
    mask: Tensor | None = library.sdpa_mask(
        *args, q_offset=q_offset, kv_offset=kv_offset, mask_function=rule, **options
    )
    if mask is None:
        return None
    plain = {library.causal_mask_function: True, library.bidirectional_mask_function: False}
    start, first = int(q_offset), int(kv_offset)
    _write(mask, Note(_version(mask), start - first, first, plain.get(rule)))
    return mask


def read_meaning(
    module: nn.Module, query: Tensor, key: Tensor, mask: Any, options: dict[str, Any]
) -> Meaning:
    """Who may look at whom: queries (B, H, T, D), keys (B, G, S, D)."""
    T, S = query.shape[2], key.shape[2]
    causal = is_causal(module, options) and not is_cross(module)
    if mask is None:
        return _unmasked(T, S, causal)
    if not isinstance(mask, Tensor):
        raise ValueError(
            f"a mask of type {type(mask).__name__} was made for another attention function; give "
            "None, (B, S) or (B, 1, T, S)"
        )
    note, case = _note(mask), (causal, query.shape, key.shape)
    if note is not None and note.read is not None and note.read[0] == case:
        return note.read[1]
    seen = _clear(mask, len(query), T, S)
    start = _guess(seen, causal) if note is None else note.start
    meaning = _words(seen, start, causal, None if note is None else note.plain)
    if note is not None:
        meaning = replace(meaning, first=note.first)
        _write(mask, replace(note, read=(case, meaning)))
    return meaning


def _unmasked(T: int, S: int, causal: bool) -> Meaning:
    """As `sdpa` reads no mask: the first query sees the first key, a lone one all of them."""
    if not causal:
        return Meaning(Mask(), length=S)
    if T == 1:
        return Meaning(Mask(causal=True, start=S - 1), length=S)
    return Meaning(Mask(causal=True), length=min(T, S))


def _clear(mask: Tensor, B: int, T: int, S: int) -> Tensor:
    """(B, H or 1, T, S) True where a query may look."""
    given = tuple(mask.shape)
    mask = mask[None] if mask.dim() == 2 else mask  # (T, S)
    mask = mask[:, None] if mask.dim() == 3 else mask  # (B, T, S)
    if (
        mask.dim() != 4
        or mask.shape[2] not in (1, T)
        or mask.shape[3] < S
        or len(mask) not in (1, B)
    ):
        raise ValueError(
            f"a mask of shape {given} does not fit {T} queries and {S} keys; "
            "give (B, S) to the model, or (B, 1, T, S)"
        )
    mask = mask[..., :S]
    if not mask.is_floating_point():
        return mask.bool().expand(B, -1, T, -1)
    clear = mask > HIDDEN
    if bool((mask.masked_fill(~clear, 0) != 0).any()):
        raise ValueError(
            "this model adds numbers of its own to the scores (a bias, in its mask), which attnlab "
            'has no words for; use attn_implementation="eager" or "sdpa"'
        )
    return clear.expand(B, -1, T, -1)


def _guess(seen: Tensor, causal: bool) -> int:
    """Where the first query stands, of a mask that nobody explained: the last sees the last key."""
    T, S = seen.shape[2:]
    if not causal or T == S:
        return 0
    anybody = seen.flatten(0, 2).any(0).nonzero()
    return max(0, int(anybody.amax()) + 1 - T) if len(anybody) else S - T


def _words(seen: Tensor, start: int, causal: bool, plain: bool | None) -> Meaning:
    """The same in words, if there are any."""
    T, S = seen.shape[2:]
    length = min(S, start + T) if causal else S
    same = seen.stride(2) == 0 or T == 1  # all queries are told the same: nothing to compare
    if seen.shape[1] == 1:
        keys = seen[:, 0, 0] if same else seen[:, 0].any(1)  # (B, S)
        for follows in (True, False) if causal else (False, True):
            if plain is not None and plain != follows:
                continue
            mask = Mask(follows, keys, start if follows else 0)
            if plain is not None or _says(mask, seen, same):
                kept = S if not follows else length
                return Meaning(_shortened(mask, kept), length=kept)
    return Meaning(Mask(causal, start=start), seen[..., :length], length)


def _says(mask: Mask, seen: Tensor, same: bool) -> bool:
    """Whether it means the same as (B, 1, T, S)."""
    T, S = seen.shape[2:]
    if not mask.causal and same:
        return True
    allowed = mask.allowed(T, S, seen.device)
    assert allowed is not None
    return bool((allowed == seen).all())


def _shortened(mask: Mask, length: int) -> Mask:
    """Without free slots, and without keys where all are real: faster ways are open then."""
    assert mask.keys is not None
    keys = mask.keys[:, :length]
    return replace(mask, keys=None if bool(keys.all()) else keys)


def _note(mask: Tensor) -> Note | None:
    note = getattr(mask, NOTE, None)
    return note if isinstance(note, Note) and note.version == _version(mask) else None


def _write(mask: Tensor, note: Note) -> None:
    setattr(mask, NOTE, note)


def _version(mask: Tensor) -> int:
    return 0 if mask.is_inference() else mask._version
