"""Law 7 in float32: scores up to 1e4, growing keys, tiny features. No zeros by underflow.

The expected output is that of the definition in float64.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab import MECHANISMS, Mask, Mechanism, create_mechanism
from attnlab.laws import _extreme_scores as extremes
from attnlab.laws._extreme_scores import T, random_normal
from attnlab.mechanisms.kernel import Kernel
from attnlab.mechanisms.recurrent import Recurrent
from tests.support.law_trials import (
    HEAD_DIM,
    HEADS,
    absorb,
    all_trials,
    build,
    every_trial,
    make_mechanism,
    possible_masks,
    single_inputs,
    skip_missing_form,
)

both_paths = pytest.mark.parametrize("in_torch", [False, True], ids=["C", "torch"])


def has_decay(mechanism: Mechanism) -> bool:
    return any(gate.name.startswith("log_decay") for gate in mechanism.gates)


def check_stress(name: str, options: Any, q: Tensor, k: Tensor, causal: bool, limit: float) -> None:
    """float32 forward, backward and decoding against the float64 definition."""
    single = build(name, options).float()
    extremes.check_stress(single, build(name, options), q, k, causal, limit)


@every_trial
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("largest", [1e2, 1e4])
def test_large_scores(name: str, options: Any, causal: bool, largest: float) -> None:
    single = build(name, options).float()
    skip_missing_form(single, causal)
    extremes.check_large_scores(single, build(name, options), largest, causal)


@every_trial
def test_each_key_far_above_those_before(name: str, options: Any) -> None:
    """Inside one chunk the last key is e^1000 times the first: a shared maximum would underflow."""
    single = build(name, options).float()
    skip_missing_form(single, causal=True)
    extremes.check_growing_keys(single, build(name, options))


@pytest.mark.parametrize(
    ("name", "options"),
    [trial for trial in all_trials() if has_decay(build(*trial))],
    ids=str,
)
def test_decays_from_nothing_to_everything(name: str, options: Any) -> None:
    extremes.check_decays(build(name, options).float(), build(name, options))


@both_paths
@pytest.mark.parametrize("name", ["elu", "favor"])
@pytest.mark.parametrize("causal", [False, True])
def test_features_too_small_for_float32(name: str, causal: bool, in_torch: bool) -> None:
    """phi(k) is below e^-1000 for every key and feature, yet the weights are ordinary numbers."""
    options: dict[str, Any] = {"torch": in_torch, **({"features": 8} if name == "favor" else {})}
    k = -1000 - 3 * random_normal(2, 2, 3, T, HEAD_DIM).abs()
    mechanism = build(name, options)
    q = random_normal(1, 2, HEADS, T, HEAD_DIM)
    assert float(mechanism.features(k.double()).log.max()) < -900  # type: ignore[operator]
    check_stress(name, options, q, k, causal, limit=1e-2)


@both_paths
@pytest.mark.parametrize(
    "name", [n for n, kind in MECHANISMS.items() if issubclass(kind, Kernel | Recurrent)]
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_states_of_sums_are_at_least_float32(name: str, dtype: torch.dtype, in_torch: bool) -> None:
    mechanism = make_mechanism(name)
    mechanism.use_compiled = not in_torch
    x = single_inputs(mechanism, B=1, G=3, T=T, S=T).to(dtype)
    state = absorb(mechanism, x, slice(None), None)
    sums = [value for value in vars(state).values() if isinstance(value, Tensor)]
    assert sums
    assert all(torch.finfo(each.dtype).bits >= 32 for each in sums)
    assert mechanism.read(x.q, state, 0).dtype == dtype
    out = x.output(mechanism, Mask(causal=True))
    assert out.dtype == dtype
    assert bool(out.isfinite().all())


@both_paths
def test_a_zero_denominator_gives_zeros_and_finite_gradients(in_torch: bool) -> None:
    """relu features that do not overlap, and polynomial features of orthogonal vectors."""
    for name in ("relu", "polynomial"):
        mechanism: Mechanism = create_mechanism(name, head_dim=2, heads=1)
        mechanism.use_compiled = not in_torch
        q = torch.tensor([[[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]]], requires_grad=True)
        k = torch.tensor([[[[0.0, 1.0], [0.0, 2.0], [3.0, 0.0]]]], requires_grad=True)
        v = torch.tensor([[[[1.0], [2.0], [3.0]]]], requires_grad=True)
        out = mechanism(q, k, v, Mask(causal=True))
        assert out.flatten().tolist() == [0, 0, 3]
        out.sum().backward()
        for x in (q, k, v):
            assert x.grad is not None
            assert bool(x.grad.isfinite().all())


@both_paths
@pytest.mark.parametrize(("head_dim", "T"), [(4, 7), (32, 40)])
def test_a_polynomial_in_float32_is_as_exact_as_float32(
    head_dim: int, T: int, in_torch: bool
) -> None:
    """A first token sees only itself: its output is its value, even where its query and its key
    are nearly orthogonal and the products that make up (q.k)^2 cancel."""
    mechanism = create_mechanism("polynomial", head_dim=head_dim, heads=6)
    mechanism.use_compiled = not in_torch
    for seed in range(0, 90, 3):
        q, k, v = (random_normal(seed + n, 1, 6, T, head_dim) for n in range(3))
        expected = mechanism.weights(q.double(), k.double(), Mask(True)) @ v.double()
        state, read = None, []
        for t in range(T):
            here = slice(t, t + 1)
            state = mechanism.absorb(k[:, :, here], v[:, :, here], None, state)
            read.append(mechanism.read(q[:, :, here], state, t))
        for out in (mechanism(q, k, v, Mask(True)), torch.cat(read, 2)):
            assert out.dtype == torch.float32
            assert float((out - expected).abs().max()) < 1e-6


@every_trial
@pytest.mark.parametrize("empty", [False, True])
def test_nothing_to_see_at_large_scores(name: str, options: Any, empty: bool) -> None:
    """Rows of nothing but padding that holds NaN, and a memory without any token, in float32."""
    mechanism = build(name, options).float()
    card = mechanism.card
    S = 0 if empty and card.cross else T
    x = single_inputs(mechanism, T=T, S=S)
    keys = torch.ones(2, S, dtype=torch.bool)
    keys[0] = False
    for tensor in (x.q, x.k, x.v):
        tensor.mul_(300)
    for tensor in (x.k, x.v, *x.gates.values()):
        tensor[0] = float("nan")
    x = x.fresh()
    for mask in possible_masks(mechanism, keys):
        out = x.output(mechanism, mask)
        assert bool(out.isfinite().all())
        assert not bool(out[0].any())
        if out.requires_grad:
            for grad in torch.autograd.grad(out.sum(), x.leaves(), allow_unused=True):
                assert grad is None or bool(grad.isfinite().all())
    start = 0 if card.cross else S - 1  # only the newest token can read, or all queries
    state = absorb(mechanism, x, slice(None), keys)
    assert not bool(mechanism.read(x.q[:, :, start:], state, start)[0].any())
