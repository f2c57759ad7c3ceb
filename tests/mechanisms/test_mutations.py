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
from attnlab.mechanisms.recurrent import Recurrent, Tokens
from tests.support import law_trials as laws
from tests.support.law_trials import build, make_inputs, possible_masks, usual_mask

Law = Callable[..., None]
names = list(MECHANISMS)
causal_names = [name for name, kind in MECHANISMS.items() if kind.card.causal]
kernel_names = [name for name, kind in MECHANISMS.items() if issubclass(kind, Kernel)]
recurrent_names = [name for name, kind in MECHANISMS.items() if issubclass(kind, Recurrent)]
packing_names = [name for name, kind in MECHANISMS.items() if kind.card.packs]


def names_with(gate: str) -> list[str]:
    return [n for n, kind in MECHANISMS.items() if gate in [each.name for each in kind.gates]]


def first_trial(name: str) -> Mechanism:
    options = {"window": 3} if name == "window" else dict(MECHANISMS[name].trials[0])
    mechanism = build(name, options)
    # The rounding tolerance comes from the correct mechanism.
    mechanism.condition = build(name, options).condition  # type: ignore[method-assign]
    return mechanism


def inputs_for(mechanism: Mechanism, padding: str) -> laws.LawInputs:
    """The first inputs on which no sum of this mechanism cancels too much."""
    for seed in range(1000):
        inputs = make_inputs(mechanism, B=2, G=3, T=11, S=11, padding=padding, seed=seed)
        padded = inputs.keys is None or not bool(inputs.keys.all())
        worst = [
            float(mechanism.condition(inputs.q, inputs.k, mask, **inputs.gates).detach().max())
            for mask in possible_masks(mechanism, inputs.keys)
        ]
        if padded and max(worst) < 500:
            return inputs
    raise RuntimeError("no usable inputs")


def breaks(law: Law, mechanism: Mechanism, inputs: laws.LawInputs, mask: Mask, *more: Any) -> bool:
    try:
        law(mechanism, inputs, mask, *more)
    except AssertionError:
        return True
    except ValueError as error:
        return "has the value" in str(error)  # garbage in a gate that is not padding anymore
    return False


def change(mechanism: Mechanism, method: str, changed: Callable[..., Any]) -> None:
    """Replace a method of this mechanism by one that gets the original as its first argument."""
    original = getattr(mechanism, method)
    setattr(mechanism, method, lambda *inputs, **named: changed(original, *inputs, **named))


