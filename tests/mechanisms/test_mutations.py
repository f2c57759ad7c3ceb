"""A test of the tests: a mechanism with a known mistake must break the law that forbids it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab import MECHANISMS, Mask, Mechanism
from attnlab.mechanisms._scan import Features
from attnlab.mechanisms.kernel import Kernel
from tests.support import law_trials as laws
from tests.support.law_trials import build, make_inputs

Law = Callable[..., None]
names = list(MECHANISMS)
causal_names = [name for name, kind in MECHANISMS.items() if kind.card.causal]
kernel_names = [name for name, kind in MECHANISMS.items() if issubclass(kind, Kernel)]


def first_trial(name: str) -> Mechanism:
    options = {"window": 3} if name == "window" else dict(MECHANISMS[name].trials[0])
    mechanism = build(name, options)
    # The rounding tolerance comes from the correct mechanism.
    mechanism.condition = build(name, options).condition  # type: ignore[method-assign]
    return mechanism


def inputs_for(mechanism: Mechanism, padding: str) -> laws.LawInputs:
    """The first inputs on which no sum of this mechanism cancels too much."""
    masks = (Mask(), Mask(causal=True)) if mechanism.card.causal else (Mask(),)
    for seed in range(1000):
        inputs = make_inputs(mechanism, B=2, G=3, T=11, S=11, padding=padding, seed=seed)
        padded = inputs.keys is None or not bool(inputs.keys.all())
        worst = [
            float(
                mechanism.condition(inputs.q, inputs.k, replace(mask, keys=inputs.keys))
                .detach()
                .max()
            )
            for mask in masks
        ]
        if padded and max(worst) < 500:
            return inputs
    raise RuntimeError("no usable inputs")


def breaks(law: Law, mechanism: Mechanism, inputs: laws.LawInputs, mask: Mask, *more: Any) -> bool:
    try:
        law(mechanism, inputs, mask, *more)
    except AssertionError:
        return True
    return False


def drop_key_mask(mechanism: Mechanism) -> None:
    """Ignores the mask's keys."""
    forward = mechanism.forward
    mechanism.forward = lambda q, k, v, mask: forward(q, k, v, replace(mask, keys=None))  # type: ignore


def off_by_one(mechanism: Mechanism) -> None:
    """Every query also attends to the next token."""

    def mutate(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def called(q: Tensor, k: Tensor, *rest: Any) -> Tensor:
            *values, mask = rest
            if not mechanism.card.cross:  # those refuse a query beyond the last key
                q = q[:, :, :-1]
            out = call(q, k, *values, replace(mask, start=mask.start + 1))
            if not mechanism.card.cross:
                out = torch.cat([out, out[:, :, -1:]], dim=2)
            return out

        return called

    mechanism.forward = mutate(mechanism.forward)  # type: ignore[method-assign]


def mask_values_only(mechanism: Mechanism) -> None:
    """Padding is zeroed in v, but phi of a padded key stays in the denominator."""
    assert isinstance(mechanism, Kernel)
    features = mechanism.features

    def unmasked(x: Tensor, keys: Tensor | None = None) -> Features:
        del keys
        return features(x)

    mechanism.features = unmasked  # type: ignore[method-assign]


def sequence_maximum(mechanism: Mechanism) -> None:
    """performer-pytorch's stabilizer: minus a maximum over the whole sequence, plus an epsilon."""
    assert isinstance(mechanism, Kernel)
    phi = mechanism.phi

    def stabilized(x: Tensor) -> Features:
        sign, log = phi(x)
        log = (log - log.amax((-2, -1), keepdim=True)).exp().add(1e-4).log()
        return Features(sign, log)

    mechanism.phi = stabilized  # type: ignore[method-assign]


@pytest.mark.parametrize("name", names)
def test_dropping_the_key_mask_breaks_the_padding_law(name: str) -> None:
    mechanism = first_trial(name)
    inputs = inputs_for(mechanism, "random")
    mask = Mask(mechanism.card.causal, inputs.keys)
    laws.check_padding(mechanism, inputs, mask)
    drop_key_mask(mechanism)
    assert breaks(laws.check_padding, mechanism, inputs, mask)
    assert breaks(laws.check_definition, mechanism, inputs, mask)


@pytest.mark.parametrize("name", causal_names)
def test_an_off_by_one_breaks_the_future_law(name: str) -> None:
    mechanism = first_trial(name)
    inputs = inputs_for(mechanism, "none")
    mask = Mask(causal=True)
    laws.check_future(mechanism, inputs, mask, 5)
    laws.check_decoding(mechanism, inputs, mask)
    off_by_one(mechanism)
    assert breaks(laws.check_future, mechanism, inputs, mask, 5)
    assert breaks(laws.check_decoding, mechanism, inputs, mask)


@pytest.mark.parametrize("name", kernel_names)
def test_masking_values_only_breaks_the_padding_law(name: str) -> None:
    mechanism = first_trial(name)
    assert isinstance(mechanism, Kernel)
    # polynomial's padded key is zero, and so is its feature: there is nothing to get wrong
    if not bool(mechanism.phi(torch.zeros(1, laws.HEAD_DIM, dtype=torch.float64)).log[0, 0] > -9):
        pytest.skip(f"{name}: phi(0) = 0, so blanked padding is masked already")
    inputs = inputs_for(mechanism, "right")
    mask = Mask(False, inputs.keys)
    laws.check_padding_removed(mechanism, inputs, mask)
    mask_values_only(mechanism)
    assert breaks(laws.check_padding_removed, mechanism, inputs, mask)


@pytest.mark.parametrize("name", kernel_names)
def test_a_maximum_over_the_sequence_breaks_the_future_law(name: str) -> None:
    mechanism = first_trial(name)
    inputs = inputs_for(mechanism, "none")
    mask = Mask(causal=True)
    laws.check_future(mechanism, inputs, mask, 5)
    sequence_maximum(mechanism)
    assert breaks(laws.check_future, mechanism, inputs, mask, 5)


def test_a_state_that_is_written_over_breaks_the_decoding_law() -> None:
    mechanism = first_trial("softmax")
    inputs = inputs_for(mechanism, "none")
    absorb: Callable[..., Any] = mechanism.absorb

    def careless(*arguments: Any) -> Any:
        state = absorb(*arguments)
        state.k_buffer.data[:, :, 0] += 1
        return state

    mechanism.absorb = careless  # type: ignore[method-assign,assignment]
    assert breaks(laws.check_decoding, mechanism, inputs, Mask(causal=True))
