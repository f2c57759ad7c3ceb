"""Real models: captures with fused attention equal eager attention."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from tests.support.real_models import load_minilm, load_smollm2

TEXTS = (
    ("I was going to play at the park.", "I was going to a play in the park."),
    ("I wanted to have a party", "I bought a cake for it."),
)
STORY = "Jaime Salazar is running for election. Despite his party affiliation, Mr."


def eager_attentions(model: Any, batch: Any) -> list[Tensor]:
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            return list(model(**batch, output_attentions=True).attentions)
    finally:
        model.set_attn_implementation("sdpa")


def check(model: Any, batch: Any, row: int) -> Any:
    expected = eager_attentions(model, batch)
    assert model.config._attn_implementation == "sdpa"
    with torch.no_grad():
        plain = model(**batch)
        with attnlab.capture(model, qkv=True, row=row) as captured:
            output = model(**batch)
    assert torch.equal(plain[0], output[0])
    assert len(captured.layers) == len(expected)
    for layer, weights in zip(captured.layers, expected, strict=True):
        assert layer.weights is not None
        assert torch.allclose(layer.weights, weights[row], atol=1e-5)
    assert captured.difference is not None
    assert captured.difference < 1e-4
    assert captured.notes == []
    return captured


def test_sentence_encoder() -> None:
    model, tokenizer = load_minilm()
    assert type(model).__name__ == "BertModel"
    batch = tokenizer(*zip(*TEXTS, strict=True), return_tensors="pt", padding=True)
    real = batch["attention_mask"].bool()
    assert not bool(real.all())
    for row in (0, 1):
        captured = check(model, batch, row)
        assert [layer.name for layer in captured.layers] == [
            f"encoder.layer.{i}.attention.self" for i in range(6)
        ]
        for layer in captured.layers:
            assert (layer.stack, layer.kind, layer.causal) == ("encoder", "self", False)
            assert layer.scale == pytest.approx(1 / math.sqrt(32))
            assert (layer.allowed is None) == bool(real[row].all())
            if layer.allowed is not None:
                assert torch.equal(layer.allowed, real[row].expand_as(layer.allowed))


def test_language_model_with_grouped_keys() -> None:
    model, tokenizer = load_smollm2()
    assert type(model).__name__ == "LlamaForCausalLM"
    batch = tokenizer(STORY, return_tensors="pt")
    T = batch["input_ids"].shape[1]
    captured = check(model, batch, 0)
    assert len(captured.layers) == 30
    for layer in captured.layers:
        assert (layer.stack, layer.kind, layer.causal) == ("decoder", "self", True)
        assert (layer.all_heads, layer.groups) == (9, [0, 0, 0, 1, 1, 1, 2, 2, 2])
        assert layer.k is not None
        assert layer.k.shape == (3, T, 64)
        assert layer.allowed is captured.layers[0].allowed
    assert torch.equal(captured.layers[0].allowed, torch.ones(T, T).tril().bool())


def test_generation_equals_one_forward() -> None:
    """Token by token with a cache, and all at once."""
    model, tokenizer = load_smollm2()
    batch = tokenizer("The dog sitting in the car", return_tensors="pt")
    with attnlab.capture(model, layers=[0, 12, 29], heads=[8, 1]) as captured:
        text = model.generate(**batch, max_new_tokens=6, do_sample=False)
    with torch.no_grad(), attnlab.capture(model, layers=[0, 12, 29], heads=[8, 1]) as whole:
        model(text[:, :-1])
    for layer, other in zip(captured.layers, whole.layers, strict=True):
        assert layer.weights is not None
        assert other.weights is not None
        assert layer.weights.shape == (2, 11, 11)
        assert torch.allclose(layer.weights, other.weights, atol=1e-5)
    assert captured.notes == []


def test_gradients_of_a_real_model() -> None:
    model, tokenizer = load_minilm()
    batch = tokenizer("I am not sad", return_tensors="pt")
    with attnlab.capture(model, gradients=True) as captured:
        model(**batch).last_hidden_state[0, 0, 5].backward()
    model.zero_grad(set_to_none=True)
    model.set_attn_implementation("eager")
    try:
        out = model(**batch, output_attentions=True)
        for weights in out.attentions:
            weights.retain_grad()
        out.last_hidden_state[0, 0, 5].backward()
    finally:
        model.set_attn_implementation("sdpa")
        model.zero_grad(set_to_none=True)
    for layer, weights in zip(captured.layers, out.attentions, strict=True):
        assert layer.gradient is not None
        size = float(weights.grad.abs().max())
        assert float((layer.gradient - weights.grad[0]).abs().max()) < 1e-4 * size
