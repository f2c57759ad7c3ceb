"""Which tokens get the weight: a token itself, and those that a mask allows.

Letters: T queries, S keys.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.judges import Above, OnlyWhen, exact
from attnlab.claims.temperature import SIZES, make_softmax, sample_instances, sample_normal
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
    1 if sqrt(d) is well above ln n, otherwise near 0. So a head of size 64 nearly copies 50 tokens,
    one of size 8 does not, and longer sequences need larger heads. What counts is the difference
    sqrt(d) - ln n, so the experiment varies it for several n.""",
    judge=OnlyWhen(Above(0.99, "mean weight of a token on itself"), "sqrt(d) - ln n"),
    control="independent queries and keys",
)
def equal_q_k_identity(trial: Trial) -> Evidence:
    counts, margins = trial.pick([10, 40, 160], [10, 50, 250, 1250]), [-1, 1, 3, 5, 7, 9]
    repeats = trial.pick(5, 10)
    figures: dict[int, list[tuple[float, Estimate]]] = {n: [] for n in counts}
    for n in counts:
        for margin in margins:
            d = round((margin + math.log(n)) ** 2)
            diagonal_weights = [
                _weight_on_itself(trial, n, d, repeat)[0] for repeat in range(repeats)
            ]
            figures[n].append((margin, mean_interval(diagonal_weights)))
    sweep = [
        (
            float(margin),
            min((figures[n][index][1] for n in counts), key=lambda figure: figure.value),
        )
        for index, margin in enumerate(margins)
    ]
    usual = [_weight_on_itself(trial, 50, 64, repeat) for repeat in range(repeats)]
    narrow = [_weight_on_itself(trial, 50, 8, repeat) for repeat in range(repeats)]
    return Evidence(
        mean_interval([diagonal for diagonal, _ in usual]),
        Lines(
            "sqrt(d) - ln n",
            "mean weight of a token on itself",
            [
                Series(f"n = {n}", [(margin, figure.value) for margin, figure in line])
                for n, line in figures.items()
            ],
        ),
        sweep,
        {
            "the figure is for": "n = 50, d = 64",
            "mean weight on itself, n = 50, d = 8": mean_interval(
                [weight for weight, _ in narrow]
            ).value,
            "|output - V| / |V|, n = 50, d = 64": mean_interval(
                [distance for _, distance in usual]
            ).value,
            "|output - V| / |V|, n = 50, d = 8": mean_interval(
                [distance for _, distance in narrow]
            ).value,
        },
    )


def _weight_on_itself(trial: Trial, n: int, d: int, repeat: int) -> tuple[float, float]:
    """Mean weight on the diagonal, and relative distance of the output from V, for Q = K."""
    generator = trial.generator(n, d, repeat)
    k, v, other = (sample_normal(generator, 1, 1, n, d) for _ in range(3))
    weights = make_softmax(d).weights(other if trial.control else k, k, Mask())
    distance = (weights @ v - v).norm() / v.norm()
    return float(weights.diagonal(dim1=-2, dim2=-1).mean()), float(distance)


@claim(
    "mask-minus-infinity",
    topic="temperature",
    source="course",
    statement="adding -inf before the softmax gives weight 0 and renormalizes the rest; "
    "multiplying by 0 after it does not",
    why="""e^-inf = 0, so a masked key disappears from the numerator and from the sum in the
    denominator: a_i = e^(s_i) / (sum over allowed j of e^(s_j)), as if the masked keys did not
    exist. Multiplying by 0 afterwards leaves them in the sum. The weights then add up to less than
    1, the output shrinks, and padding or future tokens still change it through this sum. The
    experiment compares attnlab's causal and padding masks with removing the masked keys.""",
    judge=exact("largest difference from weights over the allowed keys alone"),
    control="multiplied by 0 after the softmax",
)
def mask_minus_infinity(trial: Trial) -> Evidence:
    worst = 0.0
    for _, q, k, _ in sample_instances(trial):
        worst = max(worst, *(_mask_error(trial, q, k, causal) for causal in (False, True)))
    generator, n = trial.generator(len(SIZES)), 40
    scores = sample_normal(generator, 400, n)
    cases = [
        (fraction, torch.arange(n) < n * (1 - fraction))
        for fraction in (0, 0.2, 0.4, 0.6, 0.8, 0.9)
    ]
    before = [
        (fraction, float(_mask_before_softmax(scores, allowed).sum(-1).mean()))
        for fraction, allowed in cases
    ]
    after = [
        (fraction, float((scores.softmax(-1) * allowed).sum(-1).mean()))
        for fraction, allowed in cases
    ]
    lines = [Series("-inf before the softmax", before), Series("times 0 after it", after)]
    return Evidence(
        Estimate(worst), Lines("fraction of keys masked", "sum of a row's weights", lines)
    )


def _mask_before_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    return (scores + torch.where(allowed, 0.0, -torch.inf)).softmax(-1)


def _mask_error(trial: Trial, q: Tensor, k: Tensor, causal: bool) -> float:
    """Largest difference from the weights that each query has when masked keys are removed."""
    (t, d), n = q.shape[-2:], k.shape[-2]
    allowed_keys = torch.rand(n, generator=trial.generator(n, t)) < 0.6
    allowed_keys[0] = True  # so that each query has a key to attend to
    allowed = allowed_keys & (
        (torch.arange(n) <= torch.arange(t)[:, None]) | torch.tensor(not causal)
    )
    scores = (q @ k.mT)[0, 0] / math.sqrt(d)  # (T, S)
    expected = torch.zeros_like(scores)
    for row, (row_scores, row_allowed) in enumerate(zip(scores, allowed, strict=True)):
        expected[row, row_allowed] = row_scores[row_allowed].softmax(-1)
    if trial.control:
        return float((scores.softmax(-1) * allowed - expected).abs().max())
    own = make_softmax(d).weights(q, k, Mask(causal=causal, keys=allowed_keys[None]))[0, 0]
    plain = _mask_before_softmax(scores, allowed)
    return max(float((weights - expected).abs().max()) for weights in (own, plain))
