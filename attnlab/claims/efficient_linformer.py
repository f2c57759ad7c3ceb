"""Linformer: where its projections of n keys to r come from, and which positions they mix.

softmax(q (E k)^T / sqrt(d)) F v, with E and F (r, n) learned.
Letters: B batch, n tokens, d head size, M value size, r rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.efficient_low_rank import LINFORMER, best_error
from attnlab.claims.handmade_position_codes import seeded
from attnlab.claims.judges import Above, Below
from attnlab.claims.kernels import sample_normal
from attnlab.mask import Mask
from attnlab.mechanisms.linformer import Linformer
from attnlab.mechanisms.softmax import Softmax
from attnlab.report import Series


@claim(
    "linformer-svd",
    topic="efficient",
    source="course",
    statement="Linformer's projections come from a singular value decomposition",
    quoted=True,
    why="""Linformer computes softmax(q (E k)^T / sqrt(d)) F v with E and F learned once and used
    for every input. The decomposition A = U S V^T belongs to one input, and costs more than the
    attention it would save. The paper uses it to argue that low rank is enough, not as the method.
    By Eckart and Young, no matrix of rank r is nearer to A than its truncation. This is the bound:
    learned projections stay well above it, between it and random projections. Even E = F = V_r^T in
    Linformer's formula does not reach it, because the softmax is applied to projected scores.""",
    judge=Below(1.05, "error over that of the truncated decomposition, rank 8 of 32"),
    control="A V_r V_r^T, with V_r of each input's own decomposition",
    reference=LINFORMER,
)
def linformer_svd(trial: Trial) -> Evidence:
    ranks = trial.pick([4, 8, 16], [1, 2, 4, 8, 16, 24])
    methods = ("decomposition", "learned", "not trained", "V_r in Linformer's formula")
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    figure = Estimate(math.nan)
    for r in ranks:
        repeats = range(trial.pick(3, 5) if r == 8 else 1)
        results = [_weight_errors(trial, r, repeat) for repeat in repeats]
        for name in methods:
            lines[name].append(
                (float(r), mean_interval([errors[name] for errors in results]).value)
            )
        if r == 8:
            judged = "decomposition" if trial.control else "learned"
            figure = mean_interval([errors[judged] / errors["bound"] for errors in results])
    return Evidence(
        figure,
        Lines("rank", "relative error of the weights, n = 32", [Series(*x) for x in lines.items()]),
        details={f"error at rank 8, {name}": dict(lines[name])[8.0] for name in methods},
    )


def _weight_errors(trial: Trial, r: int, repeat: int) -> dict[str, float]:
    """Errors on new inputs, of projections learned on inputs from the same distribution."""
    n, d, generator = 32, 8, trial.generator(r, repeat)
    codes = torch.randn(2, n, d, generator=generator)

    def batch(size: int) -> tuple[Tensor, Tensor]:
        """q and k (B, 1, n, d): a position code, the same in all batches, plus noise."""
        q, k = 1.5 * codes[:, None, None] + torch.randn(2, size, 1, n, d, generator=generator)
        return q, k

    exact = Softmax(head_dim=d, heads=1)
    with seeded(generator):
        linformer = Linformer(head_dim=d, heads=1, max_length=n, rank=r)
    q, k = batch(64)
    A = exact.weights(q, k, Mask())  # (B, 1, n, n)
    untrained_error = _relative_error(linformer.weights(q, k, Mask()).detach(), A)
    if not trial.control:
        _train_projections(linformer, exact, batch, trial.pick(150, 800))
    V = torch.linalg.svd(A)[2][..., :r, :]  # (B, 1, r, n)
    formula = ((q @ (V @ k).mT) * d**-0.5).softmax(-1) @ V
    return {
        "bound": float((best_error(A.double(), r) * A.norm(dim=(-2, -1))).norm() / A.norm()),
        "decomposition": _relative_error(A @ V.mT @ V, A),
        "learned": _relative_error(linformer.weights(q, k, Mask()).detach(), A),
        "not trained": untrained_error,
        "V_r in Linformer's formula": _relative_error(formula, A),
    }


