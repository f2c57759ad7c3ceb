"""Softmax in a window plus hedgehog's features for all earlier keys, under one denominator.

With s_ij = beta q_i.k_j, and m_i the largest s_ij in the window of query i, key j has the term

    g exp(s_ij - m_i)   if i - window < j <= i,
    phi(q_i).phi(k_j)   if j <= i - window.

Its weight is its term divided by the sum of all terms of the query. phi is hedgehog's feature map,
and g the sigmoid of a learned number, one for each head. m_i is more than a stabilizer: it scales
the window's terms only, so that the largest of them is g. Gradients therefore pass through it.

Letters: B batch, H query heads, G key heads, T queries, S keys, D head size, C features, M value
size; L tokens of a block, Q blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab._argument_checks import check_read, check_size
from attnlab._compiling import never_compiled
from attnlab.mask import NO_MASK, Mask
from attnlab.mechanism import Card, Mechanism, full_precision, repeat_heads
from attnlab.mechanisms._block_sparse import gather_outputs, scatter_queries
from attnlab.mechanisms._scan import LOG_ZERO, LOWEST, Features, divide, underflows, with_one
from attnlab.mechanisms.hedgehog import FeatureCount, create_directions, log_features
from attnlab.mechanisms.kernel import add_sums
from attnlab.mechanisms.softmax import Beta, inverse_temperature
from attnlab.state import KeyValues, State

SMALLEST_BLOCK = 32  # narrower windows use blocks of this size too: tiny products are slow


@dataclass(frozen=True, eq=False)
class WindowAndSums(KeyValues):
    """The keys and values of the window, and the sums over all earlier ones."""

    sums: Tensor | None = None  # (B, H, C, M+1) as in KernelState
    peak: Tensor | None = None  # (B, H, 1, C)
    summed: int = 0
    """How many positions the sums contain."""

    @property
    def nbytes(self) -> int:
        sums = [x for x in (self.sums, self.peak) if x is not None]
        return super().nbytes + sum(x.numel() * x.element_size() for x in sums)

    @property
    def both_sums(self) -> tuple[Tensor, Tensor] | None:
        return None if self.sums is None or self.peak is None else (self.sums, self.peak)


class HedgehogWindow(Mechanism):
    name = "hedgehog_window"
    card = Card(
        summary="softmax in a window, hedgehog's features for all earlier keys",
        paper="Zhang et al. 2024 (LoLCATs)",
        arxiv="2410.10254",
        time="N (W+C) D",
        memory="N (W+C)",
        bidirectional=False,
        cross=False,
        one_graph=False,
        constant_state=True,
        learned=True,
    )
    trials = ({"window": 1}, {"window": 3, "features": 6, "beta": 2.5}, {"window": 40})
    size_option = "window"
    shift_invariant = True

    def __init__(
        self,
        *,
        head_dim: int,
        heads: int,
        max_length: int | None = None,
        window: Annotated[int, "Number of last keys under softmax, with the query's own."] = 64,
        features: FeatureCount = None,
        beta: Beta = None,
    ) -> None:
        super().__init__(head_dim=head_dim, heads=heads, max_length=max_length)
        check_size(self, window=window)
        self.window = window
        self.beta = inverse_temperature(self, beta)
        self.directions = create_directions(self, features)
        self.factor = nn.Parameter(torch.zeros(heads))  # g = sigmoid(factor)

    @full_precision
    def weights(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK) -> Tensor:
        q, k = self.prepare_weights(q, k, mask)
        T, S, dtype = q.shape[2], k.shape[2], q.dtype
        if S == 0:
            return q.new_zeros(*q.shape[:3], 0)
        q, k = self._wide(q), self._wide(k)  # (B, H, T, D), (B, H, S, D)
        position = mask.positions(T, q.device)  # (B or 1, T)
        distance = position[:, None, :, None] - torch.arange(S, device=q.device)
        real = mask.allowed(T, S, q.device)
        assert real is not None
        query, key = self._features(q).exp(), self._features(k, mask.keys).exp()
        near, far = real & (distance < self.window), distance >= self.window
        terms = self._terms(q, k, query, key, near, far)
        total = terms.sum(-1, keepdim=True)
        lost = underflows(total) & real.any(-1, keepdim=True)  # (B, H, T, 1)
        weights = divide(terms, total.masked_fill(lost, 1))
        return self._replace_lost(weights, lost, q, k, None, mask.keys, position).to(dtype)

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        T, S = q.shape[2], k.shape[2]
        if T == 0:
            return q.new_zeros(*q.shape[:3], v.shape[3])
        out = self._attend(scatter_queries(q, S, mask), k, v, mask.keys)
        return gather_outputs(out, T, mask).to(v.dtype)

    @full_precision
    def _attend(self, q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None) -> Tensor:
        """The outputs (B, H, S, M) of queries at all positions.

        Each block of queries has the exact terms of its own keys and of the block before, and the
        sums over all earlier blocks.
        """
        q, k, v = self._wide(q), self._wide(k), self._wide(v)
        S, device = q.shape[2], q.device
        L = min(S, max(self.window, SMALLEST_BLOCK))
        Q = -(-S // L)

        def blocks(x: Tensor) -> Tensor:
            """(B, H, S, D) -> (B, H, Q, L, D)"""
            return F.pad(x, (0, 0, 0, Q * L - S)).unflatten(2, (Q, L))

        def with_previous(x: Tensor) -> Tensor:
            """(B, H, Q, L, D) -> (B, H, Q, 2 L, D), or the same if there is one block only."""
            return x if Q == 1 else torch.cat([F.pad(x[:, :, :-1], (0, 0, 0, 0, 1, 0)), x], dim=3)

        query, key = blocks(self._features(q).exp()), blocks(self._features(k, keys).exp())
        value = with_one(blocks(v))
        real = torch.ones(1, S, dtype=torch.bool, device=device) if keys is None else keys
        near = with_previous(blocks(real[:, None, :, None])).mT  # (B or 1, 1, Q, 1, 2 L)
        steps = torch.arange(L, device=device)
        distance = steps[:, None] - torch.arange(-L if Q > 1 else 0, L, device=device)  # (L, 2 L)
        near = near & (distance >= 0) & (distance < self.window)  # (B or 1, 1, Q, L, 2 L)
        far = distance >= self.window
        both_keys = with_previous(blocks(k)), query, with_previous(key)
        both = self._terms(blocks(q), *both_keys, near, far) @ with_previous(value)
        if Q > 2:
            sums = (key[:, :, :-2].mT @ value[:, :, :-2]).cumsum(2)  # (B, H, Q-2, C, M+1)
            both = both + F.pad(query[:, :, 2:] @ sums, (0, 0, 0, 0, 2, 0))
        both = both.flatten(2, 3)[:, :, :S]  # (B, H, S, M+1)
        total, seen = both[..., -1:], real.cummax(1).values[:, None, :, None]
        lost = underflows(total) & seen
        out = divide(both[..., :-1], total.masked_fill(lost, 1))
        position = torch.arange(S, device=device)[None]
        return self._replace_lost(out, lost, q, k, v, keys, position)

    def _terms(
        self, q: Tensor, k: Tensor, query: Tensor, key: Tensor, near: Tensor, far: Tensor
    ) -> Tensor:
        """The terms of queries (..., T, D) and keys (..., S, D) with these features."""
        scores, peak = self._scores(q, k, near)
        factor = self.factor.sigmoid().to(q.dtype).view(-1, *[1] * (q.dim() - 2))
        return torch.where(far, query @ key.mT, factor * (scores - peak).exp())

    def _scores(self, q: Tensor, k: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
        """s_ij in the window, else -inf, and m_i, or 0 if the window has no real key."""
        scores = ((self.beta * q) @ k.mT).masked_fill(~near, -torch.inf)
        peak = scores.amax(-1, keepdim=True)
        return scores, peak.masked_fill(peak == -torch.inf, 0)

    @never_compiled  # which rows are recomputed depends on values
    def _replace_lost(
        self, out: Tensor, lost: Tensor, q: Tensor, k: Tensor, v: Tensor | None,
        keys: Tensor | None, position: Tensor,
    ) -> Tensor:  # fmt: skip
        """The outputs (without v, the weights), with the rows recomputed from logarithms whose
        terms all underflowed: those with a window of padding, or a tiny g."""
        if not bool(lost.any()):
            return out
        rows, position = [], position.expand(len(q), -1)
        for b, h, t in lost[..., 0].nonzero().tolist():
            distance = position[b, t] - torch.arange(k.shape[2], device=q.device)
            real = distance >= 0 if keys is None else (distance >= 0) & keys[b]
            near = real & (distance < self.window)
            scores, peak = self._scores(q[b, h, t : t + 1], k[b, h], near)  # (1, S), (1, 1)
            pairs = [log_features(x, self.directions[h]) for x in (q[b, h, t : t + 1], k[b, h])]
            close = F.logsigmoid(self.factor[h]) + scores[0] - peak[0]
            logs = torch.where(near, close, (pairs[0] + pairs[1]).logsumexp(-1))  # (S,)
            weights = logs.masked_fill(~real, -torch.inf).softmax(-1)
            rows.append(weights if v is None else weights @ v[b, h])
        return out.index_put(lost[..., 0].nonzero(as_tuple=True), torch.stack(rows))

    def absorb(
        self, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        k, v = self.prepare_memory(k, v, keys, state)
        if state is None:
            old = WindowAndSums.empty(self.origin(k, v), k, v)
        else:
            old = self.as_own_state(state, WindowAndSums)
        # rows may have been selected since: drop only what is in the sums
        new = old.append(k, v, keys, keep=max(self.window, old.shortest - old.summed))
        # no later query of any row has these in its window
        summed = max(old.summed, new.shortest - self.window)
        if summed == old.summed:
            return new
        gone = slice(old.summed - new.first, summed - new.first)
        k, v, keys = new.tensors_to_read()
        keys = None if keys is None else keys[:, gone]
        sums, peak = self._add_sums(k[:, :, gone], v[:, :, gone], keys, old.both_sums)
        return replace(new, sums=sums, peak=peak, summed=summed)

    def read(self, q: Tensor, state: State, start: int | Tensor) -> Tensor:
        """All queries see the state as the newest token does."""
        check_read(self, q, state, start)
        own = self.as_own_state(state, WindowAndSums)
        if q.shape[2] == 0 or own.slots == 0:
            return q.new_zeros(*q.shape[:3], own.v.shape[3])
        return self._read(q, own).to(q.dtype)

    @full_precision
    def _read(self, q: Tensor, own: WindowAndSums) -> Tensor:
        k, v, keys = own.tensors_to_read()
        last = torch.as_tensor(own.length, device=q.device).reshape(-1, 1) - 1  # (B or 1, 1)
        distance = last - own.positions  # (B or 1, S)
        real = distance >= 0 if keys is None else (distance >= 0) & keys
        sums = own.both_sums
        if own.longest - self.window > own.summed:  # keys of some rows have left the window
            far = real & (distance >= self.window) & (own.positions >= own.summed)
            sums = self._add_sums(k, v, far, sums)
        near = (real & (distance < self.window))[:, None, None]  # (B or 1, 1, 1, S)
        q, k, v = self._wide(q), self._wide(k), self._wide(v)
        scores, peak = self._scores(q, k, near)
        factor = F.logsigmoid(self.factor).to(q.dtype)[:, None, None]
        # any reference cancels: it only keeps numbers in range
        reference = torch.where(near.any(-1, keepdim=True), factor.detach(), LOWEST)
        if sums is not None:
            bound = self._features(q) + sums[1]  # (B, H, T, C)
            reference = torch.maximum(reference, bound.detach().amax(-1, keepdim=True))
        both = (factor + scores - peak - reference).exp() @ with_one(v)  # (B, H, T, M+1)
        if sums is not None:
            both = both + (bound - reference).exp() @ sums[0]
        return divide(both[..., :-1], both[..., -1:])

    @full_precision
    def _add_sums(
        self, k: Tensor, v: Tensor, keys: Tensor | None, before: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        key = Features(None, self._features(self._wide(k), keys))
        return add_sums(key, self._wide(v), before, self.use_compiled)

    def _wide(self, x: Tensor) -> Tensor:
        """One head for each query head, in float32 or better."""
        return repeat_heads(x, self.heads).to(torch.promote_types(x.dtype, torch.float32))

    def _features(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        """log phi(x) (B, H, T, C); that of zero for padding."""
        log = log_features(x, self.directions)
        return log if keys is None else log.masked_fill(~keys[:, None, :, None], LOG_ZERO)

    def visible_keys(self, tokens: int, causal: bool) -> int:
        del causal
        return min(tokens, self.window)

    def feature_count(self) -> int:
        return 2 * self.directions.shape[-1]

    def signature(self) -> tuple[Any, ...]:
        return (*super().signature(), self.window, self.directions.shape[-1])

    def covers_all(self, tokens: int, causal: bool) -> bool:
        del causal
        return self.window >= tokens

    @classmethod
    def short_options(cls, tokens: int) -> dict[str, Any]:
        return {"window": -(-tokens // 8)}
