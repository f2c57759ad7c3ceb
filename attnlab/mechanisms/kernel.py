"""Kernel attention: weights proportional to phi(q).phi(k), at linear cost and constant state.

Letters: B batch, H query heads, G key heads, T queries, S keys, C features, M value size.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import torch
from torch import Tensor

from attnlab._argument_checks import check_read, check_size
from attnlab._compiling import is_mapped
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Mechanism, full_precision, repeat_heads
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms._block_sparse import gather_outputs, scatter_queries
from attnlab.mechanisms._scan import (
    LOG_ZERO,
    LOWEST,
    causal_scan,
    divide,
    underflows,
    with_one,
)
from attnlab.mechanisms._scan import (
    Features as Features,
)
from attnlab.state import State, advance

Chunk = Annotated[
    int, "Tokens per chunk of the causal forward pass in PyTorch. Affects only the speed."
]
CHUNK = 64


@dataclass(frozen=True, eq=False)
class KernelState(State):
    """The sums over all keys: constant size, float32 or better."""

    sums: Tensor  # (B, G, C, M+1): sum of phi(k) [v, 1], each feature divided by exp(peak)
    peak: Tensor  # (B, G, 1, C): the largest log phi(k) of each feature so far
    overwrites: list[int] | None = None
    """How often the memory was overwritten: one number, shared by all states in that memory. None
    if the state is not overwritable."""
    version: int = 0
    """The value of `overwrites` when this state was made."""

    @property
    def batch(self) -> int:
        return len(self.sums)

    def overwritable(self) -> Self:
        self.check()
        return replace(
            self, sums=self.sums.clone(), peak=self.peak.clone(), overwrites=[0], version=0
        )

    def select(self, rows: Tensor) -> Self:
        self.check()
        return replace(super().select(rows), **self.new_memory_fields())

    def trim(self, lengths: Tensor) -> Self:
        trimmed = super().trim(lengths)
        return trimmed if self.overwrites is None else trimmed.overwritable()

    def new_memory_fields(self) -> dict[str, Any]:
        """The version fields of a state in new memory."""
        return {"overwrites": None if self.overwrites is None else [0], "version": 0}

    def check(self) -> None:
        if self.overwrites is not None and self.overwrites[0] != self.version:
            raise ValueError(
                "this state was overwritten by a later absorb; continue with the state that absorb "
                "returned, or absorb into a state that is not overwritable()"
            )


class Kernel(Mechanism):
    """Subclasses define `phi`."""

    compilable = True

    def __init__(
        self, *, head_dim: int, heads: int, max_length: int | None = None, chunk: Chunk = CHUNK
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        check_size(self, chunk=chunk)
        self.chunk = chunk

    @abstractmethod
    def phi(self, x: Tensor) -> Features:
        """The feature map of queries or keys (..., D)."""

    @full_precision
    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        query, key = self._both_features(q, k, mask)
        terms = self._terms(query, key, mask)  # (B, H, T, S)
        return divide(terms, terms.sum(-1, keepdim=True)).to(q.dtype)

    def condition(self, q: Tensor, k: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        query, key = self._both_features(q, k, mask)
        if query.sign is None or key.sign is None:
            return super().condition(q, k, mask, **gates)
        bottom = self._terms(query, key, mask).sum(-1, keepdim=True)
        sizes = self._terms(query.size(), key.size(), mask).sum(-1, keepdim=True)
        return (sizes / bottom.abs()).nan_to_num(1).clamp(min=1)

    def _both_features(self, q: Tensor, k: Tensor, mask: Mask) -> tuple[Features, Features]:
        """Of queries and keys, (B, H, T, C) and (B, H, S, C)."""
        key = self.features(repeat_heads(k, self.heads), mask.keys)
        return self.query_features(q, mask.start), key

    def _terms(self, query: Features, key: Features, mask: Mask) -> Tensor:
        """phi(q).phi(k) where allowed (B, H, T, S), each row scaled by its own factor."""
        (B, H, T, _), S = query.log.shape, key.log.shape[2]
        if S == 0:
            return query.log.new_zeros(B, H, T, 0)
        top = key.log.detach().amax(2, keepdim=True).clamp(min=LOWEST)  # (B, H, 1, C)
        log_bound = query.log + top
        reference = log_bound.detach().amax(-1, keepdim=True).clamp(min=LOWEST)  # (B, H, T, 1)
        terms = (
            Features(query.sign, log_bound).divide_by_exp(reference) @ key.divide_by_exp(top).mT
        )  # (B, H, T, S)
        if not mask.causal and mask.segments is None:
            return terms  # padding already has weight 0
        allowed = mask.allowed(T, S, terms.device)
        assert allowed is not None
        terms = terms.masked_fill(~allowed, 0)
        # A later key far above all visible ones makes a query's terms underflow: recompute those.
        lost = underflows(terms.detach().sum(-1)) & allowed.any(-1)  # (B, H, T)
        if not bool(lost.any()):
            return terms
        # ... unless the query shares no feature with its keys: then zero is correct
        overlaps = (
            _is_nonzero(query.log, terms) @ _is_nonzero(key.log, terms).mT > 0
        )  # (B, H, T, S)
        lost = lost & (overlaps & allowed).any(-1)
        if not bool(lost.any()):
            return terms
        allowed = allowed.expand(B, H, T, S)
        rows = [
            self._terms_of_query(query.part((b, h, t)), key.part((b, h)), allowed[b, h, t])
            for b, h, t in lost.nonzero().tolist()
        ]
        return terms.index_put(lost.nonzero(as_tuple=True), torch.stack(rows))

    @staticmethod
    def _terms_of_query(query: Features, key: Features, allowed: Tensor) -> Tensor:
        """One query (C,) against its allowed keys (S, C), term by term."""
        pair = (query.log + key.log).masked_fill(~allowed[:, None], LOG_ZERO)  # (S, C)
        size = (pair - pair.detach().amax().clamp(min=LOWEST)).exp()
        if query.sign is not None and key.sign is not None:
            size = size * query.sign * key.sign
        return size.sum(-1)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        return self._compute(q, k, v, mask).to(v.dtype)

    @full_precision
    def _compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        if not mask.causal:
            return self._read(q, *self._sums(k, v, mask.keys, None), mask.start)
        (_, H, T, _), S = q.shape, k.shape[2]
        queries = scatter_queries(q, S, mask)  # (B, H, S, D)
        out = self._causal(queries, repeat_heads(k, H), repeat_heads(v, H), mask.keys)
        out = gather_outputs(out, T, mask)
        if mask.from_zero and T <= S:
            return out
        late = (mask.positions(T, q.device) >= S)[:, None, :, None]  # after the last key
        if not bool(late.any()):
            return out
        sums = self._sums(k, v, mask.keys, None)
        return torch.where(late, self._read(q, *sums, mask.start), out)

    def _causal(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None) -> Tensor:
        """The outputs (B, H, S, M) of as many queries as keys."""
        key = self.features(k, keys)
        return self._scan(self.query_features(q), key, v.to(key.log.dtype))

    def _scan(self, query: Features, key: Features, value: Tensor) -> Tensor:
        if self.use_compiled and compiled.can_run(value):
            return compiled.causal(query, key, value)
        out = causal_scan(query.flatten(), key.flatten(), value.flatten(0, 1), self.chunk)
        return out.view(value.shape)

    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        k, v = self.prepare_memory(k, v, keys, state)
        old = None if state is None else self.as_own_state(state, KernelState)
        if old is not None:
            old.check()
            if k.shape[2] == 1 and keys is None and self._can_overwrite(old):
                return self._overwrite(k, v, old)
        sums, peak = self._sums(k, v, keys, old)
        counts = advance(state, k.shape[2], keys)
        memory = {} if old is None else old.new_memory_fields()
        return KernelState(self.origin(k, v), **counts, sums=sums, peak=peak, **memory)

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        check_read(self, q, state, start)
        own = self.as_own_state(state, KernelState)
        own.check()
        return self._read(q, own.sums, own.peak, start).to(q.dtype)

    def _can_overwrite(self, state: KernelState) -> bool:
        if state.overwrites is None or torch.is_grad_enabled():
            return False
        if torch.compiler.is_compiling() or is_mapped():
            return False
        is_inference = state.sums.is_inference() and not torch.is_inference_mode_enabled()
        return not is_inference and state.sums.is_contiguous() and state.peak.is_contiguous()

    @full_precision
    def _overwrite(self, k: Tensor, v: Tensor, state: KernelState) -> KernelState:
        key = self.features(self.expand(k), start=state.length)
        value = self.expand(v).to(key.log.dtype)
        if self.use_compiled and compiled.can_run(value):
            compiled.absorb_in_place(key, value, state.sums, state.peak)
        else:
            top = torch.maximum(key.log, state.peak)  # (B, G, 1, C)
            state.sums.mul_((state.peak - top).exp().mT)
            state.sums.add_(key.divide_by_exp(top).mT @ with_one(value))  # (B, G, C, M+1)
            state.peak.copy_(top)
        assert state.overwrites is not None
        state.overwrites[0] += 1
        return replace(state, **advance(state, 1, None), version=state.overwrites[0])

    def expand(self, x: Tensor) -> Tensor:
        """Keys or values (B, G, S, D) for the state: one head for each key head, or for each query
        head where heads have feature maps of their own."""
        return x

    def query_features(self, q: Tensor, start: int | Tensor = 0) -> Features:
        """phi(q), up to a factor for each query, which cancels. The first query is at `start`."""
        return self.features(q, start=start)

    def features(self, x: Tensor, keys: Tensor | None = None, start: int | Tensor = 0) -> Features:
        """phi(x) in float32 or better; zero for padding. The first token is at `start`."""
        del start  # for mechanisms whose features depend on positions
        return self._masked(self.phi(x.to(torch.promote_types(x.dtype, torch.float32))), keys)

    def feature_count(self) -> int:
        with torch.no_grad():
            sign, log = self.features(torch.zeros(1, self.heads, 1, self.head_dim))
        return max(log.shape[-1], 0 if sign is None else sign.shape[-1])

    @staticmethod
    def _masked(features: Features, keys: Tensor | None) -> Features:
        sign, log = features
        if keys is not None:
            log = log.masked_fill(~keys[:, None, :, None], LOG_ZERO)
        return Features(sign, log)

    @full_precision
    def _sums(
        self, k: Tensor, v: Tensor, keys: Tensor | None, state: KernelState | None
    ) -> tuple[Tensor, Tensor]:
        """The state's `sums` and `peak` after these keys."""
        start = 0 if state is None else state.length
        key = self.features(self.expand(k), keys, start)  # (B, G, S, C)
        value = self.expand(v).to(key.log.dtype)
        before = None if state is None else (state.sums, state.peak)
        return add_sums(key, value, before, self.use_compiled)

    @full_precision
    def _read(self, q: Tensor, sums: Tensor, peak: Tensor, start: int | Tensor) -> Tensor:
        (B, H, T, _), (_, G, _, columns) = q.shape, sums.shape
        query = self.query_features(q, start).grouped(G)  # heads of a group read one state
        sums, peak = sums.to(query.log.dtype), peak.to(query.log.dtype)
        if self.use_compiled and compiled.can_run(sums):
            return compiled.read(query, sums, peak).view(B, H, T, columns - 1)
        log_bound = query.log + peak
        reference = log_bound.detach().amax(-1, keepdim=True).clamp(min=LOWEST)
        both = Features(query.sign, log_bound).divide_by_exp(reference) @ sums  # (B, G, H/G*T, M+1)
        return divide(both[..., :-1], both[..., -1:]).view(B, H, T, columns - 1)


def add_sums(
    key: Features, value: Tensor, before: tuple[Tensor, Tensor] | None, use_compiled: bool
) -> tuple[Tensor, Tensor]:
    """The sums of phi(k) [v, 1] (B, G, C, M+1) and their peak (B, G, 1, C), with those `before`."""
    if use_compiled and compiled.can_run(value):
        sums, top = compiled.sums(key, value)
    else:
        if value.shape[2]:
            top = key.log.detach().amax(2, keepdim=True).clamp(min=LOWEST)  # (B, G, 1, C)
        else:
            top = key.log.new_full((*key.log.shape[:2], 1, key.log.shape[-1]), LOWEST)
        sums = key.divide_by_exp(top).mT @ with_one(value)  # (B, G, C, M+1)
    if before is None:
        return sums, top
    peak = torch.maximum(top, before[1])
    return (before[1] - peak).exp().mT * before[0] + (top - peak).exp().mT * sums, peak


def _is_nonzero(log: Tensor, like: Tensor) -> Tensor:
    """1 for a feature that is not zero."""
    return (log.detach() > LOWEST).to(like.dtype)
