"""`hedgehog_window`: softmax in a window, hedgehog's features for earlier keys."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnlab import Mask, check_laws, create_mechanism
from attnlab.mechanisms import hedgehog_window as module
from attnlab.mechanisms.hedgehog_window import HedgehogWindow
from tests.support.examples import examples

D, H, G, M = 3, 4, 2, 5


def normal(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def make(window: int, head_dim: int = D, **options: Any) -> Any:
    sizes = {"head_dim": head_dim, "heads": H}
    mechanism = create_mechanism("hedgehog_window", **sizes, window=window, **options).double()
    assert isinstance(mechanism, HedgehogWindow)
    with torch.no_grad():
        mechanism.directions.copy_(normal(5, *mechanism.directions.shape))
        mechanism.factor.copy_(normal(6, H))
    return mechanism


def inputs(S: int) -> list[Tensor]:
    shapes = ((2, H, S, D), (2, G, S, D), (2, G, S, M))
    return [normal(n, *shape).requires_grad_() for n, shape in enumerate(shapes)]


def by_hand(mechanism: Any, q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None) -> Tensor:
    """Term by term, as the paper has it: one query and one key at a time."""
    B, _, S, _ = q.shape
    outs = []
    for b in range(B):
        for h in range(H):
            W, g = mechanism.directions[h], 1 / (1 + (-mechanism.factor[h]).exp())

            def phi(x: Tensor, W: Tensor = W) -> Tensor:
                up, down = (x @ W).exp(), (-(x @ W)).exp()
                return torch.cat([up, down]) / (up.sum() + down.sum())

            key, value = k[b, h * G // H], v[b, h * G // H]
            for i in range(S):
                seen = [j for j in range(i + 1) if keys is None or bool(keys[b, j])]
                scores = {
                    j: mechanism.beta * (q[b, h, i] * key[j]).sum()
                    for j in seen
                    if j > i - mechanism.window
                }
                largest = torch.stack(list(scores.values())).max() if scores else None
                terms = [
                    g * (scores[j] - largest).exp() if j in scores
                    else (phi(q[b, h, i]) * phi(key[j])).sum()
                    for j in seen
                ]  # fmt: skip
                total = sum(terms, torch.zeros((), dtype=q.dtype))
                weighted = (term * value[j] for term, j in zip(terms, seen, strict=True))
                out = sum(weighted, torch.zeros(M, dtype=q.dtype))
                outs.append(out / total if seen else out)
    return torch.stack(outs).view(B, H, S, M)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("window", [1, 3, 5, 10])
def test_equals_a_loop_over_the_terms(
    window: int, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SMALLEST_BLOCK", 2)
    mechanism = make(window, features=8)
    q, k, v = inputs(11)
    keys = None
    if padded:  # no keys at first, and later a window of padding
        keys = torch.tensor([[0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0]])
        keys = keys.bool()
    leaves = [q, k, v, *mechanism.parameters()]
    results = []
    for out in (mechanism(q, k, v, Mask(True, keys)), by_hand(mechanism, q, k, v, keys)):
        loss = (out * normal(9, *out.shape)).sum()
        results.append([out, *torch.autograd.grad(loss, leaves, materialize_grads=True)])
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12)


def test_laws_hold_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 2 tokens, so that short texts have many."""
    monkeypatch.setattr(module, "SMALLEST_BLOCK", 2)
    failed = [
        result
        for result in check_laws("hedgehog_window", examples=examples(9).max_examples)
        if not result.holds
    ]
    assert failed == []


