"""What one query retrieves from noisy keys.

n keys k_i of dimension d around orthonormal means mu_i, weights a = softmax(K q). Key a is number
0, key b number 1. Letters: N draws, n keys, d dimensions.
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

KEYS, WIDTH, SHARP, TINY = 8, 11, 20.0, 1e-6  # n, d, m and alpha unless varied


@dataclass(frozen=True)
class Noisy:
    """Draws of keys around their means."""

    means: Tensor  # (n, d)
    noise: Tensor  # (N, n, d) standard normal
    radial: Tensor  # (N,) standard normal, along mu_a
    values: Tensor  # (n, 16) orthonormal: all as far from each other

    @classmethod
    def draw(cls, trial: Trial, *place: int, draws: int) -> Noisy:
        random = trial.random(*place)
        means = orthonormal(KEYS, WIDTH, random)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=random, dtype=torch.float64)

        noise, radial = normal(draws, KEYS, WIDTH), normal(draws)
        return cls(means, noise, radial, orthonormal(KEYS, 16, random))

    def keys(self, alpha: float = TINY, radial: float = 0.5) -> Tensor:
        """(N, n, d): k_i ~ N(mu_i, alpha I), and k_a with radial mu_a mu_a^T more covariance."""
        keys = self.means + math.sqrt(alpha) * self.noise
        keys[:, 0] += math.sqrt(radial) * self.radial[:, None] * self.means[0]
        return keys

    def both(self, m: float = SHARP) -> Tensor:
        """The query for the average of a and b."""
        return m * (self.means[0] + self.means[1])

    def lengths(self, keys: Tensor) -> Tensor:
        """(N,): eps, how long k_a is along mu_a; negative on the other side."""
        return keys[:, 0] @ self.means[0]

    def curve(self, q: Tensor, key: int) -> list[tuple[float, float]]:
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
    and b is normal with standard deviation 2 m sqrt(alpha). So a has the share
    1 / (1 + exp(-2 m sqrt(alpha) z)) of what both have, z ~ N(0, 1): near 1/2 while 2 m sqrt(alpha)
    is far below 1. Small therefore means small against 1/(4 m^2): the sharper the query, the less
    noise it bears.""",
    judge=Below(0.05, "mean |c - (v_a + v_b)/2| / |v_a - v_b|/2 at m = 20, alpha = 1e-6"),
    control="alpha = 0.1",
)
def noise_isotropic(trial: Trial) -> Evidence:
    drawn = Noisy.draw(trial, draws=trial.pick(1000, 20_000))
    alpha = 0.1 if trial.control else TINY
    lines, details = [], {}
    for m in (10.0, 20.0, 40.0):
        grid = [10 ** (-8 + step / 2) for step in range(17)]
        points = [(each, float(_average_error(drawn, each, m).mean())) for each in grid]
        lines.append(Series(f"m = {m:.0f}", points))
        details[f"alpha of 10% error at m = {m:.0f}"] = broken = _breaking(drawn, m)
        details[f"the same times 4 m^2 at m = {m:.0f}"] = round(broken * 4 * m * m, 4)
    return Evidence(
        mean_interval(_average_error(drawn, alpha, SHARP).tolist()),
        Lines("alpha", "mean distance from the average", lines, x_log=True, y_log=True),
        details=details,
    )


def _average_error(drawn: Noisy, alpha: float, m: float) -> Tensor:
    """(N,): how far c is from the average; 1 is at v_a or v_b."""
    _, outputs = attend(drawn.both(m), drawn.keys(alpha, radial=0), drawn.values)
    a, b = drawn.values[:2]
    return (outputs - (a + b) / 2).norm(dim=-1) / ((a - b).norm() / 2)


def _breaking(drawn: Noisy, m: float, wanted: float = 0.1) -> float:
    """The alpha at which the mean error reaches what is wanted: it grows with alpha."""
    low, high = -10.0, 0.0
    for _ in range(20):
        middle = (low + high) / 2
        broken = float(_average_error(drawn, 10**middle, m).mean()) > wanted
        low, high = (low, middle) if broken else (middle, high)
    return 10**high


