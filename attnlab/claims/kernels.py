"""Attention as a kernel: exact identities, and the feature maps that follow from them.

Weights are kernel(q, k) over their sum, with kernel(q, k) = exp(q.k / sqrt(d)) for softmax.
Letters: n keys or queries, d dimensions, C features, p order of a Taylor polynomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnlab.claims._claim import (
    Estimate,
    Evidence,
    Lines,
    Trial,
    claim,
    log_log_slope,
    mean_interval,
)
from attnlab.claims.judges import Above, Below, exact
from attnlab.mechanisms.polynomial import Polynomial
from attnlab.report import Series

PLOT_FLOOR = 1e-17  # stands for an error of 0 on a logarithmic axis


def sample_normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def sample_on_sphere(generator: torch.Generator, n: int, d: int, square: float) -> Tensor:
    """(n, d): vectors with random directions and this squared length."""
    x = sample_normal(generator, n, d)
    return x * math.sqrt(square) / x.norm(dim=-1, keepdim=True)


def sample_seed(generator: torch.Generator) -> int:
    """A seed for code that takes one. It differs from the seed of the inputs, so that both do not
    get the same random numbers."""
    return int(torch.randint(2**40, (), generator=generator))


def clip_to_floor(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Replaces errors of 0, so that a logarithmic axis can show them."""
    return [(x, max(error, PLOT_FLOOR)) for x, error in points]


@claim(
    "gaussian-factor",
    topic="kernels",
    source="course",
    statement="exp(q.k/sqrt(d)) = exp(|q|^2/2s^2) Gauss(q,k) exp(|k|^2/2s^2), s^2 = sqrt(d)",
    why="""Gauss(q,k) = exp(-|q - k|^2/2s^2), and |q - k|^2 = |q|^2 - 2 q.k + |k|^2. So the product
    on the right is exp(q.k/s^2), whatever q and k are, and s^2 = sqrt(d) makes it the softmax
    kernel. The factor with |q|^2 is the same for all keys of a query and cancels in the weights;
    the one with |k|^2 does not. So softmax attention is a Gaussian kernel smoother in which long
    keys count more.""",
    judge=exact("largest relative error"),
    control="s^2 = d, as if s were the divisor sqrt(d)",
)
def gaussian_factor(trial: Trial) -> Evidence:
    sizes, repeats = (1, 2, 3, 5, 8, 13, 21, 34, 64), trial.pick(5, 50)
    correct, incorrect = [], []
    for d in sizes:
        errors = [_factor_errors(trial.generator(d, repeat), d) for repeat in range(repeats)]
        correct.append((float(d), max(error for error, _ in errors)))
        incorrect.append((float(d), max(error for _, error in errors)))
    worst = max(error for _, error in (incorrect if trial.control else correct))
    lines = [
        Series("s^2 = sqrt(d)", clip_to_floor(correct)),
        Series("s^2 = d", clip_to_floor(incorrect)),
    ]
    return Evidence(
        Estimate(worst),
        Lines("dimension d", "largest relative error", lines, x_log=True, y_log=True),
        details={"instances": repeats * len(sizes)},
    )


def _factor_errors(generator: torch.Generator, d: int) -> tuple[float, float]:
    """Errors with s^2 = sqrt(d) and with s^2 = d, for queries and keys of different lengths."""
    q, k = (
        sample_normal(generator, n, d)
        * torch.rand(n, 1, generator=generator, dtype=torch.float64)
        * 3
        for n in (7, 11)
    )
    true = (q @ k.mT / math.sqrt(d)).exp()  # (7, 11)
    errors = []
    for square in (math.sqrt(d), float(d)):
        long_q, long_k = ((x.square().sum(-1) / (2 * square)).exp() for x in (q, k))
        gauss = (-(q[:, None] - k[None]).square().sum(-1) / (2 * square)).exp()  # (7, 11)
        errors.append(float((long_q[:, None] * gauss * long_k[None] / true - 1).abs().max()))
    return errors[0], errors[1]


