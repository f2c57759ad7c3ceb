"""Every law over every mechanism of the registry, float64, gradients included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab import Mask
from tests import laws
from tests.laws import all_trials, build, make_inputs, sizes

trials = pytest.mark.parametrize(("name", "options"), list(all_trials()), ids=str)
many = settings(max_examples=20)


def masks(mechanism: Any, keys: torch.Tensor | None) -> list[Mask]:
    return [Mask(causal, keys) for causal in (False, True) if mechanism.card.causal or not causal]


@trials
@many
@given(size=sizes())
def test_forward_equals_the_definition(name: str, options: Any, size: Any) -> None:
    mechanism = build(name, options)
    inputs = make_inputs(mechanism, **size)
    for mask in masks(mechanism, inputs.keys):
        laws.check_definition(mechanism, inputs, mask)


@trials
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


@trials
@many
@given(size=sizes())
def test_padding_changes_nothing(name: str, options: Any, size: Any) -> None:
    mechanism = build(name, options)
    inputs = make_inputs(mechanism, **size)
    for mask in masks(mechanism, inputs.keys):
        laws.check_padding(mechanism, inputs, mask)
        laws.check_padding_removed(mechanism, inputs, mask)


@trials
@many
@given(size=sizes(), where=st.floats(0, 1))
def test_the_future_changes_nothing(name: str, options: Any, size: Any, where: float) -> None:
    mechanism = build(name, options)
    if not mechanism.card.causal:
        return
    inputs = make_inputs(mechanism, **size)
    cut = 1 + int(where * (size["S"] - 1))
    laws.check_future(mechanism, inputs, Mask(True, inputs.keys), cut)


@trials
@many
@given(size=sizes())
def test_decoding_equals_one_forward(name: str, options: Any, size: Any) -> None:
    mechanism = build(name, options)
    if not mechanism.card.causal:
        return
    inputs = make_inputs(mechanism, **size)
    laws.check_decoding(mechanism, inputs, Mask(True, inputs.keys))


@trials
@many
@given(size=sizes(), lengths=st.lists(st.integers(1, 12), min_size=3, max_size=3))
def test_ragged_prompts_decode_as_alone(
    name: str, options: Any, size: Any, lengths: list[int]
) -> None:
    mechanism = build(name, options)
    if not mechanism.card.causal:
        return
    rows = torch.tensor(lengths[: size["B"]])
    length = int(rows.max()) + 1 + size["S"] % 5
    size.update(S=length, T=length, padding="none")
    laws.check_ragged_decoding(mechanism, make_inputs(mechanism, **size), rows)


@trials
@many
@given(size=sizes(same_length=False))
def test_reading_memory_equals_cross_attention(name: str, options: Any, size: Any) -> None:
    mechanism = build(name, options)
    if not mechanism.card.cross:
        return
    inputs = make_inputs(mechanism, **size)
    laws.check_memory(mechanism, inputs, Mask(False, inputs.keys))


@trials
@many
@given(size=sizes(), where=st.floats(0, 1))
def test_splitting_an_absorb_changes_nothing(
    name: str, options: Any, size: Any, where: float
) -> None:
    mechanism = build(name, options)
    inputs = make_inputs(mechanism, **size)
    cut = int(where * size["S"])
    laws.check_splitting(mechanism, inputs, Mask(False, inputs.keys), cut)


@trials
@many
@given(size=sizes(), empty=st.booleans())
def test_nothing_to_look_at_gives_zeros(name: str, options: Any, size: Any, empty: bool) -> None:
    mechanism = build(name, options)
    if empty and mechanism.card.cross:
        size["S"] = 0
    inputs = make_inputs(mechanism, **size)
    for mask in masks(mechanism, inputs.keys):
        laws.check_nothing(mechanism, inputs, mask)
