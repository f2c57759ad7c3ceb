"""What one query retrieves from noisy keys.

n keys k_i of dimension d around orthonormal means mu_i, weights a = softmax(K q). Key a is number
0, key b number 1. Letters: N samples, n keys, d dimensions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.claims._claim import (
    Bars,
    Estimate,
    Evidence,
    Lines,
    Trial,
    claim,
    fraction_interval,
    mean_interval,
)
from attnlab.claims.judges import Above, Below, exact
from attnlab.claims.retrieve import attend, orthonormal
from attnlab.report import Series

KEYS, WIDTH, QUERY_SCALE, SMALL_ALPHA = 8, 11, 20.0, 1e-6  # n, d, m and alpha unless varied


@dataclass(frozen=True)
class NoisyKeys:
    """Random keys around their means."""

    means: Tensor  # (n, d)
    noise: Tensor  # (N, n, d) standard normal
    radial: Tensor  # (N,) standard normal, along mu_a
    values: Tensor  # (n, 16) orthonormal, so that all are equally far from each other

    @classmethod
    def sample(cls, trial: Trial, *key: int, count: int) -> NoisyKeys:
        generator = trial.generator(*key)
        means = orthonormal(KEYS, WIDTH, generator)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        noise, radial = normal(count, KEYS, WIDTH), normal(count)
        return cls(means, noise, radial, orthonormal(KEYS, 16, generator))

    def keys(self, alpha: float = SMALL_ALPHA, radial: float = 0.5) -> Tensor:
        """(N, n, d): k_i ~ N(mu_i, alpha I), and k_a with radial mu_a mu_a^T more covariance."""
        keys = self.means + math.sqrt(alpha) * self.noise
        keys[:, 0] += math.sqrt(radial) * self.radial[:, None] * self.means[0]
        return keys

    def average_query(self, m: float = QUERY_SCALE) -> Tensor:
        """The query for the average of a and b."""
        return m * (self.means[0] + self.means[1])

    def lengths(self, keys: Tensor) -> Tensor:
        """(N,): eps, the length of k_a along mu_a; negative if k_a points the other way."""
        return keys[:, 0] @ self.means[0]

    def weight_curve(self, q: Tensor, key: int) -> list[tuple[float, float]]:
        """The weight on one key as k_a = eps mu_a grows from eps = -3 to 3."""
        eps = torch.linspace(-3, 3, 61, dtype=torch.float64)
        keys = self.means.repeat(len(eps), 1, 1)
        keys[:, 0] *= eps[:, None]
        weights, _ = attend(q, keys, self.values)
        return list(zip(eps.tolist(), weights[:, key].tolist(), strict=True))


@claim(
    "noise-isotropic",
    topic="retrieve",
    source="course",
    statement="k_i ~ N(mu_i, alpha I), alpha small: q = m(mu_a + mu_b) still averages",
    why="""The score of a is m(1 + (mu_a + mu_b).noise), and the difference between the scores of a
    and b is normal with standard deviation 2 m sqrt(alpha). So a has a fraction
    1 / (1 + exp(-2 m sqrt(alpha) z)) of their common weight, z ~ N(0, 1), which is near 1/2 if
    2 m sqrt(alpha) is far below 1. "Small" therefore means small compared with 1/(4 m^2): the
    sharper the query, the less noise it tolerates.""",
    judge=Below(0.05, "mean |c - (v_a + v_b)/2| / |v_a - v_b|/2 at m = 20, alpha = 1e-6"),
    control="alpha = 0.1",
)
def noise_isotropic(trial: Trial) -> Evidence:
    sample = NoisyKeys.sample(trial, count=trial.pick(1000, 20_000))
    alpha = 0.1 if trial.control else SMALL_ALPHA
    lines, details = [], {}
    for m in (10.0, 20.0, 40.0):
        grid = [10 ** (-8 + step / 2) for step in range(17)]
        points = [(value, float(_average_error(sample, value, m).mean())) for value in grid]
        lines.append(Series(f"m = {m:.0f}", points))
        details[f"alpha of 10% error at m = {m:.0f}"] = broken = _breaking_alpha(sample, m)
        details[f"the same times 4 m^2 at m = {m:.0f}"] = round(broken * 4 * m * m, 4)
    return Evidence(
        mean_interval(_average_error(sample, alpha, QUERY_SCALE).tolist()),
        Lines("alpha", "mean distance from the average", lines, x_log=True, y_log=True),
        details=details,
    )


def _average_error(sample: NoisyKeys, alpha: float, m: float) -> Tensor:
    """(N,): distance of c from the average, in units of its distance to v_a and v_b."""
    _, outputs = attend(sample.average_query(m), sample.keys(alpha, radial=0), sample.values)
    a, b = sample.values[:2]
    return (outputs - (a + b) / 2).norm(dim=-1) / ((a - b).norm() / 2)


def _breaking_alpha(sample: NoisyKeys, m: float, limit: float = 0.1) -> float:
    """The alpha at which the mean error reaches the limit, by bisection."""
    low, high = -10.0, 0.0
    for _ in range(20):
        middle = (low + high) / 2
        too_large = float(_average_error(sample, 10**middle, m).mean()) > limit
        low, high = (low, middle) if too_large else (middle, high)
    return 10**high


@claim(
    "noise-radial",
    topic="retrieve",
    source="course",
    statement="k_a ~ N(mu_a, alpha I + mu_a mu_a^T / 2): k_a is about eps mu_a with "
    "eps ~ N(1, 1/2), and c swings between v_a and v_b",
    why="""Nearly all noise is along mu_a, so k_a = eps mu_a, and the scores of a and b are m eps
    and m. The weight of a is 1 / (1 + e^(-m(eps - 1))): at m = 20, an eps 0.11 above or below 1
    gives nine tenths to one of the two. So c is near v_a in nearly half of the samples, near v_b in
    nearly half, and hardly ever near the average. eps is within (0, 2) with probability 2
    Phi(sqrt(2)) - 1 = 84%, and negative with probability 8%.""",
    judge=Above(
        0.35, "fraction of samples with nine tenths of the weight on a, or on b if that is smaller"
    ),
    control="equal noise in all directions",
)
def noise_radial(trial: Trial) -> Evidence:
    sample = NoisyKeys.sample(trial, count=trial.pick(4000, 100_000))
    keys = sample.keys(radial=0 if trial.control else 0.5)
    weights, _ = attend(sample.average_query(), keys, sample.values)
    N = len(weights)
    on_a, on_b = (int((weights[:, key] > 0.9).sum()) for key in (0, 1))
    eps = sample.lengths(keys)
    deviation = (keys[:, 0] - eps[:, None] * sample.means[0]).norm(dim=-1).max()
    isotropic, _ = attend(sample.average_query(), sample.keys(radial=0), sample.values)
    lines = [
        Series(
            "noise along mu_a" if not trial.control else "as run",
            _cumulative_distribution(weights[:, 0]),
        ),
        Series("equal noise in all directions", _cumulative_distribution(isotropic[:, 0])),
    ]
    return Evidence(
        fraction_interval(min(on_a, on_b), N),
        Lines("weight on a", "fraction of samples with less", lines),
        details={
            "fraction with nine tenths on a": on_a / N,
            "fraction with nine tenths on b": on_b / N,
            "fraction with eps in (0, 2)": float(((eps > 0) & (eps < 2)).double().mean()),
            "fraction with eps negative": float((eps < 0).double().mean()),
            "largest |k_a - eps mu_a|": float(deviation),
        },
    )


def _cumulative_distribution(weights: Tensor) -> list[tuple[float, float]]:
    grid = torch.linspace(0, 1, 51, dtype=torch.float64)
    below = (weights[:, None] < grid).double().mean(0)
    return list(zip(grid.tolist(), below.tolist(), strict=True))


@claim(
    "identity-outer-product",
    topic="retrieve",
    source="course",
    statement="a unit vector has u u^T = I, so that covariance is I/2",
    quoted=True,
    why="""u^T u = 1 is a number, u u^T a matrix of rank one: (u u^T)(u u^T) = u (u^T u) u^T = u
    u^T, with trace 1. It is the projection onto the line of u, and equals I only in one dimension.
    So alpha I + mu_a mu_a^T / 2 has the variance alpha + 1/2 along mu_a and alpha across: the
    length of k_a varies, not its direction. With I/2 instead, one would expect noise in every
    direction, and different answers to the claims that follow.""",
    judge=exact("largest error of the statement about u u^T"),
    control="the statement that it is a projection of rank one and trace 1",
)
def identity_outer_product(trial: Trial) -> Evidence:
    worst = 0.0
    for d in trial.pick([2, 3, 5, 11, 64], [2, 3, 5, 11, 64, 300]):
        for repeat in range(trial.pick(5, 50)):
            u = orthonormal(1, d, trial.generator(d, repeat))[0]
            outer = u[:, None] * u
            errors = (
                [outer @ outer - outer, outer.trace() - 1, torch.linalg.svdvals(outer)[1:]]
                if trial.control
                else [outer - torch.eye(d, dtype=torch.float64)]
            )
            worst = max(worst, *(float(error.abs().max()) for error in errors))
    sample = NoisyKeys.sample(trial, count=trial.pick(2000, 20_000))
    spread = ((sample.keys()[:, 0] - sample.means[0]) ** 2).sum(-1)
    along = (sample.lengths(sample.keys()) - 1) ** 2
    across = (spread - along) / (WIDTH - 1)
    return Evidence(
        Estimate(worst),
        Bars(
            "variance of k_a in one direction",
            {"along mu_a": mean_interval(along.tolist()),
             "across mu_a": mean_interval(across.tolist()),
             "along, if it were I/2": Estimate(0.5), "across, if it were I/2": Estimate(0.5)},
        ),
        details={"fraction of all variance along mu_a": float(along.mean() / spread.mean())},
    )  # fmt: skip


@claim(
    "longer-key-wins",
    topic="retrieve",
    source="course",
    statement="whenever k_a is longer than 1, a gets more weight than b",
    quoted=True,
    why="""With k_a = eps mu_a and q = m(mu_a + mu_b) the scores are m eps and m: a wins if and only
    if eps > 1. |k_a| > 1 also holds for eps < -1, where the long key points away from the query and
    gets almost no weight. With eps ~ N(1, 1/2) this is rare, Phi(-2 sqrt(2)) = 0.23% of samples,
    but one counterexample refutes "whenever". What counts is the length along the query.""",
    judge=Below(0, "samples in which the longer key a has no more weight than b"),
    control="only keys longer than 1 that point toward mu_a",
)
def longer_key_wins(trial: Trial) -> Evidence:
    sample = NoisyKeys.sample(trial, count=trial.pick(20_000, 200_000))
    keys = sample.keys(alpha=0)
    weights, _ = attend(sample.average_query(), keys, sample.values)
    long = keys[:, 0].norm(dim=-1) > 1
    if trial.control:
        long &= sample.lengths(keys) > 0
    lost = int((long & (weights[:, 0] <= weights[:, 1])).sum())
    lines = [Series(f"weight on {name}", sample.weight_curve(sample.average_query(), key))
             for key, name in enumerate("ab")]  # fmt: skip
    return Evidence(
        Estimate(lost),
        Lines("eps: k_a = eps mu_a", "weight", lines),
        details={"samples with a longer key": int(long.sum()),
                 "fraction of these with less weight": lost / int(long.sum())},
    )  # fmt: skip
