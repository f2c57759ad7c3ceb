"""Temperature: how the softmax turns scores into weights.

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

PLOT_FLOOR = 1e-17
"""Stands for an error of 0 on a logarithmic axis."""
EXTREME_BETA = 1e8
"""An inverse temperature that separates even the closest two of thousands of random scores."""

SIZES = ((2, 3, 5, 7), (5, 7, 11, 3), (11, 4, 9, 6), (24, 16, 8, 13), (60, 32, 20, 17))
"""Number of keys, key size, number of queries, value size. They differ, so swapped axes fail."""


def sample_normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def make_softmax(d: int, beta: float | None = None) -> Softmax:
    """attnlab's softmax attention with one head. Without `beta`, scores are divided by sqrt(d)."""
    return Softmax(head_dim=d, heads=1, beta=beta)


def sample_instances(trial: Trial) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
    """For every size: the number of keys, q (1, 1, T, D), k (1, 1, S, D) and v (1, 1, S, M)."""
    for case, (n, d, t, m) in enumerate(SIZES):
        for repeat in range(trial.pick(4, 100)):
            generator = trial.generator(case, repeat)
            yield (
                n,
                sample_normal(generator, 1, 1, t, d),
                sample_normal(generator, 1, 1, n, d),
                sample_normal(generator, 1, 1, n, m),
            )


def update_largest(largest_errors: dict[int, float], n: int, errors: Tensor) -> None:
    """Keeps the largest error at n keys."""
    largest_errors[n] = max(largest_errors.get(n, PLOT_FLOOR), float(errors.abs().max()))


def compare_identities(
    trial: Trial, right: dict[int, float], wrong: dict[int, float], *names: str
) -> Evidence:
    """The largest errors of an identity and of a wrong formula, by number of keys."""
    series = [
        Series(name, [(float(n), error) for n, error in errors.items()])
        for name, errors in zip(names, (right, wrong), strict=True)
    ]
    return Evidence(
        Estimate(max((wrong if trial.control else right).values())),
        Lines("number of keys", "largest error", series, x_log=True, y_log=True),
    )


def normalized_entropy(weights: Tensor) -> Tensor:
    """Entropy of each row divided by ln n: 0 for one-hot weights, 1 for uniform ones."""
    fractions = torch.special.entr(weights).sum(-1) / math.log(weights.shape[-1])
    return fractions.round(decimals=6)  # avoids labels such as 1e-148


