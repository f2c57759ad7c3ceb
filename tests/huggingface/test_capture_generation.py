"""Hugging Face models that generate token by token: every kind of cache gives one matrix."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab.huggingface._query_positions import PositionTracker
from attnlab.interpret._records import Layer
from tests.support.small_transformers import inputs, small, visible

NEW_TOKENS = 6


def generate(model: Any, batch: dict[str, Tensor], **options: Any) -> Tensor:
    return model.generate(**batch, max_new_tokens=NEW_TOKENS, do_sample=False, **options)


def whole_text_inputs(model: Any, batch: dict[str, Tensor], text: Tensor) -> dict[str, Tensor]:
    """The inputs for one forward over the generated text."""
    if model.config.is_encoder_decoder:
        return {**batch, "decoder_input_ids": text[:, :-1]}
    mask = batch["attention_mask"]
    mask = torch.cat([mask, mask.new_ones(len(mask), NEW_TOKENS - 1)], dim=1)
    # generate counts positions from the first token that is not padding
    position = (mask.cumsum(1) - 1).clamp(min=0)
    whole = {"input_ids": text[:, :-1], "attention_mask": mask}
    if model.config.model_type in ("bloom", "falcon"):
        return whole
    return whole | {"position_ids": position}


def check_same(layer: Layer, whole: Layer) -> None:
    assert layer.weights is not None
    assert whole.weights is not None
    assert layer.weights.shape == whole.weights.shape
    queries = visible(whole)
    assert torch.allclose(layer.weights[:, queries], whole.weights[:, queries], atol=2e-5)
    for one, other in ((layer.q, whole.q), (layer.k, whole.k), (layer.v, whole.v)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.shape == other.shape
            assert torch.allclose(one[:, 2:], other[:, 2:], atol=1e-4)  # the first two are padding
    assert (layer.allowed is None) == (whole.allowed is None)
    if layer.allowed is not None and whole.allowed is not None:
        assert torch.equal(layer.allowed, whole.allowed)
    if layer.bias is not None and whole.bias is not None:
        allowed = True if whole.allowed is None else whole.allowed
        assert torch.allclose(layer.bias * allowed, whole.bias * allowed)
    assert (layer.name, layer.stack, layer.kind) == (whole.name, whole.stack, whole.kind)
    assert (layer.causal, layer.start) == (whole.causal, 0)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "gemma3", "t5", "bart", "gpt_oss"])
def test_generation_is_joined(name: str, cache: str) -> None:
    """Also if a sliding cache drops the oldest keys, and if a static cache has free slots."""
    model, batch = small(name), inputs(name)
    batch.pop("decoder_input_ids", None)
    plain = generate(model, batch, cache_implementation=cache)
    for row in (0, 2):
        with attnlab.capture(model, qkv=True, row=row) as captured:
            text = generate(model, batch, cache_implementation=cache)
        assert torch.equal(plain, text)
        with torch.no_grad(), attnlab.capture(model, qkv=True, row=row) as whole:
            model(**whole_text_inputs(model, batch, text))
        assert len(captured.layers) == len(whole.layers)
        for layer, other in zip(captured.layers, whole.layers, strict=True):
            check_same(layer, other)
        assert captured.notes == []
        assert captured.difference is not None
        assert captured.difference < 1e-4


def test_custom_generation_loop() -> None:
    """A prompt, two tokens at once, one token; and without a cache, the last text."""
    model, ids = small("llama"), inputs("llama")["input_ids"][:1]
    with torch.no_grad():
        with attnlab.capture(model, qkv=True) as whole:
            model(ids)
        with attnlab.capture(model, qkv=True) as captured:
            cache = model(ids[:, :4], use_cache=True).past_key_values
            model(ids[:, 4:6], past_key_values=cache)
            model(ids[:, 6:], past_key_values=cache)
        with attnlab.capture(model, qkv=True) as again:
            model(ids[:, :3])
            model(ids)
    for layer, other in zip(captured.layers, whole.layers, strict=True):
        check_same(layer, other)
    assert again.notes == ["The model read 2 inputs; only the last one was captured."]
    for layer, other in zip(again.layers, whole.layers, strict=True):
        check_same(layer, other)


def test_cache_from_before_the_capture() -> None:
    """The tokens before the capture are only keys, and `start` says so."""
    model, ids = small("llama"), inputs("llama")["input_ids"][:1]
    with torch.no_grad():
        with attnlab.capture(model) as whole:
            model(ids)
        cache = model(ids[:, :4], use_cache=True).past_key_values
        with attnlab.capture(model) as captured:
            model(ids[:, 4:6], past_key_values=cache)
            model(ids[:, 6:], past_key_values=cache)
    for layer, other in zip(captured.layers, whole.layers, strict=True):
        assert layer.start == 4
        assert layer.weights is not None
        assert other.weights is not None
        assert torch.allclose(layer.weights, other.weights[:, 4:], atol=1e-5)


def test_beams_are_skipped() -> None:
    model, batch = small("llama"), inputs("llama")
    with attnlab.capture(model) as captured:
        generate(model, batch, num_beams=3)
    (note,) = captured.notes
    assert "beam" in note
    for layer in captured.layers:
        assert layer.weights is not None
        assert 7 <= layer.weights.shape[1] < 7 + NEW_TOKENS - 1
        assert layer.weights.shape[1] == layer.weights.shape[2]


def test_second_text_replaces_the_first() -> None:
    """In the encoder, the decoder and the cross-attention."""
    model, batch = small("bart"), inputs("bart")
    batch.pop("decoder_input_ids")
    with attnlab.capture(model, qkv=True) as captured:
        generate(model, {name: x[:, :5] for name, x in batch.items()})
        text = generate(model, batch)
    with torch.no_grad(), attnlab.capture(model, qkv=True) as whole:
        model(**whole_text_inputs(model, batch, text))
    for layer, other in zip(captured.layers, whole.layers, strict=True):
        check_same(layer, other)
    assert captured.notes == ["The model read 2 inputs; only the last one was captured."]


def test_positions_by_hand() -> None:
    """Positions of the first query and key of each call, by lengths alone."""
    tracker = PositionTracker()
    assert tracker.advance("a", "decoder", "self", 5, 5) == (0, 0)  # a prompt
    assert tracker.advance("c", "decoder", "cross", 5, 9) == (0, 0)
    assert tracker.advance("a", "decoder", "self", 1, 6) == (5, 0)  # a token after it
    assert tracker.advance("c", "decoder", "cross", 1, 9) == (5, 0)
    assert tracker.advance("a", "decoder", "self", 1, 4) == (6, 3)  # a sliding cache of 4
    assert tracker.advance("a", "decoder", "self", 2, 5) == (7, 4)
    assert tracker.advance("b", "decoder", "self", 1, 8) == (7, 0)  # a cache from before
    assert tracker.advance("a", "decoder", "self", 3, 3) == (0, 0)  # another text
    assert tracker.advance("c", "decoder", "cross", 3, 9) == (0, 0)
