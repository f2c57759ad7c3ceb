"""Mechanisms in Hugging Face models: what is refused, options, draws, looking, head by head."""

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

# What cannot be said


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gemma2", "needs more than plain scaled dot-product"),
        ("gpt_oss", "needs more than plain scaled dot-product"),
        ("t5", "adds a bias"),
    ],
)
def test_models_that_ask_for_more_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(small(name, "attnlab-softmax"), inputs(name))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"softcap": 30.0}, "caps its scores"),
        ({"s_aux": torch.zeros(6)}, "learned sink"),
        ({"position_bias": torch.zeros(1, 6, 5, 5)}, "adds a bias"),
        ({"indices": torch.zeros(2, 5, 3)}, "index of its own"),
    ],
)
def test_calls_that_ask_for_more_are_refused(option: dict[str, Any], message: str) -> None:
    q, k, v = (torch.randn(2, H, 5, 4) for H in (6, 2, 2))
    with pytest.raises(ValueError, match=message):
        call("attnlab-softmax", attention_of(small("llama"), 0), q, k, v, **option)


def test_a_model_with_other_attention_beside_is_refused() -> None:
    """Its encoder attends by itself, and would misread our masks."""
    settings: dict[str, Any] = {"vocab_size": 60, "d_model": 24}
    for side in ("encoder", "decoder"):
        settings |= {f"{side}_layers": 1, f"{side}_attention_heads": 3, f"{side}_ffn_dim": 30}
    config = transformers.BigBirdPegasusConfig(**settings)
    kind = transformers.BigBirdPegasusForConditionalGeneration
    with pytest.raises(ValueError, match="needs more than plain"):
        kind._from_config(config, attn_implementation="attnlab-softmax")


@pytest.mark.parametrize("name", ["bloom", "falcon", "mpnet", "xlnet"])
def test_models_without_the_interface_are_refused(name: str) -> None:
    """transformers would take the name, and run the model's own attention."""
    with pytest.raises(ValueError, match="does not ask transformers' AttentionInterface"):
        small(name, "attnlab-favor")
    with (
        pytest.raises(ValueError, match="does not ask transformers' AttentionInterface"),
        attend_with(small(name), "favor"),
    ):
        pass
    model = small(name)
    before = model.config._attn_implementation
    with pytest.raises(ValueError, match="does not ask transformers' AttentionInterface"):
        model.set_attn_implementation("attnlab-favor")
    model.set_attn_implementation("eager")
    assert model.config._attn_implementation in (before, "eager")


def test_what_register_refuses() -> None:
    for spec, message in (
        ("linformer", "has learned parameters"),
        ("favour", "did you mean 'favor'"),
        ("favor:feature=3", "did you mean 'features'"),
        ("favor:features=0", "features is 0"),
        ("softmax:dropout=0.5", "dropout is the model's own setting"),
    ):
        with pytest.raises(ValueError, match=message):
            register(spec)
    with pytest.raises(ValueError, match="6 in all"):
        small("llama", register("2*elu+2*softmax")[0])(input_ids=text(1, 3))


# Compiled


