"""Capturing Hugging Face models through their attention interface.

Letters: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import attnlab
from tests.support.examples import examples
from tests.support.small_transformers import (
    eager_attentions,
    inputs,
    like_attentions,
    small,
    transformers,
    visible,
)

INTERFACE = ("bert", "albert", "gpt2", "llama", "mistral", "gemma3", "t5", "bart", "vit")
EAGER = ("gemma2", "gpt_oss")  # soft caps and sinks, which PyTorch's fused function lacks
STACKS_AND_KINDS = {
    "bert": {("encoder", "self")},
    "gpt2": {("decoder", "self")},
    "llama": {("decoder", "self")},
    "t5": {("encoder", "self"), ("decoder", "self"), ("decoder", "cross")},
    "bart": {("encoder", "self"), ("decoder", "self"), ("decoder", "cross")},
    "vit": {("encoder", "self")},
}


def tensors(out: Any) -> list[Tensor]:
    return [x for x in out.to_tuple() if isinstance(x, Tensor)]


@pytest.mark.parametrize("name", [*INTERFACE, *EAGER])
def test_weights_equal_eager_ones(name: str) -> None:
    batch, row = inputs(name), 0
    model = small(name)
    assert model.config._attn_implementation == ("eager" if name in EAGER else "sdpa")
    expected = eager_attentions(name, batch)
    with torch.no_grad():
        plain = model(**batch)
        for row in range(3):
            with attnlab.capture(model, qkv=True, row=row) as captured:
                output = model(**batch)
            assert all(map(torch.equal, tensors(plain), tensors(output)))
            layers = like_attentions(captured.layers)
            assert len(layers) == len(expected)
            for layer, weights in zip(layers, expected, strict=True):
                queries = visible(layer)
                assert torch.allclose(
                    layer.weights[:, queries], weights[row][:, queries], atol=1e-5
                )
                assert name in EAGER or not layer.weights[:, ~queries].any()
                assert layer.difference is not None
                assert layer.difference < 1e-4
            assert captured.notes == []
    if name in STACKS_AND_KINDS:
        assert {(layer.stack, layer.kind) for layer in captured.layers} == STACKS_AND_KINDS[name]


@pytest.mark.parametrize("name", [*INTERFACE, *EAGER, "swin"])
def test_weights_follow_from_queries_and_keys(name: str) -> None:
    """softmax(scale q.k + bias) with the mask, computed in float64, equals the weights."""
    model = small(name)
    with torch.no_grad(), attnlab.capture(model, qkv=True, row=1) as captured:
        model(**inputs(name))
    for layer in captured.layers:
        assert layer.q is not None
        assert layer.k is not None
        assert layer.scale is not None
        scores = layer.scale * (layer.q.double() @ layer.k[layer.groups].double().mT)
        if layer.bias is not None:
            scores = scores + layer.bias
        if name == "gemma2":
            assert layer.note == "Scores x are capped: 1.5 tanh(x / 1.5)."
            scores = 1.5 * torch.tanh(scores / 1.5)
        if layer.allowed is not None:
            scores = scores.masked_fill(~layer.allowed, -torch.inf)
        if name == "gpt_oss":
            assert "sink" in layer.note
            sinks = model.get_submodule(layer.name).sinks.double()[:, None, None]
            scores = torch.cat([scores, sinks.expand(-1, scores.shape[1], 1)], dim=-1)
        weights = scores.softmax(-1).nan_to_num(0)[..., : layer.k.shape[1]]
        assert layer.weights is not None
        assert torch.allclose(layer.weights.double(), weights, atol=1e-6)
        assert layer.normalised == (name != "gpt_oss")
        assert not layer.signed


def test_masks() -> None:
    """Causal, sliding and padded, by hand."""
    position = torch.arange(7)
    causal = position[:, None] >= position
    near = causal & (position[:, None] - position < 3)
    for name, row, expected in (
        ("bert", 0, None),
        ("bert", 1, (position < 5).expand(7, 7)),
        ("llama", 0, causal),
        ("llama", 1, causal & (position < 5)),
        ("llama", 2, causal & (position >= 2)),
        ("mistral", 0, near),
        ("mistral", 2, near & (position >= 2)),
    ):
        model, batch = small(name), inputs(name)
        for attended in (batch, {"input_ids": batch["input_ids"]}):
            if row and "attention_mask" not in attended:
                continue
            with torch.no_grad(), attnlab.capture(model, row=row) as captured:
                model(**attended)
            allowed, is_causal = captured.layers[0].allowed, captured.layers[0].causal
            assert is_causal == (name != "bert")
            assert (allowed is None) == (expected is None)
            if allowed is not None and expected is not None:
                assert torch.equal(allowed, expected)


def test_grouped_keys_and_selected_heads() -> None:
    model, batch = small("llama"), inputs("llama")
    with torch.no_grad():
        with attnlab.capture(model, qkv=True) as whole:
            model(**batch)
        with attnlab.capture(model, qkv=True, layers=[1], heads=[5, 0, 2]) as captured:
            model(**batch)
    (layer,), other = captured.layers, whole.layers[1]
    assert (layer.name, layer.heads, layer.groups) == (other.name, [5, 0, 2], [1, 0, 0])
    assert other.groups == [0, 0, 0, 1, 1, 1]
    assert layer.k is not None
    assert layer.weights is not None
    assert other.weights is not None
    assert layer.k.shape == (2, 7, 4)
    assert torch.equal(layer.weights, other.weights[[5, 0, 2]])
    assert [x.name for x in whole.layers] == [f"model.layers.{i}.self_attn" for i in (0, 1)]


def test_weights_are_computed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some queries at a time, with their part of masks and biases."""
    for name in ("t5", "mistral"):
        model, batch = small(name), inputs(name)
        with torch.no_grad(), attnlab.capture(model, row=1) as whole:
            model(**batch)
        monkeypatch.setattr("attnlab.huggingface._record_call.CHUNK_SIZE", 2 * 6 * 7)
        with torch.no_grad(), attnlab.capture(model, row=1) as captured:
            model(**batch)
        monkeypatch.undo()
        for one, other in zip(captured.layers, whole.layers, strict=True):
            assert one.weights is not None
            assert other.weights is not None
            assert torch.allclose(one.weights, other.weights, atol=1e-6)


