"""Overwritable states: absorb writes the next state over them, as in generation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab import MECHANISMS
from attnlab.generate import beam_search, generate
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms.kernel import Kernel, KernelState
from attnlab.models import Decoder, StackConfig
from tests.support.c_compiler import needs_compiler
from tests.support.law_trials import make_mechanism

KERNELS = [name for name, kind in MECHANISMS.items() if issubclass(kind, Kernel)]


def random_normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def absorbed(name: str, tokens: int = 3) -> tuple[Any, KernelState]:
    mechanism = make_mechanism(name)
    with torch.no_grad():
        state = mechanism.absorb(
            random_normal(1, 2, 3, tokens, 4), random_normal(2, 2, 3, tokens, 5)
        )
    assert isinstance(state, KernelState)
    return mechanism, state


@pytest.mark.parametrize("in_torch", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_an_overwritable_state_is_written_over(name: str, in_torch: bool) -> None:
    mechanism, state = absorbed(name)
    mechanism.use_compiled = not in_torch
    k, v, q = (
        random_normal(3, 2, 3, 1, 4),
        random_normal(4, 2, 3, 1, 5),
        random_normal(5, 2, 6, 1, 4),
    )
    with torch.no_grad():
        copied = mechanism.absorb(k, v, None, state)
        expected = mechanism.read(q, copied, 3)
        before = mechanism.read(q, state, 2)
        old = state.overwritable()
        new = mechanism.absorb(k, v, None, old)
        assert new.sums.data_ptr() == old.sums.data_ptr()
        assert (old.length, new.length) == (3, 4)
        assert torch.allclose(mechanism.read(q, new, 3), expected, rtol=1e-4, atol=1e-5)
        assert torch.equal(mechanism.read(q, state, 2), before)
        for use in (
            lambda: mechanism.read(q, old, 2),
            lambda: mechanism.absorb(k, v, None, old),
            lambda: old.select(torch.arange(2)),
            lambda: old.trim(torch.tensor([3, 3])),
            old.overwritable,
        ):
            with pytest.raises(ValueError, match="this state was overwritten by a later absorb"):
                use()
        newer = mechanism.absorb(k, v, None, new)  # further steps need no new call
        assert newer.sums.data_ptr() == old.sums.data_ptr()


@pytest.mark.parametrize("name", KERNELS)
def test_copies_of_an_overwritable_state_have_memory_of_their_own(name: str) -> None:
    mechanism, state = absorbed(name)
    state = state.overwritable()
    k, v, q = (
        random_normal(3, 2, 3, 1, 4),
        random_normal(4, 2, 3, 1, 5),
        random_normal(5, 2, 6, 1, 4),
    )
    with torch.no_grad():
        before = mechanism.read(q, state, 2)
        for copy in (state.select(torch.arange(2)), state.trim(torch.tensor([3, 3]))):
            assert mechanism.absorb(k, v, None, copy).sums.data_ptr() == copy.sums.data_ptr()
            assert torch.equal(mechanism.read(q, state, 2), before)
        several = mechanism.absorb(k.repeat(1, 1, 2, 1), v.repeat(1, 1, 2, 1), None, state)
        assert several.sums.data_ptr() != state.sums.data_ptr()
        assert torch.equal(mechanism.read(q, state, 2), before)
        assert mechanism.absorb(k, v, None, several).sums.data_ptr() == several.sums.data_ptr()


def test_a_state_of_inference_mode_is_not_written_over_outside_of_it() -> None:
    mechanism, state = absorbed("elu")
    mechanism.use_compiled = False
    with torch.inference_mode():
        state = state.overwritable()
    with torch.no_grad():
        new = mechanism.absorb(
            random_normal(3, 2, 3, 1, 4), random_normal(4, 2, 3, 1, 5), None, state
        )
    assert new.sums.data_ptr() != state.sums.data_ptr()


def test_gradients_forbid_writing_over() -> None:
    mechanism, state = absorbed("favor")
    k, v, q = (
        random_normal(3, 2, 3, 1, 4),
        random_normal(4, 2, 3, 1, 5),
        random_normal(5, 2, 6, 1, 4).requires_grad_(),
    )
    state = state.overwritable()
    out = mechanism.read(q, state, 3)
    with torch.enable_grad():
        new = mechanism.absorb(k, v, None, state)
    assert new.sums.data_ptr() != state.sums.data_ptr()
    assert torch.autograd.grad(out.sum(), q)[0].isfinite().all()


def write(model: Decoder, beams: bool) -> list[list[list[int]]]:
    prompts = [[1, 2, 3], [4, 5], [6, 7, 1, 2]]
    if beams:
        sequences = beam_search(model, prompts, new_tokens=12, width=3, best=2)
    else:
        sequences = generate(model, prompts, new_tokens=12, samples=2)
    return [[each.ids for each in some] for some in sequences]


@needs_compiler
@pytest.mark.parametrize("beams", [False, True])
@pytest.mark.parametrize("attention", ["favor:features=16", "2*elu+2*softmax"])
def test_the_generator_writes_over(
    attention: str, beams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same text as with copies, and every step in place."""
    torch.manual_seed(0)
    model = Decoder(StackConfig(9, 32, width=16, layers=2, heads=4, attention=attention)).eval()
    calls = []
    in_place = compiled.absorb_in_place

    def counted(*arguments: Any) -> None:
        calls.append(arguments)
        in_place(*arguments)

    monkeypatch.setattr(compiled, "absorb_in_place", counted)
    written = write(model, beams)
    assert len(calls) == 2 * 11  # all steps, in 2 layers
    monkeypatch.setattr(compiled, "can_run", lambda _: False)
    assert write(model, beams) == written
    assert len(calls) == 2 * 11
