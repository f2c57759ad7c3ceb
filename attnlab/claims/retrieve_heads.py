"""What several heads retrieve from noisy keys, and how one long key affects all queries.

Letters: N samples, n keys, d dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab.claims._claim import Evidence, Lines, Trial, claim, fraction_interval, mean_interval
from attnlab.claims.judges import Above, Below
from attnlab.claims.retrieve import attend
from attnlab.claims.retrieve_noise import KEYS, QUERY_SCALE, NoisyKeys
from attnlab.report import Series


def identical_queries(sample: NoisyKeys, heads: int) -> list[Tensor]:
    """Every head queries for the average."""
    return [sample.average_query()] * heads


def split_queries(sample: NoisyKeys) -> list[Tensor]:
    """One head queries for a, the other for b."""
    return [QUERY_SCALE * sample.means[0], QUERY_SCALE * sample.means[1]]


def mean_output(queries: Sequence[Tensor], keys: Sequence[Tensor], values: Tensor) -> Tensor:
    """(N, d): the mean output over heads, each with its own query and keys."""
    pairs = zip(queries, keys, strict=True)
    return torch.stack([attend(q, head_keys, values)[1] for q, head_keys in pairs]).mean(0)


def total_variance(outputs: Tensor) -> float:
    """Variance over samples, summed over all coordinates."""
    return float(outputs.var(0).sum())


@claim(
    "heads-identical",
    topic="retrieve",
    source="course",
    statement="two (or n) heads with the same q = m(mu_a + mu_b) reduce the variance",
    quoted=True,
    why="""The mean of h independent samples has 1/h of the variance of one. But the noise is in the
    key, and all heads read the same k_a. With the same query they have the same weights and the
    same output, c = (c_1 + ... + c_h)/h = c_1, with the variance of one head. The statement would
    be true if every head had keys with independent noise (the control). Different queries help, as
    in heads-split.""",
    judge=Below(0.9, "variance of two heads' mean output / variance of one head's"),
    control="each head reads keys with independent noise",
)
def heads_identical(trial: Trial) -> Evidence:
    count, counts = trial.pick(500, 5000), (1, 2, 4, KEYS)
    own_noise: dict[int, list[float]] = {heads: [] for heads in counts}
    same_keys: dict[int, list[float]] = {heads: [] for heads in counts}
    for repeat in range(trial.pick(6, 20)):
        sample = NoisyKeys.sample(trial, repeat, count=count * KEYS)
        key_samples = sample.keys().split(count)  # KEYS sets of samples around the same means
        one_head = total_variance(
            mean_output(identical_queries(sample, 1), key_samples[:1], sample.values)
        )
        for heads in counts:
            queries = identical_queries(sample, heads)
            for ratios, keys in (
                (same_keys, key_samples[:1] * heads),
                (own_noise, key_samples[:heads]),
            ):
                ratios[heads].append(
                    total_variance(mean_output(queries, keys, sample.values)) / one_head
                )
    lines = [
        _ratios_by_heads("the same keys for all heads", same_keys),
        _ratios_by_heads("independent noise for each head", own_noise),
        Series("1 / heads", [(float(heads), 1 / heads) for heads in counts]),
    ]
    judged = mean_interval((own_noise if trial.control else same_keys)[2])
    return Evidence(
        judged,
        Lines("heads", "variance / one head's", lines, x_log=True, y_log=True),
        details={
            f"ratio at {h} heads, the same keys": mean_interval(same_keys[h]).value
            for h in counts[1:]
        },
    )


def _ratios_by_heads(name: str, ratios_by_heads: dict[int, list[float]]) -> Series:
    figures = {heads: mean_interval(ratios) for heads, ratios in ratios_by_heads.items()}
    return Series(
        name,
        [(float(heads), figure.value) for heads, figure in figures.items()],
        [figure.ends for figure in figures.values()],
    )


@claim(
    "heads-split",
    topic="retrieve",
    source="course",
    statement="q1 = m mu_a, q2 = m mu_b gives (v_a + v_b)/2 with far smaller variance",
    why="""Head 1 compares k_a with keys that score about 0, not with k_b: its weight on a is 1 / (1
    + (n - 1) e^(-m eps)), near 1 unless eps is small or negative. A single head must balance the
    scores m eps and m, and selects one key at any eps other than 1: its output has the variance
    |v_a - v_b|^2 / 4. With two heads, only head 1 fails, if eps < about ln(n - 1)/m, and this
    affects half of the output: the variance is about p(1 - p) |v_a - v_rest|^2 / 4 with p = 10% at
    m = 20, n = 8.""",
    judge=Above(10, "variance of one head's output / variance of the two heads'"),
    control="both heads query for the average",
)
def heads_split(trial: Trial) -> Evidence:
    ratios, offset = [], []
    by_spread: dict[float, list[float]] = {s: [] for s in (0.1, 0.2, 0.5, 1.0, 2.0)}
    for repeat in range(trial.pick(8, 40)):
        sample = NoisyKeys.sample(trial, repeat, count=trial.pick(1000, 10_000))
        queries = identical_queries(sample, 2) if trial.control else split_queries(sample)
        for spread, spread_ratios in by_spread.items():
            keys = [sample.keys(radial=spread)] * 2
            one = mean_output(identical_queries(sample, 1), keys[:1], sample.values)
            outputs = mean_output(queries, keys, sample.values)
            spread_ratios.append(total_variance(one) / total_variance(outputs))
            if spread == 0.5:
                ratios.append(spread_ratios[-1])
                a, b = sample.values[:2]
                errors = (outputs - (a + b) / 2).norm(dim=-1) / ((a - b).norm() / 2)
                offset.append(float(errors.median()))
    line = [
        (spread, mean_interval(spread_ratios).value) for spread, spread_ratios in by_spread.items()
    ]
    return Evidence(
        mean_interval(ratios),
        Lines(
            "variance of eps",
            "variance of one head / of two",
            [
                Series("two heads compared with one", line),
                Series("no gain", [(s, 1.0) for s, _ in line]),
            ],
            x_log=True,
            y_log=True,
        ),
        details={"median |c - (v_a + v_b)/2| / |v_a - v_b|/2": mean_interval(offset).value},
    )


@claim(
    "heads-split-always",
    topic="retrieve",
    source="course",
    statement="split heads are unaffected by the length of k_a",
    quoted=True,
    why="""Head 1 scores a with m eps and all others with about 0, so its weight on a is
    1 / (1 + (n - 1) e^(-m eps)). It is above 0.9 only if eps > ln(9(n - 1))/m, 0.21 at m = 20 and
    n = 8, and eps ~ N(1, 1/2) is below this in 13% of samples. For negative eps, a gets no weight
    and head 1 averages all other values. Two heads are much better than one, but not unaffected.
    The statement is true if eps is above 1/2 (the control).""",
    judge=Below(0.01, "fraction of samples in which head 1 has less than 0.9 on a"),
    control="only samples with eps above 1/2",
)
def heads_split_always(trial: Trial) -> Evidence:
    sample = NoisyKeys.sample(trial, count=trial.pick(4000, 100_000))
    keys = sample.keys()
    if trial.control:
        keys = keys[sample.lengths(keys) > 0.5]
    first, second = split_queries(sample)
    on_a = attend(first, keys, sample.values)[0][:, 0]
    on_b = attend(second, keys, sample.values)[0][:, 1]
    lines = [
        Series("a in head 1", sample.weight_curve(first, 0)),
        Series("b in head 2", sample.weight_curve(second, 1)),
        Series("a in one head for both", sample.weight_curve(sample.average_query(), 0)),
    ]
    return Evidence(
        fraction_interval(int((on_a < 0.9).sum()), len(on_a)),
        Lines("eps: k_a = eps mu_a", "weight", lines),
        details={
            "eps needed for 0.9 on a": math.log(9 * (KEYS - 1)) / QUERY_SCALE,
            "fraction of samples in which head 2 has less than 0.9 on b": float(
                (on_b < 0.9).double().mean()
            ),
        },
    )


@claim(
    "key-scaled",
    topic="retrieve",
    source="course",
    statement="one key scaled by a large alpha takes over the weights of every query on its side",
    why="""For a query with q.k_j > 0 the scaled key has the score alpha q.k_j, which grows without
    bound while all other scores stay the same, so a_j = 1 / (1 + sum e^(q.k_i - alpha q.k_j)) goes
    to 1. For a query on the other side (q.k_j < 0) the weight goes to 0. Queries nearly orthogonal
    to k_j need an alpha of about (max q.k_i + ln(99 n))/(q.k_j), so "every" holds in the limit: the
    fraction of queries that are not yet taken over falls like 1/alpha.""",
    judge=Above(0.95, "fraction of queries with 0.99 of their weight on the key, alpha = 1000"),
    control="the queries on the other side",
)
def key_scaled(trial: Trial) -> Evidence:
    n, d, N = 32, 16, trial.pick(1000, 10_000)
    generator = trial.generator()
    keys = torch.randn(n, d, generator=generator, dtype=torch.float64)
    queries = torch.randn(N, d, generator=generator, dtype=torch.float64)
    positive = queries @ keys[0] > 0
    grid = [10 ** (step / 4) for step in range(-4, 13)]  # the last is 1000
    weights = torch.stack(
        [_weights_on_scaled_key(queries, keys, alpha) for alpha in grid]
    )  # (grid, N)
    lines = [
        Series(name, list(zip(grid, weights[:, selected].mean(-1).tolist(), strict=True)))
        for name, selected in (
            ("queries on its side", positive),
            ("queries on the other side", ~positive),
        )
    ]
    captured = (weights[-1] > 0.99)[~positive if trial.control else positive]
    alpha_needed = next(alpha for alpha, mean in lines[0].points if mean > 0.9)
    return Evidence(
        fraction_interval(int(captured.sum()), len(captured)),
        Lines("alpha", "mean weight on the scaled key", lines, x_log=True),
        details={"alpha for a mean weight above 0.9 on its side": round(alpha_needed, 1)},
    )


def _weights_on_scaled_key(queries: Tensor, keys: Tensor, alpha: float) -> Tensor:
    """(N,): the weight on key 0, which is alpha times as long."""
    scaled = torch.cat([alpha * keys[:1], keys[1:]])
    return attend(queries, scaled, scaled)[0][:, 0]
