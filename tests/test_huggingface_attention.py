"""Mechanisms as attention implementations: equal to eager, masks never dropped, errors not silence.

The slow definition is the model's own eager attention, or a mechanism's `weights`.
"""

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
from attnlab.huggingface.building import without_parameters
from attnlab.huggingface.registering import PREFIX
from tests.real_models import load_minilm, load_smollm2
from tests.small_transformers import inputs, small, transformers

NAMES = register()
SMALL = {
    "favor": "favor:features=32",
    "fourier": "fourier:features=32",
    "window": "window:window=2",
    "bigbird": "bigbird:block=2,random_blocks=1",
    "groups": "1*window:window=3+3*elu+2*softmax",
}
SPECS = [SMALL.get(name, name) for name in (*without_parameters(), "groups")]
register(*SPECS)


def text(B: int, T: int, seed: int = 0) -> Tensor:
    return torch.randint(5, 60, (B, T), generator=torch.Generator().manual_seed(seed))


def run(model: Any, given: dict[str, Tensor]) -> Tensor:
    found = model(**given)
    out: Tensor = found.logits if "logits" in found else found[0]
    return out


def real_part(out: Tensor, given: dict[str, Tensor]) -> Tensor:
    """Without what padding gives: eager functions spread its weight, attnlab's give zeros."""
    mask = given.get("attention_mask")
    if mask is None or "decoder_input_ids" in given:
        return out
    return out[mask.bool()]


# Exact attention equals eager


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "name", ["bert", "albert", "gpt2", "llama", "mistral", "gemma3", "vit", "bart"]
)
def test_softmax_equals_eager_with_padding_and_gradients(name: str, dtype: torch.dtype) -> None:
    given = inputs(name)
    narrow = name in ("llama", "mistral", "gemma3", "vit")  # eager's softmax is float32 there
    if dtype == torch.float64:
        given = {k: v.to(dtype) if v.is_floating_point() else v for k, v in given.items()}
        if narrow:  # and NaN for a row padded on its left
            given = {k: v[:2] for k, v in given.items()}
    found = []
    for implementation in ("eager", "attnlab-softmax"):
        model = small(name, implementation).to(dtype)
        out = real_part(run(model, given), given)
        out.square().sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        found.append((out.detach(), gradients))
    (wanted, slopes), (got, mine) = found
    limit = 1e-12 if dtype == torch.float64 and not narrow else 1e-5
    assert float((got - wanted).abs().max()) < limit
    assert len(mine) == len(slopes) > 10
    largest = max(float(each.abs().max()) for each in slopes)
    for a, b in zip(mine, slopes, strict=True):
        assert float((a - b).abs().max()) < limit * largest


def test_softmax_equals_eager_in_minilm() -> None:
    model, tokenizer = load_minilm()
    given = tokenizer(["A dog chased the cat.", "Rain"], return_tensors="pt", padding=True)
    _compare(model, dict(given))


def test_softmax_equals_eager_in_smollm2() -> None:
    model, tokenizer = load_smollm2()
    given = tokenizer("The price of bread rose again, so the baker sold", return_tensors="pt")
    _compare(model, {"input_ids": given["input_ids"]})


def _compare(model: Any, given: dict[str, Tensor]) -> None:
    before = model.config._attn_implementation
    try:
        found = []
        for implementation in ("eager", "attnlab-softmax"):
            model.set_attn_implementation(implementation)
            with torch.no_grad():
                found.append(real_part(run(model, given), given))
    finally:
        model.set_attn_implementation(before)
    assert float((found[0] - found[1]).abs().max()) < 1e-4 * float(found[0].abs().max())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_exact_as_eager(dtype: torch.dtype) -> None:
    given = inputs("llama")
    exact = real_part(run(small("llama", "eager"), given), given).detach()
    for implementation in ("attnlab-softmax", "attnlab-window"):  # the text is within its window
        out = real_part(run(small("llama", implementation).to(dtype), given), given).detach()
        assert out.dtype == dtype
        assert float((out - exact).abs().max()) < 20 * torch.finfo(dtype).eps


# Masks


THREE_HEADS = [each for each in SPECS if "+" not in each]  # groups are for 6


@pytest.mark.parametrize(
    ("name", "spec"),
    [*(("bert", each) for each in THREE_HEADS), *(("llama", each) for each in SPECS)],
)
def test_what_stands_in_padding_changes_nothing(name: str, spec: str) -> None:
    model, given = small(name, PREFIX + spec), inputs(name)
    other = {**given, "input_ids": given["input_ids"].clone()}
    other["input_ids"][given["attention_mask"] == 0] = 3
    with torch.no_grad():
        ours, theirs = (real_part(run(model, each), each) for each in (given, other))
    assert float((ours - theirs).abs().max()) < 1e-5


