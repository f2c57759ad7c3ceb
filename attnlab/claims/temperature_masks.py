"""Who gets the weight: a token itself, and those that a mask allows.

Letters: T queries, S keys.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.judges import Above, OnlyWhen, exact
from attnlab.claims.temperature import SIZES, instances, normal, softmax
from attnlab.mask import Mask
from attnlab.report import Series


@claim(
    "equal-q-k-identity",
    topic="temperature",
    source="course",
    quoted=True,
    statement="with Q = K random the weights are the identity, so the output equals V",
    why="""With k ~ N(0, I) a token's score with itself is |k|^2 / sqrt(d), about sqrt(d), and with
    any other about N(0, 1). The weight on itself is then about 1 / (1 + n e^(1/2 - sqrt(d))): near
    1 where sqrt(d) is well above ln n, near 0 where it is not. So a head of size 64 nearly copies
    50 tokens, one of size 8 does not, and longer sequences need larger heads. What counts is the
    difference sqrt(d) - ln n, so it is swept here for several n.""",
    judge=OnlyWhen(Above(0.99, "mean weight of a token on itself"), "sqrt(d) - ln n"),
    control="queries and keys drawn independently",
)
def equal_q_k_identity(trial: Trial) -> Evidence:
    counts, margins = trial.pick([10, 40, 160], [10, 50, 250, 1250]), [-1, 1, 3, 5, 7, 9]
    repeats = trial.pick(5, 10)
    found: dict[int, list[tuple[float, Estimate]]] = {n: [] for n in counts}
    for n in counts:
        for margin in margins:
            d = round((margin + math.log(n)) ** 2)
            alike = [_alike(trial, n, d, repeat)[0] for repeat in range(repeats)]
            found[n].append((margin, mean_interval(alike)))
    sweep = [
        (float(margin), min((found[n][place][1] for n in counts), key=lambda figure: figure.value))
        for place, margin in enumerate(margins)
    ]
    usual = [_alike(trial, 50, 64, repeat) for repeat in range(repeats)]
    narrow = [_alike(trial, 50, 8, repeat) for repeat in range(repeats)]
    return Evidence(
        mean_interval([diagonal for diagonal, _ in usual]),
        Lines(
            "sqrt(d) - ln n",
            "mean weight of a token on itself",
            [
                Series(f"n = {n}", [(at, each.value) for at, each in line])
                for n, line in found.items()
            ],
        ),
        sweep,
        {
            "the figure above": "n = 50, d = 64",
            "mean weight on itself, n = 50, d = 8": mean_interval(
                [each for each, _ in narrow]
            ).value,
            "|output - V| / |V|, n = 50, d = 64": mean_interval([each for _, each in usual]).value,
            "|output - V| / |V|, n = 50, d = 8": mean_interval([each for _, each in narrow]).value,
        },
    )


def _alike(trial: Trial, n: int, d: int, repeat: int) -> tuple[float, float]:
    """Mean weight on the diagonal and how far the output is from V, for Q = K."""
    random = trial.random(n, d, repeat)
    k, v, other = (normal(random, 1, 1, n, d) for _ in range(3))
    weights = softmax(d).weights(other if trial.control else k, k, Mask())
    far = (weights @ v - v).norm() / v.norm()
    return float(weights.diagonal(dim1=-2, dim2=-1).mean()), float(far)


@claim(
    "mask-minus-infinity",
    topic="temperature",
    source="course",
    statement="adding -inf before the softmax gives weight 0 and renormalizes the rest; "
    "multiplying by 0 after it does not",
    why="""e^-inf = 0, so a masked key drops out of the numerator and of the sum below it:
    a_i = e^(s_i) / (sum over allowed j of e^(s_j)), just as if the masked keys had never been
    there. Multiplying by 0 afterwards leaves them in the sum. The weights then add up to less than
    1, the output shrinks, and what stands in padding or in the future still changes it through that
    sum. attnlab's own masks, causal and padding, are checked against keys that were taken out.""",
    judge=exact("largest difference from weights over the allowed keys alone"),
    control="multiplied by 0 after the softmax",
)
def mask_minus_infinity(trial: Trial) -> Evidence:
    worst = 0.0
    for _, q, k, _ in instances(trial):
        worst = max(worst, *(_mask_error(trial, q, k, causal) for causal in (False, True)))
    random, n = trial.random(len(SIZES)), 40
    scores = normal(random, 400, n)
    left = [(share, torch.arange(n) < n * (1 - share)) for share in (0, 0.2, 0.4, 0.6, 0.8, 0.9)]
    before = [(x, float(_minus_infinity(scores, kept).sum(-1).mean())) for x, kept in left]
    after = [(x, float((scores.softmax(-1) * kept).sum(-1).mean())) for x, kept in left]
    lines = [Series("-inf before the softmax", before), Series("times 0 after it", after)]
    return Evidence(Estimate(worst), Lines("share of keys masked", "sum of a row's weights", lines))


def _minus_infinity(scores: Tensor, allowed: Tensor) -> Tensor:
    return (scores + torch.where(allowed, 0.0, -torch.inf)).softmax(-1)


def _mask_error(trial: Trial, q: Tensor, k: Tensor, causal: bool) -> float:
    """Largest difference from the weights that each query has when masked keys are taken out."""
    (t, d), n = q.shape[-2:], k.shape[-2]
    keys = torch.rand(n, generator=trial.random(n, t)) < 0.6
    keys[0] = True  # so that each query has something to look at
    allowed = keys & ((torch.arange(n) <= torch.arange(t)[:, None]) | torch.tensor(not causal))
    scores = (q @ k.mT)[0, 0] / math.sqrt(d)  # (T, S)
    wanted = torch.zeros_like(scores)
    for row, (each, seen) in enumerate(zip(scores, allowed, strict=True)):
        wanted[row, seen] = each[seen].softmax(-1)
    if trial.control:
        return float((scores.softmax(-1) * allowed - wanted).abs().max())
    own = softmax(d).weights(q, k, Mask(causal=causal, keys=keys[None]))[0, 0]
    plain = _minus_infinity(scores, allowed)
    return max(float((each - wanted).abs().max()) for each in (own, plain))
