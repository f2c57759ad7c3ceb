"""How models are taught for the claims about images."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnlab.claims._digit_models import BATCH, LESSONS, digits, make, teach
from attnlab.models import ConvNet
from attnlab.tasks.vision._dataset import take_fraction
from attnlab.tasks.vision._task import VisionTask


@pytest.mark.parametrize("images", [60, 150])
@pytest.mark.parametrize("model", ["vit", "convnet", "pointwise"])
def test_every_step_has_as_many_images(
    model: str, images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer than a batch are repeated, and no epoch ends in a smaller one."""
    seen: list[int] = []
    before = VisionTask.loss

    def loss(task: VisionTask, forward: Any, batch: Any) -> torch.Tensor:
        seen.append(len(batch["target"]))
        return before(task, forward, batch)

    monkeypatch.setattr(VisionTask, "loss", loss)
    _, parts = digits()
    learned = take_fraction(parts.train, images / len(parts.train), 3)
    torch.manual_seed(3)
    made = make(model, LESSONS["small"], learned)
    start = {name: p.detach().clone() for name, p in made.named_parameters()}
    teach(made, learned, 5, 3)
    assert seen == [BATCH] * 5
    assert all(not torch.equal(start[name], p) for name, p in made.named_parameters())
    assert isinstance(made, ConvNet) == (model != "vit")


def test_pointwise_has_no_neighborhoods() -> None:
    """Only the halving, which is 2 x 2, brings pixels together."""
    _, parts = digits()
    sizes = {
        layer.kernel_size
        for layer in make("pointwise", LESSONS["small"], parts.train).modules()
        if isinstance(layer, torch.nn.Conv2d)
    }
    assert sizes == {(1, 1), (2, 2)}
