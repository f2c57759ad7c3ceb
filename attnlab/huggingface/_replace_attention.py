"""Runs a mechanism instead of a Hugging Face layer's attention function.

Letters: B batch, H heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.huggingface._attention_modules import is_cross
from attnlab.huggingface._layer_mechanisms import Spec, mechanism_for
from attnlab.huggingface._left_padding import RightPadded
from attnlab.huggingface._mask_meaning import MaskMeaning, interpret_mask
from attnlab.huggingface._score_terms import PLAIN, ScoreTerms, read_terms
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism, zero_padding
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms._mechanism_per_head_group import members_of, name_of
from attnlab.mechanisms.softmax import Softmax

ALTERNATIVE = 'use attn_implementation="eager" for it'
UNSUPPORTED = {
    "indices": "selects keys with its own index",
    "block_indices": "selects keys with its own index",
    "cache": "reads a paged cache (continuous batching)",
}
"""Options of a call that mean more than softmax(scale q k^T + bias + mask) v."""


@dataclass(frozen=True, eq=False)
class PreparedCall:
    """A mechanism and its arguments for one call."""

    mechanism: Mechanism
    q: Tensor
    k: Tensor
    v: Tensor
    meaning: MaskMeaning
    terms: ScoreTerms = PLAIN

    def output(self) -> Tensor:
        """(B, H, T, M)"""
        mask, mechanism = self.meaning.mask, self.mechanism
        if self.terms.describe():
            return self._attend_with_terms()
        if self.meaning.allowed is not None:
            return self._attend_dense(self.meaning.allowed)
        if mechanism.card.cross:
            if self.q.shape[2] == 1:  # the newest token sees all keys: sums are faster than a scan
                mask = Mask(keys=mask.keys, start=mask.start)
            out: Tensor = mechanism(self.q, self.k, self.v, mask)
            return out
        padded = RightPadded(self.q, self.k, self.v, mask)
        if self.q.shape[2] > 1 or not mask.causal:
            return padded.restore(mechanism(padded.q, padded.k, padded.v, padded.mask))
        start = padded.mask.start
        state = mechanism.absorb(padded.k, padded.v, padded.mask.keys)
        state = state.trim(start + 1) if isinstance(start, Tensor) else state
        return mechanism.read(padded.q, state, start)

    def weights(self) -> Tensor:
        """(B, H, T, S), by the mechanism's definition."""
        if self.terms.describe():
            assert isinstance(self.mechanism, Softmax)
            return self.terms.weights(self.q, self.k, self.allowed(), self.mechanism.beta)
        if self.meaning.allowed is not None:
            identity = torch.eye(self.k.shape[2], dtype=self.v.dtype, device=self.v.device)
            identity = identity.expand(len(self.k), self.k.shape[1], -1, -1)  # A I = A
            call = PreparedCall(self.mechanism, self.q, self.k, identity, self.meaning)
            return call._attend_dense(self.meaning.allowed, use_dropout=False)
        if self.mechanism.card.cross:
            return self.mechanism.weights(self.q, self.k, self.meaning.mask)
        padded = RightPadded(self.q, self.k, self.v, self.meaning.mask)
        return padded.restore_weights(self.mechanism.weights(padded.q, padded.k, padded.mask))

    def condition(self) -> Tensor:
        """By which factor a rounding error may grow in each row: (B, H, T, 1)."""
        dense = self.meaning.allowed is not None or bool(self.terms.describe())
        if dense or not self.mechanism.card.cross:
            return self.q.new_ones(*self.q.shape[:3], 1)
        return self.mechanism.condition(self.q, self.k, self.meaning.mask)

    def _attend_with_terms(self) -> Tensor:
        mechanism, allowed, k, v = self.mechanism, self.allowed(), self.k, self.v
        assert isinstance(mechanism, Softmax)
        if allowed is not None:  # anything may stand where no query sees it
            keys = allowed.flatten(1, 2).any(1)  # (B or 1, S)
            k, v = zero_padding(k, keys), zero_padding(v, keys)
        dropout = mechanism.dropout if mechanism.training else 0.0
        return self.terms.attend(self.q, k, v, allowed, mechanism.beta, dropout)

    def allowed(self) -> Tensor | None:
        """(B or 1, H or 1, T, S): True where a query may attend; None means everywhere."""
        if self.meaning.allowed is not None:
            return self.meaning.allowed
        return self.meaning.mask.allowed(self.q.shape[2], self.k.shape[2], self.q.device)

    def _attend_dense(self, allowed: Tensor, use_dropout: bool = True) -> Tensor:
        """For a mask that `Mask` cannot express."""
        mechanism, start = self.mechanism, self.meaning.mask.start
        dropout = getattr(mechanism, "dropout", 0.0) if mechanism.training and use_dropout else 0.0
        try:
            return mechanism.attend_dense(self.q, self.k, self.v, allowed, start, dropout)
        except NotImplementedError:
            supported = [
                name
                for name, kind in MECHANISMS.items()
                if kind.attend_dense is not Mechanism.attend_dense
            ]
            raise ValueError(
                f"{name_of(mechanism)}: this layer's mask is more than causal and padding (a "
                "sliding window, chunks, packed texts, or your own mask), which only "
                f'{" and ".join(supported)} support; use attn_implementation="attnlab-softmax"'
            ) from None


