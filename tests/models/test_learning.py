"""Every mechanism learns to copy in a decoder, generates what whole forward passes predict, and is
captured with its real matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab import MECHANISMS, Mechanism
from attnlab.generate import generate
from attnlab.models import Decoder, StackConfig
from attnlab.training import Run, Settings, train
from tests.support.small_training import BASE, MASK, VOCABULARY, Tiny

LENGTH = 5  # tokens to copy
# Patterns that hide keys, but not the one to copy, which is LENGTH tokens before.
OPTIONS = {
    "window": "window:window=6,sinks=1",
    "bigbird": "bigbird:block=1,window_blocks=11,random_blocks=0",
    "hedgehog_window": "hedgehog_window:window=2",
    "favor": "favor:features=32",
}
CANNOT = {
    "fourier": "denominators near zero: whether training succeeds depends on the learning rate"
}
SETTINGS = {**BASE, "steps": 400, "learning_rate": 4e-3}


class CopyText(Tiny):
    """a b c d e MASK a b c d e: the second half is predicted."""

    name = "copy text"

    def length(self, row: int) -> int:
        del row
        return 2 * LENGTH

    def make_row(self, generator: torch.Generator, row: int) -> dict[str, Tensor]:
        del row
        text = torch.randint(2, VOCABULARY, (LENGTH,), generator=generator)
        whole = torch.cat([text, torch.tensor([MASK]), text])
        target = whole[1:].clone()
        target[:LENGTH] = -100
        return {"ids": whole[:-1], "target": target, "keys": torch.ones(2 * LENGTH)}


def trained(name: str, folder: Path) -> tuple[CopyText, Any, float]:
    torch.manual_seed(0)
    attention = OPTIONS.get(name, name)
    sizes: dict[str, Any] = {"vocabulary": VOCABULARY, "context": 12, "width": 48}
    model = Decoder(StackConfig(**sizes, layers=2, heads=4, attention=attention))
    task, settings = CopyText(), Settings(**SETTINGS)
    metrics = train(task, model, settings, Run(folder), quiet=True)
    return task, model.eval(), metrics["accuracy"]


def check_generation(model: Any, prompts: Tensor) -> None:
    """`generate` chooses the tokens that whole forward passes predict."""
    text = prompts
    with torch.no_grad():
        for _ in range(LENGTH):
            text = torch.cat([text, model(text)[:, -1:].argmax(-1)], dim=1)
    generated = generate(model, prompts.tolist(), new_tokens=LENGTH)
    assert [samples[0].ids for samples in generated] == text[:, LENGTH + 1 :].tolist()


def check_capture(model: Any, ids: Tensor) -> None:
    calls: list[tuple[Any, ...]] = []
    hooks = [
        module.register_forward_hook(lambda *call: calls.append(call), with_kwargs=True)
        for module in model.modules()
        if isinstance(module, Mechanism)
    ]
    with torch.no_grad(), attnlab.capture(model) as captured:
        model(ids)
    for hook in hooks:
        hook.remove()
    assert len(captured.layers) == len(calls) == 2
    for layer, (mechanism, (q, k, v, mask), gates, out) in zip(captured.layers, calls, strict=True):
        with torch.no_grad():
            weights = mechanism.weights(q, k, mask, **gates)
        assert layer.weights is not None
        assert torch.allclose(layer.weights, weights[0], atol=1e-5)
        assert torch.allclose(weights @ v, out, atol=1e-4 * float(1 + out.abs().max()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, kind in MECHANISMS.items() if kind.card.causal and name not in CANNOT]
)
def test_learns_to_copy(name: str, tmp_path: Path) -> None:
    task, model, accuracy = trained(name, tmp_path)
    assert accuracy > 0.99
    ids = task.collate(range(7), -1)["ids"]
    check_generation(model, ids[:, : LENGTH + 1])
    check_capture(model, ids[:1])
