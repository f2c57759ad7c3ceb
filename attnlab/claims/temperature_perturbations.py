"""Which weights and outputs change, and how much, when one query or one key is perturbed.

Letters: B batch, T queries, S keys, D key size; shapes (B, 1, T or S, D), one head.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.claims._claim import (
    Estimate,
    Evidence,
    Lines,
    Trial,
    claim,
    log_log_slope,
    mean_interval,
)
from attnlab.claims.judges import Above, Below, OnlyWhen
from attnlab.claims.temperature import make_softmax, sample_instances, sample_normal
from attnlab.mask import Mask
from attnlab.report import Series

SMALL_LENGTH = 1e-3
"""Length of a perturbation that is small against keys of length sqrt(d)."""


def perturb(x: Tensor, index: int, noise: Tensor) -> Tensor:
    """x (B, 1, S, D) with `noise` (B, 1, D) added to the vector at one index."""
    x = x.clone()
    x[:, :, index] += noise
    return x


@claim(
    "perturb-key",
    topic="temperature",
    source="course",
    quoted=True,
    statement="a perturbed key changes only the weight on that key",
    why="""Only the score of that key changes, by b eps.q, but all weights of a query are divided by
    one sum and still add up to 1. To first order the weights of a query change by
    delta a = b a_i (e_i - a) eps.q: the weight on key i changes by b a_i (1 - a_i) eps.q and every
    other one by -b a_i a_j eps.q. What key i gains the others lose, so exactly half of the total
    change falls on the others, however small eps is. This happens to every query. The control is
    this formula, which misses only second-order terms.""",
    judge=Below(
        0.01, "largest fraction of the change in a query's weights that the statement misses"
    ),
    control="the first-order formula above",
)
def perturb_key(trial: Trial) -> Evidence:
    worst, changed, total = 0.0, 0, 0
    for _, q, k, _ in sample_instances(trial):
        stated, formula, change = _missed_change(trial, q, k, SMALL_LENGTH)
        worst = max(worst, float((formula if trial.control else stated).max()))
        changed, total = changed + int((change != 0).sum()), total + change.numel()
    sizes = [10 ** (step / 2) for step in range(-6, 2)]
    results = [
        (size, _missed_change(trial, q, k, size)) for size in sizes
    ]  # of the last, the largest
    lines = [
        Series(
            "only the weight on that key", [(x, float(missed[0].max())) for x, missed in results]
        ),
        Series("first-order formula", [(x, float(missed[1].max())) for x, missed in results]),
    ]
    return Evidence(
        Estimate(worst),
        Lines(
            "length of the perturbation", "fraction of the change that is missed", lines, True, True
        ),
        details={"weights that changed, of all queries and keys": f"{changed} of {total}"},
    )


def _missed_change(
    trial: Trial, q: Tensor, k: Tensor, size: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The fraction of each query's change that the statement and the formula miss (T,), and the
    change (T, S), when key 1 is perturbed."""
    index, attention = 1, make_softmax(q.shape[-1])
    noise = size * F.normalize(
        sample_normal(trial.generator(k.shape[-2]), 1, 1, q.shape[-1]), dim=-1
    )
    before = attention.weights(q, k, Mask())[0, 0]
    change = attention.weights(q, perturb(k, index, noise), Mask())[0, 0] - before
    unit = F.one_hot(torch.tensor(index), k.shape[-2])
    score_change = attention.beta * (q @ noise.mT)[0, 0]  # (T, 1)
    formula = score_change * before[:, index, None] * (unit - before)
    total = change.abs().sum(-1)
    stated, predicted = ((change - x).abs().sum(-1) / total for x in (change * unit, formula))
    return stated, predicted, change