def test_without_a_mask_function_masks_are_dropped_in_silence() -> None:
    """Why one is registered: this is what transformers does otherwise."""
    name = "attnlab-softmax"
    functions = transformers.AttentionMaskInterface._global_mapping
    model, given = small("bert", name), inputs("bert")
    with torch.no_grad():
        right = real_part(run(small("bert", "eager"), given), given)
        kept = functions.pop(name)
        try:
            dropped = real_part(run(model, given), given)
        finally:
            functions[name] = kept
        back = real_part(run(model, given), given)
    assert float((dropped - right).abs().max()) > 1e-3
    assert float((back - right).abs().max()) < 1e-5


@pytest.mark.parametrize("spec", SPECS)
def test_left_padding_leaves_a_row_as_if_alone(spec: str) -> None:
    model, alone, pad = small("llama", PREFIX + spec), text(1, 7), 3
    ids = torch.cat([torch.ones(1, pad, dtype=torch.long), alone], 1)
    mask = torch.ones(2, 10, dtype=torch.long)
    mask[0, :pad] = 0
    both = torch.cat([ids, text(1, 10, seed=1)])
    position = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        wanted = model(input_ids=alone).logits[0]
        got = model(input_ids=both, attention_mask=mask, position_ids=position).logits[0, pad:]
    assert float((got - wanted).abs().max()) < 1e-5


def test_a_mask_made_by_hand_is_read() -> None:
    """(B, 1, T, S), boolean or added to the scores: causal ones mean the same as none."""
    ids, T = text(2, 6), 6
    causal = torch.ones(T, T).tril().bool()[None, None].expand(2, 1, T, T)
    added = torch.zeros(2, 1, T, T).masked_fill(~causal, torch.finfo(torch.float32).min)
    for spec in SPECS:
        model = small("llama", PREFIX + spec)
        with torch.no_grad():
            wanted = model(input_ids=ids).logits
            for mask in (causal, added):
                out = model(input_ids=ids, attention_mask=mask).logits
                assert float((out - wanted).abs().max()) < 1e-5, spec


def test_a_mask_beyond_words_is_softmaxs_alone() -> None:
    """A prefix that all may see: no causal mask, no padding."""
    ids, T = text(2, 6), 6
    mask = torch.ones(T, T).tril().bool()
    mask[:, :3] = True
    mask = mask[None, None].expand(2, 1, T, T)
    added = torch.zeros(2, 1, T, T).masked_fill(~mask, torch.finfo(torch.float32).min)
    with torch.no_grad():
        wanted = small("llama", "eager")(input_ids=ids, attention_mask=added).logits
        got = small("llama", "attnlab-softmax")(input_ids=ids, attention_mask=mask).logits
        assert float((got - wanted).abs().max()) < 1e-5
        with pytest.raises(ValueError, match="favor: this layer's mask is more than causal and"):
            small("llama", "attnlab-favor")(input_ids=ids, attention_mask=mask)


def test_packed_texts_do_not_look_at_each_other() -> None:
    ids, position = text(1, 7), torch.tensor([[0, 1, 2, 3, 0, 1, 2]])
    given = {"input_ids": ids, "position_ids": position, "use_cache": False}
    with torch.no_grad():
        wanted = small("llama", "eager")(**given).logits
        got = small("llama", "attnlab-softmax")(**given).logits
        alone = small("llama", "attnlab-softmax")(input_ids=ids[:, 4:]).logits
        with pytest.raises(ValueError, match="packed texts"):
            small("llama", "attnlab-elu")(**given)
    assert float((got - wanted).abs().max()) < 1e-5
    assert float((got[:, 4:] - alone).abs().max()) < 1e-5


def test_a_mask_changed_in_place_is_read_again() -> None:
    from attnlab.huggingface.meaning import make_mask, read_meaning

    padding = torch.ones(2, 5, dtype=torch.bool)
    padding[1, 3:] = False
    mask = make_mask(batch_size=2, q_length=5, kv_length=5, attention_mask=padding)
    assert mask is not None
    q = torch.zeros(2, 3, 5, 4)
    module = torch.nn.Identity()
    first = read_meaning(module, q, q, mask, {})
    assert read_meaning(module, q, q, mask, {}) is first  # once for all layers
    assert first.mask.keys is not None
    assert torch.equal(first.mask.keys, padding)
    mask[0, :, :, 4] = False
    again = read_meaning(module, q, q, mask, {}).mask.keys
    assert again is not None
    assert not bool(again[0, 4])


# The cache


@pytest.mark.parametrize(
    ("name", "spec"),
    [*(("gpt2", each) for each in THREE_HEADS), *(("llama", each) for each in SPECS)],
)
def test_decoding_in_parts_equals_one_forward(name: str, spec: str) -> None:
    """A prompt, three tokens at once, then one by one: growing and fixed caches."""
    model, ids = small(name, PREFIX + spec), text(2, 11)
    with torch.no_grad():
        wanted = model(input_ids=ids).logits
        for cache in (
            transformers.DynamicCache(config=model.config),
            transformers.StaticCache(config=model.config, max_cache_len=16),
        ):
            found = []
            for first, last in ((0, 4), (4, 7), (7, 8), (8, 9), (9, 10), (10, 11)):
                given = {"input_ids": ids[:, first:last], "past_key_values": cache}
                found.append(model(**given, use_cache=True).logits)
            got = torch.cat(found, 1)
            assert float((got - wanted).abs().max()) < 1e-5, type(cache).__name__


