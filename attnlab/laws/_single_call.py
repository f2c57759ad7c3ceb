"""The laws of a single call: definition, padding, future, no visible keys.

Letters: B batch, H query heads, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.laws._compare import (
    assert_equal_to_rounding,
    assume_margin,
    compare,
    condition_numbers,
    gradients,
    parameters,
    require,
)
from attnlab.laws._law_inputs import HEADS, LawInputs, first_keys
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism, repeat_heads

GARBAGE = (float("nan"), float("inf"), 1e4)


def check_definition(mechanism: Mechanism, inputs: LawInputs, mask: Mask) -> None:
    """1. forward(q, k, v) equals weights(q, k) @ v."""
    compare(
        mechanism,
        inputs,
        mask,
        lambda x: x.output(mechanism, mask),
        lambda x: x.weights(mechanism, mask) @ repeat_heads(x.v, HEADS),
    )


def check_padding(mechanism: Mechanism, inputs: LawInputs, mask: Mask) -> None:
    """2. The content of padding never changes an output, and gets no gradient."""
    if mask.keys is None:
        return
    padding = ~mask.keys[:, None, :, None]

    def filled(value: float) -> LawInputs:
        k, v, *gates = (
            x.masked_fill(padding if x.dim() == 4 else padding[..., 0], value)
            for x in inputs.leaves()[1:]
        )
        return inputs.fresh(k=k, v=v, gates=dict(zip(inputs.gates, gates, strict=True)))

    clean = filled(0)
    for garbage in GARBAGE:
        dirty = filled(garbage)
        one, other = (x.output(mechanism, mask) for x in (dirty, clean))
        assert_equal_to_rounding([one], [other])
        dirty_gradients, clean_gradients = (
            gradients(out, [*x.leaves(), *parameters(mechanism)])
            for out, x in ((one, dirty), (other, clean))
        )
        assert_equal_to_rounding(dirty_gradients, clean_gradients)
        for grad in dirty_gradients[1 : len(dirty.leaves())]:
            where = padding if grad is None or grad.dim() == 4 else padding[..., 0]
            is_zero = grad is None or not bool(grad.masked_select(where).any())
            require(is_zero, "padding has a gradient")
        weights = dirty.weights(mechanism, mask)
        require(not bool(weights.masked_select(padding.mT).any()), "padding has weight")


def check_padding_removed(mechanism: Mechanism, inputs: LawInputs, mask: Mask) -> None:
    """2. Removing the padding after the last real key changes nothing."""
    if mask.keys is None or not (mask.causal or mechanism.card.cross):
        return  # without a causal mask, a block-sparse pattern depends on the length
    assume_margin(mechanism, inputs)
    value_condition, gradient_condition = condition_numbers(mechanism, inputs, mask)
    for row, keys in enumerate(mask.keys):
        length = int(keys.nonzero().max()) + 1 if bool(keys.any()) else 0
        here = slice(row, row + 1)
        queries = length if not mechanism.card.cross else inputs.q.shape[2]
        whole, cut = inputs.fresh(), inputs.fresh()
        short = Mask(mask.causal, mask.keys[here, :length])
        one = whole.output(mechanism, mask)[here, :, :queries]
        part = cut.part(here, slice(0, queries), slice(0, length))
        other = part.output(mechanism, short)
        assert_equal_to_rounding([one], [other], value_condition)
        leaves = [parameters(mechanism), whole.leaves(), cut.leaves()]
        assert_equal_to_rounding(
            gradients(one, [*leaves[1], *leaves[0]]),
            gradients(other, [*leaves[2], *leaves[0]]),
            gradient_condition,
        )


def check_future(mechanism: Mechanism, inputs: LawInputs, mask: Mask, cut: int) -> None:
    """3. With a causal mask, inputs from `cut` on never change an earlier output."""
    assume_margin(mechanism, inputs)
    past = (slice(None), slice(None), slice(0, cut))
    value_condition, gradient_condition = condition_numbers(
        mechanism,
        inputs.part(slice(None), slice(0, cut), slice(0, cut)),
        Mask(True, first_keys(mask, cut)),
    )
    before = inputs.fresh()
    expected = before.output(mechanism, mask)[past]
    expected_gradients = gradients(expected, [*before.leaves(), *parameters(mechanism)])
    for size in (1.0, 30.0, 300.0):
        generator = torch.Generator().manual_seed(int(size))
        changed = inputs.fresh()
        with torch.no_grad():
            for x in (changed.q, changed.k, changed.v):
                later = x[..., cut:, :]
                later += size * torch.randn(later.shape, generator=generator, dtype=x.dtype)
            for gate in mechanism.gates:
                later = changed.gates[gate.name][:, :, cut:]
                later.copy_(gate.sample(later.shape, generator))
        actual = changed.output(mechanism, mask)[past]
        assert_equal_to_rounding([actual], [expected], value_condition)
        actual_gradients = gradients(actual, [*changed.leaves(), *parameters(mechanism)])
        assert_equal_to_rounding(actual_gradients, expected_gradients, gradient_condition)
        for grad in actual_gradients[: len(changed.leaves())]:
            is_zero = grad is None or not bool(grad[:, :, cut:].any())
            require(is_zero, "the future has a gradient")
        weights = changed.weights(mechanism, mask)
        future = torch.ones(weights.shape[-2:]).triu(1).bool()
        require(not bool(weights[..., future].any()), "the future has weight")


def check_no_visible_keys(mechanism: Mechanism, inputs: LawInputs, mask: Mask) -> None:
    """7. A query without visible keys gives zeros and finite gradients."""
    x = inputs.fresh()
    T, S = x.q.shape[2], x.k.shape[2]
    allowed = mask.allowed(T, S, x.q.device)
    out = x.output(mechanism, mask)
    for grad in gradients(out, [*x.leaves(), *parameters(mechanism)]):
        require(grad is None or bool(grad.isfinite().all()), "a gradient is not finite")
    some = torch.ones(1, 1, T, 1) > 0 if allowed is None else allowed.any(-1, keepdim=True)
    hidden = ~some.expand(*out.shape[:3], 1) if S else torch.ones(*out.shape[:3], 1) > 0
    require(not bool(out.masked_select(hidden).any()), "a query without visible keys has an output")


def check_packing(mechanism: Mechanism, inputs: LawInputs, mask: Mask) -> None:
    """9. Documents packed into one row give the same outputs as each document alone."""

    def alone(x: LawInputs) -> Tensor:
        rows = []
        for row, lengths in enumerate(mask.document_lengths):
            first, outs = 0, []
            for length in lengths:
                tokens = slice(first, first + length)
                document = x.part(slice(row, row + 1), tokens, tokens)
                keys = None if mask.keys is None else mask.keys[row : row + 1, tokens]
                outs.append(document.output(mechanism, Mask(mask.causal, keys)))
                first += length
            rows.append(torch.cat(outs, dim=2))
        return torch.cat(rows)

    compare(mechanism, inputs, mask, lambda x: x.output(mechanism, mask), alone)
    compare(
        mechanism,
        inputs,
        mask,
        lambda x: x.weights(mechanism, mask) @ repeat_heads(x.v, HEADS),
        alone,
    )
    other = mask.segments[:, :, None] != mask.segments[:, None]  # type: ignore[index]
    weights = inputs.weights(mechanism, mask).masked_select(other[:, None])
    require(not bool(weights.any()), "a token has weight in another document")
