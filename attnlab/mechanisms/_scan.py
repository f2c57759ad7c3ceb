"""Causal kernel attention in chunks: linear cost, an exact stabilizer, a hand-derived backward.

With phi(x) = sign * exp(log), row i is  out_i = sum_j a_ij v_j / sum_j a_ij  over j <= i, where
a_ij = sum_c phi(q_i)_c phi(k_j)_c exp(-r_i).  Any r_i cancels; it is only there to keep numbers in
range. Inside a chunk a_ij is a product of two factors, both at most 1 in size:

    exp(log_q + top - r_i)  and  exp(log_k - top),   top: per feature, the largest log_k so far,
                                                     r_i: per query, the largest log_q + top.

The sums over earlier chunks are kept relative to their own `peak` and rescaled whenever it rises,
so they never underflow. `top` does include keys of the same chunk that come after i. If those are
far larger than all that i may see, its row underflows; it is then recomputed pair by pair, only
from the keys that it may see. So no row depends on later keys.

Letters: R rows (batch times heads), T tokens, L tokens of a chunk, C features (or 1 for logs that
all features of a token share), M value size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnlab._compiling import never_compiled

LOG_ZERO = -1e30  # the log of a feature that is zero
LOWEST = LOG_ZERO / 2  # the lowest reference: exp(LOG_ZERO - LOWEST) is 0, exp(0) is 1


class Features(NamedTuple):
    """phi(x) = sign * exp(log)."""

    sign: Tensor | None
    """(..., C), any number of moderate size; None means 1."""
    log: Tensor
    """(..., C), or (..., 1) where all features of a token share it."""

    def divide_by_exp(self, reference: Tensor) -> Tensor:
        """phi(x) / exp(reference)."""
        size = (self.log - reference).exp()
        return size if self.sign is None else self.sign * size

    def part(self, index: Any) -> Features:
        return Features(None if self.sign is None else self.sign[index], self.log[index])

    def size(self) -> Features:
        """|phi(x)|."""
        return Features(None if self.sign is None else self.sign.abs(), self.log)

    def grouped(self, groups: int) -> Features:
        """(B, H, T, C) -> (B, groups, H / groups * T, C)."""
        B, H, T, _ = self.log.shape
        rows = (B, groups, H // groups * T)
        sign = None if self.sign is None else self.sign.reshape(*rows, self.sign.shape[3])
        return Features(sign, self.log.reshape(*rows, self.log.shape[3]))

    def flatten(self) -> Features:
        """(B, H, T, C) -> (B*H, T, C)."""
        sign = None if self.sign is None else self.sign.flatten(0, 1)
        return Features(sign, self.log.flatten(0, 1))


@never_compiled  # which rows are recomputed depends on values
def causal_scan(query: Features, key: Features, value: Tensor, chunk: int) -> Tensor:
    """(R, T, M); the log of a zero feature, as of padding, must be LOG_ZERO."""
    return _Scan.apply(query.sign, query.log, key.sign, key.log, value, chunk)


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator / denominator, and 0 with finite gradients where the denominator is 0."""
    zero = denominator == 0
    return (numerator / denominator.masked_fill(zero, 1)).masked_fill(zero, 0)


def with_one(value: Tensor) -> Tensor:
    """The values with a column of ones, whose weighted sum is the denominator."""
    return torch.cat([value, value.new_ones(*value.shape[:-1], 1)], dim=-1)