def _relative_error(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


def _train_projections(
    linformer: Linformer, exact: Softmax, batch: Callable[[int], tuple[Tensor, Tensor]], steps: int
) -> None:
    """Trains E and F on the error of the weights, with new inputs in each step."""
    optimizer = torch.optim.Adam(linformer.parameters(), lr=0.03)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.03 * (1 - step / steps)
        q, k = batch(16)
        difference = linformer.weights(q, k, Mask()) - exact.weights(q, k, Mask())
        optimizer.zero_grad()
        difference.square().sum().backward()
        optimizer.step()


@claim(
    "linformer-not-causal",
    topic="efficient",
    source="paper",
    statement="one projection over the whole sequence mixes all positions, so the output at t "
    "depends on later tokens",
    why="""Row a of E k is sum_s E_as k_s over all s, and row a of F v is such a sum too. A query at
    t attends to these sums, which contain every later token s > t. A mask on the r rows cannot
    remove them, because no row belongs to a single position. A decoder with Linformer would see the
    tokens that it should predict: it would do well in training and be useless for generation.
    attnlab therefore refuses a causal mask for it. Softmax attention masks pairs before any sum
    (the control).""",
    judge=Above(1e-6, "smallest change of the outputs before a token that is replaced"),
    control="softmax attention with a causal mask",
    reference=LINFORMER,
)
def linformer_not_causal(trial: Trial) -> Evidence:
    changes: dict[str, list[float]] = {"linformer": [], "softmax, causal": []}
    for n, d, M, r in ((5, 3, 2, 4), (11, 4, 7, 3), (23, 8, 5, 6), (47, 5, 3, 2)):
        for repeat in range(trial.pick(5, 50)):
            for name, change in _change_before_token(
                trial.generator(n, repeat), n, d, M, r
            ).items():
                changes[name].append(change)
    lines = [
        Series(name, by_position)
        for name, by_position in _changes_by_position(trial.generator()).items()
    ]
    judged = changes["softmax, causal" if trial.control else "linformer"]
    return Evidence(
        Estimate(min(judged)),
        Lines("position of the output; token 16 of 24 is replaced", "change", lines),
        details={
            "instances": len(judged),
            "largest change, softmax with a causal mask": max(changes["softmax, causal"]),
            "attnlab's linformer with a causal mask": _causal_mask_result(),
        },
    )


def _output_changes(
    generator: torch.Generator, n: int, d: int, M: int, r: int, s: int
) -> dict[str, Tensor]:
    """(n,): how much each output changes when the token at s is replaced."""
    q, k, v = (
        sample_normal(generator, 1, 1, n, d),
        sample_normal(generator, 1, 1, n, d),
        sample_normal(generator, 1, 1, n, M),
    )
    with seeded(generator):
        linformer = Linformer(head_dim=d, heads=1, max_length=n, rank=r).double()
    q2, k2, v2 = q.clone(), k.clone(), v.clone()
    for x in (q2, k2, v2):
        x[:, :, s] = sample_normal(generator, x.shape[-1])
    softmax = Softmax(head_dim=d, heads=1)
    changes = {}
    for name, mechanism, mask in (
        ("linformer", linformer, Mask()),
        ("softmax, causal", softmax, Mask(causal=True)),
    ):
        with torch.no_grad():
            difference = mechanism(q2, k2, v2, mask) - mechanism(q, k, v, mask)
        changes[name] = difference[0, 0].norm(dim=-1)
    return changes


def _change_before_token(
    generator: torch.Generator, n: int, d: int, M: int, r: int
) -> dict[str, float]:
    s = int(torch.randint(1, n, (), generator=generator))
    changes = _output_changes(generator, n, d, M, r, s)
    return {name: float(change[:s].max()) for name, change in changes.items()}


def _changes_by_position(generator: torch.Generator) -> dict[str, list[tuple[float, float]]]:
    changes = _output_changes(generator, 24, 8, 8, 6, 15)
    return {
        name: [(t + 1.0, float(change[t])) for t in range(24)] for name, change in changes.items()
    }


def _causal_mask_result() -> str:
    q = torch.zeros(1, 1, 3, 2)
    try:
        Linformer(head_dim=2, heads=1, max_length=3, rank=2)(q, q, q, Mask(causal=True))
    except ValueError:
        return "refused"
    return "computed"
