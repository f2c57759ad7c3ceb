"""Position codes: the shift matrix of sine codes, attending by distance, rotary codes.

p_t is the code of position t: alternating sines and cosines of decreasing frequencies.
Letters: T positions, W width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from attnlab.claims._claim import Bars, Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims._digit_models import (
    BATCH_SIZE,
    DIGIT_TRAINING,
    digit_accuracy,
    training_image_count,
)
from attnlab.claims.judges import Above, exact
from attnlab.mask import Mask
from attnlab.mechanisms.softmax import Softmax
from attnlab.position import RotaryPositions, SinusoidalPositions
from attnlab.report import Series

POSITIONS = 10_000
VIT_CODES = ("sinusoidal", "learned", "sinusoidal-2d", "none")


@contextmanager
def float64_default() -> Iterator[None]:
    """attnlab's codes use the default precision, but exact statements need float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def sinusoidal_codes(width: int, position: Tensor) -> Tensor:
    """attnlab's sinusoidal codes (T, W) of positions (T,), float64."""
    with float64_default():
        return SinusoidalPositions(width)(position[None])[0]


@claim(
    "shift-matrix",
    topic="positions",
    source="paper",
    reference="Vaswani et al. 2017, Attention Is All You Need, section 3.5 (arXiv 1706.03762)",
    statement="one block-diagonal rotation M gives p_(t+1) = M p_t for every t (interleaved sine "
    "and cosine), and M^k shifts by k",
    why="""For each frequency w, the addition theorems give sin(w(t+1)), cos(w(t+1)) as the pair
    sin(wt), cos(wt) rotated by the angle w, which does not depend on t. M has these 2 x 2 rotations
    on its diagonal, because each sine is next to its cosine. M^k rotates by k w, which is a shift
    by k. If all sines come first and all cosines after them, a shift is still one rotation, but not
    the block-diagonal one: its entries are W/2 apart. That order is the control.""",
    judge=exact("largest |p_(t+k) - M^k p_t|, and distance of M from a rotation"),
    control="the same M for codes with all sines first",
)
def shift_matrix(trial: Trial) -> Evidence:
    steps, worst = [1, 2, 7, 31, 100, 1000], 0.0
    errors_by_order: dict[str, dict[int, float]] = {
        name: {} for name in ("in turn", "all sines first")
    }
    for width in trial.pick([2, 6, 32], [2, 6, 32, 64, 128]):
        M = SinusoidalPositions(width).shift_matrix()
        blocks = torch.block_diag(*(M[i : i + 2, i : i + 2] for i in range(0, width, 2)))
        worst = max(worst, float((M @ M.mT - torch.eye(width)).abs().max()))
        worst = max(worst, float((M - blocks).abs().max()))
        t = torch.randint(POSITIONS, (trial.pick(50, 1000),), generator=trial.generator(width))
        order = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
        for k in steps:
            power, here, there = (
                torch.matrix_power(M, k),
                sinusoidal_codes(width, t),
                sinusoidal_codes(width, t + k),
            )
            for order_errors, columns in zip(
                errors_by_order.values(), (torch.arange(width), order), strict=True
            ):
                error = float((there[:, columns] - here[:, columns] @ power.mT).abs().max())
                order_errors[k] = max(order_errors.get(k, 1e-17), error)
    lines = [
        Series(name, [(float(k), e) for k, e in points.items()])
        for name, points in errors_by_order.items()
    ]
    judged = errors_by_order["all sines first" if trial.control else "in turn"]
    return Evidence(
        Estimate(max(worst, *judged.values())),
        Lines("shift by k", "largest |p_(t+k) - M^k p_t|", lines, x_log=True, y_log=True),
    )


