"""Infinity and NaN in one packed document, or in padding, change nothing elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab import MECHANISMS, Mask
from tests.support.law_trials import make_mechanism, possible_masks, single_inputs

S, FIRST, LAST = 78, 20, 60  # tokens; the document in the middle
both_paths = pytest.mark.parametrize("in_torch", [False, True], ids=["C", "torch"])


def gradients(out: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    weight = torch.linspace(-1, 1, out[0, 0].numel()).view(out[0, 0].shape)
    grads = torch.autograd.grad((out * weight).sum(), leaves, allow_unused=True)
    return [grad for grad in grads if grad is not None]


@both_paths
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
@pytest.mark.parametrize("name", [n for n, kind in MECHANISMS.items() if kind.card.packs])
def test_other_documents(name: str, bad: float, in_torch: bool) -> None:
    mechanism: Any = make_mechanism(name)
    mechanism.use_compiled = not in_torch
    causal = mechanism.card.causal
    x = single_inputs(mechanism, B=1, G=1, T=S, S=S)
    segments = torch.arange(S)[None].ge(FIRST).long() + torch.arange(S)[None].ge(LAST).long()
    mask = Mask(causal=causal, segments=segments)
    results = []
    for value in (None, bad):
        q, k, v = (y.detach().clone() for y in (x.q, x.k, x.v))
        if value is not None:
            for y in (k, v):
                y[:, :, FIRST - 3], y[:, :, LAST + 3] = value, value
        leaves = [y.requires_grad_() for y in (q, k, v)]
        out = mechanism(*leaves, mask, **x.gates)[:, :, FIRST:LAST]
        results.append([out, *(g[:, :, FIRST:LAST] for g in gradients(out, leaves))])
    for expected, got in zip(*results, strict=True):
        assert torch.allclose(got, expected, rtol=1e-4, atol=1e-4)


@both_paths
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
@pytest.mark.parametrize("name", [n for n, kind in MECHANISMS.items() if kind.card.padding])
def test_padding(name: str, bad: float, in_torch: bool) -> None:
    """At the start, in the middle and at the end. Gates hold it too."""
    mechanism: Any = make_mechanism(name)
    mechanism.use_compiled = not in_torch
    x = single_inputs(mechanism, B=1, G=1, T=S, S=S)
    position = torch.arange(S)
    keys = (position >= 5) & (position < 70) & ~((position >= 30) & (position < 40))
    for mask in possible_masks(mechanism, keys[None]):
        results = []
        for value in (0.0, bad):
            q, k, v = (y.detach().clone() for y in (x.q, x.k, x.v))
            gates = {gate: y.detach().clone() for gate, y in x.gates.items()}
            for y in (k, v, *gates.values()):
                y[:, :, ~keys] = value
            leaves = [y.requires_grad_() for y in (q, k, v, *gates.values())]
            out = mechanism(q, k, v, mask, **gates)
            results.append([out, *gradients(out, leaves)])
        for expected, got in zip(*results, strict=True):
            assert torch.allclose(got, expected, rtol=1e-4, atol=1e-4)
