"""Attention as a convolution: how many heads it needs.

Letters: T pixels, C channels, W width, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.claims._claim import Bars, Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.handmade import SOFT, make_handmade_layer
from attnlab.claims.judges import exact
from attnlab.mask import Mask
from attnlab.report import Series

CORDONNIER = (
    "Cordonnier, Loukas and Jaggi 2020, On the relationship between self-attention and "
    "convolutional layers, arXiv 1911.03584"
)


def pixel_positions(rows: int, columns: int) -> Tensor:
    """(T, 2): row and column of each pixel."""
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).double()


def filter_offsets(k: int) -> Tensor:
    """(k^2, 2): the offsets of a k x k filter relative to its pixel."""
    return pixel_positions(k, k) - k // 2


@claim(
    "convolution",
    topic="handmade",
    source="paper",
    statement="k^2 heads, one relative offset each with hard weights, compute any k x k "
    "convolution (interior pixels)",
    why="""Let a pixel at position p carry p, |p|^2 and 1 in addition to its channels. Head h has
    the query (2(p + o_h), -1) and the keys (r, |r|^2), so its score is -|r - p - o_h|^2 plus a term
    that is the same for all r: the pixel at offset o_h wins by at least 1. Its output is the
    channels of that pixel, to which W_O applies the filter's matrix for that offset. The sum over
    k^2 heads is the convolution. Each offset needs its own head: with one head fewer the filter
    loses an entry.""",
    judge=exact("largest error against torch's convolution, interior pixels"),
    control="one head attends to its own pixel instead of its offset",
    reference=CORDONNIER,
)
def convolution(trial: Trial) -> Evidence:
    worst = 0.0
    betas = [2.0**power for power in range(-2, 7)]
    lines = []
    for k, rows, columns, channels, filters in (
        (1, 3, 4, 2, 3), (2, 4, 7, 3, 2), (3, 5, 6, 2, 5), (3, 7, 5, 4, 1), (5, 7, 8, 3, 2),
    ):  # fmt: skip
        for repeat in range(trial.pick(2, 20)):
            generator = trial.generator(k, rows, repeat)
            image = torch.randn(channels, rows, columns, generator=generator, dtype=torch.float64)
            shape = (filters, channels, k, k)
            kernel = torch.randn(shape, generator=generator, dtype=torch.float64)
            offsets = filter_offsets(k)
            if trial.control:
                offsets[0] = 0
            worst = max(worst, _convolution_error(image, kernel, offsets, "hard"))
        if rows <= columns and k > 1:
            soft = [(b, _convolution_error(image, kernel, offsets, f"softmax:beta={b}"))
                    for b in betas]  # fmt: skip
            lines.append(Series(f"{k} x {k} filter, {rows} x {columns} pixels", soft))
    return Evidence(
        Estimate(worst),
        Lines("inverse temperature", "largest error with soft weights", lines, True, True),
    )


def _convolution_error(image: Tensor, kernel: Tensor, offsets: Tensor, attention: str) -> float:
    """Largest error of a layer whose heads attend to these offsets, against torch's convolution."""
    (filters, channels, k, _), (_, rows, columns) = kernel.shape, image.shape
    H, D = k * k, max(channels, 3, filters)
    W = max(H * D, channels + 4)
    D = -(-W // H)
    W = H * D
    position = pixel_positions(rows, columns)
    x = torch.zeros(rows * columns, W, dtype=torch.float64)
    x[:, :channels] = image.flatten(1).mT
    x[:, channels : channels + 4] = torch.cat(
        [position, (position**2).sum(-1, keepdim=True), torch.ones(len(position), 1)], dim=-1
    )
    query, key, value = torch.zeros(3, H, D, W, dtype=torch.float64)
    query[:, :2, channels : channels + 2] = 2 * torch.eye(2)
    query[:, :2, channels + 3] = 2 * offsets
    query[:, 2, channels + 3] = -1
    key[:, :3, channels : channels + 3] = torch.eye(3)
    value[:, :channels, :channels] = torch.eye(channels)
    out = torch.zeros(W, H, D, dtype=torch.float64)
    out[:filters, :, :channels] = kernel.flatten(2).mT  # (filters, offset, channels)
    matrices = (matrix.reshape(W, W) for matrix in (query, key, value, out))
    layer = make_handmade_layer(*matrices, heads=H, attention=attention)
    actual = layer(x[None], Mask())[0, :, :filters].mT.reshape(filters, rows, columns)
    expected = F.conv2d(image[None], kernel)[0]
    start = k // 2
    inner = actual[:, start : start + expected.shape[1], start : start + expected.shape[2]]
    return float((inner - expected).abs().max())


@claim(
    "convolution-one-head",
    topic="handmade",
    source="course",
    statement="one head looking at its neighbors is a convolution",
    quoted=True,
    why="""One head outputs sum_o a_o V x_(p + o) with weights a_o >= 0 that sum to 1: every offset
    has the same matrix V, times a positive number. A filter has its own matrix F_o for each offset.
    With one channel, F_o = a_o v means that all entries have the same sign, which is true of one in
    256 random 3 x 3 filters. For any other filter, one head can at best reproduce its positive or
    its negative entries. It cannot compute an edge detector, but it computes an averaging filter,
    such as a blur, exactly (the control).""",
    judge=exact("largest error of the best head / size of the filter's output"),
    control="averaging filters: entries that are positive and sum to 1",
    reference=CORDONNIER,
)
def convolution_one_head(trial: Trial) -> Evidence:
    named_filters = {
        "box blur": torch.ones(3, 3) / 9,
        "edge (Sobel)": torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]),
        "sharpen": torch.tensor([[0.0, -1, 0], [-1, 5, -1], [0, -1, 0]]),
    }
    random_errors, averaging_errors = [], []
    for repeat in range(trial.pick(30, 300)):
        generator = trial.generator(repeat)
        image = torch.randn(8, 9, generator=generator, dtype=torch.float64)
        kernel = torch.randn(3, 3, generator=generator, dtype=torch.float64)
        random_errors.append(_one_head_error(image, kernel))
        averaging_errors.append(_one_head_error(image, kernel.flatten().softmax(0).view(3, 3)))
    named_errors = {
        name: Estimate(_one_head_error(image, kernel.double()))
        for name, kernel in named_filters.items()
    }
    return Evidence(
        Estimate(max(averaging_errors if trial.control else random_errors)),
        Bars(
            "error of the best head / size of the filter's output",
            {
                "random filters": mean_interval(random_errors),
                "averaging filters": mean_interval(averaging_errors),
                **named_errors,
            },
        ),
        details={"smallest error of a random filter": min(random_errors)},
    )


