"""What several heads retrieve from noisy keys, and what one long key does to all queries.

Letters: N draws, n keys, d dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab.claims._claim import Evidence, Lines, Trial, claim, fraction_interval, mean_interval
from attnlab.claims.judges import Above, Below
from attnlab.claims.retrieve import attend
from attnlab.claims.retrieve_noise import KEYS, SHARP, Noisy
from attnlab.report import Series


def identical(drawn: Noisy, heads: int) -> list[Tensor]:
    """Every head asks for the average."""
    return [drawn.both()] * heads


def split(drawn: Noisy) -> list[Tensor]:
    """One head asks for a, the other for b."""
    return [SHARP * drawn.means[0], SHARP * drawn.means[1]]


def together(queries: Sequence[Tensor], keys: Sequence[Tensor], values: Tensor) -> Tensor:
    """(N, d): the mean over heads, each with its query and the keys it reads."""
    pairs = zip(queries, keys, strict=True)
    return torch.stack([attend(q, each, values)[1] for q, each in pairs]).mean(0)


def variance(outputs: Tensor) -> float:
    """Over draws, of all coordinates together."""
    return float(outputs.var(0).sum())


@claim(
    "heads-identical",
    topic="retrieve",
    source="course",
    statement="two (or n) heads with the same q = m(mu_a + mu_b) reduce the variance",
    quoted=True,
    why="""The mean of h independent draws has 1/h of the variance of one. But the noise is in the
    key, and all heads read the same k_a: with the same query they have the same weights and the
    same output, c = (c_1 + ... + c_h)/h = c_1, with the variance of one head. It would be true if
    every head had keys with noise of their own (the control). What helps is to ask differently, as
    in heads-split.""",
    judge=Below(0.9, "variance of two heads' mean output / variance of one head's"),
    control="each head reads keys with noise of their own",
)
def heads_identical(trial: Trial) -> Evidence:
    draws, counts = trial.pick(500, 5000), (1, 2, 4, KEYS)
    own: dict[int, list[float]] = {heads: [] for heads in counts}
    same: dict[int, list[float]] = {heads: [] for heads in counts}
    for repeat in range(trial.pick(6, 20)):
        drawn = Noisy.draw(trial, repeat, draws=draws * KEYS)
        apart = drawn.keys().split(draws)  # KEYS sets of draws around the same means
        one = variance(together(identical(drawn, 1), apart[:1], drawn.values))
        for heads in counts:
            queries = identical(drawn, heads)
            for found, keys in ((same, apart[:1] * heads), (own, apart[:heads])):
                found[heads].append(variance(together(queries, keys, drawn.values)) / one)
    lines = [
        _by_heads("the same keys for all heads", same),
        _by_heads("keys with noise of their own for each", own),
        Series("1 / heads", [(float(heads), 1 / heads) for heads in counts]),
    ]
    decisive = mean_interval((own if trial.control else same)[2])
    return Evidence(
        decisive,
        Lines("heads", "variance / one head's", lines, x_log=True, y_log=True),
        details={
            f"ratio at {h} heads, the same keys": mean_interval(same[h]).value for h in counts[1:]
        },
    )


def _by_heads(name: str, found: dict[int, list[float]]) -> Series:
    figures = {heads: mean_interval(ratios) for heads, ratios in found.items()}
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
    why="""Head 1 compares k_a with keys that score about 0, not with k_b: its weight on a is
    1 / (1 + (n - 1) e^(-m eps)), near 1 unless eps is small or negative. One head must balance
    m eps against m, and tips over at any eps other than 1: its output has the variance
    |v_a - v_b|^2 / 4. Two heads lose a only where eps < ln(n - 1)/m or so, and then only half the
    output: the variance is about p(1 - p) |v_a - v_rest|^2 / 4 with p = 10% at m = 20, n = 8.""",
    judge=Above(10, "variance of one head's output / variance of the two heads'"),
    control="both heads ask for the average",
)
def heads_split(trial: Trial) -> Evidence:
    ratios, offset = [], []
    by_spread: dict[float, list[float]] = {s: [] for s in (0.1, 0.2, 0.5, 1.0, 2.0)}
    for repeat in range(trial.pick(8, 40)):
        drawn = Noisy.draw(trial, repeat, draws=trial.pick(1000, 10_000))
        two = identical(drawn, 2) if trial.control else split(drawn)
        for spread, found in by_spread.items():
            keys = [drawn.keys(radial=spread)] * 2
            one = together(identical(drawn, 1), keys[:1], drawn.values)
            outputs = together(two, keys, drawn.values)
            found.append(variance(one) / variance(outputs))
            if spread == 0.5:
                ratios.append(found[-1])
                a, b = drawn.values[:2]
                errors = (outputs - (a + b) / 2).norm(dim=-1) / ((a - b).norm() / 2)
                offset.append(float(errors.median()))
    line = [(spread, mean_interval(found).value) for spread, found in by_spread.items()]
    return Evidence(
        mean_interval(ratios),
        Lines(
            "variance of eps",
            "times less variance",
            [Series("two heads against one", line), Series("no gain", [(s, 1.0) for s, _ in line])],
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
    n = 8, and eps ~ N(1, 1/2) is below that in 13% of draws; for negative eps a gets nothing and
    head 1 averages all other values. Two heads are much better than one, not immune. It is true
    of keys that stay at least half as long as their mean, on its side (the control).""",
    judge=Below(0.01, "share of draws in which head 1 has less than 0.9 on a"),
    control="only draws with eps above 1/2",
)
def heads_split_always(trial: Trial) -> Evidence:
    drawn = Noisy.draw(trial, draws=trial.pick(4000, 100_000))
    keys = drawn.keys()
    if trial.control:
        keys = keys[drawn.lengths(keys) > 0.5]
    first, second = split(drawn)
    on_a = attend(first, keys, drawn.values)[0][:, 0]
    on_b = attend(second, keys, drawn.values)[0][:, 1]
    lines = [
        Series("a in head 1", drawn.curve(first, 0)),
        Series("b in head 2", drawn.curve(second, 1)),
        Series("a in one head for both", drawn.curve(drawn.both(), 0)),
    ]
    return Evidence(
        fraction_interval(int((on_a < 0.9).sum()), len(on_a)),
        Lines("eps: k_a = eps mu_a", "weight", lines),
        details={
            "eps needed for 0.9 on a": math.log(9 * (KEYS - 1)) / SHARP,
            "share of draws in which head 2 has less than 0.9 on b": float(
                (on_b < 0.9).double().mean()
            ),
        },
    )


