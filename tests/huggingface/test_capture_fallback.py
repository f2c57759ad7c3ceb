"""Hugging Face models without the attention interface: their eager weights, and a note."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from tests.support.small_transformers import (
    eager_attentions,
    inputs,
    like_attentions,
    small,
    transformers,
    visible,
)

NAMES = ("bloom", "falcon", "gptj", "xlnet", "deberta", "mpnet", "mvp")
STACKS = {"bloom": "decoder", "falcon": "decoder", "gptj": "decoder", "xlnet": "encoder"}


def tensor_fields(out: Any) -> dict[str, Any]:
    return {name: value for name, value in out.items() if isinstance(value, Tensor)}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_weights_are_the_models_own(name: str) -> None:
    model, batch = small(name), inputs(name)
    setting = model.config._attn_implementation
    expected = eager_attentions(name, batch)
    with torch.no_grad():
        plain = model(**batch)
        with attnlab.capture(model, qkv=True, row=1, heads=[2, 0]) as captured:
            output = model(**batch)
    assert list(plain) == list(output)  # no attentions that were not requested
    for field, value in tensor_fields(plain).items():
        real = batch["attention_mask"].bool()  # fused and eager attention differ for padding
        if value.shape[:2] == real.shape:
            assert torch.allclose(value[real], output[field][real], atol=1e-5)
    assert model.config._attn_implementation == setting
    layers = like_attentions(captured.layers)
    assert len(layers) == len(expected)
    for layer, weights in zip(layers, expected, strict=True):
        assert torch.allclose(layer.weights, weights[1, [2, 0]], atol=1e-6)
        assert (layer.q, layer.k, layer.v, layer.norms, layer.difference) == (None,) * 5
        assert layer.note.startswith("From the model's eager attention")
        assert layer.name in dict(model.named_modules())
        assert layer.stack == STACKS.get(name, layer.stack)
        assert layer.causal == (layer.stack == "decoder" and layer.kind == "self")
    (note,) = captured.notes
    assert note == (
        f"{type(model).__name__} does not use transformers' attention interface: "
        "it ran its eager attention, to return its weights."
    )


@pytest.mark.parametrize("name", ["bloom", "falcon"])
def test_generation_is_joined(name: str) -> None:
    model = small(name)
    ids = inputs(name)["input_ids"]
    plain = model.generate(ids, max_new_tokens=5, do_sample=False)
    with attnlab.capture(model) as captured:
        text = model.generate(ids, max_new_tokens=5, do_sample=False)
    with torch.no_grad(), attnlab.capture(model) as whole:
        model(text[:, :-1])
    assert torch.equal(plain, text)
    for layer, other in zip(captured.layers, whole.layers, strict=True):
        assert layer.weights is not None
        assert other.weights is not None
        assert torch.allclose(layer.weights, other.weights, atol=1e-5)
        assert layer.allowed is not None
        assert torch.equal(layer.allowed, torch.ones(11, 11).tril().bool())
        assert (layer.stack, layer.causal) == ("decoder", True)


def test_output_has_the_requested_form() -> None:
    """With attentions, as a tuple, or both; and in nested captures."""
    model, batch = small("mpnet"), inputs("mpnet")
    with torch.no_grad():
        for options in (
            {"output_attentions": True},
            {"return_dict": False},
            {"output_attentions": True, "return_dict": False},
        ):
            plain = model(**batch, **options)
            with attnlab.capture(model) as outer, attnlab.capture(model, row=2) as inner:
                output = model(**batch, **options)
            assert type(plain) is type(output)
            assert len(plain) == len(output)
            first = (plain[0], output[0]) if isinstance(plain, tuple) else (
                plain.last_hidden_state, output.last_hidden_state
            )  # fmt: skip
            assert torch.equal(*first)
            assert len(outer.layers) == len(inner.layers) == 2
            assert not torch.equal(outer.layers[0].weights, inner.layers[0].weights)  # type: ignore[arg-type]


def test_gradients_equal_retained_ones() -> None:
    model, batch = small("bloom"), inputs("bloom")
    with attnlab.capture(model, gradients=True, row=1) as captured:
        model(**batch).logits[1].square().mean().backward()
    out = model(**batch, output_attentions=True)
    for weights in out.attentions:
        weights.retain_grad()
    out.logits[1].square().mean().backward()
    for layer, weights in zip(captured.layers, out.attentions, strict=True):
        queries = visible(layer)
        assert layer.gradient is not None
        assert float(layer.gradient.abs().max()) > 0
        assert torch.allclose(layer.gradient[:, queries], weights.grad[1][:, queries], rtol=1e-4)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_a_frozen_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal to the gradient of the softmax itself in a model that is not frozen."""
    batch, outputs = inputs(name), []
    softmax = torch.nn.functional.softmax

    def recorded_softmax(*args: Any, **kwargs: Any) -> Tensor:
        output = softmax(*args, **kwargs)
        output.retain_grad()
        outputs.append(output)
        return output

    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.functional, "softmax", recorded_softmax)
        small(name, "eager")(**batch)[0][1].square().mean().backward()
    model = small(name, "eager").requires_grad_(False)
    with attnlab.capture(model, gradients=True, row=1, heads=[2, 0]) as captured:
        out = model(**batch)[0]
        out[1].square().mean().backward()
    assert len(captured.layers) == len(outputs)
    assert len(captured.notes) == 1  # about the interface, none about gradients
    for layer, weights in zip(captured.layers, outputs, strict=True):
        assert weights.grad is not None
        expected = weights.grad.reshape(3, 3, *weights.shape[-2:])[1, [2, 0]]
        assert layer.gradient is not None
        assert float(expected.abs().max()) > 0
        assert torch.allclose(layer.gradient, expected, rtol=1e-4, atol=1e-7)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_weights_that_the_model_does_not_compute_with() -> None:
    """They have no gradient, and the layer says why."""
    model, batch = small("bloom"), inputs("bloom")
    last = model.transformer.h[1].self_attention
    last.register_forward_hook(lambda _, __, out: (out[0], out[1].clone()))
    with attnlab.capture(model, gradients=True) as captured:
        model(**batch).logits.square().mean().backward()
    one, other = captured.layers
    assert one.gradient is not None
    assert one.no_gradient == ""
    assert other.gradient is None
    assert other.no_gradient.startswith("the model returns copies of its weights")
    with torch.no_grad(), attnlab.capture(model, gradients=True) as nothing:
        model(**batch)
    assert {layer.no_gradient for layer in nothing.layers} == {""}
    assert "call backward on the model's output" in nothing.notes[1]


