"""Ablation, edited weights and patches agree with forward passes written by hand.

Letters: B batch, H heads, T tokens, S keys, M value size.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab.interpret._adapters import attention_sites, predict
from attnlab.interpret._intervene import Intervention
from tests.support.hand_written_models import Edits, run
from tests.support.intervention_models import (
    CLOSE,
    NAMES,
    ONE_TEXT,
    hooks_of,
    model_and_inputs,
)


def outputs(name: str, change: Intervention | None = None) -> Tensor:
    model, inputs = model_and_inputs(name)
    with torch.no_grad():
        if change is None:
            return predict(model, inputs).values
        with change:
            return predict(model, inputs).values


def by_hand(name: str, **edits: Any) -> Tensor:
    model, inputs = model_and_inputs(name)
    return run(model, *inputs.values(), edits=Edits(**edits)).logits


def layers_and_heads(name: str) -> tuple[int, int]:
    sites = attention_sites(model_and_inputs(name)[0])
    assert sites[-1].heads is not None
    return len(sites), sites[-1].heads


@pytest.mark.parametrize("name", NAMES)
def test_the_hand_written_model_is_the_model(name: str) -> None:
    torch.testing.assert_close(by_hand(name), outputs(name), **CLOSE)


@pytest.mark.parametrize("how", ["zero", "mean", "resample", "uniform"])
@pytest.mark.parametrize("name", NAMES)
def test_ablation(name: str, how: Any) -> None:
    model, _ = model_and_inputs(name)
    last, head = layers_and_heads(name)[0] - 1, 1

    def heads(layer: int, z: Tensor) -> Tensor:  # (B, H, T, M)
        if layer != last or how == "uniform":
            return z
        z = z.clone()
        if how == "zero":
            z[:, head] = 0
        elif how == "mean":
            z[:, head] = z[:, head].mean(1, keepdim=True)
        else:
            T = z.shape[2]
            random = torch.Generator().manual_seed(5)
            z[:, head] = z[:, head][:, torch.randint(T, (T,), generator=random)]
        return z

    def weights(layer: int, A: Tensor) -> Tensor:
        if layer != last or how != "uniform":
            return A
        A = A.clone()
        causal = "encoder" not in name and "vit" not in name and "seq2seq" not in name
        allowed = torch.ones_like(A[0, 0]).tril() if causal else torch.ones_like(A[0, 0])
        A[:, head] = allowed / allowed.sum(-1, keepdim=True)
        return A

    before = outputs(name)
    after = outputs(name, attnlab.intervene(model).ablate(last, head, how, seed=5))
    torch.testing.assert_close(after, by_hand(name, heads=heads, weights=weights), **CLOSE)
    assert float((after - before).abs().max()) > 1e-4
    assert torch.equal(outputs(name), before)


@pytest.mark.parametrize("name", NAMES)
def test_edited_weights_of_two_heads_and_an_ablation(name: str) -> None:
    model, _ = model_and_inputs(name)
    H = layers_and_heads(name)[1]

    def edit(A: Tensor) -> Tensor:  # (B, T, S)
        return A.flip(0) * 0.5

    def weights(layer: int, A: Tensor) -> Tensor:
        A = A.clone()
        for head in (0, H - 1) if layer == 0 else ():
            A[:, head] = edit(A[:, head])
        return A

    def heads(layer: int, z: Tensor) -> Tensor:
        return torch.cat([z[:, :1], 0 * z[:, 1:]], 1) if layer == 1 else z

    rest = list(range(1, H))
    change = attnlab.intervene(model).weights(0, [0, H - 1], edit).ablate(1, rest)
    expected = by_hand(name, heads=heads, weights=weights)
    torch.testing.assert_close(outputs(name, change), expected, **CLOSE)
    torch.testing.assert_close(outputs(name), by_hand(name), **CLOSE)


@pytest.mark.parametrize("part", ["heads", "stream", "input"])
@pytest.mark.parametrize("name", ONE_TEXT)
def test_patches(name: str, part: str) -> None:
    model, inputs = model_and_inputs(name)
    other = inputs["ids"].flip(1)[:1]
    cache, source = attnlab.record(model, other), run(model, other)
    positions = [1, 4]

    def patched(x: Tensor, new: Tensor, dim: int) -> Tensor:
        at = torch.tensor(positions)
        return x.index_copy(dim, at, new.index_select(dim, at).expand_as(x.index_select(dim, at)))

    def heads(layer: int, z: Tensor) -> Tensor:
        new = patched(z, source.heads[1], 2)
        return torch.cat([z[:, :1], new[:, 1:2], z[:, 2:]], 1) if layer == 1 else z

    def stream(layer: int, x: Tensor) -> Tensor:
        number = {"stream": 1, "input": 0}[part]
        return patched(x, source.streams[number + 1], 1) if layer == number else x

    edits = {"heads": heads} if part == "heads" else {"stream": stream}
    chosen: Any = 1 if part == "heads" else part
    change = attnlab.intervene(model).patch(1, chosen, cache, positions)
    torch.testing.assert_close(outputs(name, change), by_hand(name, **edits), **CLOSE)
    whole = attnlab.intervene(model).patch(0, "input", cache)
    expected = source.logits.expand_as(outputs(name))
    torch.testing.assert_close(outputs(name, whole), expected, **CLOSE)


@pytest.mark.parametrize("name", ONE_TEXT)
def test_a_record_has_what_the_model_computed(name: str) -> None:
    model, inputs = model_and_inputs(name)
    ids = inputs["ids"][:1]
    cache, expected = attnlab.record(model, ids), run(model, ids)
    torch.testing.assert_close(cache["logits"], expected.logits[0], **CLOSE)
    for number in range(len(expected.heads)):
        torch.testing.assert_close(cache[f"{number}.heads"], expected.heads[number][0], **CLOSE)
        torch.testing.assert_close(
            cache[f"{number}.attention"], expected.weights[number][0], **CLOSE
        )
        torch.testing.assert_close(
            cache[f"{number}.stream"], expected.streams[number + 1][0], **CLOSE
        )
        torch.testing.assert_close(cache[f"{number}.input"], expected.streams[number][0], **CLOSE)
        assert {f"{number}.q", f"{number}.k", f"{number}.v"} < set(cache.names())


@pytest.mark.parametrize("name", NAMES)
def test_an_exception_leaves_no_hook(name: str) -> None:
    model, _ = model_and_inputs(name)
    before = outputs(name)

    def fail(A: Tensor) -> Tensor:
        del A
        raise ZeroDivisionError

    change = attnlab.intervene(model).ablate(0, 0).weights(1, 0, fail)
    with pytest.raises(ZeroDivisionError):
        outputs(name, change)
    assert hooks_of(model) == 0
    assert torch.equal(outputs(name), before)
    if " " not in name:
        from transformers.modeling_utils import AttentionInterface

        from attnlab.huggingface import _observe_attention

        assert AttentionInterface.get_interface is not _observe_attention._get_interface


@pytest.mark.parametrize("name", ["gpt2", "decoder softmax", "decoder favor"])
def test_a_capture_inside_sees_the_edited_weights(name: str) -> None:
    model, _ = model_and_inputs(name)

    def first(A: Tensor) -> Tensor:
        return torch.zeros_like(A).index_fill_(-1, torch.tensor([0]), 1.0)

    with attnlab.intervene(model).weights(1, 1, first).ablate(0, 1), attnlab.capture(model) as seen:
        outputs(name)
    weights = seen.layers[1].weights
    assert weights is not None
    assert torch.equal(weights[1], first(weights[1]))
    assert not torch.equal(weights[0], first(weights[0]))
    assert not any(layer.doubtful for layer in seen.layers)
    assert hooks_of(model) == 0


def test_a_zeroed_head_stays_off_while_the_model_generates() -> None:
    from attnlab.generate import generate

    model, _ = model_and_inputs("decoder softmax")
    with attnlab.intervene(model).ablate(0).ablate(1):
        whole = model(torch.tensor([[3, 4, 5]]))[0, -1].argmax()
        generated = generate(model, [[3, 4, 5]], new_tokens=1)[0][0].ids
    assert generated == [int(whole)]
    with (
        attnlab.intervene(model).ablate(0, 0, "uniform"),
        pytest.raises(ValueError, match="not while the model decodes"),
    ):
        generate(model, [[3, 4, 5]], new_tokens=2)
    assert hooks_of(model) == 0


@pytest.mark.parametrize("how", ["mean", "resample"])
def test_other_tokens_replace_a_head_while_decoding_only_from_a_source(how: Any) -> None:
    from attnlab.generate import generate

    model, _ = model_and_inputs("decoder softmax")
    with (
        attnlab.intervene(model).ablate(0, 0, how),
        pytest.raises(ValueError, match=f'how="{how}" takes other tokens .* one token only'),
    ):
        generate(model, [[3, 4, 5]], new_tokens=2)
    cache = attnlab.record(model, [5, 4, 3])
    with attnlab.intervene(model).ablate(0, 0, how, source=cache):
        assert len(generate(model, [[3, 4, 5]], new_tokens=2)[0][0].ids) == 2
    assert hooks_of(model) == 0


CACHE: Any = object()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.ablate(99), "no layer 99; give a number from 0 to 1 or a name: "),
        (lambda m: m.ablate(True), "no layer True"),
        (lambda m: m.ablate("x"), "no layer 'x'"),
        (lambda m: m.ablate(0, 7), "no head 7 in .*, which has [23]; give numbers from 0 to [12]"),
        (lambda m: m.ablate(0, -1), "no head -1"),
        (lambda m: m.ablate(0, []), r"head is \[\]; give a number"),
        (lambda m: m.ablate(0, 1.5), r"head is 1\.5; give a number"),
        (lambda m: m.ablate(0, 1, "nothing"), "how is 'nothing'; give one of zero, mean, uniform"),
        (lambda m: m.weights(0, 1, 3), "edit is 3; give a function"),
        (lambda m: m.patch(0, 1, {}), "source is a dict; give a result of attnlab.record"),
        (lambda m: m.__enter__(), "no change; call ablate, weights or patch"),
    ],
)
@pytest.mark.parametrize("name", ["gpt2", "decoder softmax"])
def test_bad_input_is_one_line(name: str, call: Any, message: str) -> None:
    model = model_and_inputs(name)[0]
    with pytest.raises(ValueError, match=message) as error:
        call(attnlab.intervene(model))
    assert "\n" not in str(error.value)


def test_bad_patches_and_edits() -> None:
    model, _ = model_and_inputs("decoder softmax")
    cache = attnlab.record(model, [3, 4, 5])
    base = attnlab.intervene(model)
    with pytest.raises(ValueError, match="cannot patch 'middle'; give a head, stream or input"):
        base.patch(0, "middle", cache)
    with pytest.raises(ValueError, match=r"head is 1\.5; give a number"):
        base.patch(0, 1.5, cache)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"positions is 0\.5; give numbers of tokens"):
        base.patch(0, 1, cache, 0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"positions is \[-1\]; give numbers of tokens"):
        base.patch(0, "stream", cache, [-1])
    with pytest.raises(ValueError, match="the input has 9 tokens and the source 3; give positions"):
        outputs("decoder softmax", base.patch(0, "stream", cache))
    with pytest.raises(ValueError, match="no position 3; the input has 9 tokens and the source 3"):
        outputs("decoder softmax", base.patch(0, 1, cache, [3]))
    with pytest.raises(ValueError, match="returned float; return a tensor of the same shape"):
        outputs("decoder softmax", base.weights(0, 1, lambda _: 1.0))  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match=r"nothing is recorded as '9.heads'; give LAYER.PART"):
        cache["9.heads"]
    with pytest.raises(ValueError, match="token ids must be from 0 to 8"):
        attnlab.record(model, [3, 99])
    with pytest.raises(ValueError, match="has no attention layer that attnlab can change"):
        attnlab.intervene(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"a int is not a torch.nn.Module"):
        attnlab.intervene(3)  # type: ignore[arg-type]
    assert hooks_of(model) == 0
