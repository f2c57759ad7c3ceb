"""Temperature: what the softmax between scores and weights does.

Weights a = softmax(b K q) of n keys of dimension d, b = 1/sqrt(d) unless it is varied.
Letters: B batch, H heads (here 1), T queries, S keys, D key size, M value size.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.judges import Below, Between, exact
from attnlab.mask import Mask
from attnlab.mechanisms.softmax import Softmax
from attnlab.report import Series

FLOOR = 1e-17
"""Stands for an error of exactly 0 on a logarithmic axis."""
EXTREME = 1e8
"""An inverse temperature that makes even the closest two of some thousand random scores differ."""

SIZES = ((2, 3, 5, 7), (5, 7, 11, 3), (11, 4, 9, 6), (24, 16, 8, 13), (60, 32, 20, 17))
"""Keys, key size, queries, value size: all differ, so that swapped axes fail."""


def normal(random: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def softmax(d: int, beta: float | None = None) -> Softmax:
    """attnlab's own, one head; divided by sqrt(d) where nothing else is asked for."""
    return Softmax(head_dim=d, heads=1, beta=beta)


def instances(trial: Trial) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
    """Number of keys, q (1, 1, T, D), k (1, 1, S, D) and v (1, 1, S, M) of every size."""
    for place, (n, d, t, m) in enumerate(SIZES):
        for repeat in range(trial.pick(4, 100)):
            random = trial.random(place, repeat)
            yield (
                n,
                normal(random, 1, 1, t, d),
                normal(random, 1, 1, n, d),
                normal(random, 1, 1, n, m),
            )


def largest(found: dict[int, float], n: int, errors: Tensor) -> None:
    """Note the largest error at n keys."""
    found[n] = max(found.get(n, FLOOR), float(errors.abs().max()))


def compared(
    trial: Trial, right: dict[int, float], wrong: dict[int, float], *names: str
) -> Evidence:
    """An identity beside what is not one: largest error at each number of keys."""
    series = [
        Series(name, [(float(n), error) for n, error in errors.items()])
        for name, errors in zip(names, (right, wrong), strict=True)
    ]
    return Evidence(
        Estimate(max((wrong if trial.control else right).values())),
        Lines("number of keys", "largest error", series, x_log=True, y_log=True),
    )


def entropy(weights: Tensor) -> Tensor:
    """Of each row, as a share of ln n: 0 for one-hot weights, 1 for uniform ones."""
    shares = torch.special.entr(weights).sum(-1) / math.log(weights.shape[-1])
    return shares.round(decimals=6)  # 1e-148 is a label that nobody wants to read


@claim(
    "beta-hard",
    topic="temperature",
    source="course",
    statement="a large inverse temperature makes one-hot weights, a small one uniform weights",
    why="""Two weights stand in the ratio a_i / a_j = e^(b (s_i - s_j)) with scores s = K q. As b
    grows the ratio of the best to any other grows without bound, so the best key takes all; as b
    falls to 0 every ratio goes to 1, so all weights become 1/n. b is one over the temperature:
    a hot softmax is flat, a cold one is sharp. Courses often print it the other way round
    ("a large temperature makes one-hot weights"); that reading is the control.""",
    judge=Below(1e-3, "largest distance from one-hot at b = 1e8, from uniform at b = 1e-8"),
    control="the other reading: one-hot at b = 1e-8, uniform at b = 1e8",
)
def beta_hard(trial: Trial) -> Evidence:
    hard, flat = (1 / EXTREME, EXTREME) if trial.control else (EXTREME, 1 / EXTREME)
    worst = 0.0
    for n, q, k, _ in instances(trial):
        d = q.shape[-1]
        one_hot = F.one_hot((q @ k.mT).argmax(-1), n)  # (1, 1, T, S)
        sharp = softmax(d, hard).weights(q, k, Mask()) - one_hot
        even = softmax(d, flat).weights(q, k, Mask()) - 1 / n
        worst = max(worst, *(float(each.abs().sum(-1).max()) / 2 for each in (sharp, even)))
    betas = [10 ** (step / 4) for step in range(-12, 13)]
    found = {b: softmax(d, b).weights(q, k, Mask()) for b in betas}  # of the last, the largest
    lines = [
        Series("largest weight", [(b, float(a.amax(-1).mean())) for b, a in found.items()]),
        Series("entropy / ln n", [(b, float(entropy(a).mean())) for b, a in found.items()]),
    ]
    return Evidence(
        Estimate(worst),
        Lines(f"inverse temperature b, {n} keys", "mean over queries", lines, x_log=True),
    )