@claim(
    "noise-radial",
    topic="retrieve",
    source="course",
    statement="k_a ~ N(mu_a, alpha I + mu_a mu_a^T / 2): k_a is about eps mu_a with "
    "eps ~ N(1, 1/2), and c swings between v_a and v_b",
    why="""All noise but a little lies along mu_a, so k_a = eps mu_a and the scores of a and b are
    m eps and m. Their weights are shared as 1 / (1 + e^(-m(eps - 1))): at m = 20 an eps 0.11 above
    or below 1 gives nine tenths to one of the two. So c is v_a in nearly half of the draws, v_b in
    nearly half, and the average hardly ever. eps stays within (0, 2) with probability
    2 Phi(sqrt(2)) - 1 = 84% and is negative with 8%.""",
    judge=Above(0.35, "share of draws with nine tenths of the weight on a; or on b, if fewer"),
    control="noise alike in all directions",
)
def noise_radial(trial: Trial) -> Evidence:
    drawn = Noisy.draw(trial, draws=trial.pick(4000, 100_000))
    keys = drawn.keys(radial=0 if trial.control else 0.5)
    weights, _ = attend(drawn.both(), keys, drawn.values)
    N = len(weights)
    on_a, on_b = (int((weights[:, key] > 0.9).sum()) for key in (0, 1))
    eps = drawn.lengths(keys)
    off = (keys[:, 0] - eps[:, None] * drawn.means[0]).norm(dim=-1).max()
    quiet, _ = attend(drawn.both(), drawn.keys(radial=0), drawn.values)
    lines = [
        Series("noise along mu_a" if not trial.control else "as run", _cumulated(weights[:, 0])),
        Series("noise alike in all directions", _cumulated(quiet[:, 0])),
    ]
    return Evidence(
        fraction_interval(min(on_a, on_b), N),
        Lines("weight on a", "share of draws with less", lines),
        details={
            "share with nine tenths on a": on_a / N,
            "share with nine tenths on b": on_b / N,
            "share with eps in (0, 2)": float(((eps > 0) & (eps < 2)).double().mean()),
            "share with eps negative": float((eps < 0).double().mean()),
            "largest |k_a - eps mu_a|": float(off),
        },
    )


def _cumulated(weights: Tensor) -> list[tuple[float, float]]:
    grid = torch.linspace(0, 1, 51, dtype=torch.float64)
    below = (weights[:, None] < grid).double().mean(0)
    return list(zip(grid.tolist(), below.tolist(), strict=True))


@claim(
    "identity-outer-product",
    topic="retrieve",
    source="course",
    statement="a unit vector has u u^T = I, so that covariance is I/2",
    quoted=True,
    why="""u^T u = 1 is a number, u u^T a matrix of rank one: (u u^T)(u u^T) = u (u^T u) u^T =
    u u^T, with trace 1. It is the projector onto the line of u and equals I in one dimension only.
    So alpha I + mu_a mu_a^T / 2 has the variance alpha + 1/2 along mu_a and alpha across: the
    length of k_a varies, not its direction. Taking it for I/2 would predict noise in every
    direction, and another answer to all that follows.""",
    judge=exact("largest error of what is said of u u^T"),
    control="it is said to be a projector of rank one and trace 1",
)
def identity_outer_product(trial: Trial) -> Evidence:
    worst = 0.0
    for d in trial.pick([2, 3, 5, 11, 64], [2, 3, 5, 11, 64, 300]):
        for repeat in range(trial.pick(5, 50)):
            u = orthonormal(1, d, trial.random(d, repeat))[0]
            outer = u[:, None] * u
            errors = (
                [outer @ outer - outer, outer.trace() - 1, torch.linalg.svdvals(outer)[1:]]
                if trial.control
                else [outer - torch.eye(d, dtype=torch.float64)]
            )
            worst = max(worst, *(float(error.abs().max()) for error in errors))
    drawn = Noisy.draw(trial, draws=trial.pick(2000, 20_000))
    spread = ((drawn.keys()[:, 0] - drawn.means[0]) ** 2).sum(-1)
    along = (drawn.lengths(drawn.keys()) - 1) ** 2
    across = (spread - along) / (WIDTH - 1)
    return Evidence(
        Estimate(worst),
        Bars(
            "variance of k_a in one direction",
            {"along mu_a": mean_interval(along.tolist()),
             "across mu_a": mean_interval(across.tolist()),
             "along, if it were I/2": Estimate(0.5), "across, if it were I/2": Estimate(0.5)},
        ),
        details={"share of all variance along mu_a": float(along.mean() / spread.mean())},
    )  # fmt: skip


@claim(
    "longer-key-wins",
    topic="retrieve",
    source="course",
    statement="whenever k_a is longer than 1, a gets more weight than b",
    quoted=True,
    why="""With k_a = eps mu_a and q = m(mu_a + mu_b) the scores are m eps and m: a wins if and only
    if eps > 1. |k_a| > 1 also holds for eps < -1, where the long key points away from the query
    and gets next to nothing. With eps ~ N(1, 1/2) that is rare, Phi(-2 sqrt(2)) = 0.23% of draws,
    but "whenever" needs only one. What counts is the length along the query, not the length.""",
    judge=Below(0, "draws in which the longer key a has no more weight than b"),
    control="of the keys longer than 1 only those on the side of mu_a",
)
def longer_key_wins(trial: Trial) -> Evidence:
    drawn = Noisy.draw(trial, draws=trial.pick(20_000, 200_000))
    keys = drawn.keys(alpha=0)
    weights, _ = attend(drawn.both(), keys, drawn.values)
    long = keys[:, 0].norm(dim=-1) > 1
    if trial.control:
        long &= drawn.lengths(keys) > 0
    lost = int((long & (weights[:, 0] <= weights[:, 1])).sum())
    lines = [Series(f"weight on {name}", drawn.curve(drawn.both(), key))
             for key, name in enumerate("ab")]  # fmt: skip
    return Evidence(
        Estimate(lost),
        Lines("eps: k_a = eps mu_a", "weight", lines),
        details={"draws with a longer key": int(long.sum()),
                 "share of these that lose": lost / int(long.sum())},
    )  # fmt: skip