@pytest.mark.parametrize("window", [1, 7, 35, 101, 200])
def test_blocks_equal_the_definition(window: int) -> None:
    S = 101
    mechanism = make(window)
    keys = normal(7, 2, S) > -1
    keys[0, 40:90] = False
    for mask in (Mask(True), Mask(True, keys), Mask(True, keys, 13)):
        q, k, v = inputs(S)
        q = q[:, :, : S - 13] if mask.start else q
        actual = mechanism(q, k, v, mask)
        value = v if mask.keys is None else v.masked_fill(~keys[:, None, :, None], 0)
        expected = mechanism.weights(q, k, mask) @ value.repeat_interleave(H // G, dim=1)
        leaves = [q, k, v, *mechanism.parameters()]
        direction = normal(9, *actual.shape)
        grads = [torch.autograd.grad((x * direction).sum(), leaves) for x in (actual, expected)]
        for a, b in zip([actual, *grads[0]], [expected, *grads[1]], strict=True):
            assert torch.allclose(a, b, rtol=0, atol=1e-11)


def test_a_wide_window_is_softmax() -> None:
    q, k, v = inputs(11)
    softmax = create_mechanism("softmax", head_dim=D, heads=H)
    for window, same in ((11, True), (10, False)):
        out = make(window)(q, k, v, Mask(causal=True))
        assert torch.allclose(out, softmax(q, k, v, Mask(causal=True))) == same
        assert make(window).covers_all(11, True) == same


def test_earlier_keys_have_hedgehogs_ratios() -> None:
    q, k, _ = inputs(11)
    mechanism, hedgehog = make(3), create_mechanism("hedgehog", head_dim=D, heads=H).double()
    with torch.no_grad():
        hedgehog.directions.copy_(mechanism.directions)  # type: ignore[operator]
    far = mechanism.weights(q, k, Mask(causal=True))[:, :, 10, :8]
    all_keys = hedgehog.weights(q, k, Mask(causal=True))[:, :, 10, :8]
    ratios = far / all_keys
    assert torch.allclose(ratios, ratios[..., :1].expand_as(ratios))


@pytest.mark.parametrize("factor", [0.0, -200.0])
def test_terms_that_underflow_are_recomputed(factor: float) -> None:
    """In float32, phi(q).phi(k) of opposite spikes is 0. It counts where a window has only padding
    (the last queries of the first row), and where g is tiny."""
    q, k, v = (x.detach() for x in inputs(11))
    q, k, mechanism = 100 + q, k - 100, make(3, beta=1e-4)
    keys = torch.arange(11) < torch.tensor([[5], [11]])
    mask = Mask(True, keys)
    with torch.no_grad():
        mechanism.directions.copy_(torch.eye(D))
        mechanism.factor.fill_(factor)
        expected = by_hand(mechanism, q, k, v, keys)
    mechanism.float()
    q, k, v = (x.float().requires_grad_() for x in (q, k, v))
    out, weights = mechanism(q, k, v, mask), mechanism.weights(q, k, mask)
    assert torch.allclose(out.double(), expected, atol=1e-4)
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)
    out.square().sum().backward()
    assert all(x.grad is not None and bool(x.grad.isfinite().all()) for x in (q, k, v))
    with torch.no_grad():
        state, outs = None, []
        for t in range(11):
            here = slice(t, t + 1)
            state = mechanism.absorb(k[:, :, here], v[:, :, here], keys[:, here], state)
            outs.append(mechanism.read(q[:, :, here], state, t))
    assert torch.allclose(torch.cat(outs, dim=2).double(), expected, atol=1e-4)


def test_rows_of_unequal_length_that_end_at_different_times() -> None:
    """The row with the shortest text leaves: keys of the others wait in the state, and none is lost
    between window and sums."""
    mechanism, S, prompt = make(3), 300, 90
    q, k, v = inputs(S)
    lengths = torch.tensor([90, 7])
    real = torch.arange(prompt) < lengths[:, None]
    with torch.no_grad():
        expected = mechanism(q, k, v, Mask(causal=True))
        state = mechanism.absorb(k[:, :, :prompt], v[:, :, :prompt], real).trim(lengths)
        one = k[:, :, 90:91], v[:, :, 90:91]
        state = mechanism.absorb(*one, None, state).select(torch.tensor([0]))
        for t in range(91, S):
            here = slice(t, t + 1)
            state = mechanism.absorb(k[:1, :, here], v[:1, :, here], None, state)
            out = mechanism.read(q[:1, :, here], state, torch.tensor([t]))
            assert torch.allclose(out, expected[:1, :, here], rtol=0, atol=1e-12)
    assert state.slots < 2 * (3 + 64) + 65
    assert state.summed == S - 3


def test_the_cost_is_linear() -> None:
    mechanism, counts = make(64, head_dim=16).float(), []
    for S in (1024, 2048, 4096):
        q, k, v = (normal(n, 1, H, S, 16).float() for n in range(3))
        with FlopCounterMode(display=False) as counter:
            mechanism(q, k, v, Mask(causal=True))
        counts.append(counter.get_total_flops())
    assert counts[1] / counts[0] < 2.1
    assert counts[2] / counts[1] < 2.1


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # of PyTorch, at a graph break
def test_autocast_and_compile() -> None:
    mechanism = make(3).float()
    q, k, v = (x.detach().float() for x in inputs(50))
    expected = mechanism(q, k, v, Mask(causal=True))
    with torch.autocast("cpu", torch.bfloat16):
        low = [x.bfloat16() for x in (q, k, v)]
        out, state = mechanism(*low, Mask(causal=True)), mechanism.absorb(*low[1:])
        last = mechanism.read(low[0][:, :, -1:], state, 49)
    assert out.dtype == last.dtype == torch.bfloat16
    assert state.sums.dtype == torch.float32
    assert torch.allclose(out.float(), expected, atol=0.1)
    assert torch.allclose(last.float(), expected[:, :, -1:], atol=0.1)
    call = torch.compile(mechanism, backend="aot_eager")
    assert torch.allclose(call(q, k, v, Mask(causal=True)), expected, atol=1e-5)


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match=r"hedgehog_window: window is 0; give a whole number"):
        make(0)
    with pytest.raises(ValueError, match=r"hedgehog_window: features is 7; give an even number"):
        make(3, features=7)
    q, k, v = inputs(5)
    with pytest.raises(ValueError, match=r"hedgehog_window: exists only in causal form"):
        make(3)(q, k, v, Mask())
    state = make(3).absorb(k, v)
    with pytest.raises(ValueError, match="belongs to another mechanism"):
        make(4).read(q[:, :, 4:], state, 4)
