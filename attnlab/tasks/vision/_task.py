"""Image classification: learn to predict the class of an image.

Letters: B batch, C channels, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from attnlab.models import Model
from attnlab.tasks.vision._augmentation import Augmentation, augment, mix_images
from attnlab.tasks.vision._dataset import Images
from attnlab.tasks.vision.kind import VISION
from attnlab.training._batches import Batch, Forward, TrainingTask, mix_seeds

EVALUATION_BATCH = 500  # images


class VisionTask(TrainingTask):
    """Rows are images. Every epoch augments them again.

    Every step has exactly `batch` images: an epoch leaves out the few images that would make a
    last, smaller batch (other ones each time), and repeats images if there are fewer than a batch.
    So equal steps are equal numbers of images, whatever the size of the data set.
    """

    name, headline, better = VISION.name, VISION.headline, VISION.better
    unit = "images"

    def __init__(
        self,
        train: Images,
        validation: Images,
        *,
        augmentation: Augmentation,
        smoothing: float = 0.0,
        seed: int = 0,
        batch: int = 1,
        about: dict[str, Any] | None = None,
    ) -> None:
        if not 0 <= smoothing < 1:
            raise ValueError(f"label smoothing is {smoothing}; give a fraction from 0 to below 1")
        self.train, self.validation = train, validation
        self.augmentation, self.smoothing, self.seed = augmentation, smoothing, seed
        self.about = about or {}
        self.rows = batch * max(1, len(train) // batch)
        self._flops: float | None = None
        self._order: tuple[int, Tensor] | None = None

    def describe(self) -> dict[str, Any]:
        return self.about

    @cached_property
    def _lengths(self) -> list[int]:
        return [1] * self.rows

    def lengths(self, epoch: int) -> list[int]:
        del epoch
        return self._lengths

    def order(self, epoch: int) -> Tensor:
        """The index of the image at each row of this epoch."""
        if self._order is None or self._order[0] != epoch:
            random = torch.Generator().manual_seed(mix_seeds(self.seed, epoch, -1))
            shuffled = torch.randperm(len(self.train), generator=random)
            self._order = epoch, shuffled[torch.arange(self.rows) % len(self.train)]
        return self._order[1]

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        indices = self.order(epoch)[list(rows)]
        images, target = to_float(self.train.pixels[indices]), self.train.labels[indices]
        random = torch.Generator().manual_seed(mix_seeds(self.seed, epoch, rows[0]))
        images = augment(images, self.augmentation, random)
        batch = {"keys": torch.ones(len(rows), 1, dtype=torch.bool), "target": target}
        if self.augmentation.mixup:
            images, order, weight = mix_images(images, self.augmentation.mixup, random)
            batch |= {"other": target[order], "weight": weight}
        return {"images": images, **batch}

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        logits = forward(batch["images"]).float()  # (B, K)
        loss = self._entropy(logits, batch["target"])
        if "weight" in batch:
            weight = batch["weight"]
            loss = weight * loss + (1 - weight) * self._entropy(logits, batch["other"])
        return loss.sum()

    def _entropy(self, logits: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(logits, target, label_smoothing=self.smoothing, reduction="none")

    def targets(self, batch: Batch) -> int:
        return len(batch["target"])

    def flops(self, model: Model, batch: Batch) -> float:
        """Floating-point operations of a step, counted by torch on one image. The backward pass
        costs twice as much as the forward pass."""
        if self._flops is None:
            counter = FlopCounterMode(display=False)
            with counter:
                model(batch["images"][:1].to(next(model.parameters()).device))
            self._flops = 3.0 * counter.get_total_flops()
        return self._flops * len(batch["target"])

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        logits = compute_logits(model, self.validation.pixels)
        labels = self.validation.labels
        loss = float(F.cross_entropy(logits, labels))
        return {"accuracy": float((logits.argmax(-1) == labels).float().mean()), "loss": loss}


def to_float(pixels: Tensor) -> Tensor:
    """Bytes as numbers from 0 to 1. The models normalize them."""
    return pixels.float() / 255


@torch.no_grad()
def compute_logits(model: nn.Module, pixels: Tensor) -> Tensor:
    """(N, C, size, size) uint8 -> (N, K) float32 on the CPU."""
    device = next(model.parameters()).device
    parts = [model(to_float(part).to(device)) for part in pixels.split(EVALUATION_BATCH)]
    return torch.cat(parts).float().cpu()
