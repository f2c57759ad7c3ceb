"""Recurrent layers as matrices: A @ v must equal what the layer itself computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnlab import capture
from attnlab.huggingface import _recurrent_layers
from attnlab.huggingface._observe_attention import other_layers
from attnlab.interpret._layer_numbers import layer_numbers
from attnlab.interpret._look import look
from attnlab.mechanisms.recurrent import recurrent_weights
from tests.support.small_transformers import transformers
from tests.support.transformers_with_tokenizers import word_tokenizer

T = 7
SIZES: dict[str, Any] = {
    "vocab_size": 30, "hidden_size": 24, "intermediate_size": 40, "num_attention_heads": 3,
    "num_key_value_heads": 1, "head_dim": 8,
}  # fmt: skip


def qwen3_next() -> Any:
    """Three layers of Gated DeltaNet, two of whose value heads share a key head, and attention."""
    return transformers.Qwen3NextForCausalLM(
        transformers.Qwen3NextConfig(
            **SIZES, num_hidden_layers=4, linear_num_key_heads=2, linear_num_value_heads=4,
            linear_key_head_dim=5, linear_value_head_dim=6, num_experts=0, num_experts_per_tok=1,
            mlp_only_layers=[0, 1, 2, 3],
        )
    )  # fmt: skip


def kimi_linear() -> Any:
    torch.manual_seed(0)
    layer = transformers.models.kimi_linear.modeling_kimi_linear.KimiLinearDeltaAttention
    config = transformers.KimiLinearConfig(
        hidden_size=24, linear_num_heads=3, linear_head_dim=5, num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
    )  # fmt: skip
    made = layer(config, 0)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.2)  # a layer alone is not initialized
    return made


def mamba2() -> Any:
    """Two groups, each shared by two heads."""
    return transformers.Mamba2ForCausalLM(
        transformers.Mamba2Config(
            vocab_size=30, hidden_size=24, num_heads=4, head_dim=12, n_groups=2, state_size=5,
            num_hidden_layers=2, chunk_size=4,
        )
    )  # fmt: skip


def mamba() -> Any:
    return transformers.MambaForCausalLM(
        transformers.MambaConfig(vocab_size=30, hidden_size=24, state_size=5, num_hidden_layers=1)
    )


def rwkv() -> Any:
    return transformers.RwkvForCausalLM(
        transformers.RwkvConfig(
            vocab_size=30, hidden_size=24, num_hidden_layers=2, context_length=16
        )
    )


KINDS = {
    "gated_delta": (qwen3_next, 4, (4, T, T)),
    "mamba2": (mamba2, 2, (4, T, T)),
    "mamba": (mamba, 1, (16, T, T)),
    "rwkv": (rwkv, 2, (16, T, T)),
}


def drawn(model: Any) -> Any:
    """With larger weights than a new model has: gates that differ, and a skip that is not 1."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


@pytest.mark.parametrize("mechanism", KINDS)
def test_matrix_times_values_is_the_output(mechanism: str) -> None:
    make, count, shape = KINDS[mechanism]
    torch.manual_seed(0)
    model, ids = drawn(make()), torch.randint(0, 30, (2, T))
    with torch.no_grad():
        before = model(input_ids=ids, use_cache=False).logits
    with capture(model, qkv=True, gradients=True) as captured:
        out = model(input_ids=ids, use_cache=False).logits
        out[0].sum().backward()
    assert torch.equal(before, out)
    assert len(captured.layers) == count
    layers = [layer for layer in captured.layers if layer.mechanism == mechanism]
    for layer in layers:
        assert layer.weights is not None
        assert layer.weights.shape == shape
        assert layer.weights.abs().max() > 1e-3
        assert layer.weights.triu(1).abs().max() == 0
        assert layer.causal
        assert layer.difference is not None
        assert not layer.doubtful
        assert layer.excess is not None
        assert layer.excess < 0.1
        assert mechanism == "rwkv" or layer.gradient is not None
    assert not any("Not captured" in note for note in captured.notes)
    assert not _recurrent_layers._patched  # the functions are transformers' own again


