"""Captures of Hugging Face models: the check of weights, gradients, and nothing left behind."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnlab
from attnlab.huggingface._mask_arguments import read_row_mask
from tests.support.small_transformers import (
    inputs,
    like_attentions,
    small,
    transformers,
    visible,
)

# The check of weights times values


def wrong_attention(
    module: nn.Module, query: Tensor, *rest: Any, scaling: float, **options: Any
) -> Any:
    """A fused function that is a little wrong."""
    sdpa = transformers.AttentionInterface._global_mapping["sdpa"]
    return sdpa(module, query, *rest, scaling=0.8 * scaling, **options)


@pytest.fixture
def wrong() -> Any:
    transformers.AttentionInterface.register("wrong", wrong_attention)
    transformers.AttentionMaskInterface.register(
        "wrong", transformers.AttentionMaskInterface._global_mapping["sdpa"]
    )
    yield "wrong"
    del transformers.AttentionInterface._global_mapping["wrong"]
    del transformers.AttentionMaskInterface._global_mapping["wrong"]


def test_warns_of_a_wrong_fused_function(wrong: str) -> None:
    for name in ("llama", "bert", "bart"):
        model = small(name, wrong)
        with (
            pytest.warns(UserWarning, match=r"capture: in .* differ by .* do not trust these"),
            torch.no_grad(),
            attnlab.capture(model) as captured,
        ):
            model(**inputs(name))
        assert captured.difference is not None
        assert captured.difference > 1e-3
        assert "differ by" in captured.notes[0]


def flash_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """A flash attention function in plain loops: the mask (B, S) marks only padding."""
    del options
    T, S, out = query.shape[2], key.shape[2], []
    for b, (q, k, v) in enumerate(zip(query, key, value, strict=True)):
        k, v = (x.repeat_interleave(len(q) // len(x), dim=0) for x in (k, v))
        for t in range(T):
            position = S - T + t
            keys = [
                s
                for s in range(position + 1 if module.is_causal else S)
                if (attention_mask is None or bool(attention_mask[b, s]))
                and (sliding_window is None or position - s < sliding_window)
            ]
            scores = scaling * (k[:, keys] @ q[:, t, :, None])[..., 0]  # (H, keys)
            out.append((scores.softmax(-1)[:, None] @ v[:, keys])[:, 0])  # (H, M)
    return torch.stack(out).view(len(query), T, *out[0].shape), None


def test_flash_attention() -> None:
    """Without a GPU: a function with such a name and the same meaning of its arguments."""
    name = "flash_plain"
    transformers.AttentionInterface.register(name, flash_attention)
    masks = transformers.AttentionMaskInterface
    masks.register(name, masks._global_mapping["flash_attention_2"])
    try:
        for kind in ("llama", "mistral", "bert"):
            model, exact, batch = small(kind), small(kind), inputs(kind)
            model.config._attn_implementation = name  # as if its kernels were installed
            for row in range(3):
                with torch.no_grad(), attnlab.capture(exact, row=row) as expected:
                    exact(**batch)
                with torch.no_grad(), attnlab.capture(model, row=row) as captured:
                    model(**batch)
                assert captured.difference is not None
                assert captured.difference < 1e-5
                for one, other in zip(captured.layers, expected.layers, strict=True):
                    queries = visible(other)
                    assert one.weights is not None
                    assert other.weights is not None
                    expected_weights = other.weights[:, queries]
                    assert torch.allclose(one.weights[:, queries], expected_weights, atol=1e-5)
    finally:
        del transformers.AttentionInterface._global_mapping[name]
        del masks._global_mapping[name]


def test_masks_of_flex_attention() -> None:
    from torch.nn.attention.flex_attention import create_block_mask

    def rule(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        del head
        return (key <= query) & (key >= batch)

    mask = create_block_mask(rule, 3, None, 5, 5, device="cpu")
    x = torch.zeros(3, 2, 5, 4)
    row_mask = read_row_mask("flex_attention", nn.Identity(), x, x, mask, {}, 2)
    position = torch.arange(5)
    assert row_mask.allowed is not None
    assert torch.equal(row_mask.allowed, (position[:, None] >= position) & (position >= 2))
    assert row_mask.fully_masked is not None
    assert row_mask.fully_masked.flatten().tolist() == [True, True, False, False, False]


# Gradients


@pytest.mark.parametrize("name", ["bert", "llama", "t5", "vit"])
def test_gradients_equal_eager_ones(name: str) -> None:
    """With fused attention, the same as autograd through the eager attentions."""
    batch = inputs(name)
    model, eager = small(name), small(name, "eager")
    with attnlab.capture(model, gradients=True, row=1) as captured:
        model(**batch).logits[1].square().mean().backward()
    out = eager(**batch, output_attentions=True)
    fields = ("encoder_attentions", "attentions", "decoder_attentions", "cross_attentions")
    attentions = [weights for field in fields for weights in out.get(field) or ()]
    for weights in attentions:
        weights.retain_grad()
    out.logits[1].square().mean().backward()
    for layer, weights in zip(like_attentions(captured.layers), attentions, strict=True):
        assert layer.gradient is not None
        size = float(weights.grad[1].abs().max())
        assert size > 0
        queries = visible(layer)
        difference = (layer.gradient - weights.grad[1])[:, queries].abs().max()
        assert float(difference) < 1e-4 * size
    assert captured.notes == []


# Nothing stays behind


def patched_state(model: nn.Module) -> str:
    hooks = [(m._forward_hooks, m._forward_pre_hooks, sorted(vars(m))) for m in model.modules()]
    return str([transformers.AttentionInterface.get_interface, hooks])


def test_hooks_are_removed() -> None:
    model, batch = small("bart"), inputs("bart")
    before = patched_state(model)
    with torch.no_grad(), attnlab.capture(model):
        assert patched_state(model) != before
        model(**batch)
    assert patched_state(model) == before
    with pytest.raises(IndexError), attnlab.capture(model) as captured:
        model(input_ids=torch.full((1, 3), 99))
    assert patched_state(model) == before
    with pytest.raises(ValueError, match="max_tokens=4"), attnlab.capture(model, max_tokens=4):
        model(**batch)
    assert patched_state(model) == before
    assert captured.layers == []


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "bart"])
def test_training_keeps_the_random_state(name: str) -> None:
    """With dropout the outputs are the same to the bit, and weights are those before dropout."""
    model, batch = small(name).train(), inputs(name)
    for module in model.modules():  # some have no dropout by default
        for rate in ("attention_dropout", "dropout"):
            if isinstance(getattr(module, rate, None), float):
                setattr(module, rate, 0.3)
    for attention in ("sdpa", "eager"):
        model.set_attn_implementation(attention)
        torch.manual_seed(2)
        plain = model(**batch).logits
        torch.manual_seed(2)
        with attnlab.capture(model) as captured:
            output = model(**batch).logits
        assert torch.equal(plain, output)
        for layer in captured.layers:
            assert layer.weights is not None
            assert layer.difference is None
            assert "Dropout is on" in layer.note
            assert torch.allclose(layer.weights.sum(-1), torch.ones(()), atol=1e-5)


def test_other_models_and_threads_are_not_recorded() -> None:
    model, other = small("llama"), small("llama")
    ids = inputs("llama")["input_ids"]
    with torch.no_grad(), attnlab.capture(model) as captured:
        model(ids[:, :4])
        other(ids)
        copy.deepcopy(model)(ids)
        thread = threading.Thread(target=lambda: model(ids))
        thread.start()
        thread.join()
    assert captured.layers[0].weights is not None
    assert captured.layers[0].weights.shape == (6, 4, 4)
    assert captured.notes == []


def test_nested_captures() -> None:
    model, batch = small("t5"), inputs("t5")
    with torch.no_grad():
        with attnlab.capture(model) as outer, attnlab.capture(model, row=2, layers=[0]) as inner:
            model(**batch)
        with attnlab.capture(model) as again:
            model(**batch)
    assert len(inner.layers) == 1
    for one, other in zip(outer.layers, again.layers, strict=True):
        assert one.weights is not None
        assert other.weights is not None
        assert torch.equal(one.weights, other.weights)


def test_output_attentions_inside_a_capture() -> None:
    model, batch = small("bert", "eager"), inputs("bert")
    with torch.no_grad():
        plain = model(**batch, output_attentions=True).attentions
        with attnlab.capture(model) as captured:
            attentions = model(**batch, output_attentions=True).attentions
    for one, other, layer in zip(plain, attentions, captured.layers, strict=True):
        assert torch.equal(one, other)
        assert layer.weights is not None
        assert torch.equal(layer.weights, one[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    """No warning; the weights are those of the rounded queries and keys, not rounded again."""
    model, batch = small("llama").to(dtype), inputs("llama")
    with torch.no_grad(), attnlab.capture(model, qkv=True) as captured:
        model(**batch)
    assert captured.difference is not None
    assert 0 < captured.difference < 0.05
    for layer in captured.layers:
        assert layer.q is not None
        assert layer.k is not None
        assert layer.scale is not None
        scores = layer.scale * (layer.q.double() @ layer.k[layer.groups].double().mT)
        scores = scores.masked_fill(~torch.ones(7, 7).tril().bool(), -torch.inf)
        assert layer.weights is not None
        assert torch.allclose(layer.weights.double(), scores.softmax(-1), atol=1e-6)