def prepare_call(
    spec: Spec,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    options: dict[str, Any],
    row: int | None = None,
) -> PreparedCall:
    """Prepare a call for the whole batch, or for one row."""
    _check_options(module, options)
    H, D = query.shape[1], query.shape[3]
    query, beta = _split_scaling(query, options.get("scaling"))
    mechanism = mechanism_for(module, spec, heads=H, head_dim=D, beta=beta, device=query.device)
    _set_dropout(mechanism, float(options.get("dropout") or 0.0))
    meaning = interpret_mask(module, query, key, mask, options)
    terms, visible = read_terms(module, options, meaning.bias)
    _check_terms(mechanism, module, terms)
    _check_positions(mechanism, module, meaning)
    if visible is not None:
        meaning = _restricted(meaning, visible, query.shape[2], key.shape[2])
    if key.shape[1] != value.shape[1]:  # more heads share one of them
        key, value = (x.repeat_interleave(H // x.shape[1], dim=1) for x in (key, value))
    key, value = key[:, :, : meaning.length], value[:, :, : meaning.length]
    if row is not None and len(query) > 1:
        query, key, value = (x[row : row + 1] for x in (query, key, value))
        meaning, terms = meaning.row(row), terms.row(row)
    return PreparedCall(mechanism, query, key, value, meaning, terms.cut(meaning.length))


def _check_options(module: nn.Module, options: dict[str, Any]) -> None:
    names = [name for name in UNSUPPORTED if options.get(name) is not None]
    if names:
        raise ValueError(
            f"{type(module).__name__}: this layer {UNSUPPORTED[names[0]]}, which a replaced layer "
            f"would leave out; {ALTERNATIVE}"
        )


def _check_terms(mechanism: Mechanism, module: nn.Module, terms: ScoreTerms) -> None:
    """Raise if the layer does something with its scores that the mechanism does not have."""
    described = terms.describe()
    if described and not (isinstance(mechanism, Softmax) and mechanism.plain):
        raise ValueError(
            f"{name_of(mechanism)}: {type(module).__name__} {described}, which only softmax "
            'without options supports; use attn_implementation="attnlab-softmax"'
        )


def _restricted(meaning: MaskMeaning, visible: Tensor, T: int, S: int) -> MaskMeaning:
    """The same mask, and only where `visible` (B or 1, H or 1, T, S) is True."""
    allowed = meaning.allowed
    if allowed is None:
        allowed = meaning.mask.allowed(T, meaning.length, visible.device)
    visible = visible.expand(-1, -1, T, S)[..., : meaning.length]
    return replace(meaning, allowed=visible if allowed is None else allowed & visible)


def _split_scaling(query: Tensor, scaling: Any) -> tuple[Tensor, float]:
    """The queries and the inverse temperature; a tensor of scales goes into the queries."""
    default = float(query.shape[3] ** -0.5)
    if scaling is None:
        return query, default
    if isinstance(scaling, Tensor):  # learned, or one for each head; this keeps its gradient
        return query * (scaling / default), default
    return query, float(scaling)


def _set_dropout(mechanism: Mechanism, dropout: float) -> None:
    """Use the model's dropout (0 unless it is training)."""
    mechanism.train(dropout > 0)
    for member in members_of(mechanism):
        if hasattr(member, "dropout"):
            member.dropout = dropout  # type: ignore[assignment]
        elif dropout:
            warnings.warn(
                f"attnlab-{member.name} never computes single weights, so the model's attention "
                f"dropout of {dropout:g} is not applied; set it to 0 in the configuration",
                stacklevel=2,
            )


def _check_positions(mechanism: Mechanism, module: nn.Module, meaning: MaskMeaning) -> None:
    """Raise if the mechanism depends on positions that are unknown in this layer."""
    name = name_of(mechanism)
    biased = any(getattr(member, "bias", None) is not None for member in members_of(mechanism))
    if mechanism.card.cross and not (biased and is_cross(module)):
        return
    if is_cross(module):
        raise ValueError(
            f"{name}: cannot replace the cross-attention of {type(module).__name__}, because it is "
            "defined by distances inside one sequence; use plain softmax or a kernel mechanism"
        )
    if not meaning.mask.causal and not mechanism.card.bidirectional:
        raise ValueError(
            f"{name}: exists only in causal form, so it cannot replace the attention of "
            f"{type(module).__name__}, which sees later tokens too; choose another mechanism"
        )
    shift_invariant = all(member.shift_invariant for member in members_of(mechanism))
    if meaning.first_key and not shift_invariant:
        raise ValueError(
            f"{name}: needs the first tokens, but this layer's cache has dropped "
            f"{meaning.first_key} of them; generate with use_cache=False, or use attnlab-window "
            "without sinks"
        )
