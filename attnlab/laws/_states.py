"""The laws of states: decoding, memory, splitting.

Letters: B batch, G key heads, T queries, S keys, D head size, M value size.
"""

from __future__ import annotations

from typing import Any

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
from attnlab.state import State


def absorb(
    mechanism: Any, x: LawInputs, tokens: slice, keys: Tensor | None, state: State | None = None
) -> State:
    k, v, gates = x.written(tokens)
    return mechanism.absorb(k, v, keys, state, **gates)


def check_decoding(mechanism: Mechanism, inputs: LawInputs, mask: Mask) -> None:
    """4. Decoding token by token equals one causal forward."""

    def decode(x: LawInputs) -> Tensor:
        state: State | None = None
        outs, states = [], []
        for t in range(x.k.shape[2]):
            here = slice(t, t + 1)
            keys = None if mask.keys is None else mask.keys[:, here]
            state = absorb(mechanism, x, here, keys, state)
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
            state = absorb(mechanism, x, here, keys, state)
            outs.append(mechanism.read(x.q[:, :, here], state, t))
            if first is None:
                first, state = state, state.overwritable()
        again = outs[0] if first is None else mechanism.read(x.q[:, :, :1], first, 0)
        require(torch.equal(again, outs[0]), "overwritable() changed the state it was called on")
        return torch.cat(outs, dim=2)

    compare(mechanism, inputs, mask, decode, lambda x: x.output(mechanism, mask))
    with torch.no_grad():  # without gradients, a growing state is written in place
        value_condition, gradient_condition = condition_numbers(mechanism, inputs, mask)
        out = inputs.output(mechanism, mask)
        assert_equal_to_rounding([decode(inputs)], [out], value_condition)
        assert_equal_to_rounding([decode_overwriting(inputs)], [out], value_condition)
    # states without gradients, read by queries with gradients
    still = {name: gate.detach() for name, gate in inputs.gates.items()}
    left, right = (
        LawInputs(x.q, x.k.detach(), x.v.detach(), x.keys, still)
        for x in (inputs.fresh(), inputs.fresh())
    )
    one, other = decode(left), right.output(mechanism, mask)
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
            part = inputs.part(slice(row, row + 1), positions, positions)
            worst = max(worst, condition_numbers(mechanism, part, Mask(True))[0])
            expected.append(part.output(mechanism, Mask(True))[:, :, len(positions) - steps :])
        real = torch.arange(prompt) < lengths[:, None]
        state = absorb(mechanism, inputs, slice(0, prompt), real).trim(lengths)
        actual = []
        for step in range(steps):
            here = slice(prompt + step, prompt + step + 1)
            state = absorb(mechanism, inputs, here, None, state)
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
        lambda x: mechanism.read(x.q, absorb(mechanism, x, slice(None), mask.keys), 0),
        lambda x: x.output(mechanism, mask),
    )


def check_splitting(mechanism: Mechanism, inputs: LawInputs, mask: Mask, cut: int) -> None:
    """6. Splitting an absorb in two changes nothing."""
    S = inputs.k.shape[2]
    start = 0 if mechanism.card.cross else min(cut, S - 1)  # the newest tokens, or any queries

    if not mechanism.card.cross and cut == S:
        cut = S - 1  # an empty second half would have no newest token

    def halves(x: LawInputs) -> Tensor:
        first = absorb(mechanism, x, slice(0, cut), first_keys(mask, cut))
        rest = None if mask.keys is None else mask.keys[:, cut:]
        state = absorb(mechanism, x, slice(cut, None), rest, first)
        return mechanism.read(x.q[:, :, start:], state, start)

    def whole(x: LawInputs) -> Tensor:
        state = absorb(mechanism, x, slice(None), mask.keys)
        return mechanism.read(x.q[:, :, start:], state, start)

    compare(mechanism, inputs, mask, halves, whole)
