"""Attention as a kernel: how the usual stabilizer leaks information about future tokens.

Letters: N tokens, C features, d dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim
from attnlab.claims.judges import Above
from attnlab.claims.kernels import clip_to_floor, sample_normal, sample_seed
from attnlab.mask import Mask
from attnlab.mechanisms.favor import Favor
from attnlab.report import Series

D, FEATURES, EPSILON = 16, 64, 1e-4


def usual_attention(q: Tensor, k: Tensor, v: Tensor, w: Tensor, epsilon: float) -> Tensor:
    """Causal attention with positive features, stabilized as in the first Performers: subtracts the
    largest value of all keys from the logs of the keys' features, then adds epsilon."""
    q, k = q / D**0.25, k / D**0.25
    along_q, along_k = q @ w.mT, k @ w.mT  # (N, C)
    half_q, half_k = (x.square().sum(-1, keepdim=True) / 2 for x in (q, k))
    query = (along_q - half_q - along_q.amax(-1, keepdim=True)).exp() + epsilon
    key = (
        along_k - half_k - along_k.amax()
    ).exp() + epsilon  # maximum over all keys, also later ones
    terms = (query @ key.mT).tril()  # (N, N)
    return terms @ v / terms.sum(-1, keepdim=True)


def attnlab_attention(q: Tensor, k: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """attnlab's causal attention with the same random directions."""
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
    over all keys. A common factor e^-m of all keys cancels in the weights. But epsilon, added
    afterwards against division by zero, does not cancel: feature c of key j becomes
    exp(w_c.k_j - |k_j|^2/2 - m) + epsilon, so the balance of both terms depends on m, and m depends
    on later keys. One long key at the end moves all earlier weights toward uniform ones. Without
    epsilon nothing leaks, but earlier sums underflow to 0/0. attnlab keeps the sums relative to the
    largest key so far, rescales them when it grows, and adds no epsilon.""",
    judge=Above(0.01, "largest change of an earlier output as the last key grows 4 times longer"),
    control="attnlab's own causal favor",
    reference="Choromanski et al. 2021 (code), and its translations to PyTorch",
)
def stabilizer_leak(trial: Trial) -> Evidence:
    factors = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    repeats = trial.pick(5, 50)
    implementations: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
        "usual, epsilon 1e-4": partial(usual_attention, epsilon=EPSILON),
        "usual, no epsilon": partial(usual_attention, epsilon=0.0),
        "attnlab": attnlab_attention,
    }
    changes = {name: dict.fromkeys(factors, 0.0) for name in implementations}
    for i in range(repeats):
        q, k, v, w = _sample_inputs(trial.generator(i))
        for name, attend in implementations.items():
            before = attend(q, k, v, w)
            for factor in factors:
                after = attend(q, _lengthen_last_key(k, factor), v, w)
                change = float((after - before)[:-1].abs().max() / v.abs().max())
                changes[name][factor] = max(changes[name][factor], change)
    judged = changes["attnlab" if trial.control else "usual, epsilon 1e-4"]
    lines = [Series(name, clip_to_floor(list(points.items()))) for name, points in changes.items()]
    return Evidence(
        Estimate(judged[4.0]),
        Lines("factor of the last key's length", "change of earlier outputs", lines, y_log=True),
        details={
            "attnlab, largest change at any length": max(changes["attnlab"].values()),
            "a last key 1.5 times as long, with epsilon": changes["usual, epsilon 1e-4"][1.5],
            "fraction of float32 outputs that are not finite without epsilon, 64 times as long":
            _non_finite_fraction(trial),
        },
    )  # fmt: skip


def _sample_inputs(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v = (sample_normal(generator, 33, size) for size in (D, D, 5))
    favor = Favor(head_dim=D, heads=1, features=FEATURES, seed=sample_seed(generator))
    return q, k, v, favor.draws.double()


def _lengthen_last_key(k: Tensor, factor: float) -> Tensor:
    return torch.cat([k[:-1], k[-1:] * factor])


def _non_finite_fraction(trial: Trial) -> float:
    q, k, v, w = (x.float() for x in _sample_inputs(trial.generator(0)))
    out = usual_attention(q, _lengthen_last_key(k, 64.0), v, w, epsilon=0.0)
    return float((~out.isfinite()).double().mean())