@claim(
    "key-scaled",
    topic="retrieve",
    source="course",
    statement="one key scaled by a large alpha takes over the weights of every query on its side",
    why="""A query with q.k_j > 0 scores the scaled key with alpha q.k_j, which grows without end
    while all other scores stay, so a_j = 1 / (1 + sum e^(q.k_i - alpha q.k_j)) goes to 1. A query
    on the other side (q.k_j < 0) drops the key just as surely. Queries nearly at right angles to
    k_j need an alpha of about (max q.k_i + ln(99 n))/(q.k_j), so "every" is a limit: the share of
    queries that are not yet taken falls as 1/alpha.""",
    judge=Above(0.95, "share of queries with 0.99 of their weight on the key, alpha = 1000"),
    control="the queries on the other side",
)
def key_scaled(trial: Trial) -> Evidence:
    n, d, N = 32, 16, trial.pick(1000, 10_000)
    random = trial.random()
    keys = torch.randn(n, d, generator=random, dtype=torch.float64)
    queries = torch.randn(N, d, generator=random, dtype=torch.float64)
    side = queries @ keys[0] > 0
    grid = [10 ** (step / 4) for step in range(-4, 13)]  # the last is 1000
    weights = torch.stack([_on_scaled(queries, keys, alpha) for alpha in grid])  # (grid, N)
    lines = [
        Series(name, list(zip(grid, weights[:, who].mean(-1).tolist(), strict=True)))
        for name, who in (("queries on its side", side), ("queries on the other side", ~side))
    ]
    taken = (weights[-1] > 0.99)[~side if trial.control else side]
    nine = next(alpha for alpha, mean in lines[0].points if mean > 0.9)
    return Evidence(
        fraction_interval(int(taken.sum()), len(taken)),
        Lines("alpha", "mean weight on the scaled key", lines, x_log=True),
        details={"alpha of a mean weight above 0.9 on its side": round(nine, 1)},
    )


def _on_scaled(queries: Tensor, keys: Tensor, alpha: float) -> Tensor:
    """(N,): the weight on key 0, which is alpha times as long."""
    scaled = torch.cat([alpha * keys[:1], keys[1:]])
    return attend(queries, scaled, scaled)[0][:, 0]
