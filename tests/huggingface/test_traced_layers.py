"""Models that compute their attention themselves: replaced and captured while their code runs."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import attnlab
from attnlab.huggingface import attend_with, register
from attnlab.huggingface._eager_check import check_traced
from attnlab.huggingface._trace_attention import AttentionTracer, TracedCall
from tests.support.huggingface_attention import run
from tests.support.small_transformers import inputs, small, transformers

register()
TRACED = ("gptj", "falcon", "mpnet")


def traced(function: Any, B: int) -> list[TracedCall]:
    calls: list[TracedCall] = []
    with AttentionTracer(B, calls.append):
        function()
    return calls


def heads(*shape: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(*shape) for _ in range(3)]


def test_scores_with_scale_bias_and_mask_are_recognized() -> None:
    q, k, v = heads(2, 3, 5, 7)
    bias = torch.randn(3, 5, 5)
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)

    def attend() -> None:
        scores = torch.matmul(q / 2, k.transpose(-1, -2)) * 3 + bias
        weights = F.softmax(scores.masked_fill(hidden, -1e9), dim=-1)
        F.dropout(weights, 0.5, training=False) @ v

    (call,) = traced(attend, 2)
    assert call.scaling == 3
    assert call.is_causal
    assert torch.equal(call.query, q / 2)
    assert call.mask is not None
    visible = ~hidden.expand(2, 3, 5, 5)
    expected = bias.expand(2, 3, 5, 5)
    assert torch.allclose(call.mask[visible], expected[visible], atol=1e-5)
    assert float(call.mask[~visible].max()) < -1e8


def test_heads_in_the_batch_axis_and_einsum() -> None:
    q, k, v = heads(6, 5, 7)

    def in_batch() -> None:
        torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v)

    (call,) = traced(in_batch, 2)
    assert call.query.shape == (2, 3, 5, 7)
    assert call.mask is None
    x, y, z = heads(5, 2, 3, 7)  # tokens, batch, heads

    def with_einsum() -> None:
        weights = torch.einsum("ibnd,jbnd->bnij", x, y).softmax(-1)
        torch.einsum("bnij,jbnd->ibnd", weights, z)

    (call,) = traced(with_einsum, 2)
    assert torch.equal(call.query, x.permute(1, 2, 0, 3))
    assert torch.equal(call.value, z.permute(1, 2, 0, 3))


def test_other_computations_are_not_taken_for_attention() -> None:
    q, k, v = heads(2, 3, 5, 7)
    assert not traced(lambda: (q @ k.mT).sigmoid() @ v, 2)
    assert not traced(lambda: ((q @ k.mT).softmax(-1) * torch.rand(5, 5)) @ v, 2)
    assert not traced(lambda: ((q @ k.mT) * torch.rand(5, 5)).softmax(-1) @ v, 2)
    assert not traced(lambda: (q @ k.mT).softmax(-2) @ v, 2)


@pytest.mark.parametrize("name", TRACED)
def test_implementation_can_be_changed_and_copied(name: str) -> None:
    batch = inputs(name)
    model = small(name)
    with torch.no_grad():
        plain = run(model, batch)
        model.set_attn_implementation("attnlab-softmax")
        replaced = run(model, batch)
        real = batch["attention_mask"].bool()
        assert torch.allclose(replaced[real], plain[real], atol=1e-4)
        assert not torch.equal(replaced, plain)
        assert torch.equal(run(copy.deepcopy(model), batch), replaced)
        model.set_attn_implementation("eager")
        eager = run(model, batch)
        assert torch.allclose(eager[real], plain[real], atol=1e-4)
        with attend_with(model, "softmax"):
            assert torch.equal(run(model, batch), replaced)
        assert torch.equal(run(model, batch), eager)


def test_other_mechanisms_replace_plain_layers() -> None:
    batch = {"input_ids": inputs("gptj")["input_ids"]}
    model, plain = small("gptj", "attnlab-elu"), small("gptj")
    with torch.no_grad(), attnlab.capture(model) as captured:
        out = run(model, batch)
    assert not torch.allclose(out, run(plain, batch), atol=1e-3)
    assert [layer.mechanism for layer in captured.layers] == ["elu", "elu"]
    assert captured.difference is not None
    assert captured.difference < 1e-5
    plan = {"transformer.h.1.attn": ["softmax", "elu", "softmax"]}
    with torch.no_grad(), attend_with(plain, plan), attnlab.capture(plain) as captured:
        run(plain, batch)
    assert ["elu" in layer.mechanism for layer in captured.layers] == [False, True]


def test_classes_chosen_by_the_name_of_the_implementation() -> None:
    """It was a KeyError in SAM, GPT-J and others."""
    config = transformers.SamVisionConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, image_size=16, patch_size=4,
        output_channels=8, window_size=2, global_attn_indexes=[1], mlp_dim=32,
    )  # fmt: skip
    outputs = []
    for implementation in ("eager", "attnlab-softmax"):
        torch.manual_seed(0)
        model = transformers.SamVisionModel._from_config(config, attn_implementation=implementation)
        with torch.no_grad():
            torch.manual_seed(1)
            outputs.append(model.eval()(torch.randn(2, 3, 16, 16)).last_hidden_state)
    assert torch.allclose(outputs[0], outputs[1], atol=1e-4)


class OwnAttention(nn.Module):
    def __init__(self, scores: Any) -> None:
        super().__init__()
        self.scores = scores

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(x @ x.mT) @ x


def test_a_layer_that_is_not_recognized_raises() -> None:
    from attnlab.huggingface._traced_layers import set_implementation

    layer = OwnAttention(torch.sigmoid)
    set_implementation(layer, "attnlab-softmax")
    with pytest.raises(ValueError, match=r"OwnAttention: computes no softmax\(q k\^T\) v"):
        layer(torch.randn(2, 3, 5))
    set_implementation(layer, None)
    layer(torch.randn(2, 3, 5))


@pytest.mark.parametrize("factor", [1, 8, 16])
def test_models_in_bfloat16_are_not_refused(factor: int) -> None:
    """Their own rounding was taken for something that is no softmax."""
    torch.manual_seed(0)
    config = transformers.CodeGenConfig(
        vocab_size=60, n_embd=96, n_layer=1, n_head=4, n_positions=32, rotary_dim=4,
        bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = transformers.CodeGenForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factor if parameter.dim() > 1 else 1)
        ids = torch.tensor([[5, 6, 7, 8]])
        exact = model(ids).logits
        model.bfloat16()
        with attend_with(model, "softmax"):
            logits = model(ids).logits
    assert torch.allclose(logits.float(), exact, atol=0.05 * float(exact.abs().amax()))


def test_something_else_in_bfloat16_is_refused() -> None:
    q, k, v = (x.bfloat16() for x in heads(2, 3, 5, 7))
    weights = (q @ k.mT).softmax(-1)
    options = {"scaling": 1.0, "dropout": 0.0, "is_causal": False}
    for factor in (1.0, 0.8):
        call = TracedCall(q, k, v, None, 1.0, 0.0, weights, factor * weights @ v)
        with nullcontext() if factor == 1 else pytest.raises(ValueError, match="more than a soft"):
            check_traced(nn.Identity(), call, options)