@pytest.mark.parametrize("spec", SPECS)
def test_generation_from_left_padded_prompts(spec: str) -> None:
    """Each row writes what it would alone, with any cache and with none."""
    model = small("llama", PREFIX + spec)
    prompts = [text(1, n, seed=n)[0] for n in (3, 8, 6)]
    ids, mask = torch.ones(3, 8, dtype=torch.long), torch.zeros(3, 8, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, 8 - len(prompt) :], mask[row, 8 - len(prompt) :] = prompt, 1
    plain = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 1}
    alone = [
        model.generate(p[None], attention_mask=torch.ones(1, len(p)), **plain)[0, len(p) :]
        for p in prompts
    ]
    fixed = {"cache_implementation": "static", "disable_compile": True}
    for options in ({}, {"use_cache": False}, fixed):
        written = model.generate(ids, attention_mask=mask, **plain, **options)[:, 8:]
        assert torch.equal(written, torch.stack(alone)), options


def test_beams_and_sequence_to_sequence_write_the_same_as_eager() -> None:
    for name in ("bart", "llama"):
        given = {"input_ids": text(2, 6), "max_new_tokens": 5, "pad_token_id": 1}
        given["attention_mask"] = torch.ones(2, 6, dtype=torch.long)
        found = [
            small(name, each).generate(**given, num_beams=3, do_sample=False)
            for each in ("eager", "attnlab-softmax")
        ]
        assert torch.equal(*found)


# Sliding windows


def test_sliding_windows_are_right_or_refused() -> None:
    """Mistral looks at the last 3 tokens."""
    ids = text(2, 9)
    with torch.no_grad():
        wanted = small("mistral", "eager")(input_ids=ids).logits
        for implementation in ("attnlab-softmax", "attnlab-window"):
            model = small("mistral", implementation)
            assert float((model(input_ids=ids).logits - wanted).abs().max()) < 1e-5
        narrow = small("llama", "attnlab-window:window=2")(input_ids=ids).logits
        both = small("mistral", "attnlab-window:window=2")(input_ids=ids).logits
        assert float((narrow - both).abs().max()) < 1e-5  # the narrower one decides
        for spec in ("favor", "hard", "bigbird", "1*window:window=3+3*elu+2*softmax"):
            model = small("mistral", PREFIX + spec)
            model(input_ids=ids[:, :2])  # nobody looks beyond the window yet
            with pytest.raises(ValueError, match="only softmax and window are defined"):
                model(input_ids=ids)


@pytest.mark.parametrize("spec", ["softmax", "window:window=2"])
def test_a_sliding_cache_forgets_and_goes_on(spec: str) -> None:
    model, ids = small("mistral", PREFIX + spec), text(2, 9)
    with torch.no_grad():
        wanted, found, cache = model(input_ids=ids).logits, [], None
        for first, last in ((0, 4), (4, 5), (5, 7), (7, 8), (8, 9)):
            out = model(input_ids=ids[:, first:last], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            found.append(out.logits)
    assert float((torch.cat(found, 1) - wanted).abs().max()) < 1e-5


# Cross-attention


@pytest.mark.parametrize("spec", THREE_HEADS)
def test_cross_attention_where_the_mechanism_can(spec: str) -> None:
    given = inputs("bart")
    model = small("bart", PREFIX + spec)
    if attnlab.MECHANISMS[spec.partition(":")[0]].card.cross:
        with torch.no_grad(), attnlab.capture(model, row=1) as seen:
            model(**given)
        cross = [layer for layer in seen.layers if layer.kind == "cross"]
        assert len(cross) == 2
        assert cross[0].mechanism == spec.partition(":")[0]
        assert seen.difference is not None
        assert seen.difference < 1e-5
        return
    for T in (5, 7):  # as many tokens as the encoder has, too
        given["decoder_input_ids"] = text(3, T)
        with pytest.raises(ValueError, match="refuses the cross-attention of BartAttention"):
            model(**given)


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


def attention_of(model: Any, layer: int) -> Any:
    return model.model.layers[layer].self_attn


def call(implementation: str, module: Any, *qkv: Tensor, **options: Any) -> Tensor:
    function = transformers.AttentionInterface._global_mapping[implementation]
    out: Tensor = function(module, *qkv, None, **options)[0]
    return out.transpose(1, 2)


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


def test_draws_are_kept_with_the_layer_and_not_saved() -> None:
    from attnlab.huggingface.building import mechanism_for

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
        assert seen.difference is not None
        assert seen.difference < 1e-5


def _built(spec: str, seed: int) -> Any:
    from attnlab.create import create_attention

    drawn = any(name in spec for name in ("favor", "fourier", "bigbird"))
    spec = f"{spec}{',' if ':' in spec else ':'}seed={seed}" if drawn else spec
    return create_attention(spec, head_dim=4, heads=6)


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