def test_settings_are_restored_after_an_error() -> None:
    model = small("falcon")
    hooks = str([(m._forward_hooks, m._forward_pre_hooks) for m in model.modules()])
    setting = model.config._attn_implementation
    assert setting == "sdpa"
    with pytest.raises(IndexError), attnlab.capture(model):
        model(torch.full((1, 3), 99))
    assert model.config._attn_implementation == setting
    assert str([(m._forward_hooks, m._forward_pre_hooks) for m in model.modules()]) == hooks


def test_model_that_returns_no_weights() -> None:
    """They are read from its computation, and equal those of eager attention."""
    batch = inputs("data2vec_vision")
    results = []
    for implementation in ("sdpa", "eager"):
        model = small("data2vec_vision", implementation)
        with torch.no_grad(), attnlab.capture(model) as captured:
            model(**batch)
        results.append(captured)
    fused, eager = results
    assert "they were read from its computation" in fused.notes[0]
    assert fused.difference is not None
    assert fused.difference < 1e-5
    assert len(fused.layers) == len(eager.layers) == 2
    for layer, other in zip(fused.layers, eager.layers, strict=True):
        assert layer.weights is not None
        assert other.weights is not None
        assert torch.allclose(layer.weights, other.weights, atol=1e-5)


def test_band_of_weights_raises() -> None:
    model = small("longformer")
    with (
        pytest.raises(ValueError, match=r"LongformerModel .* a band around the diagonal"),
        torch.no_grad(),
        attnlab.capture(model),
    ):
        model(**inputs("longformer"))


def test_part_without_the_interface() -> None:
    """Of two models in one, only one uses the interface."""
    config = transformers.MvpConfig(**small("mvp").config.to_dict())
    model = transformers.EncoderDecoderModel(
        encoder=small("bert").bert, decoder=transformers.MvpForCausalLM(config)
    ).eval()
    batch = inputs("bart")
    with torch.no_grad(), attnlab.capture(model, qkv=True) as captured:
        model(**batch)
    encoder = [layer for layer in captured.layers if layer.stack == "encoder"]
    decoder = [layer for layer in captured.layers if layer.stack == "decoder"]
    assert len(encoder) == 2
    assert all(layer.q is not None and layer.difference is not None for layer in encoder)
    assert {(layer.kind, layer.q) for layer in decoder} == {("self", None), ("cross", None)}
    assert "MvpForCausalLM does not use" in captured.notes[0]
