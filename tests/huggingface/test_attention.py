"""Mechanisms as attention implementations: equal to eager, masks never dropped, errors not silence.

The slow definition is the model's own eager attention, or a mechanism's `weights`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab.huggingface._register import PREFIX
from tests.support.huggingface_attention import SPECS, attention_of, real_part, run, text
from tests.support.real_models import load_minilm, load_smollm2
from tests.support.small_transformers import inputs, small, transformers

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


@pytest.mark.parametrize("T", [1, 4])
def test_a_mask_of_its_own_for_each_head(T: int) -> None:
    module = attention_of(small("llama"), 0)
    draws = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, H, n, 4, generator=draws) for H, n in ((6, T), (2, 5), (2, 5)))
    mask = torch.rand(2, 6, T, 5, generator=draws) < 0.6
    mask[..., 0] = True
    function = transformers.AttentionInterface._global_mapping["attnlab-softmax"]
    got = function(module, q, k, v, mask)[0].transpose(1, 2)
    k, v = (x.repeat_interleave(3, 1) for x in (k, v))
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    assert torch.allclose(got, wanted, atol=1e-6)


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
    from attnlab.huggingface._mask_meaning import make_mask, read_meaning

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
    shorter = read_meaning(module, q, q[:, :, :4], mask, {})  # a layer that keeps fewer keys
    assert shorter.mask.keys is not None
    assert shorter.mask.keys.shape == (2, 4)
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
        assert not any(layer.doubtful for layer in seen.layers)
        assert seen.difference is not None
        assert seen.difference < 1e-5
        return
    for T in (5, 7):  # as many tokens as the encoder has, too
        given["decoder_input_ids"] = text(3, T)
        with pytest.raises(ValueError, match="refuses the cross-attention of BartAttention"):
            model(**given)
