"""A mechanism in the place of a Hugging Face layer's attention function.

Letters: B batch, H heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.huggingface._attention_modules import is_cross
from attnlab.huggingface._layer_mechanisms import Spec, mechanism_for
from attnlab.huggingface._left_padding import Rolled
from attnlab.huggingface._mask_meaning import Meaning, read_meaning
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms._head_groups import members_of, name_of

OTHERWISE = 'use attn_implementation="eager" for it'
REFUSED = {
    "softcap": "caps its scores",
    "s_aux": "gives a part of each row to a learned sink",
    "position_bias": "adds a bias to its scores",
    "indices": "chooses keys by an index of its own",
    "block_indices": "chooses keys by an index of its own",
    "cache": "reads a paged cache (continuous batching)",
}
"""Options with which a model asks for more than softmax(scale q k^T + mask) v."""


@dataclass(frozen=True, eq=False)
class Ready:
    """All that one call needs."""

    mechanism: Mechanism
    q: Tensor
    k: Tensor
    v: Tensor
    meaning: Meaning

    def output(self) -> Tensor:
        """(B, H, T, M)"""
        mask, mechanism = self.meaning.mask, self.mechanism
        if self.meaning.allowed is not None:
            return self._dense(self.meaning.allowed)
        if mechanism.card.cross:
            if self.q.shape[2] == 1:  # the newest token sees all that is left: sums, no scan
                mask = Mask(keys=mask.keys)
            out: Tensor = mechanism(self.q, self.k, self.v, mask)
            return out
        rolled = Rolled(self.q, self.k, self.v, mask)
        if self.q.shape[2] > 1 or not mask.causal:
            return rolled.back(mechanism(rolled.q, rolled.k, rolled.v, rolled.mask))
        start = rolled.mask.start
        state = mechanism.absorb(rolled.k, rolled.v, rolled.mask.keys)
        state = state.trim(start + 1) if isinstance(start, Tensor) else state
        return mechanism.read(rolled.q, state, start)

    def weights(self) -> Tensor:
        """(B, H, T, S) of the definition."""
        if self.meaning.allowed is not None:
            own = torch.eye(self.k.shape[2], dtype=self.v.dtype, device=self.v.device)
            own = own.expand(len(self.k), self.k.shape[1], -1, -1)
            return Ready(self.mechanism, self.q, self.k, own, self.meaning)._dense(
                self.meaning.allowed, dropped=False
            )
        if self.mechanism.card.cross:
            return self.mechanism.weights(self.q, self.k, self.meaning.mask)
        rolled = Rolled(self.q, self.k, self.v, self.meaning.mask)
        return rolled.back_weights(self.mechanism.weights(rolled.q, rolled.k, rolled.mask))

    def condition(self) -> Tensor:
        """How many times a rounding error may grow in each row: (B, H, T, 1)."""
        if self.meaning.allowed is not None or not self.mechanism.card.cross:
            return self.q.new_ones(*self.q.shape[:3], 1)
        return self.mechanism.condition(self.q, self.k, self.meaning.mask)

    def _dense(self, allowed: Tensor, dropped: bool = True) -> Tensor:
        """Under a mask that no words describe."""
        mechanism, start = self.mechanism, self.meaning.mask.start
        dropout = getattr(mechanism, "dropout", 0.0) if mechanism.training and dropped else 0.0
        try:
            return mechanism.attend_dense(self.q, self.k, self.v, allowed, start, dropout)
        except NotImplementedError:
            defined = [
                name
                for name, kind in MECHANISMS.items()
                if kind.attend_dense is not Mechanism.attend_dense
            ]
            raise ValueError(
                f"{name_of(mechanism)}: this layer's mask is more than causal and padding (a "
                "sliding window, chunks, packed texts, or one made by hand), under which only "
                f'{" and ".join(defined)} are defined; use attn_implementation="attnlab-softmax"'
            ) from None


def prepare(
    spec: Spec,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    options: dict[str, Any],
    row: int | None = None,
) -> Ready:
    """Of the whole batch, or of one of its rows."""
    _check_options(module, options)
    H, D = query.shape[1], query.shape[3]
    query, beta = _scaled(query, options.get("scaling"))
    mechanism = mechanism_for(module, spec, heads=H, head_dim=D, beta=beta, device=query.device)
    _set_dropout(mechanism, float(options.get("dropout") or 0.0))
    meaning = read_meaning(module, query, key, mask, options)
    _check_place(mechanism, module, meaning)
    if key.shape[1] != value.shape[1]:  # one of them is shared by more heads
        key, value = (x.repeat_interleave(H // x.shape[1], dim=1) for x in (key, value))
    key, value = key[:, :, : meaning.length], value[:, :, : meaning.length]
    if row is not None and len(query) > 1:
        query, key, value = (x[row : row + 1] for x in (query, key, value))
        meaning = meaning.row(row)
    return Ready(mechanism, query, key, value, meaning)


def _check_options(module: nn.Module, options: dict[str, Any]) -> None:
    found = [name for name in REFUSED if options.get(name) is not None]
    if not found and isinstance(getattr(module, "sinks", None), Tensor):
        found = ["s_aux"]
    if found:
        raise ValueError(
            f"{type(module).__name__}: this layer {REFUSED[found[0]]}, for which attnlab's "
            f"mechanisms have no words; {OTHERWISE}"
        )


def _scaled(query: Tensor, scaling: Any) -> tuple[Tensor, float]:
    """The queries, and the inverse temperature that the model asks for."""
    default = float(query.shape[3] ** -0.5)
    if scaling is None:
        return query, default
    if isinstance(scaling, Tensor):  # learned, or one for each head: its gradient goes on
        return query * (scaling / default), default
    return query, float(scaling)


def _set_dropout(mechanism: Mechanism, dropout: float) -> None:
    """The model says how much (nothing, unless it is training)."""
    mechanism.train(dropout > 0)
    for member in members_of(mechanism):
        if hasattr(member, "dropout"):
            member.dropout = dropout  # type: ignore[assignment]
        elif dropout:
            warnings.warn(
                f"attnlab-{member.name} never forms single weights, so the model's attention "
                f"dropout of {dropout:g} is not applied; set it to 0 in the configuration",
                stacklevel=2,
            )


def _check_place(mechanism: Mechanism, module: nn.Module, meaning: Meaning) -> None:
    """Mechanisms of positions need to know where all queries and keys stand in one sequence."""
    if mechanism.card.cross:
        return
    name = name_of(mechanism)
    if is_cross(module):
        raise ValueError(
            f"{name}: refuses the cross-attention of {type(module).__name__}, because it is "
            "defined by distances inside one sequence; use softmax or a kernel mechanism"
        )
    if meaning.first and not all(each.shift_invariant for each in members_of(mechanism)):
        raise ValueError(
            f"{name}: this layer's cache has forgotten its first {meaning.first} tokens, and with "
            "them where its blocks begin; generate with use_cache=False, or use attnlab-window"
        )
