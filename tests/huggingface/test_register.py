"""Mechanisms in Hugging Face models: errors, options, seeds, captures, plans by head."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab import Mask, create_mechanism
from attnlab.huggingface import attend_with, register
from attnlab.huggingface._attention_modules import uses_interface
from attnlab.huggingface._register import PREFIX
from tests.support.huggingface_attention import SPECS, attention_of, call, run, text
from tests.support.small_transformers import inputs, small, transformers

# Unsupported models and options


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gemma2", "Gemma2Attention caps its scores"),
        ("gpt_oss", "GptOssAttention gives a part of each row's weight to a learned sink"),
        ("t5", "T5Attention adds a bias to its scores"),
        ("bloom", "BloomAttention adds a bias to its scores"),
    ],
)
def test_only_softmax_has_caps_sinks_and_biases(name: str, reason: str) -> None:
    register("elu")
    with pytest.raises(ValueError, match=f"elu: {reason}, which only softmax without options"):
        run(small(name, "attnlab-elu"), inputs(name))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"softcap": 30.0}, "caps its scores"),
        ({"s_aux": torch.zeros(6)}, "learned sink"),
        ({"position_bias": torch.ones(1, 6, 5, 5)}, "adds a bias"),
        ({"indices": torch.zeros(2, 5, 3)}, "with its own index"),
    ],
)
def test_unsupported_options_raise(option: dict[str, Any], message: str) -> None:
    q, k, v = (torch.randn(2, H, 5, 4) for H in (6, 2, 2))
    with pytest.raises(ValueError, match=message):
        call("attnlab-relu", attention_of(small("llama"), 0), q, k, v, **option)


def test_model_with_other_attention_raises() -> None:
    """Its encoder attends to blocks, which no mechanism can replace."""
    settings: dict[str, Any] = {"vocab_size": 60, "d_model": 24}
    for part in ("encoder", "decoder"):
        settings |= {f"{part}_layers": 1, f"{part}_attention_heads": 3, f"{part}_ffn_dim": 30}
    config = transformers.BigBirdPegasusConfig(**settings)
    kind = transformers.BigBirdPegasusForConditionalGeneration
    with pytest.raises(ValueError, match="attends to blocks of keys"):
        kind._from_config(config, attn_implementation="attnlab-softmax")
    model = small("longformer")
    before = model.config._attn_implementation
    with pytest.raises(ValueError, match="LongformerModel: computes a band"):
        model.set_attn_implementation("attnlab-softmax")
    with (
        pytest.raises(ValueError, match="computes a band around the diagonal"),
        attend_with(model, "elu"),
    ):
        pass
    assert model.config._attn_implementation == before


def test_invalid_specifications() -> None:
    for spec, message in (
        ("linformer", "has learned parameters"),
        ("softmax:sink=learned", "softmax:sink=learned: has learned parameters"),
        ("2*elu+4*softmax:bias=relative", "softmax:bias=relative: has learned parameters"),
        ("based:feature_dim=3", "based:feature_dim=3: has learned parameters"),
        ("gla", r"gla: has gates \(log_decay\), but a Hugging Face model passes only queries"),
        ("mamba2", r"has gates \(log_decay, write_strength\)"),
        ("cosformer", "give max_length"),
        ("favour", "did you mean 'favor'"),
        ("favor:feature=3", "did you mean 'features'"),
        ("favor:features=0", "features is 0"),
        ("softmax:dropout=0.5", "dropout is a setting of the model"),
    ):
        with pytest.raises(ValueError, match=message):
            register(spec)
    with pytest.raises(ValueError, match="6 in all"):
        small("llama", register("2*elu+2*softmax")[0])(input_ids=text(1, 3))


# Compiled


class MinimalLayer(torch.nn.Module):
    """The smallest module that uses an attention function."""

    is_causal = True

    def __init__(self, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        function = transformers.AttentionInterface._global_mapping["attnlab-favor:features=32"]
        out: Tensor = function(self, x, x, x, mask, dropout=0.0, scaling=None)[0]
        return out.transpose(1, 2)


def test_compiled_layers_have_their_own_seeds_and_masks() -> None:
    """They share compiled code, but must not share values from its compilation."""
    layers = torch.nn.ModuleList([MinimalLayer(0), MinimalLayer(1), MinimalLayer(2)])
    compiled: list[Any] = [torch.compile(MinimalLayer(i), backend="eager") for i in range(3)]
    padded = torch.ones(2, 1, 5, 5, dtype=torch.bool).tril()
    padded[1, :, :, 0] = False
    for mask in (padded, None, padded):
        x = y = torch.randn(2, 3, 5, 4)
        for one, other in zip(layers, compiled, strict=True):
            x, y = one(x, mask), other(y, mask)
            assert torch.equal(x, y)


# Options, seeds, scale, dropout


def test_each_layer_has_its_own_seed() -> None:
    model = small("llama", "attnlab-favor:features=32")
    q, k, v = (torch.randn(2, H, 5, 4) for H in (6, 2, 2))
    for layer in (0, 1):
        expected = create_mechanism("favor", head_dim=4, heads=6, features=32, seed=layer)
        output = call(model.config._attn_implementation, attention_of(model, layer), q, k, v)
        assert torch.equal(output, expected(q, k, v, Mask(causal=True)))
    name = register("favor:features=32,seed=7,beta=0.3")[0]
    expected = create_mechanism("favor", head_dim=4, heads=6, features=32, seed=8, beta=0.3)
    output = call(name, attention_of(model, 1), q, k, v, scaling=0.9)
    assert torch.equal(output, expected(q, k, v, Mask(causal=True)))


def test_layers_without_layer_idx_are_counted() -> None:
    """Each model is counted separately."""
    from attnlab.huggingface._layer_mechanisms import layer_number

    for _ in range(2):
        model = small("vit", "attnlab-favor")
        with torch.no_grad():
            model(**inputs("vit"))
        numbers = [layer_number(layer) for layer in model.modules() if uses_interface(layer)]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > 1


def test_mechanism_lives_with_its_layer_and_is_not_saved() -> None:
    from attnlab.huggingface._layer_mechanisms import mechanism_for

    model = small("llama", "attnlab-favor")
    before = set(model.state_dict())
    model(input_ids=text(1, 4))
    assert set(model.state_dict()) == before
    size: Any = {"heads": 6, "head_dim": 4, "beta": 0.5, "device": torch.device("cpu")}
    layer = attention_of(model, 0)
    one = mechanism_for(layer, "favor", **size)
    assert mechanism_for(layer, "favor", **size) is one
    reference = weakref.ref(one)
    del one, layer, model
    gc.collect()
    assert reference() is None


def test_scale_of_the_model() -> None:
    module = attention_of(small("llama"), 0)
    q, k, v = (torch.randn(2, H, 5, 4, dtype=torch.float64) for H in (6, 2, 2))
    for scaling in (None, 0.3, 1.0):
        beta = 0.5 if scaling is None else scaling
        for name in ("softmax", "favor", "window"):
            expected = create_mechanism(name, head_dim=4, heads=6, beta=beta)
            output = call(PREFIX + name, module, q, k, v, scaling=scaling)
            assert torch.allclose(output, expected(q, k, v, Mask(causal=True)), atol=1e-12), name
    learned = torch.full((6, 1, 1), 0.3, dtype=torch.float64, requires_grad=True)
    output = call("attnlab-softmax", module, q, k, v, scaling=learned)
    expected = create_mechanism("softmax", head_dim=4, heads=6, beta=0.3)
    assert torch.allclose(output, expected(q, k, v, Mask(causal=True)), atol=1e-12)
    output.square().sum().backward()
    assert learned.grad is not None
    assert bool((learned.grad != 0).all())


def test_dropout_of_the_model_in_training() -> None:
    model = small("llama", "attnlab-softmax")
    for layer in (0, 1):
        attention_of(model, layer).attention_dropout = 0.5
    ids = text(2, 7)
    plain = model(input_ids=ids).logits
    assert torch.equal(plain, model(input_ids=ids).logits)
    model.train()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert not torch.allclose(plain, model(input_ids=ids).logits, atol=1e-3)
    q, k = (torch.zeros(1, 1, 400, 4) for _ in range(2))
    v = torch.eye(400)[None, None]
    model.train()
    module = attention_of(model, 0)
    weights = call("attnlab-softmax", module, q, k, v, dropout=0.5, is_causal=False)
    assert abs(float((weights == 0).double().mean()) - 0.5) < 0.01
    assert abs(float(weights.sum(-1).mean()) - 1) < 0.02
    with pytest.warns(UserWarning, match="attention dropout of 0.5 is not applied"):
        call("attnlab-elu", module, q, k, v, dropout=0.5, is_causal=False)


def test_unequal_value_width_and_key_heads() -> None:
    """As in latent attention: values wider than keys; all heads share keys, some share values."""
    module = attention_of(small("llama"), 0)
    q, k, v = torch.randn(2, 6, 5, 4), torch.randn(2, 1, 5, 4), torch.randn(2, 3, 5, 7)
    output = call("attnlab-softmax", module, q, k, v)
    expected = create_mechanism("softmax", head_dim=4, heads=6)
    whole = (k.expand(-1, 6, -1, -1), v.repeat_interleave(2, 1))
    assert torch.allclose(output, expected(q, *whole, Mask(causal=True)), atol=1e-6)


# Captures


@pytest.mark.parametrize("spec", SPECS)
def test_captured_weights_are_those_of_the_mechanism(spec: str) -> None:
    """Not eager softmax, but the definition on the captured queries and keys, with padding."""
    model, batch = small("llama", PREFIX + spec), inputs("llama")
    for row, real in ((0, slice(0, 7)), (1, slice(0, 5)), (2, slice(2, 7))):
        with torch.no_grad(), attnlab.capture(model, row=row, qkv=True) as captured:
            model(**batch)
        for number, layer in enumerate(captured.layers):
            assert layer.q is not None
            assert layer.k is not None
            assert layer.weights is not None
            mechanism = _create(spec, seed=number)
            q, k = layer.q[None, :, real], layer.k[None, :, real]
            expected = mechanism.weights(q.float(), k.float(), Mask(causal=True))[0]
            assert torch.allclose(layer.weights.float()[:, real, real], expected, atol=2e-3)
            assert bool((layer.weights[:, real, : real.start] == 0).all())
        assert not any(layer.doubtful for layer in captured.layers)
        assert captured.difference is not None
        assert captured.difference < 1e-5


def _create(spec: str, seed: int) -> Any:
    from attnlab._create_mechanism import create_attention

    is_random = any(name in spec for name in ("favor", "fourier", "bigbird"))
    spec = f"{spec}{',' if ':' in spec else ':'}seed={seed}" if is_random else spec
    return create_attention(spec, head_dim=4, heads=6)


def test_output_attentions_of_a_model_that_does_not_pass_the_option() -> None:
    model, eager, batch = small("gpt2", "attnlab-softmax"), small("gpt2"), inputs("gpt2")
    eager.load_state_dict(model.state_dict())
    eager.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(**batch, output_attentions=True).attentions
        expected = eager(**batch, output_attentions=True).attentions
        assert model(**batch).attentions is None
    real = batch["attention_mask"].bool()[:, None, :, None]
    for one, other in zip(attentions, expected, strict=True):
        torch.testing.assert_close(one * real, other * real)


def test_output_attentions_are_those_of_the_mechanism() -> None:
    model, batch = small("bert", "attnlab-hard"), inputs("bert")
    with torch.no_grad():
        attentions = model(**batch, output_attentions=True).attentions
    assert len(attentions) == 2
    for weights in attentions:
        assert weights.shape == (3, 3, 7, 7)
        assert bool(((weights == 1).sum(-1) == 1).all())  # softmax never has such a row
    assert float(attentions[0][1, :, :, 5:].abs().max()) == 0  # padding


# Head by head


def test_plan_with_a_mechanism_for_each_head() -> None:
    model, batch = small("llama"), inputs("llama")
    before = model.config._attn_implementation
    heads = ["softmax", "window:window=2", "softmax", "elu", "window:window=2", "softmax"]
    with (
        torch.no_grad(),
        attend_with(model, {"model.layers.1.self_attn": heads}),
        attnlab.capture(model, qkv=True) as captured,
    ):
        model(**batch)
    assert model.config._attn_implementation == before
    first, second = captured.layers
    assert (first.mechanism, second.mechanism) == ("softmax", "3*softmax+2*window+1*elu")
    assert second.weights is not None
    assert second.q is not None
    assert second.k is not None
    key = second.k.float().repeat_interleave(3, 0)  # (6, 7, 4)
    for head, spec in enumerate(heads):
        name, _, option = spec.partition(":window=")
        options = {"window": int(option)} if option else {}
        mechanism = create_mechanism(name, head_dim=4, heads=1, **options)
        q, k = second.q.float()[None, head : head + 1], key[None, head : head + 1]
        expected = mechanism.weights(q, k, Mask(causal=True))[0, 0]
        assert torch.allclose(second.weights.float()[head], expected, atol=2e-3), spec
    assert captured.difference is not None
    assert captured.difference < 1e-5


def test_invalid_plans() -> None:
    model = small("llama")
    with pytest.raises(ValueError, match="no layer 'x'"), attend_with(model, {"x": "elu"}):
        pass
    with (
        pytest.raises(ValueError, match="names 2 mechanisms, but the layer has 6"),
        attend_with(model, {"model.layers.0.self_attn": ["elu", "softmax"]}),
    ):
        model(input_ids=text(1, 3))
    assert model.config._attn_implementation == "sdpa"
    with (
        pytest.raises(ValueError, match=r"'2\*elu\+4\*softmax': names several mechanisms"),
        attend_with(model, {"model.layers.0.self_attn": ["2*elu+4*softmax"] * 6}),
    ):
        model(input_ids=text(1, 3))


def test_nested_plans() -> None:
    """The inner plan replaces the outer one, which applies again after it."""
    model, batch = small("llama"), inputs("llama")
    outer, inner = "window:window=2", {"model.layers.0.self_attn": "elu"}

    def logits() -> Tensor:
        with torch.no_grad():
            output: Tensor = model(**batch).logits
        return output

    with attend_with(model, outer):
        expected = logits()
    with attend_with(model, inner):
        alone = logits()
    with attend_with(model, outer):
        with attend_with(model, inner):
            assert torch.equal(logits(), alone)
        assert torch.equal(logits(), expected)
    assert not torch.equal(alone, expected)
