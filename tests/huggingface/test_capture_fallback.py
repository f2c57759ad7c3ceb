"""Hugging Face models without the attention interface: their eager weights, and it is said."""

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


def described(out: Any) -> dict[str, Any]:
    return {name: value for name, value in out.items() if isinstance(value, Tensor)}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_weights_are_the_models_own(name: str) -> None:
    model, given = small(name), inputs(name)
    setting = model.config._attn_implementation
    expected = eager_attentions(name, given)
    with torch.no_grad():
        plain = model(**given)
        with attnlab.capture(model, qkv=True, row=1, heads=[2, 0]) as seen:
            captured = model(**given)
    assert list(plain) == list(captured)  # no attentions that were not asked for
    for field, value in described(plain).items():
        real = given["attention_mask"].bool()  # fused and eager disagree on what padding sees
        if value.shape[:2] == real.shape:
            assert torch.allclose(value[real], captured[field][real], atol=1e-5)
    assert model.config._attn_implementation == setting
    layers = like_attentions(seen.layers)
    assert len(layers) == len(expected)
    for layer, weights in zip(layers, expected, strict=True):
        assert torch.allclose(layer.weights, weights[1, [2, 0]], atol=1e-6)
        assert (layer.q, layer.k, layer.v, layer.norms, layer.difference) == (None,) * 5
        assert layer.note.startswith("As the model's eager attention gave it")
        assert layer.name in dict(model.named_modules())
        assert layer.stack == STACKS.get(name, layer.stack)
        assert layer.causal == (layer.stack == "decoder" and layer.kind == "self")
    (note,) = seen.notes
    assert note == (
        f"{type(model).__name__} does not use transformers' attention interface: "
        "it was asked for its weights, and ran its eager attention."
    )


@pytest.mark.parametrize("name", ["bloom", "falcon"])
def test_writing_is_joined(name: str) -> None:
    model = small(name)
    ids = inputs(name)["input_ids"]
    plain = model.generate(ids, max_new_tokens=5, do_sample=False)
    with attnlab.capture(model) as seen:
        text = model.generate(ids, max_new_tokens=5, do_sample=False)
    with torch.no_grad(), attnlab.capture(model) as whole:
        model(text[:, :-1])
    assert torch.equal(plain, text)
    for layer, other in zip(seen.layers, whole.layers, strict=True):
        assert layer.weights is not None
        assert other.weights is not None
        assert torch.allclose(layer.weights, other.weights, atol=1e-5)
        assert layer.allowed is not None
        assert torch.equal(layer.allowed, torch.ones(11, 11).tril().bool())
        assert (layer.stack, layer.causal) == ("decoder", True)


def test_what_was_asked_for_is_given() -> None:
    """Attentions, a tuple, or both; and captures inside each other."""
    model, given = small("mpnet"), inputs("mpnet")
    with torch.no_grad():
        for options in (
            {"output_attentions": True},
            {"return_dict": False},
            {"output_attentions": True, "return_dict": False},
        ):
            plain = model(**given, **options)
            with attnlab.capture(model) as outer, attnlab.capture(model, row=2) as inner:
                captured = model(**given, **options)
            assert type(plain) is type(captured)
            assert len(plain) == len(captured)
            first = (plain[0], captured[0]) if isinstance(plain, tuple) else (
                plain.last_hidden_state, captured.last_hidden_state
            )  # fmt: skip
            assert torch.equal(*first)
            assert len(outer.layers) == len(inner.layers) == 2
            assert not torch.equal(outer.layers[0].weights, inner.layers[0].weights)  # type: ignore[arg-type]