@claim(
    "perturb-query",
    topic="temperature",
    source="course",
    quoted=True,
    statement="a perturbed query changes the whole output",
    why="""Row t of the output is softmax(b K q_t) V, which contains no other query. So a perturbed
    query changes all weights of its own row and its own output, and nothing else. A perturbed key
    or value changes every row, since all queries use it. In self-attention a perturbed token is
    query, key and value at once, so the other rows change too, through the key and the value. The
    control is the corrected statement.""",
    judge=Above(
        0.999, "fraction of outputs for which the statement predicts correctly whether they change"
    ),
    control="a perturbed query changes its own output and no other",
)
def perturb_query(trial: Trial) -> Evidence:
    correct = outputs = 0
    for _, q, k, v in sample_instances(trial):
        changed = _output_changes(trial, q, k, v)[0] > 0
        predicted = torch.ones_like(changed)
        if trial.control:
            predicted = torch.arange(len(predicted)) == 1
        correct, outputs = correct + int((changed == predicted).sum()), outputs + len(predicted)
    by_query, by_key = _output_changes(trial, q, k, v)  # of the last, the largest
    lines = [
        Series(name, [(float(t), float(x)) for t, x in enumerate(change)])
        for name, change in (("query 1 perturbed", by_query), ("key 1 perturbed", by_key))
    ]
    return Evidence(
        Estimate(correct / outputs),
        Lines("number of the output", "length of its change", lines),
        details={"outputs that key 1 changes": f"{int((by_key > 0).sum())} of {len(by_key)}"},
    )


def _output_changes(trial: Trial, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """How far each output (T,) moves when query 1 is perturbed, and when key 1 is perturbed."""
    attention = make_softmax(q.shape[-1])
    noise = sample_normal(trial.generator(k.shape[-2]), 1, 1, q.shape[-1])
    before = attention(q, k, v, Mask())
    by_query = attention(perturb(q, 1, noise), k, v, Mask()) - before
    by_key = attention(q, perturb(k, 1, noise), v, Mask()) - before
    return by_query[0, 0].norm(dim=-1), by_key[0, 0].norm(dim=-1)


@claim(
    "perturb-key-mean",
    topic="temperature",
    source="course",
    quoted=True,
    statement="zero-mean noise on a key leaves the mean output unchanged",
    why="""The first-order change b a_i (v_i - c) eps.q has mean 0, but the softmax is curved. Noise
    eps ~ N(0, s^2 I) moves the score by N(0, t^2) with t = b |q| s, and the mean weight on key i by
    about t^2/2 a_i (1 - a_i) (1 - 2 a_i): up for a weight below 1/2, down for one above. The mean
    output moves by this times v_i minus the average of the other values. So the statement is true
    to first order and false to second order: the bias grows like t^2, and is small only for small
    noise.""",
    judge=OnlyWhen(
        Below(0.01, "shift of the mean output / distance from the other values to v_i"),
        "the noise in the score, b |q| s,",
        at_least=False,
    ),
    control="noise whose mean is not 0 (it moves the score by 1)",
)
def perturb_key_mean(trial: Trial) -> Evidence:
    sizes = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]
    repeats = trial.pick(10, 40)
    shifts_by_size = [
        [_mean_shift(trial, repeat, t, trial.pick(500, 20_000)) for repeat in range(repeats)]
        for t in sizes
    ]
    shifts = [mean_interval([abs(shift) for shift, _ in row]) for row in shifts_by_size]
    weights = [weight for _, weight in shifts_by_size[0]]
    theory = mean_interval([a * (1 - a) * abs(1 - 2 * a) / 2 for a in weights]).value
    slope = mean_interval([a * (1 - a) for a in weights]).value
    lines = [
        Series(
            "shift of the mean, measured",
            [(t, figure.value) for t, figure in zip(sizes, shifts, strict=True)],
            [figure.ends for figure in shifts],
        ),
        Series("t^2/2 a (1 - a) (1 - 2a)", [(t, theory * t * t) for t in sizes]),
        Series("size of the first-order change", [(t, slope * t) for t in sizes]),
    ]
    small = [(t, figure.value) for t, figure in zip(sizes[:4], shifts, strict=False)]
    return Evidence(
        shifts[-1],
        Lines("noise in the score, t = b |q| s", "shift / distance to v_i", lines, True, True),
        list(zip(sizes, shifts, strict=True)),
        {
            "the figure is for": f"noise {sizes[-1]}",
            "exponent of the shift in the noise": log_log_slope(small).value,
            "mean weight on the key without noise": mean_interval(weights).value,
        },
    )


