"""The laws of states: decoding, memory, splitting.

Letters: B batch, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attnlab.laws._compare import (
    assert_equal_to_rounding,
    assume_margin,
    compare,
    condition_numbers,
    gradients,
    require,
)
from attnlab.laws._law_inputs import LawInputs, first_keys
from attnlab.mask import Mask
from attnlab.mechanism import Mechanism


def check_decoding(mechanism: Mechanism, inputs: LawInputs, mask: Mask) -> None:
    """4. Decoding token by token equals one causal forward."""

    def decode(x: LawInputs) -> Tensor:
        state, outs, states = None, [], []
        for t in range(x.k.shape[2]):
            here = slice(t, t + 1)
            keys = None if mask.keys is None else mask.keys[:, here]
            state = mechanism.absorb(x.k[:, :, here], x.v[:, :, here], keys, state)
            outs.append(mechanism.read(x.q[:, :, here], state, t))
            states.append(state)
        for t, old in enumerate(states):  # later calls must not have changed it
            again = mechanism.read(x.q[:, :, t : t + 1], old, t)
            require(torch.equal(again, outs[t]), "a later call changed an old state")
        return torch.cat(outs, dim=2)

    def decode_overwriting(x: LawInputs) -> Tensor:
        """As generation does: each state may overwrite the one before."""
        first, state, outs = None, None, []
        for t in range(x.k.shape[2]):
            here = slice(t, t + 1)
            keys = None if mask.keys is None else mask.keys[:, here]
            keys = None if keys is None or bool(keys.all()) else keys
            state = mechanism.absorb(x.k[:, :, here], x.v[:, :, here], keys, state)
            outs.append(mechanism.read(x.q[:, :, here], state, t))
            if first is None:
                first, state = state, state.overwritable()
        again = outs[0] if first is None else mechanism.read(x.q[:, :, :1], first, 0)
        require(torch.equal(again, outs[0]), "overwritable() changed the state it was called on")
        return torch.cat(outs, dim=2)

    compare(mechanism, inputs, mask, decode, lambda x: mechanism(x.q, x.k, x.v, mask))
    with torch.no_grad():  # without gradients, a growing state is written in place
        value_condition, gradient_condition = condition_numbers(mechanism, inputs, mask)
        out = mechanism(inputs.q, inputs.k, inputs.v, mask)
        assert_equal_to_rounding([decode(inputs)], [out], value_condition)
        assert_equal_to_rounding([decode_overwriting(inputs)], [out], value_condition)
    # states without gradients, read by queries with gradients
    left, right = (replace(inputs, k=inputs.k.detach(), v=inputs.v.detach()) for _ in "ab")
    left, right = (replace(x, q=x.q.detach().clone().requires_grad_()) for x in (left, right))
    one, other = decode(left), mechanism(right.q, right.k, right.v, mask)
    actual, expected = gradients(one, [left.q]), gradients(other, [right.q])
    assert_equal_to_rounding(actual, expected, gradient_condition)


def check_unequal_prompts(mechanism: Mechanism, inputs: LawInputs, lengths: Tensor) -> None:
    """4. Rows with prompts of unequal length decode in one batch as each does alone."""
    assume_margin(mechanism, inputs)
    B, _, S, _ = inputs.k.shape
    prompt = int(lengths.max())
    steps = S - prompt
    rows = [torch.cat([torch.arange(n), torch.arange(prompt, S)]) for n in lengths.tolist()]
    expected, worst = [], 1.0
    with torch.no_grad():
        for row, positions in enumerate(rows):
            here = slice(row, row + 1)
            q, k, v = (x[here][:, :, positions] for x in inputs.leaves())
            worst = max(
                worst, condition_numbers(mechanism, replace(inputs, q=q, k=k), Mask(True))[0]
            )
            expected.append(mechanism(q, k, v, Mask(causal=True))[:, :, len(positions) - steps :])
        real = torch.arange(prompt) < lengths[:, None]
        first = inputs.k[:, :, :prompt], inputs.v[:, :, :prompt]
        state = mechanism.absorb(*first, real).trim(lengths)
        actual = []
        for step in range(steps):
            here = slice(prompt + step, prompt + step + 1)
            state = mechanism.absorb(inputs.k[:, :, here], inputs.v[:, :, here], None, state)
            actual.append(mechanism.read(inputs.q[:, :, here], state, lengths + step))
            reverse = torch.arange(B - 1, -1, -1)
            flipped = mechanism.read(
                inputs.q[reverse][:, :, here], state.select(reverse), (lengths + step)[reverse]
            )
            assert_equal_to_rounding([flipped[reverse]], [actual[-1]], worst)
    assert_equal_to_rounding([torch.cat(actual, dim=2)], [torch.cat(expected)], worst)


def check_memory(mechanism: Mechanism, inputs: LawInputs, mask: Mask) -> None:
    """5. Absorbing memory once and reading equals the cross-attention forward."""
    compare(
        mechanism,
        inputs,
        mask,
        lambda x: mechanism.read(x.q, mechanism.absorb(x.k, x.v, mask.keys), 0),
        lambda x: mechanism(x.q, x.k, x.v, mask),
    )


def check_splitting(mechanism: Mechanism, inputs: LawInputs, mask: Mask, cut: int) -> None:
    """6. Splitting an absorb in two changes nothing."""
    S = inputs.k.shape[2]
    start = 0 if mechanism.card.cross else min(cut, S - 1)  # the newest tokens, or any queries

    if not mechanism.card.cross and cut == S:
        cut = S - 1  # an empty second half would have no newest token

    def halves(x: LawInputs) -> Tensor:
        first = mechanism.absorb(x.k[:, :, :cut], x.v[:, :, :cut], first_keys(mask, cut))
        rest = None if mask.keys is None else mask.keys[:, cut:]
        state = mechanism.absorb(x.k[:, :, cut:], x.v[:, :, cut:], rest, first)
        return mechanism.read(x.q[:, :, start:], state, start)

    compare(
        mechanism,
        inputs,
        mask,
        halves,
        lambda x: mechanism.read(x.q[:, :, start:], mechanism.absorb(x.k, x.v, mask.keys), start),
    )