@claim(
    "fourier-variance",
    topic="kernels",
    source="course",
    quoted=True,
    statement="draw w ~ N(0, s^2 I): then the mean of cos w.(q - k) is Gauss(q,k)",
    why="""For w ~ N(0, t^2 I) the mean of cos w.x is exp(-t^2 |x|^2/2), the characteristic
    function of a normal distribution. Gauss(q,k) = exp(-|q - k|^2/2s^2) therefore needs t = 1/s: a
    kernel that is wide in space is narrow in frequency (Bochner's theorem: w is drawn from the
    kernel's Fourier transform). With t = s the result is the Gaussian of width 1/s instead, which
    is correct only at s = 1; attention has s = d^(1/4), 2.8 at d = 64. Correct is w ~ N(0, I/s^2),
    or inputs divided by s and w ~ N(0, I).""",
    judge=Below(0.05, "largest |mean of cosines - Gauss|"),
    control="w ~ N(0, I/s^2)",
    reference="Rahimi & Recht 2007, Random Features for Large-Scale Kernel Machines",
)
def fourier_variance(trial: Trial) -> Evidence:
    widths = [2 ** (power / 2) for power in range(-2, 4)]  # s = 1/2 to 2.8
    samples, repeats = trial.pick(4096, 65536), 5
    stated, correct = (
        [
            [_cosine_error(trial.generator(i), s, power, samples) for s in widths]
            for i in range(repeats)
        ]
        for power in (1, -1)
    )
    judged = correct if trial.control else stated
    lines = [
        Series(
            name,
            [(s, mean_interval(errors).value) for s, *errors in zip(widths, *rows, strict=True)],
        )
        for name, rows in (("w ~ N(0, s^2 I)", stated), ("w ~ N(0, I/s^2)", correct))
    ]
    at_one = widths.index(1.0)
    return Evidence(
        mean_interval([max(errors) for errors in judged]),
        Lines("width s of the kernel", "largest error", lines, x_log=True),
        details={"largest error at s = 1 alone": max(errors[at_one] for errors in judged)},
    )


def _cosine_error(generator: torch.Generator, s: float, power: int, samples: int) -> float:
    """Largest error at distances of half, one and two widths, with w ~ N(0, s^(2 power) I)."""
    differences = torch.cat(
        [sample_on_sphere(generator, 1, 8, (widths * s) ** 2) for widths in (0.5, 1, 2)]
    )  # (3, 8)
    w = sample_normal(generator, samples, 8) * s**power  # (C, 8)
    means = (w @ differences.mT).cos().mean(0)  # (3,)
    return float((means - (-differences.square().sum(-1) / (2 * s * s)).exp()).abs().max())


def all_products(x: Tensor) -> Tensor:
    """(n, d) -> (n, d^2)"""
    return (x[:, :, None] * x[:, None, :]).flatten(1)


def each_product_once(x: Tensor) -> Tensor:
    """attnlab's map, (n, d) -> (n, d (d + 1) / 2). Since x_a x_b = x_b x_a, it takes only one of
    the two, with a factor sqrt(2)."""
    phi = Polynomial(head_dim=x.shape[-1], heads=1).phi(x)
    return phi.divide_by_exp(torch.zeros((), dtype=x.dtype))


@claim(
    "polynomial-two",
    topic="kernels",
    source="course",
    statement="(q.k)^2 = phi(q).phi(k) with d^2 features",
    why="""(q.k)^2 = (sum_a q_a k_a)(sum_b q_b k_b) = sum_ab (q_a q_b)(k_a k_b), so phi(x) holds
    the d^2 products x_a x_b. Since x_a x_b = x_b x_a, half of them are enough: d (d + 1) / 2
    features, the mixed ones times sqrt(2). The squares x_a^2 alone are not enough: they give
    sum_a q_a^2 k_a^2. The cost of attention with this map grows with d^2, and that of the kernel
    itself with d, but with the map the cost is linear in the number of tokens.""",
    judge=exact("largest |phi(q).phi(k) - (q.k)^2| / (|q| |k|)^2"),
    control="the d squares x_a^2 alone",
)
def polynomial_two(trial: Trial) -> Evidence:
    sizes, repeats = (1, 2, 3, 5, 8, 13, 24), trial.pick(4, 40)
    maps: dict[str, Callable[[Tensor], Tensor]] = {
        "all d^2 products": all_products,
        "each product once": each_product_once,
        "squares alone": torch.square,
    }
    errors = {
        name: [
            (float(d), max(_square_error(trial.generator(d, i), d, phi) for i in range(repeats)))
            for d in sizes
        ]
        for name, phi in maps.items()
    }
    worst = {name: max(error for _, error in points) for name, points in errors.items()}
    complete = ("all d^2 products", "each product once")
    lines = [Series(name, clip_to_floor(points)) for name, points in errors.items()]
    probe = torch.ones(1, sizes[-1], dtype=torch.float64)
    return Evidence(
        Estimate(
            worst["squares alone"] if trial.control else max(map(worst.__getitem__, complete))
        ),
        Lines("dimension d", "largest error", lines, x_log=True, y_log=True),
        details={
            f"features at d = {sizes[-1]}": all_products(probe).shape[-1],
            "features with each product once": each_product_once(probe).shape[-1],
            "largest error of these": worst["each product once"],
        },
    )


def _square_error(generator: torch.Generator, d: int, phi: Callable[[Tensor], Tensor]) -> float:
    q, k = sample_normal(generator, 5, d), sample_normal(generator, 7, d)
    lengths = q.norm(dim=-1)[:, None] * k.norm(dim=-1)
    return float(((phi(q) @ phi(k).mT - (q @ k.mT).square()) / lengths.square()).abs().max())


