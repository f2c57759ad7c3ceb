"""The fixture of this folder: a kernel that leaves memory unwritten is noticed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab import MECHANISMS, Mask
from attnlab.laws import _single_call as calls
from attnlab.laws._compare import LawError
from attnlab.laws._law_inputs import build_mechanism, make_inputs
from attnlab.mechanisms._compiled import calls as compiled_calls
from attnlab.mechanisms._compiled import kernel, recurrent, sparse
from attnlab.mechanisms.elu import Elu
from attnlab.mechanisms.recurrent import Recurrent
from tests.support.c_compiler import needs_compiler
from tests.support.law_trials import build, make_mechanism, single_inputs, usual_mask


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_unwritten_numbers_are_nan(dtype: torch.dtype) -> None:
    some = torch.zeros(3, dtype=dtype)
    for empty in (torch.empty(5, dtype=dtype), some.new_empty(7), torch.empty_like(some)):
        assert bool(empty.isnan().all())
    whole = torch.empty(5, dtype=torch.int64)
    assert bool((whole == torch.iinfo(torch.int64).max).all())


class ForgetsARow(Elu):
    """Does not write the last row of its output."""

    def compute(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        right = super().compute(q, k, v, mask)
        out = torch.empty_like(right)
        out[:, :, :-1] = right[:, :, :-1]
        return out


def test_a_forgotten_row_breaks_a_law() -> None:
    mechanism = build_mechanism(ForgetsARow, {})
    inputs = make_inputs(mechanism, B=2, G=3, T=5, S=5)
    with pytest.raises(LawError):
        calls.check_definition(mechanism, inputs, Mask())


@needs_compiler
@pytest.mark.parametrize(
    ("name", "module"),
    [("elu", kernel), ("window", sparse), ("mamba2", recurrent), ("kda", recurrent)],
)
def test_a_c_kernel_that_writes_nothing_is_noticed(
    name: str, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = make_mechanism(name)
    x, mask = single_inputs(mechanism), usual_mask(mechanism)
    assert bool(x.output(mechanism, mask).isfinite().all())

    def nothing(*_: Any, **__: Any) -> None:
        """As a kernel whose loops end too early."""

    monkeypatch.setattr(module, "run", nothing)
    with torch.no_grad():
        assert bool(x.output(mechanism, mask).isnan().any())


@needs_compiler
@pytest.mark.parametrize(
    "name", [n for n, kind in MECHANISMS.items() if issubclass(kind, Recurrent)]
)
def test_a_c_kernel_that_forgets_a_gradient_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gradient in turn, those of the gates included."""
    mechanism = build(name, {})
    inputs, run = make_inputs(mechanism, B=2, G=3, T=5, S=5), compiled_calls.run
    calls.check_definition(mechanism, inputs, Mask(causal=True))
    for forgotten in range(3 + len(inputs.gates)):

        def forgetful(
            kernel: str, arrays: Any, *rest: Any, skip: int = forgotten, **named: Any
        ) -> None:
            run(kernel, arrays, *rest, **named)
            if kernel == "recurrent_backward":
                grads = [grad for grad in arrays[-5:] if grad.numel()]
                grads[skip][:, :, -1] = torch.empty_like(grads[skip][:, :, -1])

        monkeypatch.setattr(recurrent, "run", forgetful)
        with pytest.raises(LawError):
            calls.check_definition(mechanism, inputs, Mask(causal=True))