def best_head(kernel: Tensor) -> tuple[Tensor, float]:
    """The weights (k, k), nonnegative with sum 1, and the factor that come nearest to a filter: its
    positive or its negative entries, whichever are larger."""
    halves = kernel.clamp(min=0), (-kernel).clamp(min=0)
    half = max(halves, key=lambda part: float(part.norm()))
    size = float(half.sum())
    return half / size, size if half is halves[0] else -size


def _one_head_error(image: Tensor, kernel: Tensor) -> float:
    """Relative error of a layer with one head, whose scores are the logarithms of the weights.

    Positions are one-hot codes, so that scores can depend on both positions in any way.
    """
    (k, _), (rows, columns) = kernel.shape, image.shape
    weights, scale = best_head(kernel)
    T = rows * columns
    position = pixel_positions(rows, columns)
    step = (position[None] - position[:, None] + k // 2).long()  # (T, T, 2) from query to key
    near = ((step >= 0) & (step < k)).all(-1)
    step = step.clamp(0, k - 1)
    scores = weights.log().clamp(min=-1e3)[step[..., 0], step[..., 1]].masked_fill(~near, -1e3)
    query, key, value = torch.zeros(3, T + 1, T + 1, dtype=torch.float64)
    query[1:, 1:], key[1:, 1:] = scores.mT, torch.eye(T)
    value[0, 0] = scale
    x = torch.cat([image.flatten()[:, None], torch.eye(T, dtype=torch.float64)], dim=-1)
    actual = make_handmade_layer(query, key, value, attention=SOFT)(x[None], Mask())[0, :, 0]
    expected = F.conv2d(image[None, None], kernel[None, None])[0, 0]
    start = k // 2
    inner = actual.view(rows, columns)[
        start : start + len(expected), start : start + expected.shape[1]
    ]
    return float((inner - expected).norm() / expected.norm())
