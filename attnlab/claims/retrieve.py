"""What one query can retrieve: copying, averaging, noisy keys, one head against two.

n keys k_i of dimension d, values v_i, weights a = softmax(K q), output c = sum a_i v_i.
Letters: N trials, n keys, d dimensions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlab.charts import Series
from attnlab.claims.base import Evidence, Figure, Plot, Trial, claim
from attnlab.claims.judges import Below


def orthonormal(n: int, d: int, random: torch.Generator) -> Tensor:
    """(n, d): n of d directions that are orthogonal and of length 1."""
    return torch.linalg.qr(torch.randn(d, n, generator=random, dtype=torch.float64))[0].mT


def attend(q: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and output; q (..., d), keys (..., n, d), values (n, d)."""
    weights = (keys @ q[..., None])[..., 0].softmax(-1)  # (..., n)
    return weights, weights @ values


@claim(
    "copy",
    topic="retrieve",
    source="course",
    statement="if k_j.q is far above every other k_i.q, then c is v_j",
    why="""With a margin t between k_j.q and all other scores the weight on j is at least
    1 / (1 + (n - 1) e^-t), so c is at most (n - 1) e^-t times the largest distance between values
    away from v_j. An error of e needs t = ln((n - 1) / e) or a little less: it grows with ln n,
    which is slow, so a copy over thousands of keys needs a margin of about 12.""",
    judge=Below(0.01, "largest |c - v_j| / max |v_i - v_j| at a margin of ln(100 n)"),
    control="a margin of ln n: far above in words only",
)
def copy(trial: Trial) -> Evidence:
    sizes = trial.pick([2, 8, 64, 512], [2, 8, 64, 512, 4096, 32768])
    worst, lines = 0.0, []
    drawn = {n: torch.randn(n, 16, generator=trial.random(n), dtype=torch.float64) for n in sizes}
    for n, values in drawn.items():
        margin = math.log(n) if trial.control else math.log(100 * n)
        worst = max(worst, _copy_error(values, margin))
    for wanted in (0.01, 0.001):
        points = [(float(n), _margin(values, wanted)) for n, values in drawn.items()]
        lines.append(Series(f"{wanted:.1%} error", points))
    needed = lines[0].points[-1][1]
    lines.append(Series("ln(100 n)", [(float(n), math.log(100 * n)) for n in sizes]))
    return Evidence(
        Figure(worst),
        Plot("number of keys", "margin that is needed", lines, x_log=True),
        details={f"margin for 1% error at n = {sizes[-1]}": round(needed, 2)},
    )


def _copy_error(values: Tensor, margin: float) -> float:
    """How far c is from v_0, by the largest distance of another value from it."""
    scores = torch.zeros(len(values), dtype=torch.float64)
    scores[0] = margin
    far = (values[1:] - values[0]).norm(dim=-1).max()
    return float((scores.softmax(0) @ values - values[0]).norm() / far)


def _margin(values: Tensor, wanted: float) -> float:
    """The smallest margin with at most this error, by bisection: the error falls with it."""
    low, high = 0.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _copy_error(values, middle) <= wanted else (middle, high)
    return high
