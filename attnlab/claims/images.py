"""Small models taught on the handwritten digits that come with attnlab, for claims about images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from attnlab.claims.base import Size
from attnlab.models import ConvNet, Model, ViT, ViTConfig
from attnlab.models.vision import matched_convnet
from attnlab.tasks.vision.augment import Augmentation
from attnlab.tasks.vision.images import Images, Parts, divided, fraction
from attnlab.tasks.vision.opening import open_data
from attnlab.tasks.vision.recipe import TRAINING, scale_of
from attnlab.tasks.vision.task import VisionTask, logits_of
from attnlab.training import Loader
from attnlab.training.optimisers import make_optimisers, rate_at, set_rate

BATCH = 64
QUICK: dict[str, dict[str, Any]] = {
    "vit": {"rate": 4e-3, "muon_rate": 0.04},
    "convnet": {},
}  # found by trial: steps are few


@dataclass(frozen=True)
class Lesson:
    """How large a model, and how long it learns: every one sees as many images."""

    width: int
    layers: int
    steps: int


LESSONS: dict[Size, Lesson] = {"small": Lesson(32, 2, 80), "full": Lesson(32, 2, 250)}


@lru_cache(maxsize=1)
def digits() -> Parts:
    return divided(open_data())


@lru_cache(maxsize=256)
def accuracy(model: str, size: Size, seed: int, images: int, position: str = "learned") -> float:
    """Share of the test digits that are named rightly; kept, because a control asks again.

    `model`: vit, convnet, or pointwise: a ConvNet whose 3 x 3 kernels are 1 x 1. `images`: of the
    training digits, about as many of each.
    """
    parts, lesson = digits(), LESSONS[size]
    train = fraction(parts.train, images / len(parts.train), seed)
    torch.manual_seed(seed)
    made = make(model, lesson, train, position)
    said = logits_of(_taught(made, train, lesson.steps, seed), parts.test.pixels).argmax(-1)
    return float((said == parts.test.labels).double().mean())


def everything() -> int:
    """How many digits there are to train on."""
    return len(digits().train)


def make(model: str, lesson: Lesson, train: Images, position: str = "learned") -> Model:
    """A ViT, or a ConvNet of as many parameters."""
    mean, deviation = scale_of(train)
    vit = ViTConfig(
        10, 8, 1, 2, lesson.width, lesson.layers, 4, position=position, mean=mean,
        deviation=deviation,
    )  # fmt: skip
    if model == "vit":
        return ViT(vit)
    with torch.device("meta"):
        count = ViT(vit).parameter_count()
    found = replace(matched_convnet(count, 10, 1, stages=2, blocks=1), mean=mean)
    net = ConvNet(replace(found, deviation=deviation))
    return net if model == "convnet" else _pointwise(net)


def _pointwise(net: ConvNet) -> ConvNet:
    """Without neighbourhoods: only the halving of the image brings pixels together."""
    for parent in list(net.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, nn.Conv2d) and layer.kernel_size == (3, 3):
                bias = layer.bias is not None
                setattr(
                    parent, name, nn.Conv2d(layer.in_channels, layer.out_channels, 1, bias=bias)
                )
    return net


def _taught(model: Model, train: Images, steps: int, seed: int) -> nn.Module:
    """The usual settings, without a run folder."""
    usual = replace(TRAINING[model.kind], **QUICK[model.kind])
    settings = replace(usual, steps=steps, batch_rows=BATCH, warmup=steps // 10, seed=seed)
    task = VisionTask(train, train, augmentation=Augmentation(), seed=seed)
    loader, optimisers = Loader(task, settings), make_optimisers(model, settings)
    model.train()
    for step in range(steps):
        set_rate(optimisers, rate_at(step, settings))
        batch, _ = loader.next()
        (task.loss(model, batch) / task.targets(batch)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip or torch.inf)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
    return model.eval()
