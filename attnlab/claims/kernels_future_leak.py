"""Attention as a kernel: how the usual stabilizer lets the future through.

Letters: N tokens, C features, d dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim
from attnlab.claims.judges import Above
from attnlab.claims.kernels import normal, seed_of, shown
from attnlab.mask import Mask
from attnlab.mechanisms.favor import Favor
from attnlab.report import Series

D, FEATURES, EPSILON = 16, 64, 1e-4


def usual(q: Tensor, k: Tensor, v: Tensor, w: Tensor, epsilon: float) -> Tensor:
    """Causal attention by positive features, stabilized as the first Performers were: from the
    logs of the keys' features the largest of all keys is subtracted, then epsilon is added."""
    q, k = q / D**0.25, k / D**0.25
    along_q, along_k = q @ w.mT, k @ w.mT  # (N, C)
    half_q, half_k = (x.square().sum(-1, keepdim=True) / 2 for x in (q, k))
    query = (along_q - half_q - along_q.amax(-1, keepdim=True)).exp() + epsilon
    key = (along_k - half_k - along_k.amax()).exp() + epsilon  # the largest of all, later ones too
    terms = (query @ key.mT).tril()  # (N, N)
    return terms @ v / terms.sum(-1, keepdim=True)


def own(q: Tensor, k: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """attnlab's, with the same directions."""
    favor = Favor(head_dim=D, heads=1, features=FEATURES)
    favor.draws.copy_(w)
    out: Tensor = favor(q[None, None], k[None, None], v[None, None], Mask(causal=True))[0, 0]
    return out


@claim(
    "stabilizer-leak",
    topic="kernels",
    source="attnlab",
    statement="subtracting a maximum taken over all keys and then adding an epsilon leaks the "
    "future in causal kernel attention",
    why="""Features exp(w.k - |k|^2/2) overflow, so implementations subtract a maximum m of w.k
    over all keys. A common factor e^-m of all keys cancels in the weights; but epsilon, added
    afterwards against division by zero, does not: feature c of key j becomes
    exp(w_c.k_j - |k_j|^2/2 - m) + epsilon, so that the balance of the two depends on m, and m on
    keys that come later. One long key at the end turns all earlier weights toward uniform ones.
    Without epsilon nothing leaks, but earlier sums underflow to 0/0. attnlab keeps the sums
    relative to the largest key so far, rescales them when it rises and adds no epsilon.""",
    judge=Above(0.01, "largest change of an earlier output as the last key grows 4 times longer"),
    control="attnlab's own causal favor",
    reference="Choromanski et al. 2021 (code), and its translations to PyTorch",
)
def stabilizer_leak(trial: Trial) -> Evidence:
    factors = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    repeats = trial.pick(5, 50)
    ways: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
        "usual, epsilon 1e-4": partial(usual, epsilon=EPSILON),
        "usual, no epsilon": partial(usual, epsilon=0.0),
        "attnlab": own,
    }
    changes = {name: dict.fromkeys(factors, 0.0) for name in ways}
    for i in range(repeats):
        q, k, v, w = _inputs(trial.random(i))
        for name, way in ways.items():
            before = way(q, k, v, w)
            for factor in factors:
                after = way(q, _last_longer(k, factor), v, w)
                change = float((after - before)[:-1].abs().max() / v.abs().max())
                changes[name][factor] = max(changes[name][factor], change)
    chosen = changes["attnlab" if trial.control else "usual, epsilon 1e-4"]
    lines = [Series(name, shown(list(points.items()))) for name, points in changes.items()]
    return Evidence(
        Estimate(chosen[4.0]),
        Lines("last key's length, times as long", "change of earlier outputs", lines, y_log=True),
        details={
            "attnlab, largest change at any length": max(changes["attnlab"].values()),
            "a last key 1.5 times as long, with epsilon": changes["usual, epsilon 1e-4"][1.5],
            "share of float32 outputs that are not numbers without epsilon, 64 times as long":
            _lost(trial),
        },
    )  # fmt: skip


def _inputs(random: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v = (normal(random, 33, size) for size in (D, D, 5))
    favor = Favor(head_dim=D, heads=1, features=FEATURES, seed=seed_of(random))
    return q, k, v, favor.draws.double()


def _last_longer(k: Tensor, factor: float) -> Tensor:
    return torch.cat([k[:-1], k[-1:] * factor])


def _lost(trial: Trial) -> float:
    q, k, v, w = (each.float() for each in _inputs(trial.random(0)))
    out = usual(q, _last_longer(k, 64.0), v, w, epsilon=0.0)
    return float((~out.isfinite()).double().mean())