def drop_key_mask(mechanism: Mechanism) -> None:
    """Ignores the mask's keys."""

    def forward(right: Any, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        return right(q, k, v, replace(mask, keys=None), **gates)

    change(mechanism, "forward", forward)


def off_by_one(mechanism: Mechanism) -> None:
    """Every query also attends to the next token."""

    def forward(right: Any, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        if mechanism.card.cross:
            return right(q, k, v, replace(mask, start=mask.start + 1), **gates)
        # the others refuse a query beyond the last key
        out = right(q[:, :, :-1], k, v, replace(mask, start=mask.start + 1), **gates)
        return torch.cat([out, out[:, :, -1:]], dim=2)

    change(mechanism, "forward", forward)


def mask_values_only(mechanism: Mechanism) -> None:
    """Padding is zeroed in v, but phi of a padded key stays in the denominator."""

    def features(right: Any, x: Tensor, keys: Any = None, start: Any = 0) -> Features:
        del keys
        return right(x, start=start)

    change(mechanism, "features", features)


def sequence_maximum(mechanism: Mechanism) -> None:
    """performer-pytorch's stabilizer: minus a maximum over the whole sequence, plus an epsilon."""

    def features(right: Any, *inputs: Any, **named: Any) -> Features:
        sign, log = right(*inputs, **named)
        log = (log - log.amax((-2, -1), keepdim=True)).exp().add(1e-4).log()
        return Features(sign, log)

    mechanism.use_compiled = False  # in C, favor computes its features itself
    change(mechanism, "features", features)


def shift_decay(mechanism: Mechanism) -> None:
    """The fast path applies each decay one token late."""

    def compute(right: Any, *inputs: Any, log_decay: Tensor, **gates: Tensor) -> Tensor:
        return right(*inputs, log_decay=log_decay.roll(1, 2), **gates)

    change(mechanism, "compute", compute)


def shift_decay_everywhere(mechanism: Mechanism) -> None:
    """In the definition, the fast path and the state too: each call is consistent in itself."""

    def tokens(right: Any, *inputs: Any) -> Tokens:
        made = right(*inputs)
        decay = torch.zeros_like(made.k[..., 0]) if made.log_decay is None else made.log_decay
        return Tokens(made.k, decay.roll(1, 2), made.strength)

    change(mechanism, "tokens", tokens)


def forget_write_strength(mechanism: Mechanism, method: str) -> None:
    """Every token writes with strength 1."""

    def called(right: Any, *inputs: Any, write_strength: Tensor, **gates: Tensor) -> Any:
        return right(*inputs, write_strength=torch.ones_like(write_strength), **gates)

    change(mechanism, method, called)


def ignore_segments(mechanism: Mechanism) -> None:
    """The fast path attends to the row as to one document."""

    def attend(right: Any, q: Tensor, k: Tensor, v: Tensor, mask: Mask, **gates: Tensor) -> Tensor:
        del right
        return mechanism.attend(q, k, v, mask.row, **gates)

    change(mechanism, "attend_packed", attend)


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
    padding = torch.zeros(1, laws.HEADS, 1, laws.HEAD_DIM, dtype=torch.float64)
    if float(mechanism.features(padding).log.detach().max()) < -9:
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


@pytest.mark.parametrize("name", names_with("log_decay"))
def test_a_decay_shifted_by_one_token_breaks_the_definition(name: str) -> None:
    mechanism = first_trial(name)
    inputs, mask = inputs_for(mechanism, "none"), Mask(causal=True)
    laws.check_definition(mechanism, inputs, mask)
    shift_decay(mechanism)
    assert breaks(laws.check_definition, mechanism, inputs, mask)
    assert breaks(laws.check_decoding, mechanism, inputs, mask)


@pytest.mark.parametrize("name", sorted({*recurrent_names} & {*names_with("log_decay")}))
def test_a_decay_shifted_everywhere_breaks_the_laws_of_states(name: str) -> None:
    mechanism = first_trial(name)
    inputs, mask = inputs_for(mechanism, "none"), Mask(causal=True)
    laws.check_splitting(mechanism, inputs, mask, 5)
    shift_decay_everywhere(mechanism)
    laws.check_definition(mechanism, inputs, mask)  # it cannot know
    assert breaks(laws.check_decoding, mechanism, inputs, mask)
    assert breaks(laws.check_splitting, mechanism, inputs, mask, 5)


@pytest.mark.parametrize("name", names_with("write_strength"))
def test_a_forgotten_write_strength_breaks_a_law(name: str) -> None:
    inputs, mask = inputs_for(first_trial(name), "none"), Mask(causal=True)
    for method, law in (("compute", laws.check_definition), ("absorb", laws.check_decoding)):
        mechanism = first_trial(name)
        law(mechanism, inputs, mask)
        forget_write_strength(mechanism, method)
        assert breaks(law, mechanism, inputs, mask)


@pytest.mark.parametrize("name", packing_names)
def test_ignored_segments_break_the_packing_law(name: str) -> None:
    mechanism = first_trial(name)
    inputs = inputs_for(mechanism, "none")
    segments = torch.tensor([[0] * 4 + [1] * 7, [0] * 2 + [3] * 4 + [4] * 5])
    mask = replace(usual_mask(mechanism), segments=segments)
    laws.check_packing(mechanism, inputs, mask)
    ignore_segments(mechanism)
    assert breaks(laws.check_packing, mechanism, inputs, mask)


def test_a_state_that_is_written_over_breaks_the_decoding_law() -> None:
    mechanism = first_trial("softmax")
    inputs = inputs_for(mechanism, "none")

    def careless(right: Any, *inputs: Any) -> Any:
        state = right(*inputs)
        state.k_buffer.data[:, :, 0] += 1
        return state

    change(mechanism, "absorb", careless)
    assert breaks(laws.check_decoding, mechanism, inputs, Mask(causal=True))