@claim(
    "attend-relative",
    topic="positions",
    source="course",
    statement='so a query can attend to "k steps back" with one fixed matrix',
    why="""Take keys p_t and queries m M^(-k) p_s, which is m p_(s-k). The score m p_(s-k).p_t is
    largest at t = s - k, since all codes have the same length sqrt(W/2), and the margin is the same
    at every position. With a large enough m the softmax puts all weight there, and the matrix
    m M^(-k) is the same for all s. Codes without this structure have no such matrix: if there are
    more random codes than dimensions, even the best-fitting matrix fails.""",
    judge=Above(0.99, "least weight on the position k steps back"),
    control="random codes of the same length, and the matrix that fits them best",
)
def attend_relative(trial: Trial) -> Evidence:
    T, width = trial.pick(200, 1000), 64
    position = torch.arange(T)
    sine_codes = sinusoidal_codes(width, position)
    random_codes = torch.randn(T, width, generator=trial.generator(), dtype=torch.float64)
    random_codes = random_codes / random_codes.norm(dim=-1, keepdim=True) * math.sqrt(width / 2)
    margin = float((sine_codes[0] * (sine_codes[0] - sine_codes[1:])).sum(-1).min())
    beta = math.log(1000 * T) / margin
    weights_by_shift: dict[int, tuple[Tensor, Tensor]] = {}
    for k in (0, 1, 3, 10, 50):
        shifted = sine_codes @ SinusoidalPositions(width).shift_matrix(-k).mT  # p_(s-k)
        fitted = random_codes @ torch.linalg.lstsq(random_codes[k:], random_codes[: T - k]).solution
        weights_by_shift[k] = (
            _weights(shifted, sine_codes, beta),
            _weights(fitted, random_codes, beta),
        )
    target_weights = [
        pair[1 if trial.control else 0].diagonal(-k).min() for k, pair in weights_by_shift.items()
    ]
    lines = [
        Series(name, [(float(steps), float(a.diagonal(-steps).mean())) for steps in range(12)])
        for name, a in zip(("sine codes", "random codes"), weights_by_shift[3], strict=True)
    ]
    return Evidence(
        Estimate(float(min(target_weights))),
        Lines("steps back (the target is 3)", "mean weight", lines),
        details={"m": beta, "margin of the best score at m = 1": margin},
    )


def _weights(q: Tensor, k: Tensor, beta: float) -> Tensor:
    """(T, T), by attnlab's softmax."""
    attention = Softmax(head_dim=q.shape[-1], heads=1, beta=beta)
    return attention.weights(q[None, None], k[None, None], Mask())[0, 0]


@claim(
    "positions-unique",
    topic="positions",
    source="course",
    statement="no two positions below 10,000 have the same code",
    why="""The squared distance of two codes is the sum over frequencies w of 2 - 2 cos(w D), with D
    the difference of the positions. It is 0 only if every w D is a whole number of turns. For
    w = 1 alone this never happens, since pi is irrational, but it comes close (D = 710 is 113 turns
    plus 6e-5); the lower frequencies distinguish such positions. The longest wavelength,
    2 pi 10,000 for a wide code, is longer than the sequence. With a single wavelength that is a
    whole number, the control, codes repeat.""",
    judge=Above(1e-3, "least distance between two codes"),
    control="a single wavelength of 100 positions",
)
def positions_unique(trial: Trial) -> Evidence:
    position = torch.arange(POSITIONS)
    turn = position[:, None].double() * (2 * math.pi / 100)
    tables = {f"width {W}": sinusoidal_codes(W, position) for W in (4, 16, 64)}
    tables["one wavelength"] = torch.cat([turn.sin(), turn.cos()], dim=-1)
    judged = ["one wavelength"] if trial.control else [name for name in tables if "width" in name]
    nearest = {name: _least_distance(tables[name], trial.pick(10, 1)) for name in judged}
    differences = sorted({*range(1, 20), *(round(1.1**i) for i in range(32, 97)), 100, 1000})
    lines = [
        Series(
            name,
            [(float(D), max(float((table[D] - table[0]).norm()), 1e-12)) for D in differences],
        )
        for name, table in tables.items()
    ]
    return Evidence(
        Estimate(min(nearest.values())),
        Lines("difference of positions", "distance of their codes", lines, x_log=True, y_log=True),
        details={
            "distinct float32 codes of width 64": len(tables["width 64"].float().unique(dim=0)),
            **{f"least distance, {name}": value for name, value in nearest.items()},
        },
    )


def _least_distance(table: Tensor, every: int) -> float:
    """Least distance between two rows. `every` skips rows on one side, to save time.

    Sums squared differences, because the product formula would round small distances away.
    """
    least = math.inf
    for rows in torch.arange(0, len(table) - 1, every).split(25):
        distances = torch.cdist(table[rows], table, compute_mode="donot_use_mm_for_euclid_dist")
        distances[torch.arange(len(rows)), rows] = math.inf
        least = min(least, float(distances.min()))
    return least


