"""Trains small models on the handwritten digits of attnlab, for claims about images."""

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

BATCH_SIZE = 64
FAST_LEARNING_RATES: dict[str, dict[str, Any]] = {
    "vit": {"learning_rate": 4e-3, "muon_learning_rate": 0.04},
    "convnet": {},
}  # chosen by trial, because there are few steps


@dataclass(frozen=True)
class DigitTraining:
    """Size of a model and number of training steps. All models see equally many images."""

    width: int
    layers: int
    steps: int


DIGIT_TRAINING: dict[Size, DigitTraining] = {
    "small": DigitTraining(32, 2, 80),
    "full": DigitTraining(32, 2, 250),
}


@lru_cache(maxsize=1)
def load_digits() -> tuple[Dataset, Parts]:
    dataset = open_data()
    return dataset, split_dataset(dataset)


@lru_cache(maxsize=256)
def digit_accuracy(
    model: str, size: Size, seed: int, images: int, position: str = "learned"
) -> float:
    """Train a model and return its accuracy on the test digits. Cached, because controls reuse it.

    `model` is "vit", "convnet" or "pointwise": a ConvNet with 1 x 1 instead of 3 x 3 kernels.
    `images` is the number of training digits, about equally many of each class.
    """
    _, parts = load_digits()
    training = DIGIT_TRAINING[size]
    train_images = take_fraction(parts.train, images / len(parts.train), seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = make_digit_model(model, training, train_images, position)
        train_digit_model(network, train_images, training.steps, seed)
    predictions = compute_logits(network.eval(), parts.test.pixels).argmax(-1)
    return float((predictions == parts.test.labels).double().mean())


def training_image_count() -> int:
    """How many training digits there are."""
    return len(load_digits()[1].train)


def make_digit_model(
    model: str, training: DigitTraining, train_images: Images, position: str = "learned"
) -> Model:
    """A ViT, or a ConvNet with the same number of parameters."""
    dataset, _ = load_digits()
    sizes = {"width": training.width, "layers": training.layers, "position": position}
    vit = make_model("vit", dataset, train_images, "softmax", sizes)
    if model == "vit":
        return vit
    blocks = {"stages": 2, "blocks": 1}
    convnet = make_model("convnet", dataset, train_images, "softmax", blocks, vit.parameter_count())
    return convnet if model == "convnet" else _make_pointwise(convnet)


def _make_pointwise(convnet: Model) -> Model:
    """Replaces 3 x 3 kernels by 1 x 1, so that only downsampling combines neighboring pixels."""
    for parent in list(convnet.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, nn.Conv2d) and layer.kernel_size == (3, 3):
                bias = layer.bias is not None
                setattr(
                    parent, name, nn.Conv2d(layer.in_channels, layer.out_channels, 1, bias=bias)
                )
    return convnet


def train_digit_model(model: Model, train_images: Images, steps: int, seed: int) -> None:
    """Trains with the usual settings. Validation uses the training images and decides nothing."""
    settings = replace(
        TRAINING[model.kind], **FAST_LEARNING_RATES[model.kind], steps=steps, batch_size=BATCH_SIZE,
        warmup_steps=steps // 10, seed=seed, keep_best=False, save_every=steps + 1, device="cpu",
    )  # fmt: skip
    task = VisionTask(
        train_images, train_images, augmentation=Augmentation(), seed=seed, batch=BATCH_SIZE
    )
    with tempfile.TemporaryDirectory() as folder:
        train(task, model, settings, Run(folder), quiet=True)