def test_gradients_equal_retained_ones() -> None:
    model, given = small("bloom"), inputs("bloom")
    with attnlab.capture(model, gradients=True, row=1) as seen:
        model(**given).logits[1].square().mean().backward()
    out = model(**given, output_attentions=True)
    for weights in out.attentions:
        weights.retain_grad()
    out.logits[1].square().mean().backward()
    for layer, weights in zip(seen.layers, out.attentions, strict=True):
        there = visible(layer)
        assert layer.gradient is not None
        assert float(layer.gradient.abs().max()) > 0
        assert torch.allclose(layer.gradient[:, there], weights.grad[1][:, there], rtol=1e-4)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_a_frozen_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No parameter is learned; against what the softmax itself gave in a model that learns."""
    given, made = inputs(name), []
    softmax = torch.nn.functional.softmax

    def kept(*args: Any, **kwargs: Any) -> Tensor:
        found = softmax(*args, **kwargs)
        found.retain_grad()
        made.append(found)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.functional, "softmax", kept)
        small(name, "eager")(**given)[0][1].square().mean().backward()
    model = small(name, "eager").requires_grad_(False)
    with attnlab.capture(model, gradients=True, row=1, heads=[2, 0]) as seen:
        out = model(**given)[0]
        out[1].square().mean().backward()
    assert len(seen.layers) == len(made)
    assert len(seen.notes) == 1  # of the interface; none of gradients
    for layer, weights in zip(seen.layers, made, strict=True):
        assert weights.grad is not None
        wanted = weights.grad.reshape(3, 3, *weights.shape[-2:])[1, [2, 0]]
        assert layer.gradient is not None
        assert float(wanted.abs().max()) > 0
        assert torch.allclose(layer.gradient, wanted, rtol=1e-4, atol=1e-7)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_weights_that_the_model_does_not_compute_with() -> None:
    """Nothing can be told of their gradient, and the layer says why."""
    model, given = small("bloom"), inputs("bloom")
    last = model.transformer.h[1].self_attention
    last.register_forward_hook(lambda _, __, out: (out[0], out[1].clone()))
    with attnlab.capture(model, gradients=True) as seen:
        model(**given).logits.square().mean().backward()
    one, other = seen.layers
    assert one.gradient is not None
    assert one.no_gradient == ""
    assert other.gradient is None
    assert other.no_gradient.startswith("the model gives copies of its weights")
    with torch.no_grad(), attnlab.capture(model, gradients=True) as nothing:
        model(**given)
    assert {layer.no_gradient for layer in nothing.layers} == {""}
    assert "call backward inside" in nothing.notes[1]


def test_settings_are_restored_after_a_mistake() -> None:
    model = small("falcon")
    hooks = str([(m._forward_hooks, m._forward_pre_hooks) for m in model.modules()])
    setting = model.config._attn_implementation
    assert setting == "sdpa"
    with pytest.raises(IndexError), attnlab.capture(model):
        model(torch.full((1, 3), 99))
    assert model.config._attn_implementation == setting
    assert str([(m._forward_hooks, m._forward_pre_hooks) for m in model.modules()]) == hooks


def test_a_model_that_gives_nothing_is_an_error() -> None:
    """With the words that help: here the eager attention has weights to give."""
    given = inputs("data2vec_vision")
    model = small("data2vec_vision")
    with (
        pytest.raises(ValueError, match="gave no weights") as error,
        torch.no_grad(),
        attnlab.capture(model),
    ):
        model(**given)
    assert 'attn_implementation="eager"' in str(error.value)
    model = small("data2vec_vision", "eager")
    with torch.no_grad(), attnlab.capture(model) as seen:
        model(**given)
    assert len(seen.layers) == 2


def test_a_band_is_no_matrix() -> None:
    model = small("longformer")
    with (
        pytest.raises(ValueError, match=r"LongformerModel .* a band around the diagonal"),
        torch.no_grad(),
        attnlab.capture(model),
    ):
        model(**inputs("longformer"))


def test_a_part_without_the_interface() -> None:
    """Of two models in one, the one that uses it is captured through it."""
    config = transformers.MvpConfig(**small("mvp").config.to_dict())
    model = transformers.EncoderDecoderModel(
        encoder=small("bert").bert, decoder=transformers.MvpForCausalLM(config)
    ).eval()
    given = inputs("bart")
    with torch.no_grad(), attnlab.capture(model, qkv=True) as seen:
        model(**given)
    own = [layer for layer in seen.layers if layer.stack == "encoder"]
    asked = [layer for layer in seen.layers if layer.stack == "decoder"]
    assert len(own) == 2
    assert all(layer.q is not None and layer.difference is not None for layer in own)
    assert {(layer.kind, layer.q) for layer in asked} == {("self", None), ("cross", None)}
    assert "MvpForCausalLM does not use" in seen.notes[0]