def test_shared_layers_and_windows() -> None:
    """A module that runs twice counts as two layers; windows of an image are parts of its row."""
    model = small("albert")
    with torch.no_grad(), attnlab.capture(model) as captured:
        model(**inputs("albert"))
    first = "encoder.albert_layer_groups.0.albert_layers.0.attention"
    assert [layer.name for layer in captured.layers] == [first, f"{first} (2)"]
    model = small("swin")
    with torch.no_grad(), attnlab.capture(model, row=2) as windows:
        model(**inputs("swin"))
    assert "has 12 parts" in windows.layers[0].note
    assert "this is part 8" in windows.layers[0].note


def test_two_models_in_one() -> None:
    """A vision encoder and a text decoder."""
    vision, text = small("vit").vit, transformers.GPT2LMHeadModel
    config = transformers.GPT2Config(
        vocab_size=60, n_embd=24, n_layer=1, n_head=3, add_cross_attention=True,
        bos_token_id=0, eos_token_id=None,
    )  # fmt: skip
    model = transformers.VisionEncoderDecoderModel(encoder=vision, decoder=text(config)).eval()
    with torch.no_grad(), attnlab.capture(model) as captured:
        model(**inputs("vit"), decoder_input_ids=torch.randint(60, (3, 5)))
    assert [(x.name, x.stack, x.kind, x.causal) for x in captured.layers] == [
        ("encoder.layers.0.attention", "encoder", "self", False),
        ("encoder.layers.1.attention", "encoder", "self", False),
        ("decoder.transformer.h.0.attn", "decoder", "self", True),
        ("decoder.transformer.h.0.crossattention", "decoder", "cross", False),
    ]
    assert captured.layers[3].weights is not None
    assert captured.layers[3].weights.shape == (3, 5, 10)


