"""The fixture of this folder: a kernel that leaves memory unwritten is noticed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab import Mask, create_mechanism
from attnlab.laws import _single_call as calls
from attnlab.laws._compare import LawError
from attnlab.laws._law_inputs import build_mechanism, make_inputs
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms._compiled import kernel
from attnlab.mechanisms.elu import Elu


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


@pytest.mark.skipif(not compiled.status().active, reason="no C kernels here")
def test_a_c_kernel_that_writes_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = create_mechanism("elu", head_dim=5, heads=3)
    q, k, v = (torch.randn(2, 3, 7, 5) for _ in "qkv")
    assert bool(mechanism(q, k, v, Mask()).isfinite().all())

    def nothing(*_: Any, **__: Any) -> None:
        """As a kernel whose loops end too early."""

    monkeypatch.setattr(kernel, "run", nothing)
    with torch.no_grad():
        assert bool(mechanism(q, k, v, Mask()).isnan().any())
