"""Mechanisms as attention implementations: equal to eager, with all masks, and clear errors.

The slow definition is the model's own eager attention, or a mechanism's `weights`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab.huggingface import register
from attnlab.huggingface._register import PREFIX
from tests.support.huggingface_attention import SPECS, attention_of, real_part, run, text
from tests.support.real_models import load_minilm, load_smollm2
from tests.support.small_transformers import inputs, small, transformers

# Exact attention equals eager


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "name",
    [
        "bert",
        "albert",
        "gpt2",
        "llama",
        "mistral",
        "gemma2",
        "gemma3",
        "gpt_oss",
        "t5",
        "vit",
        "bart",
        "bloom",
        "falcon",
        "gptj",
        "xlnet",
        "deberta",
        "mpnet",
        "mvp",
        "data2vec_vision",
    ],
)
def test_softmax_equals_eager_with_padding_and_gradients(name: str, dtype: torch.dtype) -> None:
    batch = inputs(name)
    if name == "gpt_oss" and dtype == torch.float64:
        pytest.skip("its experts support no float64")
    # their eager softmax or scores are float32
    narrow = name in ("llama", "mistral", "gemma2", "gemma3", "vit", "bloom", "gptj", "falcon")
    if dtype == torch.float64:
        batch = {k: v.to(dtype) if v.is_floating_point() else v for k, v in batch.items()}
        if narrow:  # and NaN for a row with left padding
            batch = {k: v[:2] for k, v in batch.items()}
    results = []
    for implementation in ("eager", "attnlab-softmax"):
        model = small(name, implementation).to(dtype)
        out = real_part(run(model, batch), batch)
        out.square().sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        results.append((out.detach(), gradients))
    (expected, expected_gradients), (output, gradients) = results
    limit = 1e-12 if dtype == torch.float64 and not narrow else 1e-5
    assert float((output - expected).abs().max()) < limit * max(1, float(expected.abs().max()))
    assert len(gradients) == len(expected_gradients) > 10
    largest = max(float(x.abs().max()) for x in expected_gradients)
    for a, b in zip(gradients, expected_gradients, strict=True):
        assert float((a - b).abs().max()) < limit * largest


def test_softmax_equals_eager_in_minilm() -> None:
    model, tokenizer = load_minilm()
    batch = tokenizer(["A dog chased the cat.", "Rain"], return_tensors="pt", padding=True)
    assert relative_difference_from_eager(model, dict(batch)) < 1e-4


def test_softmax_equals_eager_in_smollm2() -> None:
    model, tokenizer = load_smollm2()
    batch = tokenizer("The price of bread rose again, so the baker sold", return_tensors="pt")
    assert relative_difference_from_eager(model, {"input_ids": batch["input_ids"]}) < 1e-4


def relative_difference_from_eager(model: Any, batch: dict[str, Tensor]) -> float:
    before = model.config._attn_implementation
    try:
        outputs = []
        for implementation in ("eager", "attnlab-softmax"):
            model.set_attn_implementation(implementation)
            with torch.no_grad():
                outputs.append(real_part(run(model, batch), batch))
    finally:
        model.set_attn_implementation(before)
    eager, softmax = outputs
    return float((eager - softmax).abs().max() / eager.abs().max())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_exact_as_eager(dtype: torch.dtype) -> None:
    batch = inputs("llama")
    exact = real_part(run(small("llama", "eager"), batch), batch).detach()
    for implementation in ("attnlab-softmax", "attnlab-window"):  # the window covers the text
        out = real_part(run(small("llama", implementation).to(dtype), batch), batch).detach()
        assert out.dtype == dtype
        assert float((out - exact).abs().max()) < 20 * torch.finfo(dtype).eps


# Masks


THREE_HEADS = [spec for spec in SPECS if "+" not in spec]  # groups need 6 heads


def card_of(spec: str) -> attnlab.Card:
    return attnlab.MECHANISMS[spec.partition(":")[0]].card


@pytest.mark.parametrize(
    ("name", "spec"),
    [*(("bert", spec) for spec in THREE_HEADS), *(("llama", spec) for spec in SPECS)],
)
def test_padding_tokens_change_nothing(name: str, spec: str) -> None:
    model, batch = small(name, PREFIX + spec), inputs(name)
    if name == "bert" and not card_of(spec).bidirectional:
        with pytest.raises(ValueError, match=f"{spec}: exists only in causal form, so it cannot"):
            run(model, batch)
        return
    other = {**batch, "input_ids": batch["input_ids"].clone()}
    other["input_ids"][batch["attention_mask"] == 0] = 3
    with torch.no_grad():
        one, two = (real_part(run(model, x), x) for x in (batch, other))
    assert float((one - two).abs().max()) < 1e-5


def test_masks_are_dropped_without_a_mask_function() -> None:
    """transformers drops them silently; that is why attnlab registers a mask function."""
    name = "attnlab-softmax"
    functions = transformers.AttentionMaskInterface._global_mapping
    model, batch = small("bert", name), inputs("bert")
    with torch.no_grad():
        expected = real_part(run(small("bert", "eager"), batch), batch)
        mask_function = functions.pop(name)
        try:
            dropped = real_part(run(model, batch), batch)
        finally:
            functions[name] = mask_function
        restored = real_part(run(model, batch), batch)
    assert float((dropped - expected).abs().max()) > 1e-3
    assert float((restored - expected).abs().max()) < 1e-5


@pytest.mark.parametrize("spec", SPECS)
def test_left_padding_changes_nothing(spec: str) -> None:
    model, alone, pad = small("llama", PREFIX + spec), text(1, 7), 3
    ids = torch.cat([torch.ones(1, pad, dtype=torch.long), alone], 1)
    mask = torch.ones(2, 10, dtype=torch.long)
    mask[0, :pad] = 0
    both = torch.cat([ids, text(1, 10, seed=1)])
    position = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        expected = model(input_ids=alone).logits[0]
        output = model(input_ids=both, attention_mask=mask, position_ids=position).logits[0, pad:]
    assert float((output - expected).abs().max()) < 1e-5


def test_custom_causal_mask() -> None:
    """(B, 1, T, S), boolean or additive: the same as no mask."""
    ids, T = text(2, 6), 6
    causal = torch.ones(T, T).tril().bool()[None, None].expand(2, 1, T, T)
    added = torch.zeros(2, 1, T, T).masked_fill(~causal, torch.finfo(torch.float32).min)
    for spec in SPECS:
        model = small("llama", PREFIX + spec)
        with torch.no_grad():
            expected = model(input_ids=ids).logits
            for mask in (causal, added):
                out = model(input_ids=ids, attention_mask=mask).logits
                assert float((out - expected).abs().max()) < 1e-5, spec


def test_only_softmax_supports_any_mask() -> None:
    """A prefix that all queries see is neither causal nor padding."""
    ids, T = text(2, 6), 6
    mask = torch.ones(T, T).tril().bool()
    mask[:, :3] = True
    mask = mask[None, None].expand(2, 1, T, T)
    added = torch.zeros(2, 1, T, T).masked_fill(~mask, torch.finfo(torch.float32).min)
    with torch.no_grad():
        expected = small("llama", "eager")(input_ids=ids, attention_mask=added).logits
        output = small("llama", "attnlab-softmax")(input_ids=ids, attention_mask=mask).logits
        assert float((output - expected).abs().max()) < 1e-5
        with pytest.raises(ValueError, match="favor: this layer's mask is more than causal and"):
            small("llama", "attnlab-favor")(input_ids=ids, attention_mask=mask)


@pytest.mark.parametrize("T", [1, 4])
def test_different_mask_for_each_head(T: int) -> None:
    module = attention_of(small("llama"), 0)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, H, n, 4, generator=generator) for H, n in ((6, T), (2, 5), (2, 5)))
    mask = torch.rand(2, 6, T, 5, generator=generator) < 0.6
    mask[..., 0] = True
    function = transformers.AttentionInterface._global_mapping["attnlab-softmax"]
    output = function(module, q, k, v, mask)[0].transpose(1, 2)
    k, v = (x.repeat_interleave(3, 1) for x in (k, v))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    assert torch.allclose(output, expected, atol=1e-6)


def test_packed_texts_do_not_attend_to_each_other() -> None:
    ids, position = text(1, 7), torch.tensor([[0, 1, 2, 3, 0, 1, 2]])
    batch = {"input_ids": ids, "position_ids": position, "use_cache": False}
    with torch.no_grad():
        expected = small("llama", "eager")(**batch).logits
        output = small("llama", "attnlab-softmax")(**batch).logits
        alone = small("llama", "attnlab-softmax")(input_ids=ids[:, 4:]).logits
        with pytest.raises(ValueError, match="packed texts"):
            small("llama", "attnlab-elu")(**batch)
    assert float((output - expected).abs().max()) < 1e-5
    assert float((output[:, 4:] - alone).abs().max()) < 1e-5


def test_mask_changed_in_place_is_interpreted_again() -> None:
    from attnlab.huggingface._mask_meaning import interpret_mask, make_mask

    padding = torch.ones(2, 5, dtype=torch.bool)
    padding[1, 3:] = False
    mask = make_mask(batch_size=2, q_length=5, kv_length=5, attention_mask=padding)
    assert mask is not None
    q = torch.zeros(2, 3, 5, 4)
    module = torch.nn.Identity()
    first = interpret_mask(module, q, q, mask, {})
    assert interpret_mask(module, q, q, mask, {}) is first  # once for all layers
    assert first.mask.keys is not None
    assert torch.equal(first.mask.keys, padding)
    shorter = interpret_mask(module, q, q[:, :, :4], mask, {})  # a layer that keeps fewer keys
    assert shorter.mask.keys is not None
    assert shorter.mask.keys.shape == (2, 4)
    mask[0, :, :, 4] = False
    again = interpret_mask(module, q, q, mask, {}).mask.keys
    assert again is not None
    assert not bool(again[0, 4])


# The cache


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        *(("gpt2", spec) for spec in THREE_HEADS),
        *(("llama", spec) for spec in SPECS),
        ("llama", "softmax:bias=alibi"),
    ],
)
def test_decoding_in_parts_equals_one_forward(name: str, spec: str) -> None:
    """A prompt, three tokens at once, then one by one: growing and fixed caches."""
    model, ids = small(name, register(spec)[0]), text(2, 11)
    with torch.no_grad():
        expected = model(input_ids=ids).logits
        for cache in (
            transformers.DynamicCache(config=model.config),
            transformers.StaticCache(config=model.config, max_cache_len=16),
        ):
            outputs = []
            for first, last in ((0, 4), (4, 7), (7, 8), (8, 9), (9, 10), (10, 11)):
                batch = {"input_ids": ids[:, first:last], "past_key_values": cache}
                outputs.append(model(**batch, use_cache=True).logits)
            output = torch.cat(outputs, 1)
            assert float((output - expected).abs().max()) < 1e-5, type(cache).__name__


@pytest.mark.parametrize("spec", SPECS)
def test_generation_from_left_padded_prompts(spec: str) -> None:
    """Each row generates the same as alone, with any cache and without."""
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
        generated = model.generate(ids, attention_mask=mask, **plain, **options)[:, 8:]
        assert torch.equal(generated, torch.stack(alone)), options


def test_beam_search_and_seq2seq_equal_eager() -> None:
    for name in ("bart", "llama"):
        batch = {"input_ids": text(2, 6), "max_new_tokens": 5, "pad_token_id": 1}
        batch["attention_mask"] = torch.ones(2, 6, dtype=torch.long)
        outputs = [
            small(name, implementation).generate(**batch, num_beams=3, do_sample=False)
            for implementation in ("eager", "attnlab-softmax")
        ]
        assert torch.equal(*outputs)


# Sliding windows


def test_sliding_windows_are_right_or_raise() -> None:
    """Mistral attends to the last 3 tokens."""
    ids = text(2, 9)
    with torch.no_grad():
        expected = small("mistral", "eager")(input_ids=ids).logits
        for implementation in ("attnlab-softmax", "attnlab-window"):
            model = small("mistral", implementation)
            assert float((model(input_ids=ids).logits - expected).abs().max()) < 1e-5
        narrow = small("llama", "attnlab-window:window=2")(input_ids=ids).logits
        both = small("mistral", "attnlab-window:window=2")(input_ids=ids).logits
        assert float((narrow - both).abs().max()) < 1e-5  # the narrower window applies
        for spec in ("favor", "hard", "bigbird", "1*window:window=3+3*elu+2*softmax"):
            model = small("mistral", PREFIX + spec)
            model(input_ids=ids[:, :2])  # the window covers the text
            with pytest.raises(ValueError, match="which only softmax and window support"):
                model(input_ids=ids)


@pytest.mark.parametrize("spec", ["softmax", "window:window=2"])
def test_sliding_cache(spec: str) -> None:
    model, ids = small("mistral", PREFIX + spec), text(2, 9)
    with torch.no_grad():
        expected, outputs, cache = model(input_ids=ids).logits, [], None
        for first, last in ((0, 4), (4, 5), (5, 7), (7, 8), (8, 9)):
            out = model(input_ids=ids[:, first:last], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            outputs.append(out.logits)
    assert float((torch.cat(outputs, 1) - expected).abs().max()) < 1e-5


def test_sinks_need_the_first_tokens() -> None:
    """A model that caches all tokens decodes with sinks; a sliding cache drops them."""
    (implementation,), ids = register("window:window=2,sinks=1"), text(2, 9)
    for name, message in (("llama", None), ("mistral", "window: needs the first tokens")):
        model = small(name, implementation)
        with torch.no_grad():
            out = model(input_ids=ids[:, :5], use_cache=True)
            step = {"input_ids": ids[:, 5:6], "past_key_values": out.past_key_values}
            if message is not None:
                with pytest.raises(ValueError, match=message):
                    model(**step)
                continue
            expected = model(input_ids=ids[:, :6]).logits[:, 5:]
            assert float((model(**step).logits - expected).abs().max()) < 1e-5
            without = small(name, PREFIX + "window:window=2")(input_ids=ids[:, :6]).logits[:, 5:]
            assert float((without - expected).abs().max()) > 1e-3


# Cross-attention


def test_a_bias_of_positions_is_refused() -> None:
    model = small("bart", register("softmax:bias=alibi")[0])
    with pytest.raises(ValueError, match="distances inside one sequence; use plain softmax"):
        model(**inputs("bart"))


@pytest.mark.parametrize("spec", THREE_HEADS)
def test_cross_attention(spec: str) -> None:
    batch = inputs("bart")
    model = small("bart", PREFIX + spec)
    if card_of(spec).cross:
        with torch.no_grad(), attnlab.capture(model, row=1) as captured:
            model(**batch)
        cross = [layer for layer in captured.layers if layer.kind == "cross"]
        assert len(cross) == 2
        assert cross[0].mechanism == spec.partition(":")[0]
        assert not any(layer.doubtful for layer in captured.layers)
        assert captured.difference is not None
        assert captured.difference < 1e-5
        return
    # the encoder comes first
    kind = "cross-attention" if card_of(spec).bidirectional else "attention"
    for T in (5, 7):  # also as many tokens as the encoder has
        batch["decoder_input_ids"] = text(3, T)
        with pytest.raises(ValueError, match=f"cannot replace the {kind} of BartAttention"):
            model(**batch)
