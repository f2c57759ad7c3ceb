"""Mechanisms as their papers write them, token by token, in plain loops.

They share no code with the package. Letters: B batch, H query heads, G key heads, T tokens, D head
size, M value size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from attnlab.laws._law_inputs import LawInputs


def retention(S: Tensor, k: Tensor, v: Tensor, head: int) -> Tensor:
    """RetNet, arXiv 2307.08621, equations 6 and 8: S_n = gamma S_{n-1} + K_n^T V_n, with
    gamma = 1 - 2^(-5 - head)."""
    return (1 - 2.0 ** (-5 - head)) * S + torch.outer(k, v)


def gla(S: Tensor, k: Tensor, v: Tensor, head: int, log_decay: Tensor) -> Tensor:
    """Gated linear attention, 2312.06635, equation 3: S_t = Diag(alpha_t) S_{t-1} + k_t^T v_t."""
    del head
    return torch.diag(log_decay.exp()) @ S + torch.outer(k, v)


def mamba2(
    S: Tensor, k: Tensor, v: Tensor, head: int, log_decay: Tensor, write_strength: Tensor
) -> Tensor:
    """State space duality, 2405.21060: h_t = exp(step A) h_{t-1} + step B_t x_t."""
    del head
    return log_decay.exp() * S + torch.outer(write_strength * k, v)


def delta(S: Tensor, k: Tensor, v: Tensor, head: int, write_strength: Tensor) -> Tensor:
    """DeltaNet, 2406.06484, equation 2: S_t = S_{t-1} (I - beta_t k_t k_t^T) + beta_t v_t k_t^T,
    where S is (M, D)."""
    del head
    forget = torch.eye(len(k), dtype=k.dtype) - write_strength * torch.outer(k, k)
    return (S.T @ forget + write_strength * torch.outer(v, k)).T


def gated_delta(
    S: Tensor, k: Tensor, v: Tensor, head: int, log_decay: Tensor, write_strength: Tensor
) -> Tensor:
    """Gated DeltaNet, 2412.06464, equation 10:
    S_t = S_{t-1} (alpha_t (I - beta_t k_t k_t^T)) + beta_t v_t k_t^T, where S is (M, D)."""
    del head
    forget = torch.eye(len(k), dtype=k.dtype) - write_strength * torch.outer(k, k)
    return (S.T @ (log_decay.exp() * forget) + write_strength * torch.outer(v, k)).T


def kda(
    S: Tensor, k: Tensor, v: Tensor, head: int, log_decay: Tensor, write_strength: Tensor
) -> Tensor:
    """Kimi delta attention, 2510.26692, equation 1:
    S_t = (I - beta_t k_t k_t^T) Diag(alpha_t) S_{t-1} + beta_t k_t v_t^T."""
    del head
    forget = torch.eye(len(k), dtype=k.dtype) - write_strength * torch.outer(k, k)
    return forget @ torch.diag(log_decay.exp()) @ S + write_strength * torch.outer(k, v)


RECURRENCES: dict[str, Callable[..., Tensor]] = {
    step.__name__: step for step in (retention, gla, mamba2, delta, gated_delta, kda)
}


def recurrence(name: str, x: LawInputs, unit_keys: bool) -> Tensor:
    """The outputs (B, H, T, M): o_t = S_t^T q_t / sqrt(D). A padding token leaves S as it is."""
    B, H, T, D = x.q.shape
    G, M = x.k.shape[1], x.v.shape[3]
    rows = []
    for b in range(B):
        for h in range(H):
            g = h * G // H
            S = torch.zeros(D, M, dtype=x.q.dtype)
            for t in range(T):
                if x.keys is None or bool(x.keys[b, t]):
                    k = x.k[b, g, t]
                    k = k / k.square().sum().sqrt() if unit_keys else k
                    gates = {gate: value[b, g, t] for gate, value in x.gates.items()}
                    S = RECURRENCES[name](S, k, x.v[b, g, t], g, **gates)
                rows.append(S.T @ x.q[b, h, t] / math.sqrt(D))
    return torch.stack(rows).view(B, H, T, M)


@dataclass(frozen=True)
class Row:
    """One query and the keys that it sees."""

    b: int
    head: int
    key_head: int
    q: Tensor  # (D,)
    k: Tensor  # (n, D)
    i: int
    """The query's position."""
    j: list[int]
    """The positions of the n keys."""

    def scores(self) -> Tensor:
        """q.k / sqrt(D) of each key: (n,)."""
        return self.k @ self.q / math.sqrt(len(self.q))


def weights_by_rows(x: LawInputs, causal: bool, weigh: Callable[[Row], Tensor]) -> Tensor:
    """The weights (B, H, T, S), where `weigh` gives those of one query for the keys it sees."""
    B, H, T, _ = x.q.shape
    G, S = x.k.shape[1:3]
    rows = []
    for b, h, i in product(range(B), range(H), range(T)):
        real = range(S) if x.keys is None else [j for j in range(S) if bool(x.keys[b, j])]
        seen = [j for j in real if not causal or j <= i]
        row = torch.zeros(S, dtype=x.q.dtype)
        if seen:
            g = h * G // H
            weights = weigh(Row(b, h, g, x.q[b, h, i], x.k[b, g, seen], i, seen))
            row = row.index_put((torch.tensor(seen),), weights)
        rows.append(row)
    return torch.stack(rows).view(B, H, T, S)


def softmax(scores: Tensor) -> Tensor:
    terms = (scores - scores.max()).exp()
    return terms / terms.sum()


def share(terms: Tensor) -> Tensor:
    """Terms divided by their sum; zeros if that is 0."""
    total = terms.sum()
    return terms / total if bool(total != 0) else torch.zeros_like(terms)


def alibi_slopes(heads: int) -> list[float]:
    """As the code of ALiBi (2108.12409) has them."""

    def powers(n: int) -> list[float]:
        return [(2 ** (-8 / n)) ** (h + 1) for h in range(n)]

    if math.log2(heads).is_integer():
        return powers(heads)
    lower = 2 ** math.floor(math.log2(heads))
    return powers(lower) + powers(2 * lower)[0::2][: heads - lower]


def t5_bucket(distance: int, two_sided: bool) -> int:
    """T5 (1910.10683, section 2.1): 32 buckets, whose ranges grow logarithmically to 128, for the
    distance from query to key. Two-sided, one half of the buckets is for later keys."""
    buckets, first = (16, 16 if distance > 0 else 0) if two_sided else (32, 0)
    far = abs(distance) if two_sided else max(0, -distance)
    exact = buckets // 2
    if far < exact:
        return first + far
    place = math.log(far / exact) / math.log(128 / exact) * (buckets - exact)
    return first + min(buckets - 1, exact + math.floor(place + 1e-9))


def project_onto_simplex(scores: Tensor, weight: Callable[[Tensor], Tensor]) -> Tensor:
    """weight(scores - threshold), where the threshold makes the weights sum to 1: by bisection."""
    low, high = float(scores.max()) - 1, float(scores.max())
    for _ in range(200):
        middle = (low + high) / 2
        if float(weight((scores - middle).clamp(min=0)).sum()) > 1:
            low = middle
        else:
            high = middle
    return weight((scores - low).clamp(min=0))
