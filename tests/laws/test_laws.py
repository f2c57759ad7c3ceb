"""Every law over every mechanism of the registry, float64, gradients included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab import MECHANISMS, Mask
from tests.support import law_trials as laws
from tests.support.examples import examples
from tests.support.law_trials import (
    absorb,
    build,
    every_trial,
    make_inputs,
    possible_masks,
    sizes,
)

in_c = pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name, kind in MECHANISMS.items() if kind.compilable],
    ids=str,
)
many = examples(12)
few = examples(8)
# around the chunks of 24, 32 and 48 tokens in which the C kernels go, which no option changes
LONG = (23, 24, 25, 31, 32, 33, 47, 48, 49, 65, 73)


@every_trial
@many
@given(size=sizes())
def test_forward_equals_the_definition(name: str, options: Any, size: Any) -> None:
    mechanism = build(name, options)
    inputs = make_inputs(mechanism, **size)
    for mask in possible_masks(mechanism, inputs.keys):
        laws.check_definition(mechanism, inputs, mask)


@every_trial
@many
@given(size=sizes(same_length=False), start=st.integers(-3, 12), each=st.booleans())
def test_forward_equals_the_definition_from_any_start(
    name: str, options: Any, size: Any, start: int, each: bool
) -> None:
    mechanism = build(name, options)
    card = mechanism.card
    if not card.cross:  # queries must be a part of the sequence
        start = max(0, min(start, size["S"] - 1))
        size["T"] = min(size["T"], size["S"] - start)
    start = max(start, 0) if card.needs_length else start
    inputs = make_inputs(mechanism, **size)
    steps = torch.arange(size["B"]) % 2
    many_starts = (start - steps).clamp(min=0 if not card.cross or card.needs_length else -9)
    place = many_starts if each else start
    if card.causal:
        laws.check_definition(mechanism, inputs, Mask(True, inputs.keys, place))
    if card.cross:
        laws.check_definition(mechanism, inputs, Mask(False, inputs.keys, place))


@every_trial
@many
@given(size=sizes())
def test_padding_changes_nothing(name: str, options: Any, size: Any) -> None:
    mechanism = build(name, options)
    inputs = make_inputs(mechanism, **size)
    for mask in possible_masks(mechanism, inputs.keys):
        laws.check_padding(mechanism, inputs, mask)
        laws.check_padding_removed(mechanism, inputs, mask)


@every_trial
@many
@given(size=sizes(), where=st.floats(0, 1))
def test_the_future_changes_nothing(name: str, options: Any, size: Any, where: float) -> None:
    mechanism = build(name, options)
    if not mechanism.card.causal:
        return
    inputs = make_inputs(mechanism, **size)
    cut = 1 + int(where * (size["S"] - 1))
    laws.check_future(mechanism, inputs, Mask(True, inputs.keys), cut)


@every_trial
@many
@given(size=sizes())
def test_decoding_equals_one_forward(name: str, options: Any, size: Any) -> None:
    mechanism = build(name, options)
    if not mechanism.card.causal:
        return
    inputs = make_inputs(mechanism, **size)
    laws.check_decoding(mechanism, inputs, Mask(True, inputs.keys))


@every_trial
@many
@given(size=sizes(), lengths=st.lists(st.integers(1, 12), min_size=3, max_size=3))
def test_unequal_prompts_decode_as_alone(
    name: str, options: Any, size: Any, lengths: list[int]
) -> None:
    mechanism = build(name, options)
    if not mechanism.card.causal:
        return
    rows = torch.tensor(lengths[: size["B"]])
    length = int(rows.max()) + 1 + size["S"] % 5
    size.update(S=length, T=length, padding="none")
    laws.check_unequal_prompts(mechanism, make_inputs(mechanism, **size), rows)


@every_trial
@many
@given(size=sizes(same_length=False))
def test_reading_memory_equals_cross_attention(name: str, options: Any, size: Any) -> None:
    mechanism = build(name, options)
    if not mechanism.card.cross:
        return
    inputs = make_inputs(mechanism, **size)
    laws.check_memory(mechanism, inputs, Mask(False, inputs.keys))


@every_trial
@many
@given(size=sizes(), where=st.floats(0, 1))
def test_splitting_an_absorb_changes_nothing(
    name: str, options: Any, size: Any, where: float
) -> None:
    mechanism = build(name, options)
    inputs = make_inputs(mechanism, **size)
    cut = int(where * size["S"])
    laws.check_splitting(mechanism, inputs, Mask(False, inputs.keys), cut)


@every_trial
@many
@given(size=sizes(), empty=st.booleans())
def test_no_visible_keys_give_zeros(name: str, options: Any, size: Any, empty: bool) -> None:
    mechanism = build(name, options)
    if empty and mechanism.card.cross:
        size["S"] = 0
    inputs = make_inputs(mechanism, **size)
    for mask in possible_masks(mechanism, inputs.keys):
        laws.check_no_visible_keys(mechanism, inputs, mask)


@every_trial
@few
@given(size=sizes(), numbers=st.lists(st.integers(0, 3), min_size=60, max_size=60))
def test_packed_documents_are_as_if_alone(
    name: str, options: Any, size: Any, numbers: list[int]
) -> None:
    mechanism = build(name, options)
    if not mechanism.card.packs:
        return
    inputs = make_inputs(mechanism, **size)
    B, S = size["B"], size["S"]
    segments = torch.tensor([sorted(numbers[row * S : row * S + S]) for row in range(B)])
    for mask in possible_masks(mechanism, inputs.keys):
        laws.check_packing(mechanism, inputs, replace(mask, segments=segments))


@in_c
@few
@given(size=sizes(lengths=LONG), where=st.floats(0, 1))
def test_laws_of_one_call_over_several_kernel_chunks(
    name: str, options: Any, size: Any, where: float
) -> None:
    mechanism = build(name, options)
    inputs = make_inputs(mechanism, **size)
    for mask in possible_masks(mechanism, inputs.keys):
        laws.check_definition(mechanism, inputs, mask)
        laws.check_padding(mechanism, inputs, mask)
        laws.check_no_visible_keys(mechanism, inputs, mask)
    laws.check_future(mechanism, inputs, Mask(True, inputs.keys), 1 + int(where * (size["S"] - 1)))


@in_c
@few
@given(size=sizes(lengths=LONG), where=st.floats(0, 1))
def test_laws_of_states_over_several_kernel_chunks(
    name: str, options: Any, size: Any, where: float
) -> None:
    mechanism = build(name, options)
    inputs = make_inputs(mechanism, **size)
    laws.check_decoding(mechanism, inputs, Mask(True, inputs.keys))
    mask = Mask(False, inputs.keys)
    laws.check_splitting(mechanism, inputs, mask, int(where * size["S"]))
    if mechanism.card.cross:
        laws.check_memory(mechanism, inputs, mask)


@pytest.mark.parametrize("in_torch", [False, True])
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_a_state_is_read_only_with_its_dtype(name: str, in_torch: bool) -> None:
    """The kernels would misread numbers of another size."""
    mechanism = build(name, {"torch": in_torch})
    inputs = make_inputs(mechanism, B=2, G=3, T=1, S=5)
    state = absorb(mechanism, inputs, slice(None), None)
    mechanism.read(inputs.q, state, 4)
    with pytest.raises(ValueError, match=r"q is torch.float32, but the state holds"):
        mechanism.read(inputs.q.float(), state, 4)