class CustomAttention(nn.Module):
    """A custom module that uses the interface, with T5's eager function."""

    def __init__(self, groups: int, causal: bool) -> None:
        super().__init__()
        self.num_key_value_groups, self.is_causal = groups, causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **options: Any) -> Any:
        functions = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS
        attend = functions.get_interface("sdpa", grouped_eager)
        return attend(self, q, k, v, mask, scaling=0.7, **options)[0]


def grouped_eager(
    module: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **options: Any
) -> Any:
    eager = transformers.models.t5.modeling_t5.eager_attention_forward
    key, value = (x.repeat_interleave(module.num_key_value_groups, dim=1) for x in (key, value))
    return eager(module, query, key, value, *rest, **options)


@given(
    sizes=st.tuples(*(st.integers(1, largest) for largest in (3, 2, 3, 6, 6))),
    kind=st.sampled_from(["none", "bool", "heads", "added", "broadcast"]),
    causal=st.booleans(),
    biased=st.booleans(),
    seed=st.integers(0, 999),
)
@examples(150)
def test_any_mask(sizes: tuple[int, ...], kind: str, causal: bool, biased: bool, seed: int) -> None:
    """The weights are those of PyTorch's fused function for any arguments."""
    (B, G, groups, T, more), generator = sizes, torch.Generator().manual_seed(seed)
    H, S, row = G * groups, T + more - 1, seed % B
    q, k, v = (
        torch.randn(B, heads, length, width, generator=generator)
        for heads, length, width in ((H, T, 5), (G, S, 5), (G, S, 7))
    )
    shape = {"heads": (B, H, T, S), "broadcast": (1, 1, T, S)}.get(kind, (B, 1, T, S))
    visible_keys = torch.rand(shape, generator=generator) < 0.6
    mask: Tensor | None = visible_keys
    if kind == "none":
        mask = None
    elif kind == "added":
        extra = torch.randn(shape, generator=generator)
        mask = extra.masked_fill(~visible_keys, torch.finfo(torch.float32).min)
    options = {"position_bias": torch.randn(1, H, T, S, generator=generator)} if biased else {}
    module = CustomAttention(groups, causal).eval()
    with attnlab.capture(module, qkv=True, row=row) as captured:
        out = module(q, k, v, mask, **options)
    (layer,) = captured.layers
    assert layer.weights is not None
    assert layer.v is not None
    length = layer.weights.shape[2]  # without free cache slots, which no query sees
    assert torch.allclose(
        layer.weights @ v[row].repeat_interleave(groups, dim=0)[:, :length],
        out[row].transpose(0, 1),
        atol=1e-5,
    )
    assert layer.difference is not None
    assert layer.difference < 1e-5
    if layer.allowed is not None:
        masked = layer.allowed.any(-1, keepdim=True) & ~layer.allowed
        assert not layer.weights[:, masked].any()
    if kind == "none" and causal and T > 1:
        assert layer.allowed is not None
        assert torch.equal(layer.allowed, torch.ones(T, T).tril().bool())


def test_failing_eager_function() -> None:
    module, q, k = CustomAttention(1, False), torch.randn(1, 4, 5, 6), torch.randn(1, 4, 5, 6)

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("of the wrong shape")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.huggingface.test_capture_huggingface.grouped_eager", fails)
        with (
            pytest.raises(
                ValueError,
                match=r"cannot record the weights of CustomAttention.*of the wrong shape.*layers=",
            ),
            attnlab.capture(module),
        ):
            module(q, k, k, None)
