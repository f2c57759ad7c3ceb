"""Attention as a kernel: the error of random features against exact weights.

r = |q|^2/sqrt(d) = |k|^2/sqrt(d) measures the length of queries and keys: exp(q.k/sqrt(d)) is then
between e^-r and e^r. Queries and keys from N(0, I) have r of about sqrt(d).
Letters: n keys and queries, d dimensions, C features.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnlab._confidence_intervals import geometric_mean_interval
from attnlab.claims._claim import Evidence, Lines, Trial, claim, log_log_slope, mean_interval
from attnlab.claims.judges import Below, Between, OnlyWhen
from attnlab.claims.kernels import sample_normal, sample_on_sphere, sample_seed
from attnlab.mask import Mask
from attnlab.mechanisms.favor import Favor
from attnlab.mechanisms.fourier import Fourier
from attnlab.mechanisms.softmax import Softmax
from attnlab.report import Series

TOKENS = 64


def sample_queries_and_keys(
    generator: torch.Generator, d: int, r: float | None
) -> tuple[Tensor, Tensor]:
    """Queries and keys (1, 1, n, d) with |q|^2/sqrt(d) = r, or from N(0, I)."""
    q, k = (
        sample_normal(generator, TOKENS, d)
        if r is None
        else sample_on_sphere(generator, TOKENS, d, r * math.sqrt(d))
        for _ in "qk"
    )
    return q[None, None], k[None, None]


def exact_weights(q: Tensor, k: Tensor) -> Tensor:
    return Softmax(head_dim=q.shape[-1], heads=1).weights(q, k, Mask())


def relative_error(weights: Tensor, exact: Tensor) -> float:
    """|weights - exact| / |exact|, over all entries."""
    return float((weights - exact).norm() / exact.norm())


def favor_error(
    generator: torch.Generator, d: int, r: float | None, features: int, copies: int = 1
) -> float:
    """Error of the weights with independent directions, each repeated `copies` times."""
    q, k = sample_queries_and_keys(generator, d, r)
    favor = Favor(
        head_dim=d, heads=1, features=features, orthogonal=False, seed=sample_seed(generator)
    )
    favor.draws.copy_(favor.draws[: features // copies].repeat(copies, 1))
    return relative_error(favor.weights(q, k, Mask()), exact_weights(q, k))


@claim(
    "features-more",
    topic="kernels",
    source="paper",
    statement="more random features, smaller error, about 1/sqrt(features)",
    why="""phi(q).phi(k) is a mean over C independent samples, so its standard deviation falls with
    1/sqrt(C). Relative to the kernel it is sqrt((e^(|q+k|^2) - 1)/C) for q and k scaled by
    d^(-1/4): about e^r/sqrt(C) for random directions. While this is above 1, a few samples dominate
    the sum and the error of the weights hardly falls: the law holds only from about e^(2r) features
    on. At r = sqrt(d), as for N(0, I), this is e^16 at d = 64: nine million.""",
    judge=OnlyWhen(
        Between(-0.65, -0.35, "exponent of the error of the weights in the number of features"),
        "|q|^2/sqrt(d)",
        at_least=False,
    ),
    control="copies of the same 32 features",
    reference="Choromanski et al. 2021, Rethinking Attention with Performers",
)
def features_more(trial: Trial) -> Evidence:
    lengths = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    counts, repeats = trial.pick((32, 128, 512), (32, 128, 512, 2048)), 24
    sweep, lines = [], []
    for index, r in enumerate(lengths):
        rows = [
            [
                favor_error(
                    trial.generator(index, i), 16, r, C, copies=C // 32 if trial.control else 1
                )
                for C in counts
            ]
            for i in range(repeats)
        ]
        slopes = [log_log_slope(list(zip(counts, errors, strict=True))).value for errors in rows]
        sweep.append((r, mean_interval(slopes)))
        means = [mean_interval(errors).value for errors in zip(*rows, strict=True)]
        lines.append(Series(f"|q|^2/sqrt(d) = {r:g}", list(zip(counts, means, strict=True))))
    return Evidence(
        dict(sweep)[1.0],
        Lines("number of features", "relative error of the weights", lines, True, True),
        sweep,
        details={f"exponent at {r:g}": round(figure.value, 3) for r, figure in sweep},
    )


def fourier_error(generator: torch.Generator, d: int, r: float | None, features: int) -> float:
    """Error of the weights with random sines and cosines, independent directions."""
    q, k = sample_queries_and_keys(generator, d, r)
    seed = sample_seed(generator)
    fourier = Fourier(head_dim=d, heads=1, features=features, orthogonal=False, seed=seed)
    return relative_error(fourier.weights(q, k, Mask()), exact_weights(q, k))


@claim(
    "dimension-more",
    topic="kernels",
    source="course",
    quoted=True,
    statement="the larger d, the smaller the error (of random sines and cosines)",
    why="""With z = (q - k)/d^(1/4), the relative error of C sines and cosines is
    e^(|z|^2/2) (1 - e^(-|z|^2))/sqrt(C): what counts is |q - k|^2/sqrt(d), and d only through it.
    If q and k keep their lengths as d grows, it falls with 1/sqrt(d), and the error falls with it.
    But entries of size 1 make |q - k|^2 = 2d, so that it grows like 2 sqrt(d), and the error grows
    like e^sqrt(d), until denominators have no certain sign. With |q|^2 = r sqrt(d), the error does
    not depend on d. Correct is: the closer q and k are, the smaller is the error. For positive
    features the same holds with q + k in place of q - k.""",
    judge=Below(0.5, "error of the weights at the largest d / that at d = 4, q, k ~ N(0, I)"),
    control="inputs of one length, |q| = |k| = 2, at all d",
)
def dimension_more(trial: Trial) -> Evidence:
    sizes, repeats = trial.pick((4, 16, 64), (4, 8, 16, 32, 64, 128)), trial.pick(6, 32)
    cases: dict[str, Callable[[int], float | None]] = {
        "q, k ~ N(0, I)": lambda _: None,
        "|q| = |k| = 2": lambda d: 4 / math.sqrt(d),
        "|q|^2 = |k|^2 = sqrt(d)": lambda _: 1.0,
    }
    errors = {
        name: [
            [fourier_error(trial.generator(d, i), d, r(d), 256) for i in range(repeats)]
            for d in sizes
        ]
        for name, r in cases.items()
    }
    # geometric: a denominator near 0 gives weights of any size, and must not decide the mean
    lines = [
        Series(
            name,
            [(d, geometric_mean_interval(row).value) for d, row in zip(sizes, rows, strict=True)],
        )
        for name, rows in errors.items()
    ]
    ratios = {
        name: geometric_mean_interval(
            [last / first for first, last in zip(rows[0], rows[-1], strict=True)]
        )
        for name, rows in errors.items()
    }
    judged = "|q| = |k| = 2" if trial.control else "q, k ~ N(0, I)"
    return Evidence(
        ratios[judged],
        Lines("dimension d", "relative error, 256 sines and cosines", lines, True, True),
        details={
            f"error at d = {sizes[-1]} / at d = 4, {name}": round(ratio.value, 3)
            for name, ratio in ratios.items()
        },
    )