@claim(
    "rope-relative",
    topic="positions",
    source="paper",
    reference="Su et al. 2021, RoFormer (arXiv 2104.09864)",
    statement="with rotary codes, q_s.k_t depends on s - t alone",
    why="""Rotary codes rotate each pair of numbers of a query or key by w times its position:
    q_s = R^s q and k_t = R^t k with a rotation R. Then q_s.k_t = q^T R^(t-s) k, since the transpose
    of a rotation is its inverse. Moving both by the same number of positions changes nothing, at
    any distance. Added codes, (q + p_s).(k + p_t), have the terms q.p_t and p_s.k, which depend on
    each position separately; they are the control.""",
    judge=exact("largest change of q_s.k_t when both move by the same steps"),
    control="sinusoidal codes added to q and k",
)
def rope_relative(trial: Trial) -> Evidence:
    worst = 0.0
    for width in (2, 6, 16, 64):
        generator = trial.generator(width)
        q, k = (torch.randn(1, 3, 5, width, generator=generator, dtype=torch.float64) for _ in "qk")
        s, t = (torch.randint(2000, (1, 5), generator=generator) for _ in "st")
        score = _added_code_scores if trial.control else _rotary_scores
        for _ in range(trial.pick(5, 50)):
            h = torch.randint(2000, (1,), generator=generator)
            change = score(q, k, s + h, t + h) - score(q, k, s, t)
            worst = max(worst, float(change.abs().max()))
    steps = range(0, 200, 4)
    lines = [
        Series(name, [(float(h), float(score(q, k, s + h, t + h)[0, 0, 0])) for h in steps])
        for name, score in (("rotary", _rotary_scores), ("sine codes added", _added_code_scores))
    ]
    return Evidence(Estimate(worst), Lines("both moved by", "q_s.k_t", lines))


def _rotary_scores(q: Tensor, k: Tensor, s: Tensor, t: Tensor) -> Tensor:
    """Scores of each pair (1, 3, 5), by attnlab's rotary codes."""
    with float64_default():
        turn = RotaryPositions(q.shape[-1])
        return (turn(q, s) * turn(k, t)).sum(-1)


def _added_code_scores(q: Tensor, k: Tensor, s: Tensor, t: Tensor) -> Tensor:
    width = q.shape[-1]
    return ((q + sinusoidal_codes(width, s[0])) * (k + sinusoidal_codes(width, t[0]))).sum(-1)


@claim(
    "positions-two-d",
    topic="positions",
    source="course",
    reference="Dosovitskiy et al. 2021, An Image is Worth 16x16 Words (arXiv 2010.11929)",
    quoted=True,
    statement="images need two-dimensional position codes",
    why="""Patches of an image are read row by row, so a one-dimensional code of n = rows x columns
    positions also identifies a patch: row and column are t // columns and t mod columns. A learned
    table can discover this structure, since neighboring patches are similar; a two-dimensional
    code, one part for the row and one for the column, has it built in. If images needed it, a ViT
    with this code would be more accurate than one of equal size and training with a learned table.
    Compared with a ViT without any code it must win: that is the control.""",
    judge=Above(0.01, "accuracy gained by two-dimensional codes over learned ones (digits)"),
    control="no position codes instead of the learned ones",
)
def positions_two_d(trial: Trial) -> Evidence:
    seeds = [7 * trial.seed + number for number in range(trial.pick(3, 5))]
    codes = trial.pick(VIT_CODES[1:], VIT_CODES)
    accuracies = {
        code: [
            digit_accuracy("vit", trial.size, seed, training_image_count(), code) for seed in seeds
        ]
        for code in codes
    }
    reference_code = "none" if trial.control else "learned"
    gains = [
        accuracy - baseline
        for accuracy, baseline in zip(
            accuracies["sinusoidal-2d"], accuracies[reference_code], strict=True
        )
    ]
    labels = {"sinusoidal-2d": "two-dimensional", "sinusoidal": "one-dimensional sines"}
    return Evidence(
        mean_interval(gains),
        Bars(
            "accuracy on test digits",
            {labels.get(code, code): mean_interval(values) for code, values in accuracies.items()},
        ),
        details={
            "seeds": len(seeds),
            f"steps of {BATCH_SIZE} images": DIGIT_TRAINING[trial.size].steps,
        },
    )
