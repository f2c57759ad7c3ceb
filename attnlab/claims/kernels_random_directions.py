"""Attention as a kernel: how to sample the directions of random features, and their benefit.

Letters: C features, d dimensions, n keys and queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnlab.claims._claim import Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.judges import Below
from attnlab.claims.kernels import sample_normal, sample_on_sphere, sample_seed
from attnlab.claims.kernels_error import (
    TOKENS,
    exact_weights,
    favor_error,
    relative_error,
    sample_queries_and_keys,
)
from attnlab.mechanisms._random_directions import sample_directions
from attnlab.report import Mark, Series

D = 16
Sampler = Callable[[torch.Generator, int], Tensor]


def sample_orthogonal(generator: torch.Generator, blocks: int) -> Tensor:
    """(blocks, d, d), as attnlab samples them."""
    return sample_directions(blocks * D, D, sample_seed(generator), True).view(blocks, D, D)


def sample_independent(generator: torch.Generator, blocks: int) -> Tensor:
    return sample_directions(blocks * D, D, sample_seed(generator), False).view(blocks, D, D)


def sample_plain_qr(generator: torch.Generator, blocks: int) -> Tensor:
    """Orthogonal directions with the signs that QR returns, which are not random."""
    basis, _ = torch.linalg.qr(sample_normal(generator, blocks, D, D))
    return basis.mT * sample_normal(generator, blocks, D, D).norm(dim=-1, keepdim=True)


@claim(
    "orthogonal-better",
    topic="kernels",
    source="paper",
    statement="orthogonal draws have lower variance than independent ones, so fewer features "
    "suffice",
    why="""A positive feature is exp(w.z - |z|^2/2), z = q + k, which is large where w points along
    z. If one of d orthogonal directions does, the others cannot, so the errors of features in one
    block are negatively correlated and partly cancel. The gain is a factor of the variance, and
    thus the same factor of the number of features. It is largest at |z|^2 of about 1: for shorter
    z, features are nearly linear in w.z and their errors have no correlation to exploit; for longer
    z, a single feature dominates the sum. Each direction must still be uniform. The basis that QR
    returns is not, since it fixes signs (the entries on its diagonal are mostly negative), and exp,
    unlike cos, depends on the sign: the mean itself is then wrong. Multiplying by the signs of R's
    diagonal corrects this.""",
    judge=Below(
        0.9, "variance with orthogonal directions / that with independent ones, |q+k|^2 = 1"
    ),
    control="independent directions compared with other independent ones",
    reference="Choromanski et al. 2021; Mezzadri 2007 for the signs of QR",
)
def orthogonal_better(trial: Trial) -> Evidence:
    squares, groups, samples = (0.25, 1.0, 4.0), 8, trial.pick(200, 4000)
    sampler = sample_independent if trial.control else sample_orthogonal
    variances = [
        (
            _variances(trial.generator(1, i), sampler, squares, samples),
            _variances(trial.generator(2, i), sample_independent, squares, samples),
        )
        for i in range(groups)
    ]
    ratios = {
        square: mean_interval(
            [numerators[index] / denominators[index] for numerators, denominators in variances]
        )
        for index, square in enumerate(squares)
    }
    line = Series(
        "orthogonal / independent",
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
            "mean / exact kernel, attnlab's directions":
            _format_mean(trial, sample_orthogonal, 4 * samples),
            "mean / exact kernel, plain QR": _format_mean(trial, sample_plain_qr, 4 * samples),
        },
    )  # fmt: skip


def _variances(
    generator: torch.Generator, sampler: Sampler, squares: Sequence[float], samples: int
) -> list[float]:
    """Variance of estimate / exact kernel for each |z|^2. All directions of z are equivalent, so
    each sample is used for many of them."""
    z, w = sample_on_sphere(generator, 32, D, 1), sampler(generator, samples)
    projections = w @ z.mT  # (samples, C, 32)
    estimates = [(projections * math.sqrt(square) - square / 2).exp().mean(1) for square in squares]
    return [float((estimate - 1).square().mean()) for estimate in estimates]


def _format_mean(trial: Trial, sampler: Sampler, samples: int) -> str:
    """Mean at |z| = 1 along the diagonal, where the signs of QR matter."""
    z = torch.full((D,), math.sqrt(1 / D), dtype=torch.float64)
    figure = mean_interval((sampler(trial.generator(3), samples) @ z - 0.5).exp().mean(-1).tolist())
    return f"{figure.value:.3f} ({figure.ends[0]:.3f} to {figure.ends[1]:.3f})"


@claim(
    "random-features-beat-uniform",
    topic="kernels",
    source="course",
    quoted=True,
    statement="random features approximate attention (at q, k ~ N(0, I): better than uniform "
    "weights do)",
    why="""Uniform weights 1/n cost nothing, so an approximation must be better than they are. At
    q, k ~ N(0, I) scores are N(0, 1), and uniform weights have a relative error of about 0.8. The
    error of C positive features is about sqrt(e^(2 sqrt(d))/C): at d = 64 it falls below 0.8 only
    with about e^16/0.64, 14 million features, while hundreds are usual. With short q and k,
    |q|^2 = sqrt(d), it is sqrt(6.4/C) compared with 1/sqrt(d) for uniform weights, so C = 16 d
    features win, but there attention itself is nearly uniform. Trained Performers work because they
    learn q and k that their features can resolve, not because they approximate softmax for any q
    and k.""",
    judge=Below(1.0, "error of 16 d positive features / that of uniform weights, d = 64"),
    control="short queries and keys, |q|^2 = |k|^2 = sqrt(d)",
)
def random_features_beat_uniform(trial: Trial) -> Evidence:
    sizes, repeats = trial.pick((4, 16, 64), (4, 8, 16, 32, 64)), trial.pick(5, 20)
    cases = {"q, k ~ N(0, I)": None, "|q|^2 = |k|^2 = sqrt(d)": 1.0}
    ratios = {
        name: {
            d: mean_interval(
                [_error_over_uniform(trial.generator(d, i), d, r) for i in range(repeats)]
            )
            for d in sizes
        }
        for name, r in cases.items()
    }
    judged = list(cases)[1 if trial.control else 0]
    lines = [
        Series(name, [(float(d), ratio.value) for d, ratio in row.items()])
        for name, row in ratios.items()
    ]
    return Evidence(
        ratios[judged][64],
        Lines(
            "dimension d", "error / that of uniform weights", lines,
            x_log=True, y_log=True, marks=[Mark("uniform weights", y=1.0)],
        ),
        details={
            f"d = {d}, {name}": round(ratio.value, 3)
            for name, row in ratios.items()
            for d, ratio in row.items()
        },
    )  # fmt: skip


def _error_over_uniform(generator: torch.Generator, d: int, r: float | None) -> float:
    q, k = sample_queries_and_keys(generator, d, r)
    exact = exact_weights(q, k)
    uniform = relative_error(torch.full_like(exact, 1 / TOKENS), exact)
    return favor_error(generator, d, r, 16 * d) / uniform
