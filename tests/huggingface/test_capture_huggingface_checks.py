"""Hugging Face models: a capture checks itself, takes gradients and leaves nothing behind."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnlab
from attnlab.huggingface._mask_arguments import read_sight
from tests.support.small_transformers import (
    inputs,
    like_attentions,
    small,
    transformers,
    visible,
)

# The check of itself


def colder(module: nn.Module, query: Tensor, *rest: Any, scaling: float, **options: Any) -> Any:
    """A fused function that is a little wrong."""
    sdpa = transformers.AttentionInterface._global_mapping["sdpa"]
    return sdpa(module, query, *rest, scaling=0.8 * scaling, **options)


@pytest.fixture
def wrong() -> Any:
    transformers.AttentionInterface.register("wrong", colder)
    transformers.AttentionMaskInterface.register(
        "wrong", transformers.AttentionMaskInterface._global_mapping["sdpa"]
    )
    yield "wrong"
    del transformers.AttentionInterface._global_mapping["wrong"]
    del transformers.AttentionMaskInterface._global_mapping["wrong"]


def test_a_wrong_fused_function_is_told(wrong: str) -> None:
    for name in ("llama", "bert", "bart"):
        model = small(name, wrong)
        with (
            pytest.warns(UserWarning, match=r"capture: in .* differ by .* do not trust them"),
            torch.no_grad(),
            attnlab.capture(model) as seen,
        ):
            model(**inputs(name))
        assert seen.difference is not None
        assert seen.difference > 1e-3
        assert "differ by" in seen.notes[0]


def windowed(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """What a flash function computes, in plain words: (B, S) tells padding, the rest is rules."""
    del options
    T, S, out = query.shape[2], key.shape[2], []
    for b, (q, k, v) in enumerate(zip(query, key, value, strict=True)):
        k, v = (x.repeat_interleave(len(q) // len(x), dim=0) for x in (k, v))
        for t in range(T):
            at = S - T + t
            seen = [
                s
                for s in range(at + 1 if module.is_causal else S)
                if (attention_mask is None or bool(attention_mask[b, s]))
                and (sliding_window is None or at - s < sliding_window)
            ]
            scores = scaling * (k[:, seen] @ q[:, t, :, None])[..., 0]  # (H, seen)
            out.append((scores.softmax(-1)[:, None] @ v[:, seen])[:, 0])  # (H, M)
    return torch.stack(out).view(len(query), T, *out[0].shape), None


def test_flash_functions_are_understood() -> None:
    """No GPU here: a function of that name with the same meaning of its arguments."""
    name = "flash_plain"
    transformers.AttentionInterface.register(name, windowed)
    masks = transformers.AttentionMaskInterface
    masks.register(name, masks._global_mapping["flash_attention_2"])
    try:
        for kind in ("llama", "mistral", "bert"):
            model, exact, given = small(kind), small(kind), inputs(kind)
            model.config._attn_implementation = name  # as if its kernels were installed
            for row in range(3):
                with torch.no_grad(), attnlab.capture(exact, row=row) as expected:
                    exact(**given)
                with torch.no_grad(), attnlab.capture(model, row=row) as seen:
                    model(**given)
                assert seen.difference is not None
                assert seen.difference < 1e-5
                for one, other in zip(seen.layers, expected.layers, strict=True):
                    there = visible(other)
                    assert one.weights is not None
                    assert other.weights is not None
                    assert torch.allclose(one.weights[:, there], other.weights[:, there], atol=1e-5)
    finally:
        del transformers.AttentionInterface._global_mapping[name]
        del masks._global_mapping[name]


def test_masks_of_flex_attention_are_read_place_by_place() -> None:
    from torch.nn.attention.flex_attention import create_block_mask

    def rule(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        del head
        return (key <= query) & (key >= batch)

    mask = create_block_mask(rule, 3, None, 5, 5, device="cpu")
    x = torch.zeros(3, 2, 5, 4)
    sight = read_sight("flex_attention", nn.Identity(), x, x, mask, {}, 2)
    at = torch.arange(5)
    assert sight.allowed is not None
    assert torch.equal(sight.allowed, (at[:, None] >= at) & (at >= 2))
    assert sight.blind is not None
    assert sight.blind.flatten().tolist() == [True, True, False, False, False]


# Gradients


@pytest.mark.parametrize("name", ["bert", "llama", "t5", "vit"])
def test_gradients_equal_eager_ones(name: str) -> None:
    """With fused attention on, as autograd through the eager attentions says."""
    given = inputs(name)
    model, eager = small(name), small(name, "eager")
    with attnlab.capture(model, gradients=True, row=1) as seen:
        model(**given).logits[1].square().mean().backward()
    out = eager(**given, output_attentions=True)
    fields = ("encoder_attentions", "attentions", "decoder_attentions", "cross_attentions")
    weights = [each for field in fields for each in out.get(field) or ()]
    for each in weights:
        each.retain_grad()
    out.logits[1].square().mean().backward()
    for layer, each in zip(like_attentions(seen.layers), weights, strict=True):
        assert layer.gradient is not None
        size = float(each.grad[1].abs().max())
        assert size > 0
        there = visible(layer)
        apart = (layer.gradient - each.grad[1])[:, there].abs().max()
        assert float(apart) < 1e-4 * size
    assert seen.notes == []


# Nothing changes, nothing is left


def traces(model: nn.Module) -> str:
    hooks = [(m._forward_hooks, m._forward_pre_hooks, sorted(vars(m))) for m in model.modules()]
    return str([transformers.AttentionInterface.get_interface, hooks])


def test_hooks_are_gone() -> None:
    model, given = small("bart"), inputs("bart")
    before = traces(model)
    with torch.no_grad(), attnlab.capture(model):
        assert traces(model) != before
        model(**given)
    assert traces(model) == before
    with pytest.raises(IndexError), attnlab.capture(model) as seen:
        model(input_ids=torch.full((1, 3), 99))
    assert traces(model) == before
    with pytest.raises(ValueError, match="max_tokens=4"), attnlab.capture(model, max_tokens=4):
        model(**given)
    assert traces(model) == before
    assert seen.layers == []


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "bart"])
def test_training_draws_the_same(name: str) -> None:
    """Dropout on: the results are the same to the bit, and weights are those before it."""
    model, given = small(name).train(), inputs(name)
    for module in model.modules():  # some have none by default
        for rate in ("attention_dropout", "dropout"):
            if isinstance(getattr(module, rate, None), float):
                setattr(module, rate, 0.3)
    for attention in ("sdpa", "eager"):
        model.set_attn_implementation(attention)
        torch.manual_seed(2)
        plain = model(**given).logits
        torch.manual_seed(2)
        with attnlab.capture(model) as seen:
            captured = model(**given).logits
        assert torch.equal(plain, captured)
        for layer in seen.layers:
            assert layer.weights is not None
            assert layer.difference is None
            assert "Dropout is on" in layer.note
            assert torch.allclose(layer.weights.sum(-1), torch.ones(()), atol=1e-5)


def test_other_models_and_threads_are_not_recorded() -> None:
    model, other = small("llama"), small("llama")
    ids = inputs("llama")["input_ids"]
    with torch.no_grad(), attnlab.capture(model) as seen:
        model(ids[:, :4])
        other(ids)
        copy.deepcopy(model)(ids)
        thread = threading.Thread(target=lambda: model(ids))
        thread.start()
        thread.join()
    assert seen.layers[0].weights is not None
    assert seen.layers[0].weights.shape == (6, 4, 4)
    assert seen.notes == []


def test_nested_captures() -> None:
    model, given = small("t5"), inputs("t5")
    with torch.no_grad():
        with attnlab.capture(model) as outer, attnlab.capture(model, row=2, layers=[0]) as inner:
            model(**given)
        with attnlab.capture(model) as again:
            model(**given)
    assert len(inner.layers) == 1
    for one, other in zip(outer.layers, again.layers, strict=True):
        assert one.weights is not None
        assert other.weights is not None
        assert torch.equal(one.weights, other.weights)


def test_own_attentions_are_still_given() -> None:
    """output_attentions=True inside a capture works as outside."""
    model, given = small("bert", "eager"), inputs("bert")
    with torch.no_grad():
        plain = model(**given, output_attentions=True).attentions
        with attnlab.capture(model) as seen:
            captured = model(**given, output_attentions=True).attentions
    for one, other, layer in zip(plain, captured, seen.layers, strict=True):
        assert torch.equal(one, other)
        assert layer.weights is not None
        assert torch.equal(layer.weights, one[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    """No warning; the weights are those of the rounded queries and keys, not rounded again."""
    model, given = small("llama").to(dtype), inputs("llama")
    with torch.no_grad(), attnlab.capture(model, qkv=True) as seen:
        model(**given)
    assert seen.difference is not None
    assert 0 < seen.difference < 0.05
    for layer in seen.layers:
        assert layer.q is not None
        assert layer.k is not None
        assert layer.scale is not None
        scores = layer.scale * (layer.q.double() @ layer.k[layer.groups].double().mT)
        scores = scores.masked_fill(~torch.ones(7, 7).tril().bool(), -torch.inf)
        assert layer.weights is not None
        assert torch.allclose(layer.weights.double(), scores.softmax(-1), atol=1e-6)
