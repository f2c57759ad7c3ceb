"""What trained models do with images."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims._digit_models import LESSONS, accuracy, digits, everything, make
from attnlab.claims.judges import Above, exact
from attnlab.models import ViT, ViTConfig
from attnlab.report import Series

FEW = 60  # digits
# image, channels, patch, width: they all differ
SHAPES = (
    (6, 3, 2, 8),
    (15, 1, 5, 12),
    (12, 4, 3, 20),
    (28, 2, 7, 16),
    (16, 3, 1, 4),
    (9, 5, 9, 24),
)


@claim(
    "patches-are-convolution",
    topic="trained",
    source="paper",
    statement="patch embedding by a strided convolution is a linear map of flattened patches",
    why="""A convolution with a kernel of p x p and a stride of p gives at place (r, s) the sum over
    channel c and pixel (i, j) of W[o, c, i, j] x[c, r p + i, s p + j] + b[o]. The windows do not
    overlap, so this is W' flat(patch) + b with W' the kernel flattened in the same order, channel
    first, then row, then column. Nothing else is convolutional about it: no pixel is seen by
    two patches. In another order of flattening the same matrix means something else.""",
    reference="Dosovitskiy et al. 2020, An image is worth 16x16 words, arXiv 2010.11929",
    judge=exact("largest difference between convolution and linear map (attnlab's ViT, float64)"),
    control="patches flattened with the channel last",
)
def patches_are_convolution(trial: Trial) -> Evidence:
    repeats = trial.pick(2, 20)
    points = {"channel first": [], "channel last": []}  # type: dict[str, list[tuple[float, float]]]
    for number, (side, channels, patch, width) in enumerate(SHAPES):
        worst = dict.fromkeys(points, 0.0)
        for repeat in range(repeats):
            random = trial.random(number, repeat)
            vit = _vit(side, channels, patch, width, random)
            images = torch.randn(3, channels, side, side, generator=random, dtype=torch.float64)
            weight, bias = vit.patches.weight, vit.patches.bias
            assert bias is not None
            embedded = vit.patches(images).flatten(2).mT  # (B, N, W)
            for order in points:
                flat = _flattened(images, patch, channel_last=order == "channel last")
                linear = flat @ weight.flatten(1).mT + bias
                worst[order] = max(worst[order], float((linear - embedded).abs().max()))
        for order, error in worst.items():
            points[order].append((float(patch), max(error, 1e-17)))
    decides = points["channel last" if trial.control else "channel first"]
    return Evidence(
        Estimate(max(error for _, error in decides)),
        Lines(
            "pixels along a patch",
            "largest difference",
            [Series(f"flattened {order}", sorted(found)) for order, found in points.items()],
            y_log=True,
        ),
    )


def _vit(side: int, channels: int, patch: int, width: int, random: torch.Generator) -> ViT:
    vit = ViT(ViTConfig(2, side, channels, patch, width, layers=1, heads=2)).double()
    with torch.no_grad():
        for each in vit.patches.parameters():
            each.copy_(torch.randn(each.shape, generator=random, dtype=torch.float64))
    return vit.requires_grad_(False)


def _flattened(images: Tensor, patch: int, *, channel_last: bool) -> Tensor:
    """(B, C, height, width) -> (B, N, C p p), patches from left to right, then down: by slicing."""
    side = images.shape[-1] // patch
    found = []
    for r in range(side):
        for s in range(side):
            cut = images[..., r * patch : (r + 1) * patch, s * patch : (s + 1) * patch]
            found.append((cut.permute(0, 2, 3, 1) if channel_last else cut).flatten(1))
    return torch.stack(found, 1)


@claim(
    "convnet-small-data",
    topic="trained",
    source="paper",
    statement="on small image sets a ConvNet of equal size beats a ViT, and the gap shrinks with "
    "more data",
    why="""A convolution has two things built in that attention must learn from examples: that near
    pixels belong together, and that a thing looks the same wherever it stands. With few images this
    decides, with many it can be learned. Both are trained on a few and on all of the handwritten
    digits, with as many parameters, steps and images seen. With g(n) the accuracy of the ConvNet
    less that of the ViT at n images, the smaller of g(few) and g(few) - g(all) must be above 0: the
    ConvNet is ahead, and its lead falls. With kernels of 1 x 1 a ConvNet has no neighborhoods, and
    no lead. Chance is large with few images, so the small size may not decide.""",
    reference="Dosovitskiy et al. 2020, An image is worth 16x16 words, arXiv 2010.11929",
    judge=Above(0.0, "the smaller of the ConvNet's lead on 60 digits and what it loses on all"),
    control="the ConvNet's kernels are 1 x 1",
)
def convnet_small_data(trial: Trial) -> Evidence:
    seeds = [7 * trial.seed + number for number in range(trial.pick(4, 5))]
    sizes = trial.pick((FEW, everything()), (FEW, 300, everything()))
    net = "pointwise" if trial.control else "convnet"
    found = {
        name: [[accuracy(model, trial.size, seed, n) for seed in seeds] for n in sizes]
        for name, model in (("ConvNet", net), ("ViT", "vit"))
    }
    leads = [
        [a - b for a, b in zip(*both, strict=True)]
        for both in zip(found["ConvNet"], found["ViT"], strict=True)
    ]
    lines = []
    for name, values in found.items():
        middles = [mean_interval(each) for each in values]
        points = [(float(n), m.value) for n, m in zip(sizes, middles, strict=True)]
        lines.append(Series(name, points, [m.ends for m in middles]))
    counts = [make(model, LESSONS[trial.size], digits()[1].train) for model in ("convnet", "vit")]
    return Evidence(
        mean_interval(
            [min(few, few - many) for few, many in zip(leads[0], leads[-1], strict=True)]
        ),
        Lines("training images", "test digits named rightly", lines, x_log=True),
        details={
            f"lead on {sizes[0]} digits": round(mean_interval(leads[0]).value, 3),
            f"lead on {sizes[-1]} digits": round(mean_interval(leads[-1]).value, 3),
            "parameters, ConvNet": counts[0].parameter_count(),
            "parameters, ViT": counts[1].parameter_count(),
            "seeds": len(seeds),
        },
    )
