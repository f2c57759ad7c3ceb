"""The laws of attnlab.laws for pytest: over the whole registry, inputs chosen by hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest
import torch
from hypothesis import assume, currently_in_test_context
from hypothesis import strategies as st
from torch import Tensor

from attnlab import MECHANISMS, Mask, Mechanism, create_mechanism
from attnlab._create_mechanism import create_attention, create_heads
from attnlab.gates import sample_gates
from attnlab.laws import _law_inputs as law_inputs
from attnlab.laws import _single_call as calls
from attnlab.laws import _states as states
from attnlab.laws._compare import UnsuitableError
from attnlab.laws._law_inputs import HEAD_DIM as HEAD_DIM
from attnlab.laws._law_inputs import HEADS as HEADS
from attnlab.laws._law_inputs import MAX_LENGTH as MAX_LENGTH
from attnlab.laws._law_inputs import PADDINGS
from attnlab.laws._law_inputs import VALUE_DIM as VALUE_DIM
from attnlab.laws._law_inputs import LawInputs as LawInputs
from attnlab.laws._law_inputs import make_inputs as make_inputs
from attnlab.laws._law_inputs import possible_masks as possible_masks
from attnlab.laws._states import absorb as absorb
from attnlab.mechanisms._mechanism_per_head_group import members_of

GROUPS = (
    "2*softmax+4*favor:features=7,chunk=3",
    "3*window:window=2+3*synthesizer",
    "1*elu:chunk=2+5*bigbird:block=2",
    "4*linformer:rank=3+2*hard",
    "2*softmax+4*gla",
    "3*kda+3*mamba2",
    "elu;softmax;elu;window:window=2;softmax;elu",  # a line of text for each head
)


def all_trials() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every mechanism at every set of options of its `trials`."""
    for name, kind in MECHANISMS.items():
        for options in law_inputs.option_sets(kind):
            yield name, options
    for groups in GROUPS:
        yield groups, {}
        if any(member.compilable for member in members_of(build(groups, {}))):
            yield groups, {"torch": True}


def build(name: str, options: dict[str, Any], seed: int = 0) -> Mechanism:
    if name in MECHANISMS:
        return law_inputs.build_mechanism(MECHANISMS[name], options, seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if ";" in name:
            specs = name.split(";")
            mechanism = create_heads(specs, head_dim=HEAD_DIM, max_length=MAX_LENGTH).double()
        else:  # a line of text, as a layer takes it
            sizes: dict[str, Any] = {"head_dim": HEAD_DIM, "heads": HEADS}
            mechanism = create_attention(name, **sizes, max_length=MAX_LENGTH).double()
        law_inputs.randomize_parameters(mechanism)
    mechanism.use_compiled = not options.get("torch", False)
    return mechanism


every_trial = pytest.mark.parametrize(("name", "options"), list(all_trials()), ids=str)


def make_mechanism(name: str, **changes: Any) -> Mechanism:
    """A mechanism in float32 with its own defaults."""
    sizes: dict[str, Any] = {"head_dim": HEAD_DIM, "heads": HEADS, "max_length": MAX_LENGTH}
    return create_mechanism(name, **{**sizes, **changes})


def usual_mask(mechanism: Mechanism, keys: Tensor | None = None) -> Mask:
    """Without a causal mask where the mechanism has that form."""
    return possible_masks(mechanism, keys)[0]


def single_inputs(
    mechanism: Mechanism, B: int = 2, G: int = HEADS, T: int = 7, S: int = 7, seed: int = 0
) -> LawInputs:
    """q, k, v and gates in float32, without gradients, all of full width."""
    inputs = make_inputs(mechanism, B=B, G=G, T=T, S=S, seed=seed, full_width=True)
    return inputs.to(torch.float32)


def with_keys(mechanism: Mechanism, x: LawInputs, k: Tensor, v: Tensor) -> LawInputs:
    """The same queries with other keys and values, and with gates for them."""
    gates = sample_gates(mechanism.gates, k, torch.Generator().manual_seed(5))
    return replace(x, k=k, v=v, gates=gates)


def skip_missing_form(mechanism: Mechanism, causal: bool) -> None:
    if causal and not mechanism.card.causal:
        pytest.skip(f"{mechanism.name}: has no causal form")
    if not causal and not mechanism.card.bidirectional:
        pytest.skip(f"{mechanism.name}: exists only in causal form")


@st.composite
def sizes(
    draw: st.DrawFn, same_length: bool = True, lengths: Sequence[int] = range(1, 21)
) -> dict[str, Any]:
    """Sizes for `make_inputs`: lengths from 1 to beyond chunk, block and window borders."""
    S = draw(st.sampled_from(lengths))
    return {
        "B": draw(st.integers(1, 3)),
        "G": draw(st.sampled_from([1, 2, 3, 6])),
        "S": S,
        "T": S if same_length else draw(st.integers(1, 9)),
        "padding": draw(st.sampled_from(PADDINGS)),
        "seed": draw(st.integers(0, 10_000)),
    }


def assuming(law: Callable[..., None]) -> Callable[..., None]:
    """Make hypothesis try other inputs; outside a hypothesis test, raise an error."""

    @wraps(law)
    def checked(*arguments: Any) -> None:
        try:
            law(*arguments)
        except UnsuitableError as reason:
            if currently_in_test_context():
                assume(False)
            raise RuntimeError("these inputs do not suit the law: choose another seed") from reason

    return checked


check_definition = assuming(calls.check_definition)
check_padding = assuming(calls.check_padding)
check_padding_removed = assuming(calls.check_padding_removed)
check_future = assuming(calls.check_future)
check_packing = assuming(calls.check_packing)
check_no_visible_keys = assuming(calls.check_no_visible_keys)
check_decoding = assuming(states.check_decoding)
check_unequal_prompts = assuming(states.check_unequal_prompts)
check_memory = assuming(states.check_memory)
check_splitting = assuming(states.check_splitting)