def _mean_shift(trial: Trial, repeat: int, t: float, samples: int) -> tuple[float, float]:
    """How far the mean output moves toward v_i, and a_i. i is the key with the weight nearest 0.2.

    Each noise sample is used with both signs, so that its mean is exactly 0.
    """
    n, d, m = 9, 8, 5
    generator = trial.generator(repeat)
    q, k, v = (
        sample_normal(generator, 1, 1, 1, d),
        sample_normal(generator, 1, 1, n, d),
        sample_normal(generator, 1, 1, n, m),
    )
    attention = make_softmax(d)
    weights = attention.weights(q, k, Mask())[0, 0, 0]
    i = int((weights - 0.2).abs().argmin())
    noise = sample_normal(generator, samples, 1, d) * t / (attention.beta * q.norm())
    noise = torch.cat([noise, -noise])
    if trial.control:
        noise = noise + q[0] / (attention.beta * q.norm() ** 2)
    count = len(noise)
    keys = perturb(k.expand(count, -1, -1, -1), i, noise)
    out = attention(q.expand(count, -1, -1, -1), keys, v.expand(count, -1, -1, -1), Mask())
    unperturbed = (weights @ v[0, 0]).squeeze()
    direction = (v[0, 0, i] - unperturbed) / (
        1 - weights[i]
    )  # from the average of the others to v_i
    return float(
        (out[:, 0, 0].mean(0) - unperturbed) @ direction / direction.square().sum()
    ), float(weights[i])


@claim(
    "perturb-compare",
    topic="temperature",
    source="course",
    quoted=True,
    statement="noise in one query does more harm than noise in one key",
    why="""A perturbed query moves one output by b sum_j a_j (v_j - c) k_j.eps, with all n keys in
    the sum; a perturbed key i moves all n outputs, each only by b a_i (v_i - c) q.eps. Squared and
    averaged over random q, k and v, both are about b^2 s^2 d times the sum of n squared weights:
    the key does as much harm, spread over n outputs. So over all outputs, the two are about equal.
    In the output at the same position alone, the query does about n times as much harm; this is the
    control.""",
    judge=Above(1.5, "squared change by noise in a query / that by noise in a key"),
    control="only the output at the same position counts",
)
def perturb_compare(trial: Trial) -> Evidence:
    counts = trial.pick([8, 16, 32], [8, 16, 32, 64, 128, 256])
    repeats = range(trial.pick(5, 20))
    ratios = {n: [_harm_ratios(trial, n, repeat) for repeat in repeats] for n in counts}
    judged = 1 if trial.control else 0
    lines = [
        Series(
            name,
            [
                (float(n), mean_interval([row[index] for row in rows]).value)
                for n, rows in ratios.items()
            ],
        )
        for index, name in ((0, "over all outputs"), (1, "over its own output"))
    ]
    lines.append(Series("n", [(float(n), float(n)) for n in counts]))
    large_noise = mean_interval(
        [_harm_ratios(trial, counts[-1], repeat, noise=1.0)[0] for repeat in repeats]
    )
    return Evidence(
        mean_interval([row[judged] for row in ratios[counts[-1]]]),
        Lines("number of keys and queries n", "harm of a query / of a key", lines, True, True),
        details={f"over all outputs, noise as large as a key, n = {counts[-1]}": large_noise.value},
    )


def _harm_ratios(trial: Trial, n: int, repeat: int, noise: float = 0.1) -> tuple[float, float]:
    """Squared change by a query / that by a key: in all outputs, and at its own position."""
    B, d, m = trial.pick(120, 400), 16, 7
    generator = trial.generator(n, repeat)
    q, k, v = (
        sample_normal(generator, B, 1, n, d),
        sample_normal(generator, B, 1, n, d),
        sample_normal(generator, B, 1, n, m),
    )
    added = noise * sample_normal(generator, B, 1, d)
    attention, position = make_softmax(d), n // 2
    before = attention(q, k, v, Mask())
    by_query = (attention(perturb(q, position, added), k, v, Mask()) - before).square()
    by_key = (attention(q, perturb(k, position, added), v, Mask()) - before).square()
    own_output = by_query[:, :, position].sum() / by_key[:, :, position].sum()
    return float(by_query.sum() / by_key.sum()), float(own_output)
