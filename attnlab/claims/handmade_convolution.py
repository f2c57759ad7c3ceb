"""Attention as a convolution: how many heads it takes.

Letters: T pixels, C channels, W width, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.claims._claim import Bars, Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.handmade import SOFT, handmade
from attnlab.claims.judges import exact
from attnlab.mask import Mask
from attnlab.report import Series

CORDONNIER = (
    "Cordonnier, Loukas and Jaggi 2020, On the relationship between self-attention and "
    "convolutional layers, arXiv 1911.03584"
)


def places(rows: int, columns: int) -> Tensor:
    """(T, 2): row and column of each pixel."""
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).double()


def offsets(k: int) -> Tensor:
    """(k^2, 2): what a k x k filter looks at, from the pixel's own place."""
    return places(k, k) - k // 2


@claim(
    "convolution",
    topic="handmade",
    source="paper",
    statement="k^2 heads, one relative offset each with hard weights, compute any k x k "
    "convolution (interior pixels)",
    why="""Let a pixel at place p carry p, |p|^2 and 1 beside its channels. Head h has the query
    (2(p + o_h), -1) and the keys (r, |r|^2), so its score is -|r - p - o_h|^2 plus what is the same
    for all r: the pixel at offset o_h wins by at least 1. Its output is the channels of that pixel,
    and W_O applies the filter's matrix of that offset to it; the sum over k^2 heads is the
    convolution. Each offset needs a head of its own: with one fewer the filter loses an entry.""",
    judge=exact("largest error against torch's convolution, interior pixels"),
    control="one head looks at its own pixel instead of its offset",
    reference=CORDONNIER,
)
def convolution(trial: Trial) -> Evidence:
    worst = 0.0
    sharp = [2.0**power for power in range(-2, 7)]
    lines = []
    for k, rows, columns, channels, filters in (
        (1, 3, 4, 2, 3), (2, 4, 7, 3, 2), (3, 5, 6, 2, 5), (3, 7, 5, 4, 1), (5, 7, 8, 3, 2),
    ):  # fmt: skip
        for repeat in range(trial.pick(2, 20)):
            random = trial.random(k, rows, repeat)
            image = torch.randn(channels, rows, columns, generator=random, dtype=torch.float64)
            shape = (filters, channels, k, k)
            kernel = torch.randn(shape, generator=random, dtype=torch.float64)
            look = offsets(k)
            if trial.control:
                look[0] = 0
            worst = max(worst, _convolution_error(image, kernel, look, "hard"))
        if rows <= columns and k > 1:
            soft = [(b, _convolution_error(image, kernel, look, f"softmax:beta={b}"))
                    for b in sharp]  # fmt: skip
            lines.append(Series(f"{k} x {k} filter, {rows} x {columns} pixels", soft))
    return Evidence(
        Estimate(worst),
        Lines("inverse temperature", "largest error with soft weights", lines, True, True),
    )