# the dimensions d for each order p; the largest has about 500 features
TAYLOR_SIZES = {1: (4, 8, 16, 32), 2: (6, 10, 16, 24), 3: (6, 8, 10, 13)}


@claim(
    "taylor-expensive",
    topic="kernels",
    source="paper",
    statement="a feature map from the Taylor series of exp needs d^p features for order p",
    why="""exp(x) is about 1 + x + ... + x^p/p!, and (q.k)^p is a product of features x_a x_b ... of
    p factors each. The matrix of (q_i.k_j)^p has rank (d + p - 1 choose p), the number of different
    products, so no map needs fewer features: about d^p/p! for large d. The number of random
    features does not depend on d, only on the lengths: for q = k with |q|^2 = r sqrt(d) it is
    (e^(4r) - 1)/error^2. This number is large: about 8,300 at r = 1 and the error of order 2. So up
    to about d = 130 the Taylor map is smaller, and for longer q and k (larger r) up to much larger
    d.""",
    judge=Above(-0.5, "exponent in d of the features that order p needs, minus p; worst of p"),
    control="the number of positive random features that reach the same error",
    reference="Keles et al. 2022, On the Computational Complexity of Self-Attention",
)
def taylor_expensive(trial: Trial) -> Evidence:
    samples = trial.pick(10_000, 200_000)
    slopes, variances = [], []
    for order, sizes in TAYLOR_SIZES.items():
        relative_variances = [
            _relative_variance(trial.generator(order, d), d, samples) for d in sizes
        ]
        variances += relative_variances
        random_features = [variance / taylor_error(order) ** 2 for variance in relative_variances]
        taylor = [_required_features(trial.generator(d), d, order) for d in sizes]
        needed = random_features if trial.control else taylor
        fitted = log_log_slope(list(zip(sizes, needed, strict=True)))
        low, high = fitted.ends
        slopes.append(Estimate(fitted.value - order, low - order, high - order))
    variance = mean_interval(variances).value
    return Evidence(
        min(slopes, key=lambda slope: slope.ends[0]),
        _plot_errors_by_features(variance),
        details={
            f"order {order}": f"error {taylor_error(order):.2g}, which "
            f"{variance / taylor_error(order) ** 2:,.0f} random features reach too: "
            f"fewer than Taylor's from d = {_crossover_dimension(order, variance)}"
            for order in TAYLOR_SIZES
        },
    )


def taylor_features(order: int, d: int) -> int:
    """Number of features for all terms up to this order."""
    return math.comb(d + order, order)


def taylor_error(order: int) -> float:
    """Relative error of the Taylor series of exp(1): q = k with |q|^2 = sqrt(d)."""
    return 1 - sum(1 / math.factorial(power) for power in range(order + 1)) / math.e


def _required_features(generator: torch.Generator, d: int, order: int) -> int:
    """The least number of features for (q.k)^order: the rank of its matrix."""
    n = math.comb(d + order - 1, order) + 5
    products = sample_on_sphere(generator, n, d, 1) @ sample_on_sphere(generator, n, d, 1).mT
    return int(torch.linalg.matrix_rank(products**order))


def _relative_variance(generator: torch.Generator, d: int, samples: int) -> float:
    """Variance of one positive feature f = phi(q) phi(k) / exp(q.k), at q = k, |q|^2 = 1 (scaled).

    f = exp(w.z - |z|^2/2), z = q + k, is the likelihood ratio of N(z, I) to N(0, I) at w. So the
    mean of f^2 is the mean of f with w ~ N(z, I), which needs far fewer samples.
    """
    z = 2 * sample_on_sphere(generator, 1, d, 1)[0]
    return float(((sample_normal(generator, samples, d) + z) @ z - 2).exp().mean()) - 1


def _plot_errors_by_features(variance: float) -> Lines:
    orders = range(1, 6)
    lines = [
        Series(
            f"Taylor, d = {d}", [(float(taylor_features(p, d)), taylor_error(p)) for p in orders]
        )
        for d in (16, 64)
    ]
    counts = [10.0**power for power in range(2, 7)]
    lines.append(Series("positive random features", [(C, math.sqrt(variance / C)) for C in counts]))
    return Lines(
        "number of features", "relative error at q = k, |q|^2 = sqrt(d)", lines,
        x_log=True, y_log=True,
    )  # fmt: skip


def _crossover_dimension(order: int, variance: float) -> int:
    """The first d at which a Taylor map of this order needs more features than random ones."""
    needed, d = variance / taylor_error(order) ** 2, 1
    while taylor_features(order, d) < needed:
        d += 1
    return d