def test_kimi_delta_attention() -> None:
    """The layer alone: a tiny model of the whole family is slow to build."""
    layer = drawn(kimi_linear())
    torch.manual_seed(0)
    with torch.no_grad(), capture(layer, row=1) as captured:
        layer(torch.randn(2, T, 24))
    (record,) = captured.layers
    assert (record.mechanism, record.doubtful) == ("kda", False)
    assert record.weights is not None
    assert record.weights.shape == (3, T, T)


def test_a_wrong_matrix_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: with other gates, weights times values are not the output."""
    real = recurrent_weights
    monkeypatch.setattr(_recurrent_layers, "recurrent_weights", lambda *given: 1.5 * real(*given))
    model, ids = drawn(mamba2()), torch.randint(0, 30, (1, T))

    def record() -> None:
        with torch.no_grad(), capture(model):
            model(input_ids=ids, use_cache=False)

    with pytest.warns(UserWarning, match="do not trust"):
        record()


def test_steps_of_decoding_are_skipped() -> None:
    """With a state from before, the matrix of the whole text is unknown."""
    model, ids = drawn(mamba2()), torch.randint(0, 30, (1, T))
    with torch.no_grad(), capture(model) as captured:
        model.generate(ids, max_new_tokens=3, do_sample=False)
    for layer in captured.layers:
        assert layer.weights is not None
        assert layer.weights.shape == (4, T, T)
        assert not layer.doubtful


def test_look_at_a_hybrid_model() -> None:
    """Layers keep the numbers of their modules' names."""
    model = drawn(qwen3_next())
    result = look(model, "w7 w8 w9 w7", tokenizer=word_tokenizer(30))
    kinds = [(layer.name, layer.mechanism) for layer in result.panels[0].layers]
    assert kinds == [
        *((f"model.layers.{i}.linear_attn", "gated_delta") for i in range(3)),
        ("model.layers.3.self_attn", "softmax"),
    ]
    result.packed  # noqa: B018  a page can be written
    only = look(model, "w7 w8", tokenizer=word_tokenizer(30), layers=[3], control=False)
    assert [layer.name for layer in only.panels[0].layers] == ["model.layers.3.self_attn"]


def test_numbers_of_layers() -> None:
    lfm2 = transformers.Lfm2ForCausalLM(
        transformers.Lfm2Config(
            **{k: v for k, v in SIZES.items() if k != "head_dim"}, num_hidden_layers=3,
            layer_types=["conv", "full_attention", "full_attention"], block_multiple_of=8,
        )
    ).eval()  # fmt: skip
    with torch.no_grad(), capture(lfm2, layers=[2]) as captured:
        lfm2(input_ids=torch.randint(0, 30, (1, T)))
    assert [layer.name for layer in captured.layers] == ["model.layers.2.self_attn"]
    assert any("without attention" in note and "layers.0" in note for note in captured.notes)
    with (
        pytest.raises(ValueError, match=r"no layer 0; it has 1, 2: model"),
        torch.no_grad(),
        capture(lfm2, layers=[0]),
    ):
        lfm2(input_ids=torch.randint(0, 30, (1, T)))
    assert layer_numbers([]) == []
    assert layer_numbers(["a", "b"]) == [0, 1]
    assert layer_numbers(["x.4.a"]) == [4]
    assert layer_numbers(["x.0.y.1", "x.0.y.3"]) == [1, 3]
    assert layer_numbers(["x.0.y.1", "x.1.y.0"]) == [0, 1]


def test_a_stack_with_an_empty_place() -> None:
    """Informer's list of convolutions ends with None."""
    layer = torch.nn.Linear(2, 2)
    stack = torch.nn.ModuleList([layer, torch.nn.Linear(2, 2)])
    stack.append(None)  # type: ignore[arg-type]
    assert other_layers(torch.nn.Sequential(stack), {layer}).endswith("0.1.")
