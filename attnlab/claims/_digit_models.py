"""Small models taught on the handwritten digits that come with attnlab, for claims about images."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from attnlab.claims._claim import Size
from attnlab.models import Model
from attnlab.tasks.vision._augmentation import Augmentation
from attnlab.tasks.vision._dataset import Dataset, Images, Parts, split_dataset, take_fraction
from attnlab.tasks.vision._open_data import open_data
from attnlab.tasks.vision._task import VisionTask, compute_logits
from attnlab.tasks.vision._training import TRAINING, make_model
from attnlab.training import Run, train

BATCH = 64
QUICK: dict[str, dict[str, Any]] = {
    "vit": {"learning_rate": 4e-3, "muon_learning_rate": 0.04},
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
def digits() -> tuple[Dataset, Parts]:
    dataset = open_data()
    return dataset, split_dataset(dataset)


@lru_cache(maxsize=256)
def accuracy(model: str, size: Size, seed: int, images: int, position: str = "learned") -> float:
    """Share of the test digits that are named rightly; kept, because a control asks again.

    `model`: vit, convnet, or pointwise: a ConvNet whose 3 x 3 kernels are 1 x 1. `images`: of the
    training digits, about as many of each.
    """
    _, parts = digits()
    lesson = LESSONS[size]
    learned = take_fraction(parts.train, images / len(parts.train), seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = make(model, lesson, learned, position)
        teach(made, learned, lesson.steps, seed)
    said = compute_logits(made.eval(), parts.test.pixels).argmax(-1)
    return float((said == parts.test.labels).double().mean())


def everything() -> int:
    """How many digits there are to train on."""
    return len(digits()[1].train)


def make(model: str, lesson: Lesson, learned: Images, position: str = "learned") -> Model:
    """A ViT, or a ConvNet of as many parameters."""
    dataset, _ = digits()
    sizes = {"width": lesson.width, "layers": lesson.layers, "position": position}
    vit = make_model("vit", dataset, learned, "softmax", sizes)
    if model == "vit":
        return vit
    blocks = {"stages": 2, "blocks": 1}
    net = make_model("convnet", dataset, learned, "softmax", blocks, vit.parameter_count())
    return net if model == "convnet" else _pointwise(net)


def _pointwise(net: Model) -> Model:
    """Without neighborhoods: only the halving of the image brings pixels together."""
    for parent in list(net.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, nn.Conv2d) and layer.kernel_size == (3, 3):
                bias = layer.bias is not None
                setattr(
                    parent, name, nn.Conv2d(layer.in_channels, layer.out_channels, 1, bias=bias)
                )
    return net


def teach(model: Model, learned: Images, steps: int, seed: int) -> None:
    """The usual settings; what is validated on at the end decides nothing."""
    settings = replace(
        TRAINING[model.kind], **QUICK[model.kind], steps=steps, batch_size=BATCH,
        warmup_steps=steps // 10, seed=seed, keep_best=False, save_every=steps + 1, device="cpu",
    )  # fmt: skip
    task = VisionTask(learned, learned, augmentation=Augmentation(), seed=seed, batch=BATCH)
    with tempfile.TemporaryDirectory() as folder:
        train(task, model, settings, Run(folder), quiet=True)
