"""Attention as a kernel: how the directions of random features are drawn, and whether they pay.

Letters: C features, d dimensions, n keys and queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnlab.claims._claim import Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.judges import Below
from attnlab.claims.kernels import normal, seed_of, sphere
from attnlab.claims.kernels_error import TOKENS, distance, favor_error, of_length, true_weights
from attnlab.mechanisms._random_directions import sample_directions
from attnlab.report import Mark, Series

D = 16
Draw = Callable[[torch.Generator, int], Tensor]


def orthogonal(random: torch.Generator, blocks: int) -> Tensor:
    """(blocks, d, d), as attnlab draws them."""
    return sample_directions(blocks * D, D, seed_of(random), True).view(blocks, D, D)


def independent(random: torch.Generator, blocks: int) -> Tensor:
    return sample_directions(blocks * D, D, seed_of(random), False).view(blocks, D, D)


def plain_qr(random: torch.Generator, blocks: int) -> Tensor:
    """Orthogonal, with the signs that QR happens to give its basis."""
    basis, _ = torch.linalg.qr(normal(random, blocks, D, D))
    return basis.mT * normal(random, blocks, D, D).norm(dim=-1, keepdim=True)


@claim(
    "orthogonal-better",
    topic="kernels",
    source="paper",
    statement="orthogonal draws have lower variance than independent ones, so fewer features "
    "suffice",
    why="""A positive feature is exp(w.z - |z|^2/2), z = q + k, and large where w points along z.
    If one of d orthogonal directions does, the others cannot, so that errors of features in one
    block are negatively correlated and cancel in part. The gain is a factor on the variance, so
    the same factor on the number of features. It is largest at |z|^2 of about 1: for shorter z
    features are nearly linear in w.z, which has no correlation to lose, and for longer ones a
    single feature makes up the sum. Each direction must still be uniform: the basis that QR
    returns is not, since it fixes signs (the entries on its diagonal are mostly negative), and
    exp, unlike cos, feels a sign: the mean itself is then wrong. Multiplying by the signs of R's
    diagonal cures it.""",
    judge=Below(0.9, "variance with orthogonal draws over that with independent ones, |q+k|^2 = 1"),
    control="independent draws against other independent draws",
    reference="Choromanski et al. 2021; Mezzadri 2007 for the signs of QR",
)
def orthogonal_better(trial: Trial) -> Evidence:
    squares, groups, draws = (0.25, 1.0, 4.0), 8, trial.pick(200, 4000)
    first = independent if trial.control else orthogonal
    found = [
        (
            _variances(trial.random(1, i), first, squares, draws),
            _variances(trial.random(2, i), independent, squares, draws),
        )
        for i in range(groups)
    ]
    ratios = {
        square: mean_interval([one[place] / other[place] for one, other in found])
        for place, square in enumerate(squares)
    }
    line = Series(
        "orthogonal over independent",
        [(square, ratio.value) for square, ratio in ratios.items()],
        [ratio.ends for ratio in ratios.values()],
    )
    return Evidence(
        ratios[1.0],
        Lines(
            "|q + k|^2 (scaled)", "ratio of variances", [line],
            x_log=True, marks=[Mark("no gain", y=1.0)],
        ),
        details={
            "orthogonal features worth 100 independent ones": round(100 * ratios[1.0].value),
            "mean over the true kernel, attnlab's draws": _mean(trial, orthogonal, 4 * draws),
            "mean over the true kernel, plain QR": _mean(trial, plain_qr, 4 * draws),
        },
    )  # fmt: skip


def _variances(
    random: torch.Generator, draw: Draw, squares: Sequence[float], draws: int
) -> list[float]:
    """Of the estimate over the true kernel for each |z|^2; all directions of z are alike, so each
    draw serves for many."""
    z, w = sphere(random, 32, D, 1), draw(random, draws)
    along = w @ z.mT  # (draws, C, 32)
    estimates = [(along * math.sqrt(each) - each / 2).exp().mean(1) for each in squares]
    return [float((each - 1).square().mean()) for each in estimates]


def _mean(trial: Trial, draw: Draw, draws: int) -> str:
    """At z along the diagonal, where the signs of QR show, |z| = 1."""
    z = torch.full((D,), math.sqrt(1 / D), dtype=torch.float64)
    figure = mean_interval((draw(trial.random(3), draws) @ z - 0.5).exp().mean(-1).tolist())
    return f"{figure.value:.3f} ({figure.ends[0]:.3f} to {figure.ends[1]:.3f})"


@claim(
    "random-features-beat-uniform",
    topic="kernels",
    source="course",
    quoted=True,
    statement="random features approximate attention (at q, k ~ N(0, I): better than uniform "
    "weights do)",
    why="""Uniform weights 1/n cost nothing, so they are what an approximation must beat. At q, k ~
    N(0, I) scores are N(0, 1) and uniform weights have a relative error of about 0.8. The error
    of C positive features is about sqrt(e^(2 sqrt(d))/C): at d = 64 that takes C of about
    e^16/0.64, 14 million, to fall below 0.8, while one uses hundreds. With short q and k, |q|^2 =
    sqrt(d), it is sqrt(6.4/C) against 1/sqrt(d) for uniform weights, so C = 16 d features win,
    but there attention itself is nearly uniform. Trained Performers work because they learn q and
    k that their features can resolve, not because they stand in for softmax at any q and k.""",
    judge=Below(1.0, "error of 16 d positive features over that of uniform weights, d = 64"),
    control="short queries and keys, |q|^2 = |k|^2 = sqrt(d)",
)
def random_features_beat_uniform(trial: Trial) -> Evidence:
    sizes, repeats = trial.pick((4, 16, 64), (4, 8, 16, 32, 64)), trial.pick(5, 20)
    cases = {"q, k ~ N(0, I)": None, "|q|^2 = |k|^2 = sqrt(d)": 1.0}
    ratios = {
        name: {
            d: mean_interval([_against_uniform(trial.random(d, i), d, r) for i in range(repeats)])
            for d in sizes
        }
        for name, r in cases.items()
    }
    chosen = list(cases)[1 if trial.control else 0]
    lines = [
        Series(name, [(float(d), each.value) for d, each in row.items()])
        for name, row in ratios.items()
    ]
    return Evidence(
        ratios[chosen][64],
        Lines(
            "dimension d", "error over that of uniform weights", lines,
            x_log=True, y_log=True, marks=[Mark("uniform weights", y=1.0)],
        ),
        details={
            f"d = {d}, {name}": round(each.value, 3)
            for name, row in ratios.items()
            for d, each in row.items()
        },
    )  # fmt: skip


def _against_uniform(random: torch.Generator, d: int, r: float | None) -> float:
    q, k = of_length(random, d, r)
    true = true_weights(q, k)
    uniform = distance(torch.full_like(true, 1 / TOKENS), true)
    return favor_error(random, d, r, 16 * d) / uniform