@claim(
    "beta-sqrt-d",
    topic="temperature",
    source="paper",
    reference="Vaswani et al. 2017, Attention Is All You Need, section 3.2.1 (arXiv 1706.03762)",
    statement="dividing by sqrt(d) keeps the entropy of the weights the same as d grows (random "
    "q, k)",
    why="""A score q.k of independent N(0, I) vectors has mean 0 and variance d. Divided by sqrt(d)
    it has variance 1 whatever d is, so the weights are the softmax of n numbers of one and the
    same spread, and their entropy stays. Undivided, the scores spread like sqrt(d): that is the
    same as raising the inverse temperature, the best key takes all, and where a weight is near 0
    or 1 the softmax has almost no gradient left. For keys and queries that are not independent
    (trained ones) the spread is another, and the division by sqrt(d) promises nothing.""",
    judge=Between(-0.01, 0.01, "change of entropy / ln n at each doubling of d"),
    control="scores not divided (b = 1)",
)
def beta_sqrt_d(trial: Trial) -> Evidence:
    sizes = trial.pick([16, 64, 256, 1024], [16, 32, 64, 128, 256, 512, 1024, 2048, 4096])
    n, doublings = 64, [math.log2(d) for d in sizes]
    curves: dict[str, list[list[float]]] = {"divided by sqrt(d)": [], "not divided": []}
    for repeat in range(trial.pick(8, 20)):
        drawn = {}
        for d in sizes:
            random = trial.random(repeat, d)
            drawn[d] = normal(random, 1, 1, 48, d), normal(random, 1, 1, n, d)
        for beta, curve in zip((None, 1.0), curves.values(), strict=True):
            curve.append([
                float(entropy(softmax(d, beta).weights(q, k, Mask())).mean())
                for d, (q, k) in drawn.items()
            ])  # fmt: skip
    means = {
        name: [mean_interval(column) for column in zip(*rows, strict=True)]
        for name, rows in curves.items()
    }
    lines = [
        Series(
            name,
            [(float(d), figure.value) for d, figure in zip(sizes, figures, strict=True)],
            [figure.ends for figure in figures],
        )
        for name, figures in means.items()
    ]
    judged = curves["not divided" if trial.control else "divided by sqrt(d)"]
    slopes = [statistics.linear_regression(doublings, each).slope for each in judged]
    return Evidence(
        mean_interval(slopes),
        Lines("dimension d of queries and keys", f"entropy / ln n, {n} keys", lines, x_log=True),
        details={f"{name}, d = {sizes[-1]}": each[-1].value for name, each in means.items()},
    )


@claim(
    "two-layer-network",
    topic="temperature",
    source="course",
    statement="attention with fixed K, V is two bias-free linear layers with a softmax between",
    why="""c = V^T softmax(b K q): the first layer's matrix is b K, with one hidden unit for each
    key, the second's is V^T, and no bias stands anywhere. So attention is a small network whose
    weights are not learned but written by the sequence: a key says when its unit fires, a value
    what it then adds. The softmax makes the units compete; with a ReLU between, which each unit
    passes by itself, the same matrices are a feed-forward layer and compute something else.""",
    judge=exact("largest difference between attention and the two layers"),
    control="a ReLU in place of the softmax",
)
def two_layer_network(trial: Trial) -> Evidence:
    right, wrong = dict[int, float](), dict[int, float]()
    for n, q, k, v in instances(trial):
        d = q.shape[-1]
        hidden = F.linear(q, k[0, 0] / math.sqrt(d))  # (1, 1, T, S)
        attention = softmax(d)(q, k, v, Mask())
        largest(right, n, F.linear(hidden.softmax(-1), v[0, 0].mT) - attention)
        largest(wrong, n, F.linear(hidden.relu(), v[0, 0].mT) - attention)
    return compared(trial, right, wrong, "softmax between", "ReLU between")


@claim(
    "rows-sum-to-one",
    topic="temperature",
    source="course",
    statement="weights sum to 1 over keys, not over queries",
    why="""The softmax divides each query's row by that row's own sum: sum_j a_tj = 1 for every
    query t. So every output is an average of values, and cannot leave their convex hull. Nothing
    divides the columns: sum_t a_tj says how much all queries together look at key j, and is large
    for a popular key, 0 for one that nobody looks at. Under a causal mask the columns must even
    differ, since the first key is seen by all queries and the last by one.""",
    judge=exact("largest |sum of weights - 1|"),
    control="summed over the queries, not over the keys",
)
def rows_sum_to_one(trial: Trial) -> Evidence:
    worst = 0.0
    for _, q, k, _ in instances(trial):
        for mask in (Mask(), Mask(causal=True)):
            weights = softmax(q.shape[-1]).weights(q, k, mask)
            sums = weights.sum(-2 if trial.control else -1)
            worst = max(worst, float((sums - 1).abs().max()))
    random, n = trial.random(len(SIZES)), 32
    shown = softmax(16).weights(normal(random, 1, 1, n, 16), normal(random, 1, 1, n, 16), Mask())
    lines = [
        Series(name, [(float(i), float(x)) for i, x in enumerate(shown[0, 0].sum(axis))])
        for name, axis in (("a query's, over keys", -1), ("a key's, over queries", -2))
    ]
    return Evidence(Estimate(worst), Lines("number of the query or key", "sum of weights", lines))