def underflows(denominator: Tensor) -> Tensor:
    """True where a denominator is so small that terms may have underflowed to 0."""
    return denominator.abs() < torch.finfo(denominator.dtype).tiny ** (2 / 3)


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query_sign: Tensor | None,
        query_log: Tensor,
        key_sign: Tensor | None,
        key_log: Tensor,
        value: Tensor,
        chunk: int,
    ) -> Tensor:
        query, key, value = (
            Features(query_sign, query_log),
            Features(key_sign, key_log),
            with_one(value),
        )
        R, T, _ = value.shape
        C = (key.log if key.sign is None else key.sign).shape[-1]
        sums = value.new_zeros(R, C, value.shape[-1])  # (R, C, M+1) relative to peak
        peak = value.new_full((R, 1, key.log.shape[-1]), LOWEST)  # (R, 1, C)
        both, reference = torch.empty_like(value), value.new_empty(R, T, 1)
        steps, before = [], []
        for start in range(0, T, chunk):
            here = (slice(None), slice(start, start + chunk))
            step = _Step(query.part(here), key.part(here), value[here], peak)
            carried = step.decay.mT * sums
            scores = (step.query @ step.key.mT).tril()  # (R, L, L)
            both[here] = torch.baddbmm(scores @ step.value, step.query, carried)
            reference[here] = step.reference
            step.lost = _underflowed_rows(both[here][..., -1], step)
            for row in step.lost:
                pairs = _Pairs(step, row)
                both[row, here[1]] = pairs.weights @ step.value[row] + pairs.query @ sums[row]
                reference[row, here[1]] = pairs.reference
            if any(ctx.needs_input_grad):
                steps.append((start, peak, step.lost))
                before.append(sums)
            sums = torch.baddbmm(carried, step.key.mT, step.value)
            peak = step.top
        out = divide(both[..., :-1], both[..., -1:])
        ctx.save_for_backward(*query, *key, value, out, both[..., -1:], *before)
        ctx.steps, ctx.chunk = steps, chunk
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            grads = _Scan.gradients(ctx, grad)
        return (*_FirstGradientOnly.apply(len(grads), *grads, grad, *ctx.saved_tensors[:5]), None)

    @staticmethod
    def gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query_sign, query_log, key_sign, key_log, value, out, bottom, *before = ctx.saved_tensors
        query, key = Features(query_sign, query_log), Features(key_sign, key_log)
        # d loss / d (numerators, denominator)
        grad = torch.cat([grad, -(grad * out).sum(-1, keepdim=True)], dim=-1)
        grad = divide(grad, bottom)
        grads = _Gradients(query, key, value)
        after = torch.zeros_like(before[0]) if before else value  # (R, C, M+1) from later chunks
        for (start, peak, lost), sums in zip(reversed(ctx.steps), reversed(before), strict=True):
            here = (slice(None), slice(start, start + ctx.chunk))
            step = _Step(query.part(here), key.part(here), value[here], peak)
            g = grad[here]  # (R, L, M+1)
            scores = (step.query @ step.key.mT).tril()
            scores_grad = (g @ step.value.mT).tril()  # (R, L, L)
            d_query = torch.baddbmm(scores_grad @ step.key, g, (step.decay.mT * sums).mT)
            d_key = torch.baddbmm(scores_grad.mT @ step.query, step.value, after.mT)
            d_value = torch.baddbmm(scores.mT @ g, step.key, after)
            grads.put(here, step, d_query, d_key, d_value)
            following = after
            after = step.decay.mT * torch.baddbmm(after, step.query.mT, g)
            for row in lost:
                pairs = _Pairs(step, row)
                grads.put_pairs(here, row, pairs, step, g[row], sums[row], following[row])
                after[row] = step.decay[row].mT * following[row] + pairs.query.mT @ g[row]
        return grads.query_sign, grads.query_log, grads.key_sign, grads.key_log, grads.value