def _convolution_error(image: Tensor, kernel: Tensor, look: Tensor, attention: str) -> float:
    """By a layer whose heads look at these offsets, against torch's own."""
    (filters, channels, k, _), (_, rows, columns) = kernel.shape, image.shape
    H, D = k * k, max(channels, 3, filters)
    W = max(H * D, channels + 4)
    D = -(-W // H)
    W = H * D
    place = places(rows, columns)
    x = torch.zeros(rows * columns, W, dtype=torch.float64)
    x[:, :channels] = image.flatten(1).mT
    x[:, channels : channels + 4] = torch.cat(
        [place, (place**2).sum(-1, keepdim=True), torch.ones(len(place), 1)], dim=-1
    )
    query, key, value = torch.zeros(3, H, D, W, dtype=torch.float64)
    query[:, :2, channels : channels + 2] = 2 * torch.eye(2)
    query[:, :2, channels + 3] = 2 * look
    query[:, 2, channels + 3] = -1
    key[:, :3, channels : channels + 3] = torch.eye(3)
    value[:, :channels, :channels] = torch.eye(channels)
    out = torch.zeros(W, H, D, dtype=torch.float64)
    out[:filters, :, :channels] = kernel.flatten(2).mT  # (filters, offset, channels)
    matrices = (each.reshape(W, W) for each in (query, key, value, out))
    layer = handmade(*matrices, heads=H, attention=attention)
    got = layer(x[None], Mask())[0, :, :filters].mT.reshape(filters, rows, columns)
    wanted = F.conv2d(image[None], kernel)[0]
    start = k // 2
    inner = got[:, start : start + wanted.shape[1], start : start + wanted.shape[2]]
    return float((inner - wanted).abs().max())


@claim(
    "convolution-one-head",
    topic="handmade",
    source="course",
    statement="one head looking at its neighbors is a convolution",
    quoted=True,
    why="""One head gives sum_o a_o V x_(p + o) with weights a_o >= 0 that sum to 1: every offset
    has the same matrix V, times a positive number. A filter has a matrix F_o of its own for each
    offset; with one channel F_o = a_o v means that all entries have the same sign, as in one of 256
    random 3 x 3 filters. Of any other the best that one head can do is to keep the positive or the
    negative half. An edge detector is out of reach; an averaging filter, as a blur, is exact (the
    control).""",
    judge=exact("largest error of the best head / what the filter gives"),
    control="averaging filters: entries that are positive and sum to 1",
    reference=CORDONNIER,
)
def convolution_one_head(trial: Trial) -> Evidence:
    named = {
        "box blur": torch.ones(3, 3) / 9,
        "edge (Sobel)": torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]),
        "sharpen": torch.tensor([[0.0, -1, 0], [-1, 5, -1], [0, -1, 0]]),
    }
    random, averaging = [], []
    for repeat in range(trial.pick(30, 300)):
        draws = trial.random(repeat)
        image = torch.randn(8, 9, generator=draws, dtype=torch.float64)
        kernel = torch.randn(3, 3, generator=draws, dtype=torch.float64)
        random.append(_one_head_error(image, kernel))
        averaging.append(_one_head_error(image, kernel.flatten().softmax(0).view(3, 3)))
    shown = {
        name: Estimate(_one_head_error(image, kernel.double())) for name, kernel in named.items()
    }
    return Evidence(
        Estimate(max(averaging if trial.control else random)),
        Bars(
            "error of the best head / what the filter gives",
            {
                "random filters": mean_interval(random),
                "averaging filters": mean_interval(averaging),
                **shown,
            },
        ),
        details={"smallest error of a random filter": min(random)},
    )


def best_head(kernel: Tensor) -> tuple[Tensor, float]:
    """The weights (k, k), positive and of sum 1, and the one number that come nearest to a filter:
    its positive or its negative half, whichever is larger."""
    halves = kernel.clamp(min=0), (-kernel).clamp(min=0)
    half = max(halves, key=lambda each: float(each.norm()))
    size = float(half.sum())
    return half / size, size if half is halves[0] else -size


def _one_head_error(image: Tensor, kernel: Tensor) -> float:
    """Of a layer with one head, whose scores are the logarithms of the weights, by offset.

    Places are one-hot codes, so that a score may depend on both places as one likes.
    """
    (k, _), (rows, columns) = kernel.shape, image.shape
    weights, scale = best_head(kernel)
    T = rows * columns
    place = places(rows, columns)
    step = (place[None] - place[:, None] + k // 2).long()  # (T, T, 2) from query to key
    near = ((step >= 0) & (step < k)).all(-1)
    step = step.clamp(0, k - 1)
    scores = weights.log().clamp(min=-1e3)[step[..., 0], step[..., 1]].masked_fill(~near, -1e3)
    query, key, value = torch.zeros(3, T + 1, T + 1, dtype=torch.float64)
    query[1:, 1:], key[1:, 1:] = scores.mT, torch.eye(T)
    value[0, 0] = scale
    x = torch.cat([image.flatten()[:, None], torch.eye(T, dtype=torch.float64)], dim=-1)
    got = handmade(query, key, value, attention=SOFT)(x[None], Mask())[0, :, 0]
    wanted = F.conv2d(image[None, None], kernel[None, None])[0, 0]
    start = k // 2
    inner = got.view(rows, columns)[start : start + len(wanted), start : start + wanted.shape[1]]
    return float((inner - wanted).norm() / wanted.norm())
