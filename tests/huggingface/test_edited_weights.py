"""Gradients through `intervene(...).weights` of Hugging Face models."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab.huggingface import register
from tests.support.small_transformers import inputs, small

register()


def gradients(model: Any, batch: dict[str, Tensor], context: Any) -> dict[str, Tensor]:
    model.zero_grad()
    with context:
        model(**batch).logits.square().mean().backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("implementation", ["sdpa", "eager", "attnlab-softmax"])
@pytest.mark.parametrize("name", ["llama", "t5"])
def test_an_edit_that_changes_nothing_keeps_the_gradients(name: str, implementation: str) -> None:
    """Queries and keys had none, and several heads in one layer were an error."""
    model, batch = small(name, implementation), inputs(name)
    intervention = attnlab.intervene(model)
    for layer in range(len(intervention.sites)):
        intervention = intervention.weights(layer, None, lambda A: A)
    expected = gradients(model, batch, nullcontext())
    edited = gradients(model, batch, intervention)
    assert expected.keys() == edited.keys()
    for parameter, gradient in expected.items():
        torch.testing.assert_close(
            edited[parameter], gradient, rtol=1e-3, atol=1e-4 * float(gradient.abs().amax()),
            msg=parameter,
        )  # fmt: skip


def test_edits_after_each_other_have_gradients() -> None:
    model, batch = small("llama"), inputs("llama")

    def half(A: Tensor) -> Tensor:
        return A / 2

    once = attnlab.intervene(model).weights(1, [0, 2, 3], lambda A: A / 4)
    twice = attnlab.intervene(model).weights(1, [0, 2, 3], half).weights(1, [0, 2, 3], half)
    expected, edited = gradients(model, batch, once), gradients(model, batch, twice)
    for parameter, gradient in expected.items():
        torch.testing.assert_close(edited[parameter], gradient, rtol=1e-4, atol=1e-6)
