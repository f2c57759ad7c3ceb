"""What one query can retrieve: copying, averaging, and separating a sum.

n keys k_i of dimension d, values v_i, weights a = softmax(K q), output c = sum a_i v_i.
Letters: n keys, d dimensions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim
from attnlab.claims.judges import Below, exact
from attnlab.report import Series


def orthonormal(n: int, d: int, generator: torch.Generator) -> Tensor:
    """(n, d): n random orthonormal vectors."""
    return torch.linalg.qr(torch.randn(d, n, generator=generator, dtype=torch.float64))[0].mT


def attend(q: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and output; q (..., d), keys (..., n, d), values (n, d)."""
    weights = (keys @ q[..., None])[..., 0].softmax(-1)  # (..., n)
    return weights, weights @ values


@claim(
    "copy",
    topic="retrieve",
    source="course",
    statement="if k_j.q is far above every other k_i.q, then c is v_j",
    why="""With a margin t between k_j.q and all other scores, the weight on j is at least
    1 / (1 + (n - 1) e^-t). So the distance of c from v_j is at most (n - 1) e^-t times the largest
    distance between values. An error of e needs t = ln((n - 1) / e) or slightly less. This grows
    slowly, with ln n: a copy over thousands of keys needs a margin of about 12. What counts is the
    margin between scores, not their size: adding the same number to all of them changes
    nothing.""",
    judge=Below(0.01, "largest |c - v_j| / max |v_i - v_j| at a margin of ln(100 n)"),
    control="a margin of ln n, which is not far above",
)
def copy(trial: Trial) -> Evidence:
    sizes = trial.pick([2, 8, 64, 512], [2, 8, 64, 512, 4096, 32768])
    worst, lines = 0.0, []
    values_by_size = {
        n: torch.randn(n, 16, generator=trial.generator(n), dtype=torch.float64) for n in sizes
    }
    for n, values in values_by_size.items():
        margin = math.log(n) if trial.control else math.log(100 * n)
        worst = max(worst, _copy_error(values, margin))
    for limit in (0.01, 0.001):
        points = [
            (float(n), _required_margin(values, limit)) for n, values in values_by_size.items()
        ]
        lines.append(Series(f"{limit:.1%} error", points))
    largest_margin = lines[0].points[-1][1]
    lines.append(Series("ln(100 n)", [(float(n), math.log(100 * n)) for n in sizes]))
    return Evidence(
        Estimate(worst),
        Lines("number of keys", "required margin", lines, x_log=True),
        details={f"margin for 1% error at n = {sizes[-1]}": round(largest_margin, 2)},
    )


def _copy_error(values: Tensor, margin: float) -> float:
    """Distance of c from v_0, divided by the largest distance of another value from v_0."""
    scores = torch.zeros(len(values), dtype=torch.float64)
    scores[0] = margin
    farthest = (values[1:] - values[0]).norm(dim=-1).max()
    return float((scores.softmax(0) @ values - values[0]).norm() / farthest)


def _required_margin(values: Tensor, limit: float) -> float:
    """The smallest margin with at most this error, by bisection: errors fall with the margin."""
    low, high = 0.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _copy_error(values, middle) <= limit else (middle, high)
    return high


