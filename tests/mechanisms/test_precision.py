"""Low precision and long rows: the expected values are those of float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab import Mask, create_mechanism
from attnlab.gates import sample_gates
from tests.support.c_compiler import needs_compiler


def normal(seed: int, *shape: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random, dtype=torch.float64)


def error(got: Tensor, expected: Tensor) -> float:
    """Relative; infinite if a number is not finite."""
    if not bool(got.isfinite().all()):
        return float("inf")
    return float((got.double() - expected).norm() / expected.norm())


def output_and_gradients(
    mechanism: Any, inputs: list[Tensor], dtype: torch.dtype, mask: Mask, weight: Tensor
) -> list[Tensor]:
    """Of q, k and v in this dtype."""
    leaves = [x.to(dtype, copy=True).requires_grad_() for x in inputs]
    out = mechanism(*leaves, mask)
    return [out.detach(), *torch.autograd.grad((out.double() * weight).sum(), leaves)]


by_scores = pytest.mark.parametrize("name", ["sigmoid", "sparsemax", "entmax15"])


@by_scores
@pytest.mark.parametrize("scale", [0.3, 1.5])
@pytest.mark.parametrize("S", [600, 2000])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_has_the_error_of_its_rounding(
    name: str, dtype: torch.dtype, S: int, scale: float
) -> None:
    mechanism: Any = create_mechanism(name, head_dim=16, heads=1)
    rounded = [
        (scale * normal(n, 1, 1, length, 16)).to(dtype).double()
        for n, length in enumerate((64, S, S))
    ]
    weight = normal(3, 1, 1, 64, 16)
    expected = output_and_gradients(mechanism, rounded, torch.float64, Mask(), weight)
    got = output_and_gradients(mechanism, rounded, dtype, Mask(), weight)
    assert max(map(error, got, expected)) < (0.02 if dtype == torch.bfloat16 else 0.003)
    sums = mechanism.weights(*(x.to(dtype) for x in rounded[:2]), Mask()).double().sum(-1)
    assert name == "sigmoid" or float((sums - 1).abs().max()) < 0.02


@by_scores
def test_autocast_does_not_change_which_keys_have_weight(name: str) -> None:
    mechanism: Any = create_mechanism(name, head_dim=16, heads=2)
    q, k, v = (1.5 * normal(n, 1, 2, 600, 16).float() for n in range(3))
    expected = mechanism.weights(q, k, Mask(causal=True))
    with torch.autocast("cpu", torch.bfloat16):
        got = mechanism.weights(q, k, Mask(causal=True))
        out = mechanism(q, k, v, Mask(causal=True))
    assert torch.equal(got, expected)
    assert error(out, (expected @ v).double()) < 0.01


@by_scores
@pytest.mark.parametrize("scale", [0.0, 1e-3, 2.0, 30.0])
def test_long_rows_in_float32(name: str, scale: float) -> None:
    """From weights that are all equal to weights of a single key."""
    S = 50_000
    mechanism: Any = create_mechanism(name, head_dim=16, heads=1)
    inputs = [scale * normal(0, 1, 1, 5, 16), *(normal(n, 1, 1, S, 16) for n in (1, 2))]
    inputs = [x.float().double() for x in inputs]
    weight = normal(3, 1, 1, 5, 16)
    expected = output_and_gradients(mechanism, inputs, torch.float64, Mask(), weight)
    got = output_and_gradients(mechanism, inputs, torch.float32, Mask(), weight)
    for actual, right in zip(got, expected, strict=True):
        assert bool(actual.isfinite().all())
        assert float((actual - right).norm()) <= 1e-4 * float(right.norm())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_one_key_far_above_all_others(name: str, dtype: torch.dtype) -> None:
    """It has all the weight, and small changes do not alter that."""
    mechanism: Any = create_mechanism(name, head_dim=2, heads=1, beta=1.0)
    q = torch.ones(1, 1, 1, 2, dtype=dtype, requires_grad=True)
    k = torch.zeros(1, 1, 3000, 2, dtype=dtype)
    k[0, 0, 7] = 5
    k.requires_grad_()
    out = mechanism(q, k, torch.arange(3000, dtype=dtype)[None, None, :, None], Mask())
    assert float(out.detach()) == 7
    for grad in torch.autograd.grad(out.sum(), (q, k)):
        assert not bool(grad.any())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_forgetting_with_strong_decays_and_left_padding(dtype: torch.dtype) -> None:
    """Padding sees no key. The sum of later decays would overflow there."""
    mechanism: Any = create_mechanism("forgetting", head_dim=8, heads=1)
    leaves = [normal(n, 1, 1, 12, 8).to(dtype).requires_grad_() for n in range(3)]
    decay = torch.full((1, 1, 12), -1e4, dtype=dtype, requires_grad=True)
    mask = Mask(causal=True, keys=torch.arange(12)[None] >= 3)
    outs = [mechanism(*leaves, mask, log_decay=decay)]
    outs.append(mechanism.weights(*leaves[:2], mask, log_decay=decay) @ leaves[2])
    for out in outs:
        assert torch.equal(out[:, :, 3:], leaves[2][:, :, 3:])  # each token sees only itself
        for grad in torch.autograd.grad(out.sum(), [*leaves, decay]):
            assert bool(grad.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_forgetting_decodes_with_the_decays_of_forward(dtype: torch.dtype) -> None:
    """Decays between two numbers of this dtype. Rounded like the keys, their sum would be off."""
    mechanism: Any = create_mechanism("forgetting", head_dim=8, heads=1)
    k, v = normal(0, 1, 1, 1000, 8).to(dtype), torch.zeros(1, 1, 1000, 1, dtype=dtype)
    v[:, :, :500] = 1  # the output is the weight of the first half
    q, decay = torch.zeros_like(k), torch.full((1, 1, 1000), -(1 + 1 / 256 + 1 / 2048) / 128)
    with torch.no_grad():
        expected = mechanism(q, k, v, Mask(causal=True), log_decay=decay)[:, :, -1:]
        state = None
        for part in (slice(0, 999), slice(999, 1000)):
            gate = decay[:, :, part]
            state = mechanism.absorb(k[:, :, part], v[:, :, part], None, state, log_decay=gate)
        assert torch.equal(mechanism.read(q[:, :, -1:], state, 999), expected)


IN_BLOCKS: list[tuple[str, dict[str, Any]]] = [
    ("sigmoid", {}),
    ("sparsemax", {}),
    ("entmax15", {}),
    ("forgetting", {}),
    ("softmax", {"bias": "alibi"}),
    ("softmax", {"bias": "relative", "dropout": 0.1}),
    ("softmax", {"sink": "learned"}),
    ("softmax", {"softcap": 3.0}),
]
in_blocks = pytest.mark.parametrize(("name", "options"), IN_BLOCKS, ids=str)


@in_blocks
def test_training_saves_no_matrix(name: str, options: dict[str, Any]) -> None:
    """Twice the tokens, twice the memory that waits for the backward pass."""
    mechanism: Any = create_mechanism(name, head_dim=16, heads=2, **options)
    assert mechanism.card.memory == "N"

    def saved_bytes(N: int) -> int:
        q, k, v = (normal(n, 1, 2, N, 16).requires_grad_() for n in range(3))
        gates = sample_gates(mechanism.gates, k.detach())
        storages = {}

        def pack(x: Tensor) -> Tensor:
            storages[x.untyped_storage().data_ptr()] = x
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            mechanism(q, k, v, Mask(causal=True), **gates)
        return sum(x.untyped_storage().nbytes() for x in storages.values())

    assert saved_bytes(1024) < 2.2 * saved_bytes(512)


@in_blocks
def test_blocks_have_the_gradients_of_the_definition(name: str, options: dict[str, Any]) -> None:
    options = {name: value for name, value in options.items() if name != "dropout"}
    mechanism: Any = create_mechanism(name, head_dim=4, heads=2, **options).double()
    N, mask = 600, Mask(causal=True, keys=torch.arange(600)[None] != 7)
    q, k, v = (normal(n, 1, 2, N, 4).requires_grad_() for n in range(3))
    gates = {n: x.requires_grad_() for n, x in sample_gates(mechanism.gates, k.detach()).items()}
    leaves, weight = [q, k, v, *gates.values(), *mechanism.parameters()], normal(3, 1, 2, N, 4)
    outs = [mechanism(q, k, v, mask, **gates), mechanism.weights(q, k, mask, **gates) @ v]
    got, expected = (torch.autograd.grad((out * weight).sum(), leaves) for out in outs)
    for actual, right in zip(got, expected, strict=True):
        assert torch.allclose(actual, right, rtol=0, atol=1e-10 * (1 + float(right.abs().max())))


@needs_compiler
@pytest.mark.parametrize("name", ["mamba2", "gla", "gated_delta", "kda"])
@pytest.mark.parametrize("level", [-1e-3, -1.0, -8.0, -20.0, None])
@pytest.mark.parametrize("last_only", [False, True])
def test_the_gradient_of_long_decays_in_float32(
    name: str, level: float | None, last_only: bool
) -> None:
    """Weak, strong and mixed decays. T is not a multiple of the kernel's chunk."""
    T = 2083
    mechanism: Any = create_mechanism(name, head_dim=16, heads=1)
    q, k, v = (normal(n, 1, 1, T, 16) for n in range(3))
    gates = sample_gates(mechanism.gates, k, torch.Generator().manual_seed(3))
    uniform = torch.rand(gates["log_decay"].shape, generator=torch.Generator().manual_seed(4))
    levels = torch.tensor([-1e-3, -0.1, -1.0, -8.0, -20.0, -50.0])
    mixed = levels[(6 * uniform).long()]
    gates["log_decay"] = (mixed if level is None else level * (0.5 + uniform)).double()
    weight = normal(5, 1, 1, T, 16)
    weight[:, :, : T - 1 if last_only else 0] = 0
    grads = []
    for dtype in (torch.float32, torch.float64):
        leaves = {n: x.to(dtype, copy=True).requires_grad_() for n, x in gates.items()}
        out = mechanism(*(x.to(dtype) for x in (q, k, v)), Mask(causal=True), **leaves)
        grads.append(torch.autograd.grad((out * weight.to(dtype)).sum(), leaves["log_decay"])[0])
    assert error(*grads) < 5e-6
    early = slice(0, T // 2)
    if last_only and level is not None and level <= -1:  # nothing arrives there, not even noise
        assert not bool(grads[0][:, :, early].any())