@claim(
    "beta-hard",
    topic="temperature",
    source="course",
    statement="a large inverse temperature makes one-hot weights, a small one uniform weights",
    why="""The ratio of two weights is a_i / a_j = e^(b (s_i - s_j)) with scores s = K q. As b
    grows, the ratio of the best to any other grows without bound, so the best key gets all weight.
    As b falls to 0, every ratio goes to 1, so all weights become 1/n. b is one over the
    temperature: a hot softmax is flat, a cold one is sharp. Courses often state it the other way
    round ("a large temperature makes one-hot weights"); that statement is the control.""",
    judge=Below(1e-3, "largest distance from one-hot at b = 1e8, from uniform at b = 1e-8"),
    control="the other way round: one-hot at b = 1e-8, uniform at b = 1e8",
)
def beta_hard(trial: Trial) -> Evidence:
    hard_beta, flat_beta = (
        (1 / EXTREME_BETA, EXTREME_BETA) if trial.control else (EXTREME_BETA, 1 / EXTREME_BETA)
    )
    worst = 0.0
    for n, q, k, _ in sample_instances(trial):
        d = q.shape[-1]
        one_hot = F.one_hot((q @ k.mT).argmax(-1), n)  # (1, 1, T, S)
        sharp = make_softmax(d, hard_beta).weights(q, k, Mask()) - one_hot
        even = make_softmax(d, flat_beta).weights(q, k, Mask()) - 1 / n
        worst = max(worst, *(float(error.abs().sum(-1).max()) / 2 for error in (sharp, even)))
    betas = [10 ** (step / 4) for step in range(-12, 13)]
    weights_by_beta = {
        b: make_softmax(d, b).weights(q, k, Mask()) for b in betas
    }  # for the last and largest instance
    lines = [
        Series(
            "largest weight", [(b, float(a.amax(-1).mean())) for b, a in weights_by_beta.items()]
        ),
        Series(
            "entropy / ln n",
            [(b, float(normalized_entropy(a).mean())) for b, a in weights_by_beta.items()],
        ),
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
    it has variance 1 for any d, so the weights are the softmax of n numbers with the same spread,
    and their entropy stays the same. Without the division, the spread of the scores grows like
    sqrt(d). This is the same as raising the inverse temperature: the best key gets all weight, and
    where a weight is near 0 or 1 the softmax has almost no gradient. Trained keys and queries are
    not independent: their scores have another spread, and the division guarantees nothing.""",
    judge=Between(-0.01, 0.01, "change of entropy / ln n at each doubling of d"),
    control="scores not divided (b = 1)",
)
def beta_sqrt_d(trial: Trial) -> Evidence:
    sizes = trial.pick([16, 64, 256, 1024], [16, 32, 64, 128, 256, 512, 1024, 2048, 4096])
    n, doublings = 64, [math.log2(d) for d in sizes]
    curves: dict[str, list[list[float]]] = {"divided by sqrt(d)": [], "not divided": []}
    for repeat in range(trial.pick(8, 20)):
        inputs = {}
        for d in sizes:
            generator = trial.generator(repeat, d)
            inputs[d] = sample_normal(generator, 1, 1, 48, d), sample_normal(generator, 1, 1, n, d)
        for beta, curve in zip((None, 1.0), curves.values(), strict=True):
            curve.append([
                float(normalized_entropy(make_softmax(d, beta).weights(q, k, Mask())).mean())
                for d, (q, k) in inputs.items()
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
    slopes = [statistics.linear_regression(doublings, curve).slope for curve in judged]
    return Evidence(
        mean_interval(slopes),
        Lines("dimension d of queries and keys", f"entropy / ln n, {n} keys", lines, x_log=True),
        details={f"{name}, d = {sizes[-1]}": curve[-1].value for name, curve in means.items()},
    )


@claim(
    "two-layer-network",
    topic="temperature",
    source="course",
    statement="attention with fixed K, V is two bias-free linear layers with a softmax between",
    why="""c = V^T softmax(b K q): the matrix of the first layer is b K, with one hidden unit for
    each key, that of the second is V^T, and there is no bias. So attention is a small network whose
    weights are not learned but come from the sequence: a key determines when its unit is active, a
    value what it adds to the output. The softmax makes the units compete. With a ReLU between,
    which acts on each unit separately, the same matrices are a feed-forward layer and compute
    something else.""",
    judge=exact("largest difference between attention and the two layers"),
    control="a ReLU in place of the softmax",
)
def two_layer_network(trial: Trial) -> Evidence:
    right, wrong = dict[int, float](), dict[int, float]()
    for n, q, k, v in sample_instances(trial):
        d = q.shape[-1]
        hidden = F.linear(q, k[0, 0] / math.sqrt(d))  # (1, 1, T, S)
        attention = make_softmax(d)(q, k, v, Mask())
        update_largest(right, n, F.linear(hidden.softmax(-1), v[0, 0].mT) - attention)
        update_largest(wrong, n, F.linear(hidden.relu(), v[0, 0].mT) - attention)
    return compare_identities(trial, right, wrong, "softmax between", "ReLU between")


@claim(
    "rows-sum-to-one",
    topic="temperature",
    source="course",
    statement="weights sum to 1 over keys, not over queries",
    why="""The softmax divides each query's row by its sum: sum_j a_tj = 1 for every query t. So
    every output is an average of values, and stays in their convex hull. The columns are not
    normalized: sum_t a_tj is the total weight that all queries put on key j. It is large for a
    popular key, and 0 for one to which no query attends. With a causal mask the columns must
    differ, since all queries can attend to the first key and only one to the last.""",
    judge=exact("largest |sum of weights - 1|"),
    control="summed over the queries, not over the keys",
)
def rows_sum_to_one(trial: Trial) -> Evidence:
    worst = 0.0
    for _, q, k, _ in sample_instances(trial):
        for mask in (Mask(), Mask(causal=True)):
            weights = make_softmax(q.shape[-1]).weights(q, k, mask)
            sums = weights.sum(-2 if trial.control else -1)
            worst = max(worst, float((sums - 1).abs().max()))
    generator, n = trial.generator(len(SIZES)), 32
    weights_example = make_softmax(16).weights(
        sample_normal(generator, 1, 1, n, 16), sample_normal(generator, 1, 1, n, 16), Mask()
    )
    lines = [
        Series(name, [(float(i), float(x)) for i, x in enumerate(weights_example[0, 0].sum(axis))])
        for name, axis in (("a query's, over keys", -1), ("a key's, over queries", -2))
    ]
    return Evidence(Estimate(worst), Lines("number of the query or key", "sum of weights", lines))