@claim(
    "average-two",
    topic="retrieve",
    source="course",
    statement="orthonormal keys: q = m(k_a + k_b) gives c = (v_a + v_b)/2",
    why="""The scores are m for a and b and 0 for all others, so a and b have the weight
    e^m / (2 e^m + n - 2) each. This is near 1/2 only if e^m is far above n: the other keys together
    have the weight (n - 2) / (2 e^m + n - 2), and an error of e needs m = ln((n - 2) / 2e). With
    m = 1/2 the query averages nearly all values. So "large" means that m is far above ln n.""",
    judge=Below(0.01, "largest |c - (v_a + v_b)/2| / max |v_i - (v_a + v_b)/2| at m = ln(100 n)"),
    control="m = 1/2",
)
def average_two(trial: Trial) -> Evidence:
    sizes = trial.pick([3, 8, 64, 256], [3, 8, 64, 256, 1024])
    worst = formula = 0.0
    lines = []
    for n in sizes:
        generator = trial.generator(n)
        keys = orthonormal(n, n + 3, generator)
        values = torch.randn(n, 16, generator=generator, dtype=torch.float64)
        m = 0.5 if trial.control else math.log(100 * n)
        scales = torch.tensor([m, *(0.5 * step for step in range(25))], dtype=torch.float64)
        weights, outputs = attend(scales[:, None] * (keys[0] + keys[1]), keys, values)
        theory = scales.exp() / (2 * scales.exp() + n - 2)
        formula = max(formula, float((weights[:, :2] - theory[:, None]).abs().max()))
        average = values[:2].mean(0)
        errors = (outputs - average).norm(dim=-1) / (values - average).norm(dim=-1).max()
        worst = max(worst, float(errors[0]))
        pairs = zip(scales[1:].tolist(), weights[1:, :2].sum(-1).tolist(), strict=True)
        lines.append(Series(f"{n} keys", list(pairs)))
    return Evidence(
        Estimate(worst),
        Lines("m", "weight on a and b together", lines),
        details={"largest error of the formula e^m / (2 e^m + n - 2)": formula},
    )


@claim(
    "subspace-recovery",
    topic="retrieve",
    source="course",
    statement="if v_a lies in span A and v_b in an orthogonal span, a matrix M = A A^T recovers "
    "v_a from v_a + v_b",
    why="""Let the columns of A be an orthonormal basis, v_a = A x. Then M v_a = A (A^T A) x = A x =
    v_a, and A^T v_b = 0, so M (v_a + v_b) = v_a: one head can output a sum of two values, and a
    linear layer after it separates them. If the angle between the spans is t, a fraction cos(t) of
    v_b remains. A basis that is not orthonormal needs M = A (A^T A)^-1 A^T.""",
    judge=exact("largest |M(v_a + v_b) - v_a| / |v_a|"),
    control="spans at an angle of 60 degrees",
)
def subspace_recovery(trial: Trial) -> Evidence:
    sizes = [(2, 5), (3, 11), (7, 16), (11, 29)]  # dimensions of each span, of the values
    repeats = trial.pick(8, 100)
    errors: dict[int, float] = dict.fromkeys(range(30, 91, 5), 0.0)
    skewed_error = 0.0
    for case, (r, d) in enumerate(sizes):
        for repeat in range(repeats):
            generator = trial.generator(case, repeat)
            directions = orthonormal(2 * r, d, generator)
            basis, orthogonal = directions[:r].mT, directions[r:].mT  # (d, r)
            x, y = torch.randn(2, r, generator=generator, dtype=torch.float64)
            y = y * (x.norm() / y.norm())
            for degrees in errors:
                angle = math.radians(degrees)
                other = math.cos(angle) * basis + math.sin(angle) * orthogonal
                error = (basis @ (basis.mT @ (basis @ x + other @ y)) - basis @ x).norm() / x.norm()
                errors[degrees] = max(errors[degrees], float(error))
            skewed = basis @ torch.randn(r, r, generator=generator, dtype=torch.float64)
            wrong = skewed @ (skewed.mT @ (skewed @ x)) - skewed @ x
            skewed_error = max(skewed_error, float(wrong.norm() / (skewed @ x).norm()))
    theory = [(float(at), math.cos(math.radians(at))) for at in errors]
    return Evidence(
        Estimate(errors[60 if trial.control else 90]),
        Lines(
            "angle between the spans, degrees",
            "largest error, relative to v_a",
            [Series("measured", [(float(at), e) for at, e in errors.items()]),
             Series("cos(angle)", theory)],
        ),
        details={"largest error of A A^T where A is not orthonormal": skewed_error},
    )  # fmt: skip