class _FirstGradientOnly(torch.autograd.Function):
    """Returns its first `count` inputs, and raises an error if they are differentiated again.

    (`once_differentiable` would treat them as constants where the incoming gradient is one.)
    """

    @staticmethod
    def forward(ctx: Any, count: int, *inputs: Tensor | None) -> tuple[Tensor | None, ...]:
        del ctx
        return tuple(None if x is None else x.view_as(x) for x in inputs[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        del ctx, grads
        raise RuntimeError(
            "causal kernel attention cannot be differentiated twice; weights(q, k, mask) @ v can"
        )


class _Step:
    """One chunk: its features relative to `top` and `reference`."""

    def __init__(self, query: Features, key: Features, value: Tensor, peak: Tensor) -> None:
        self.value, self.peak = value, peak
        self.query_features, self.key_features = query, key
        self.top = torch.maximum(peak, key.log.amax(1, keepdim=True))  # (R, 1, C)
        self.decay = (peak - self.top).exp()  # (R, 1, C)
        log_bound = query.log + self.top  # (R, L, C)
        self.reference = log_bound.amax(-1, keepdim=True).clamp(min=LOWEST)  # (R, L, 1)
        self.query = Features(query.sign, log_bound).divide_by_exp(self.reference)  # (R, L, C)
        self.key = key.divide_by_exp(self.top)  # (R, L, C)
        self.lost: list[int] = []


def _underflowed_rows(denominator: Tensor, step: _Step) -> list[int]:
    """Rows of the batch with a query whose terms underflowed although it has visible keys."""
    tiny = underflows(denominator)  # (R, L)
    if not bool(tiny.any()):
        return []
    # A query without any real key so far, or whose keys all give it zero, is correctly 0.
    has_key = (step.key_features.log.amax(-1) > LOWEST).cummax(1).values
    has_key = has_key | (step.peak.amax(-1) > LOWEST)
    tiny = tiny & has_key & (step.reference[..., 0] > LOWEST / 2)
    return [int(row) for row in tiny.any(1).nonzero()]


class _Pairs:
    """One row of the batch in one chunk, computed for each pair of tokens separately."""

    def __init__(self, step: _Step, row: int) -> None:
        query, key = step.query_features.part(row), step.key_features.part(row)
        L = query.log.shape[0]
        future = torch.ones(L, L, dtype=torch.bool, device=query.log.device).triu(1)
        pair = query.log[:, None] + key.log[None]  # (L, L, C)
        pair = pair.masked_fill(future[..., None], LOG_ZERO)
        earlier = query.log + step.peak[row]  # (L, C)
        best = torch.maximum(pair.amax((1, 2)), earlier.amax(1))[:, None]
        self.reference = best.clamp(min=LOWEST)  # (L, 1)
        self.size = (pair - self.reference[..., None]).exp()  # (L, L, C)
        self.query_size = (earlier - self.reference).exp()  # (L, C)
        self.query = Features(query.sign, earlier).divide_by_exp(
            self.reference
        )  # (L, C) against the sums
        self.query_sign, self.key_sign = query.sign, key.sign
        terms = self.size
        if query.sign is not None and key.sign is not None:
            terms = terms * query.sign[:, None] * key.sign[None]
        self.terms = terms  # (L, L, C)
        self.weights = terms.sum(-1)  # (L, L)


class _Gradients:
    """The gradients of all inputs, filled chunk by chunk."""

    def __init__(self, query: Features, key: Features, value: Tensor) -> None:
        self.query_sign = None if query.sign is None else torch.empty_like(query.sign)
        self.key_sign = None if key.sign is None else torch.empty_like(key.sign)
        self.query_log, self.key_log = torch.empty_like(query.log), torch.empty_like(key.log)
        self.value = torch.empty_like(value[..., :-1])

    def put(self, here: Any, step: _Step, d_query: Tensor, d_key: Tensor, d_value: Tensor) -> None:
        self.value[here] = d_value[..., :-1]
        self.query_log[here] = _sum_shared_log(d_query * step.query, self.query_log)
        self.key_log[here] = _sum_shared_log(d_key * step.key, self.key_log)
        if self.query_sign is not None and self.key_sign is not None:
            log_bound = step.query_features.log + step.top
            self.query_sign[here] = d_query * (log_bound - step.reference).exp()
            self.key_sign[here] = d_key * (step.key_features.log - step.top).exp()

    def put_pairs(
        self,
        here: Any,
        row: int,
        pairs: _Pairs,
        step: _Step,
        g: Tensor,
        sums: Tensor,
        after: Tensor,
    ) -> None:
        index = (row, here[1])
        weights_grad = (g @ step.value[row].mT).tril()[..., None]  # (L, L, 1)
        d_query = g @ sums.mT  # (L, C) through the sums of earlier chunks
        d_key = step.value[row] @ after.mT  # (L, C) through the sums that later chunks read
        self.value[index] = (pairs.weights.mT @ g + step.key[row] @ after)[..., :-1]
        through = weights_grad * pairs.terms  # (L, L, C)
        self.query_log[index] = _sum_shared_log(
            through.sum(1) + d_query * pairs.query, self.query_log
        )
        self.key_log[index] = _sum_shared_log(through.sum(0) + d_key * step.key[row], self.key_log)
        if self.query_sign is not None and self.key_sign is not None:
            assert pairs.query_sign is not None
            assert pairs.key_sign is not None
            through = weights_grad * pairs.size
            self.query_sign[index] = (through * pairs.key_sign[None]).sum(
                1
            ) + d_query * pairs.query_size
            key_size = (step.key_features.log[row] - step.top[row]).exp()
            self.key_sign[index] = (through * pairs.query_sign[:, None]).sum(0) + d_key * key_size


def _sum_shared_log(grad: Tensor, like: Tensor) -> Tensor:
    """Summed over features where all of them share one log."""
    return grad.sum(-1, keepdim=True) if like.shape[-1] == 1 else grad
