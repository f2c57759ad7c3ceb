"""Claims about image models: patch embeddings, and ConvNets compared with ViTs."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims._digit_models import (
    DIGIT_TRAINING,
    digit_accuracy,
    load_digits,
    make_digit_model,
    training_image_count,
)
from attnlab.claims.judges import Above, exact
from attnlab.models import ViT, ViTConfig
from attnlab.report import Series

FEW_IMAGES = 60
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
    why="""A convolution with a p x p kernel and stride p gives, at position (r, s), the sum over
    channels c and pixels (i, j) of W[o, c, i, j] x[c, r p + i, s p + j] + b[o]. The windows do not
    overlap, so this is W' flat(patch) + b, where W' is the kernel flattened in the same order:
    channel first, then row, then column. No pixel belongs to two patches, so nothing is shared
    between neighbors as in other convolutions. With another order of flattening, the same matrix
    computes something else.""",
    reference="Dosovitskiy et al. 2020, An image is worth 16x16 words, arXiv 2010.11929",
    judge=exact("largest difference between convolution and linear map (attnlab's ViT, float64)"),
    control="patches flattened with the channel last",
)
def patches_are_convolution(trial: Trial) -> Evidence:
    repeats = trial.pick(2, 20)
    points = {"channel first": [], "channel last": []}  # type: dict[str, list[tuple[float, float]]]
    for case, (image_size, channels, patch, width) in enumerate(SHAPES):
        worst = dict.fromkeys(points, 0.0)
        for repeat in range(repeats):
            generator = trial.generator(case, repeat)
            vit = _make_vit(image_size, channels, patch, width, generator)
            images = torch.randn(
                3, channels, image_size, image_size, generator=generator, dtype=torch.float64
            )
            weight, bias = vit.patches.weight, vit.patches.bias
            assert bias is not None
            embedded = vit.patches(images).flatten(2).mT  # (B, N, W)
            for order in points:
                flat = _flatten_patches(images, patch, channel_last=order == "channel last")
                linear = flat @ weight.flatten(1).mT + bias
                worst[order] = max(worst[order], float((linear - embedded).abs().max()))
        for order, error in worst.items():
            points[order].append((float(patch), max(error, 1e-17)))
    judged = points["channel last" if trial.control else "channel first"]
    return Evidence(
        Estimate(max(error for _, error in judged)),
        Lines(
            "pixels along a patch",
            "largest difference",
            [Series(f"flattened {order}", sorted(errors)) for order, errors in points.items()],
            y_log=True,
        ),
    )


def _make_vit(
    image_size: int, channels: int, patch: int, width: int, generator: torch.Generator
) -> ViT:
    vit = ViT(ViTConfig(2, image_size, channels, patch, width, layers=1, heads=2)).double()
    with torch.no_grad():
        for parameter in vit.patches.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return vit.requires_grad_(False)


def _flatten_patches(images: Tensor, patch: int, *, channel_last: bool) -> Tensor:
    """(B, C, height, width) -> (B, N, C p p), patches from left to right, then down: by slicing."""
    count = images.shape[-1] // patch
    patches = []
    for r in range(count):
        for s in range(count):
            pixels = images[..., r * patch : (r + 1) * patch, s * patch : (s + 1) * patch]
            patches.append((pixels.permute(0, 2, 3, 1) if channel_last else pixels).flatten(1))
    return torch.stack(patches, 1)


@claim(
    "convnet-small-data",
    topic="trained",
    source="paper",
    statement="on small image sets a ConvNet of equal size beats a ViT, and the gap shrinks with "
    "more data",
    why="""A convolution has two properties built in that attention must learn from examples: nearby
    pixels belong together, and an object looks the same at every position. With few images this
    makes the difference; with many it can be learned. Both models are trained on a few and on all
    of the handwritten digits, with equally many parameters, steps and images. Let g(n) be the
    accuracy of the ConvNet minus that of the ViT at n images. The smaller of g(few) and g(few) -
    g(all) must be above 0: the ConvNet is ahead, and its lead shrinks. With 1 x 1 kernels a ConvNet
    does not use neighborhoods, and has no lead. With few images the results vary much, so that the
    small size may be undecided.""",
    reference="Dosovitskiy et al. 2020, An image is worth 16x16 words, arXiv 2010.11929",
    judge=Above(
        0.0, "the smaller of the ConvNet's lead on 60 digits and the decrease of this lead on all"
    ),
    control="1 x 1 kernels in the ConvNet",
)
def convnet_small_data(trial: Trial) -> Evidence:
    seeds = [7 * trial.seed + number for number in range(trial.pick(4, 5))]
    sizes = trial.pick(
        (FEW_IMAGES, training_image_count()), (FEW_IMAGES, 300, training_image_count())
    )
    convnet = "pointwise" if trial.control else "convnet"
    accuracies = {
        name: [[digit_accuracy(model, trial.size, seed, n) for seed in seeds] for n in sizes]
        for name, model in (("ConvNet", convnet), ("ViT", "vit"))
    }
    leads = [
        [
            convnet_accuracy - vit_accuracy
            for convnet_accuracy, vit_accuracy in zip(*pairs, strict=True)
        ]
        for pairs in zip(accuracies["ConvNet"], accuracies["ViT"], strict=True)
    ]
    lines = []
    for name, values in accuracies.items():
        means = [mean_interval(measured) for measured in values]
        points = [(float(n), m.value) for n, m in zip(sizes, means, strict=True)]
        lines.append(Series(name, points, [m.ends for m in means]))
    models = [
        make_digit_model(model, DIGIT_TRAINING[trial.size], load_digits()[1].train)
        for model in ("convnet", "vit")
    ]
    return Evidence(
        mean_interval(
            [
                min(few_lead, few_lead - all_lead)
                for few_lead, all_lead in zip(leads[0], leads[-1], strict=True)
            ]
        ),
        Lines("training images", "accuracy on test digits", lines, x_log=True),
        details={
            f"lead on {sizes[0]} digits": round(mean_interval(leads[0]).value, 3),
            f"lead on {sizes[-1]} digits": round(mean_interval(leads[-1]).value, 3),
            "parameters, ConvNet": models[0].parameter_count(),
            "parameters, ViT": models[1].parameter_count(),
            "seeds": len(seeds),
        },
    )
