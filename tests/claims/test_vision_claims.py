"""Training of the models for the claims about images."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnlab.claims._digit_models import (
    BATCH_SIZE,
    DIGIT_TRAINING,
    load_digits,
    make_digit_model,
    train_digit_model,
)
from attnlab.models import ConvNet
from attnlab.tasks.vision._dataset import take_fraction
from attnlab.tasks.vision._task import VisionTask


@pytest.mark.parametrize("images", [60, 150])
@pytest.mark.parametrize("model", ["vit", "convnet", "pointwise"])
def test_every_step_has_a_full_batch(
    model: str, images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer images than a batch are repeated, and no epoch ends with a smaller batch."""
    batch_sizes: list[int] = []
    original = VisionTask.loss

    def loss(task: VisionTask, forward: Any, batch: Any) -> torch.Tensor:
        batch_sizes.append(len(batch["target"]))
        return original(task, forward, batch)

    monkeypatch.setattr(VisionTask, "loss", loss)
    _, parts = load_digits()
    train_images = take_fraction(parts.train, images / len(parts.train), 3)
    torch.manual_seed(3)
    network = make_digit_model(model, DIGIT_TRAINING["small"], train_images)
    start = {name: p.detach().clone() for name, p in network.named_parameters()}
    train_digit_model(network, train_images, 5, 3)
    assert batch_sizes == [BATCH_SIZE] * 5
    assert all(not torch.equal(start[name], p) for name, p in network.named_parameters())
    assert isinstance(network, ConvNet) == (model != "vit")


def test_pointwise_convnet_has_no_3x3_kernels() -> None:
    """Only downsampling, which is 2 x 2, combines pixels."""
    _, parts = load_digits()
    sizes = {
        layer.kernel_size
        for layer in make_digit_model("pointwise", DIGIT_TRAINING["small"], parts.train).modules()
        if isinstance(layer, torch.nn.Conv2d)
    }
    assert sizes == {(1, 1), (2, 2)}