class Layer(torch.nn.Module):
    """The least that asks for an attention function."""

    is_causal = True

    def __init__(self, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        function = transformers.AttentionInterface._global_mapping["attnlab-favor:features=32"]
        out: Tensor = function(self, x, x, x, mask, dropout=0.0, scaling=None)[0]
        return out.transpose(1, 2)


def test_compiled_layers_have_their_own_draws_and_masks() -> None:
    """They share compiled code, and must not share what was found while it was made."""
    layers = torch.nn.ModuleList([Layer(0), Layer(1), Layer(2)])
    compiled: list[Any] = [torch.compile(Layer(i), backend="eager") for i in range(3)]
    padded = torch.ones(2, 1, 5, 5, dtype=torch.bool).tril()
    padded[1, :, :, 0] = False
    for mask in (padded, None, padded):
        x = y = torch.randn(2, 3, 5, 4)
        for one, other in zip(layers, compiled, strict=True):
            x, y = one(x, mask), other(y, mask)
            assert torch.equal(x, y)


# Options, draws, scale, dropout


def test_each_layer_draws_its_own_directions_from_the_seed() -> None:
    model = small("llama", "attnlab-favor:features=32")
    q, k, v = (torch.randn(2, H, 5, 4) for H in (6, 2, 2))
    for layer in (0, 1):
        wanted = create_mechanism("favor", head_dim=4, heads=6, features=32, seed=layer)
        got = call(model.config._attn_implementation, attention_of(model, layer), q, k, v)
        assert torch.equal(got, wanted(q, k, v, Mask(causal=True)))
    name = register("favor:features=32,seed=7,beta=0.3")[0]
    wanted = create_mechanism("favor", head_dim=4, heads=6, features=32, seed=8, beta=0.3)
    got = call(name, attention_of(model, 1), q, k, v, scaling=0.9)
    assert torch.equal(got, wanted(q, k, v, Mask(causal=True)))


def test_layers_without_a_number_draw_their_own_too() -> None:
    """The same in a second model, and those of one that ran before do not count."""
    from attnlab.huggingface._layer_mechanisms import number_of

    for _ in range(2):
        model = small("vit", "attnlab-favor")
        with torch.no_grad():
            model(**inputs("vit"))
        found = [number_of(layer) for layer in model.modules() if uses_interface(layer)]
        assert found == list(range(len(found)))
        assert len(found) > 1


def test_draws_are_kept_with_the_layer_and_not_saved() -> None:
    from attnlab.huggingface._layer_mechanisms import mechanism_for

    model = small("llama", "attnlab-favor")
    before = set(model.state_dict())
    model(input_ids=text(1, 4))
    assert set(model.state_dict()) == before
    size: Any = {"heads": 6, "head_dim": 4, "beta": 0.5, "device": torch.device("cpu")}
    layer = attention_of(model, 0)
    one = mechanism_for(layer, "favor", **size)
    assert mechanism_for(layer, "favor", **size) is one
    gone = weakref.ref(one)
    del one, layer, model
    gc.collect()
    assert gone() is None


def test_the_scale_is_the_models() -> None:
    module = attention_of(small("llama"), 0)
    q, k, v = (torch.randn(2, H, 5, 4, dtype=torch.float64) for H in (6, 2, 2))
    for scaling in (None, 0.3, 1.0):
        beta = 0.5 if scaling is None else scaling
        for name in ("softmax", "favor", "window"):
            wanted = create_mechanism(name, head_dim=4, heads=6, beta=beta)
            got = call(PREFIX + name, module, q, k, v, scaling=scaling)
            assert torch.allclose(got, wanted(q, k, v, Mask(causal=True)), atol=1e-12), name
    learned = torch.full((6, 1, 1), 0.3, dtype=torch.float64, requires_grad=True)
    got = call("attnlab-softmax", module, q, k, v, scaling=learned)
    wanted = create_mechanism("softmax", head_dim=4, heads=6, beta=0.3)
    assert torch.allclose(got, wanted(q, k, v, Mask(causal=True)), atol=1e-12)
    got.square().sum().backward()
    assert learned.grad is not None
    assert bool((learned.grad != 0).all())


def test_dropout_is_the_models_and_only_while_it_trains() -> None:
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
    """As latent attention has them: values wider than keys; keys shared by all, values by some."""
    module = attention_of(small("llama"), 0)
    q, k, v = torch.randn(2, 6, 5, 4), torch.randn(2, 1, 5, 4), torch.randn(2, 3, 5, 7)
    got = call("attnlab-softmax", module, q, k, v)
    wanted = create_mechanism("softmax", head_dim=4, heads=6)
    whole = (k.expand(-1, 6, -1, -1), v.repeat_interleave(2, 1))
    assert torch.allclose(got, wanted(q, *whole, Mask(causal=True)), atol=1e-6)


# Looking


@pytest.mark.parametrize("spec", SPECS)
def test_what_is_captured_is_the_mechanisms_own(spec: str) -> None:
    """Not eager softmax: the definition on the captured queries and keys, with padding."""
    model, given = small("llama", PREFIX + spec), inputs("llama")
    for row, real in ((0, slice(0, 7)), (1, slice(0, 5)), (2, slice(2, 7))):
        with torch.no_grad(), attnlab.capture(model, row=row, qkv=True) as seen:
            model(**given)
        for number, layer in enumerate(seen.layers):
            assert layer.q is not None
            assert layer.k is not None
            assert layer.weights is not None
            mechanism = _built(spec, seed=number)
            q, k = layer.q[None, :, real], layer.k[None, :, real]
            wanted = mechanism.weights(q.float(), k.float(), Mask(causal=True))[0]
            assert torch.allclose(layer.weights.float()[:, real, real], wanted, atol=2e-3)
            assert bool((layer.weights[:, real, : real.start] == 0).all())
        assert not any(layer.doubtful for layer in seen.layers)
        assert seen.difference is not None
        assert seen.difference < 1e-5


def _built(spec: str, seed: int) -> Any:
    from attnlab._create_mechanism import create_attention

    drawn = any(name in spec for name in ("favor", "fourier", "bigbird"))
    spec = f"{spec}{',' if ':' in spec else ':'}seed={seed}" if drawn else spec
    return create_attention(spec, head_dim=4, heads=6)


def test_a_model_that_does_not_pass_the_wish_on_gives_them_too() -> None:
    model, eager, given = small("gpt2", "attnlab-softmax"), small("gpt2"), inputs("gpt2")
    eager.load_state_dict(model.state_dict())
    eager.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(**given, output_attentions=True).attentions
        wanted = eager(**given, output_attentions=True).attentions
        assert model(**given).attentions is None
    real = given["attention_mask"].bool()[:, None, :, None]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one * real, other * real)


