"""Small models taught on the handwritten digits that come with attnlab, for claims about images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from attnlab.claims.base import Size
from attnlab.models import ConvNet, ConvNetConfig, Model, ViT, ViTConfig
from attnlab.models.vision import matched_convnet
from attnlab.tasks.vision.augment import Augmentation
from attnlab.tasks.vision.images import Images, Parts, divided, fraction
from attnlab.tasks.vision.opening import open_data
from attnlab.tasks.vision.recipe import TRAINING, scale_of
from attnlab.tasks.vision.task import VisionTask, logits_of
from attnlab.training import Loader
from attnlab.training.optimisers import make_optimisers, rate_at, set_rate

BATCH = 32


@dataclass(frozen=True)
class Lesson:
    """How large a model, and how long it learns: every one sees as many images."""

    width: int
    layers: int
    steps: int


LESSONS: dict[Size, Lesson] = {"small": Lesson(32, 2, 100), "full": Lesson(48, 3, 400)}


@lru_cache(maxsize=1)
def digits() -> Parts:
    return divided(open_data())


@lru_cache(maxsize=256)
def accuracy(
    model: str, size: Size, seed: int, *, images: int, position: str, shuffled: bool = False
) -> float:
    """Share of the test digits that are named rightly; kept, because a control asks again.

    `images`: of the training digits, about as many of each; `shuffled`: the pixels of all images
    in another order, one for all, so that near pixels are near no more.
    """
    parts = digits()
    train = fraction(parts.train, images / len(parts.train), seed)
    order = _order(train.pixels[0].numel(), seed) if shuffled else None
    train, test = _shuffled(train, order), _shuffled(parts.test, order)
    lesson = LESSONS[size]
    torch.manual_seed(seed)
    taught = _taught(make(model, lesson, train, position), model, train, lesson.steps, seed)
    said = logits_of(taught, test.pixels).argmax(-1)
    return float((said == test.labels).double().mean())


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
    found: ConvNetConfig = matched_convnet(count, 10, 1, stages=2, blocks=1)
    return ConvNet(replace(found, mean=mean, deviation=deviation))


def _taught(model: Model, kind: str, train: Images, steps: int, seed: int) -> nn.Module:
    """The usual settings, without a run folder."""
    settings = replace(TRAINING[kind], steps=steps, batch_rows=BATCH, warmup=steps // 10, seed=seed)
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


def _order(pixels: int, seed: int) -> Tensor:
    return torch.randperm(pixels, generator=torch.Generator().manual_seed(seed))


def _shuffled(images: Images, order: Tensor | None) -> Images:
    if order is None:
        return images
    return Images(images.pixels.flatten(1)[:, order].view_as(images.pixels), images.labels)
