"""Hugging Face models that write token by token: every kind of cache gives one matrix."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab.huggingface._query_positions import Positions
from attnlab.interpret._records import Layer
from tests.support.small_transformers import inputs, small, visible

NEW = 6


def write(model: Any, given: dict[str, Tensor], **options: Any) -> Tensor:
    return model.generate(**given, max_new_tokens=NEW, do_sample=False, **options)


def at_once(model: Any, given: dict[str, Tensor], text: Tensor) -> dict[str, Tensor]:
    """What one forward over the finished text is given."""
    if model.config.is_encoder_decoder:
        return {**given, "decoder_input_ids": text[:, :-1]}
    mask = given["attention_mask"]
    mask = torch.cat([mask, mask.new_ones(len(mask), NEW - 1)], dim=1)
    # generate counts positions from the first real token on
    position = (mask.cumsum(1) - 1).clamp(min=0)
    found = {"input_ids": text[:, :-1], "attention_mask": mask}
    return (
        found
        if model.config.model_type in ("bloom", "falcon")
        else found | {"position_ids": position}
    )


def check_same(layer: Layer, whole: Layer) -> None:
    assert layer.weights is not None
    assert whole.weights is not None
    assert layer.weights.shape == whole.weights.shape
    there = visible(whole)
    assert torch.allclose(layer.weights[:, there], whole.weights[:, there], atol=2e-5)
    for mine, other in ((layer.q, whole.q), (layer.k, whole.k), (layer.v, whole.v)):
        assert (mine is None) == (other is None)
        if mine is not None and other is not None:
            assert mine.shape == other.shape
            assert torch.allclose(mine[:, 2:], other[:, 2:], atol=1e-4)  # two are padding
    assert (layer.allowed is None) == (whole.allowed is None)
    if layer.allowed is not None and whole.allowed is not None:
        assert torch.equal(layer.allowed, whole.allowed)
    if layer.bias is not None and whole.bias is not None:
        seen = True if whole.allowed is None else whole.allowed
        assert torch.allclose(layer.bias * seen, whole.bias * seen)
    assert (layer.name, layer.stack, layer.kind) == (whole.name, whole.stack, whole.kind)
    assert (layer.causal, layer.start) == (whole.causal, 0)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "gemma3", "t5", "bart", "gpt_oss"])
def test_writing_is_joined(name: str, cache: str) -> None:
    """Also where a sliding cache forgets the beginning, and a static one has free slots."""
    model, given = small(name), inputs(name)
    given.pop("decoder_input_ids", None)
    plain = write(model, given, cache_implementation=cache)
    for row in (0, 2):
        with attnlab.capture(model, qkv=True, row=row) as seen:
            text = write(model, given, cache_implementation=cache)
        assert torch.equal(plain, text)
        with torch.no_grad(), attnlab.capture(model, qkv=True, row=row) as whole:
            model(**at_once(model, given, text))
        assert len(seen.layers) == len(whole.layers)
        for layer, other in zip(seen.layers, whole.layers, strict=True):
            check_same(layer, other)
        assert seen.notes == []
        assert seen.difference is not None
        assert seen.difference < 1e-4


def test_a_loop_of_ones_own() -> None:
    """A prompt, two tokens at once, one token; and without a cache the last text is kept."""
    model, ids = small("llama"), inputs("llama")["input_ids"][:1]
    with torch.no_grad():
        with attnlab.capture(model, qkv=True) as whole:
            model(ids)
        with attnlab.capture(model, qkv=True) as seen:
            cache = model(ids[:, :4], use_cache=True).past_key_values
            model(ids[:, 4:6], past_key_values=cache)
            model(ids[:, 6:], past_key_values=cache)
        with attnlab.capture(model, qkv=True) as again:
            model(ids[:, :3])
            model(ids)
    for layer, other in zip(seen.layers, whole.layers, strict=True):
        check_same(layer, other)
    assert again.notes == ["The model read 2 inputs; the last one is kept."]
    for layer, other in zip(again.layers, whole.layers, strict=True):
        check_same(layer, other)


def test_a_cache_from_before() -> None:
    """What was read before the capture is there as keys alone, and the record says so."""
    model, ids = small("llama"), inputs("llama")["input_ids"][:1]
    with torch.no_grad():
        with attnlab.capture(model) as whole:
            model(ids)
        cache = model(ids[:, :4], use_cache=True).past_key_values
        with attnlab.capture(model) as seen:
            model(ids[:, 4:6], past_key_values=cache)
            model(ids[:, 6:], past_key_values=cache)
    for layer, other in zip(seen.layers, whole.layers, strict=True):
        assert layer.start == 4
        assert layer.weights is not None
        assert other.weights is not None
        assert torch.allclose(layer.weights, other.weights[:, 4:], atol=1e-5)


def test_beams_are_left_out() -> None:
    model, given = small("llama"), inputs("llama")
    with attnlab.capture(model) as seen:
        write(model, given, num_beams=3)
    (note,) = seen.notes
    assert "beam" in note
    for layer in seen.layers:
        assert layer.weights is not None
        assert 7 <= layer.weights.shape[1] < 7 + NEW - 1
        assert layer.weights.shape[1] == layer.weights.shape[2]


def test_two_texts_one_after_the_other() -> None:
    """The second generate begins anew, in the encoder, the decoder and across."""
    model, given = small("bart"), inputs("bart")
    given.pop("decoder_input_ids")
    with attnlab.capture(model, qkv=True) as seen:
        write(model, {name: x[:, :5] for name, x in given.items()})
        text = write(model, given)
    with torch.no_grad(), attnlab.capture(model, qkv=True) as whole:
        model(**at_once(model, given, text))
    for layer, other in zip(seen.layers, whole.layers, strict=True):
        check_same(layer, other)
    assert seen.notes == ["The model read 2 inputs; the last one is kept."]


def test_positions_by_hand() -> None:
    """(start, first) of each call, from lengths alone."""
    at = Positions()
    assert at.place("a", "decoder", "self", 5, 5) == (0, 0)  # a prompt
    assert at.place("c", "decoder", "cross", 5, 9) == (0, 0)
    assert at.place("a", "decoder", "self", 1, 6) == (5, 0)  # a token after it
    assert at.place("c", "decoder", "cross", 1, 9) == (5, 0)
    assert at.place("a", "decoder", "self", 1, 4) == (6, 3)  # a sliding cache of 4
    assert at.place("a", "decoder", "self", 2, 5) == (7, 4)
    assert at.place("b", "decoder", "self", 1, 8) == (7, 0)  # a cache from before
    assert at.place("a", "decoder", "self", 3, 3) == (0, 0)  # another text
    assert at.place("c", "decoder", "cross", 3, 9) == (0, 0)