def test_asked_for_attentions_a_model_gives_the_mechanisms() -> None:
    model, given = small("bert", "attnlab-hard"), inputs("bert")
    with torch.no_grad():
        weights = model(**given, output_attentions=True).attentions
    assert len(weights) == 2
    for each in weights:
        assert each.shape == (3, 3, 7, 7)
        assert bool(((each == 1).sum(-1) == 1).all())  # one key each, softmax has no such row
    assert float(weights[0][1, :, :, 5:].abs().max()) == 0  # padding


# Head by head


def test_a_plan_gives_each_head_its_mechanism() -> None:
    model, given = small("llama"), inputs("llama")
    before = model.config._attn_implementation
    heads = ["softmax", "window:window=2", "softmax", "elu", "window:window=2", "softmax"]
    with (
        torch.no_grad(),
        attend_with(model, {"model.layers.1.self_attn": heads}),
        attnlab.capture(model, qkv=True) as seen,
    ):
        model(**given)
    assert model.config._attn_implementation == before
    first, second = seen.layers
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
        wanted = mechanism.weights(q, k, Mask(causal=True))[0, 0]
        assert torch.allclose(second.weights.float()[head], wanted, atol=2e-3), spec
    assert seen.difference is not None
    assert seen.difference < 1e-5


def test_a_plan_that_does_not_fit() -> None:
    model = small("llama")
    with pytest.raises(ValueError, match="no layer 'x'"), attend_with(model, {"x": "elu"}):
        pass
    with (
        pytest.raises(ValueError, match="for 2 heads, but the layer has 6"),
        attend_with(model, {"model.layers.0.self_attn": ["elu", "softmax"]}),
    ):
        model(input_ids=text(1, 3))
    assert model.config._attn_implementation == "sdpa"
    with (
        pytest.raises(ValueError, match=r"'2\*elu\+4\*softmax': several mechanisms for one head"),
        attend_with(model, {"model.layers.0.self_attn": ["2*elu+4*softmax"] * 6}),
    ):
        model(input_ids=text(1, 3))


def test_plans_inside_each_other() -> None:
    """The inner one counts alone, and the outer one after it."""
    model, given = small("llama"), inputs("llama")
    outer, inner = "window:window=2", {"model.layers.0.self_attn": "elu"}

    def logits() -> Tensor:
        with torch.no_grad():
            found: Tensor = model(**given).logits
        return found

    with attend_with(model, outer):
        wanted = logits()
    with attend_with(model, inner):
        alone = logits()
    with attend_with(model, outer):
        with attend_with(model, inner):
            assert torch.equal(logits(), alone)
        assert torch.equal(logits(), wanted)
    assert not torch.equal(alone, wanted)
