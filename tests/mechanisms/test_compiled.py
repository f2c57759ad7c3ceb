"""The C kernels against the torch path: values, gradients, shapes, threads, `torch.compile`.

That all laws hold on both paths is tested by the laws themselves (tests/support/law_trials.py).
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnlab import MECHANISMS, Mask, Mechanism, create_mechanism
from attnlab.gates import Gates
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms import _scan as scan
from attnlab.mechanisms._compiled import build
from attnlab.mechanisms._scan import LOG_ZERO, Features
from attnlab.mechanisms.kernel import Kernel
from attnlab.mechanisms.recurrent import Recurrent
from tests.support.c_compiler import needs_compiler
from tests.support.examples import examples, slow_unless
from tests.support.law_trials import make_inputs, skip_missing_form

KINDS = ("positive", "signed", "shared")
SMALL: dict[str, dict[str, Any]] = {
    "favor": {"features": 8},
    "fourier": {"features": 8},
    "window": {"window": 7},
    "bigbird": {"block": 4},
}


def random_normal(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def features(seed: int, kind: str, shape: tuple[int, ...], C: int, scale: float) -> Features:
    """Positive features, or signed ones with a log each or one for all."""
    log = scale * random_normal(seed, *shape, 1 if kind == "shared" else C)
    # bounded away from zero, so that no denominator cancels and errors are not due to rounding
    sign = None if kind == "positive" else random_normal(seed + 1, *shape, C).abs() + 0.1
    return Features(sign, log)


def leaves(query: Features, key: Features, value: Tensor) -> list[Tensor]:
    results = [x for x in (*query, *key, value) if x is not None]
    return [x.detach().clone().requires_grad_() for x in results]


def rebuilt(inputs: list[Tensor] | tuple[Tensor, ...]) -> tuple[Features, Features, Tensor]:
    if len(inputs) == 3:
        return Features(None, inputs[0]), Features(None, inputs[1]), inputs[2]
    return Features(inputs[0], inputs[1]), Features(inputs[2], inputs[3]), inputs[4]


def in_torch(query: Features, key: Features, value: Tensor) -> Tensor:
    out = scan.causal_scan(query.flatten(), key.flatten(), value.flatten(0, 1), 7)
    return out.view(value.shape)


def assert_close(actual: Any, expected: Any, limit: float) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape
        assert bool(one.isfinite().all())
        worst = float(
            (one.double() - other).detach().abs().max() / (1 + other.detach().abs().max())
        )
        assert worst < limit


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
@examples(30)
@given(
    sizes=st.tuples(*[st.integers(1, n) for n in (2, 3, 80, 40, 40)]),
    scale=st.sampled_from([0.3, 3.0, 40.0]),
    padded=st.booleans(),
    seed=st.integers(0, 999),
)
def test_the_scan_equals_the_torch_path(
    kind: str, sizes: tuple[int, ...], scale: float, padded: bool, seed: int
) -> None:
    """Growing keys (scale 40) make the peak move inside chunks; gradients as well."""
    B, H, T, C, M = sizes
    shape = (B, H, T)
    query, key = (features(seed + n, kind, shape, C, scale) for n in (0, 10))
    value = random_normal(seed + 20, B, H, T, M)
    if padded:
        hidden = random_normal(seed + 30, B, 1, T, 1) > 0.3
        key = Features(key.sign, key.log.masked_fill(hidden, LOG_ZERO))
        value = value.masked_fill(hidden, 0)
    direction = random_normal(seed + 40, B, H, T, M)
    compiled_inputs, torch_inputs = leaves(query, key, value), leaves(query, key, value)
    one, other = compiled.causal(*rebuilt(compiled_inputs)), in_torch(*rebuilt(torch_inputs))
    assert_close([one], [other], 1e-11)
    actual = torch.autograd.grad((one * direction).sum(), compiled_inputs)
    expected = torch.autograd.grad((other * direction).sum(), torch_inputs)
    assert_close(actual, expected, 1e-10)


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("T", [1, 23, 24, 25, 200])
def test_the_scan_in_float32_is_exact_to_rounding(kind: str, T: int) -> None:
    query, key = (features(n, kind, (1, 2, T), 64, 2.0) for n in (0, 10))
    inputs = leaves(query, key, random_normal(20, 1, 2, T, 64))
    small = [x.detach().float().requires_grad_() for x in inputs]
    one, other = compiled.causal(*rebuilt(small)), in_torch(*rebuilt(inputs))
    assert_close([one], [other], 3e-6)
    direction = random_normal(40, 1, 2, T, 64)
    actual = torch.autograd.grad((one * direction.float()).sum(), small)
    expected = torch.autograd.grad((other * direction).sum(), inputs)
    assert_close(actual, expected, 1e-5)


@needs_compiler
@examples(30)
@given(
    sizes=st.tuples(*[st.integers(1, n) for n in (2, 3, 80, 40, 40, 40)]),
    scale=st.sampled_from([0.3, 1.0, 8.0]),
    padded=st.booleans(),
    double=st.booleans(),
    seed=st.integers(0, 999),
)
def test_the_scan_with_projection_equals_the_torch_path(
    sizes: tuple[int, ...], scale: float, padded: bool, double: bool, seed: int
) -> None:
    """Large inputs (scale 8) make the peak move inside chunks; gradients as well."""
    B, H, T, D, C, M = sizes
    widths, half = (D, D, M), 0.3
    inputs = [scale * random_normal(seed + n, B, H, T, size) for n, size in enumerate(widths)]
    directions = random_normal(seed + 10, C, D) / D**0.5
    keys = random_normal(seed + 30, B, T) > -0.5 if padded else None

    def define(q: Tensor, k: Tensor, value: Tensor) -> Tensor:
        log = k @ directions.T - half * k.square().sum(-1, keepdim=True)
        if keys is not None:
            log = log.masked_fill(~keys[:, None, :, None], LOG_ZERO)
        return in_torch(Features(None, q @ directions.T), Features(None, log), value)

    def project(q: Tensor, k: Tensor, value: Tensor) -> Tensor:
        return compiled.causal_projected(q, k, value, directions.to(k.dtype), keys, half)

    dtype = torch.float64 if double else torch.float32
    values, grads = [], []
    for call, to in ((project, dtype), (define, torch.float64)):
        # of float32 numbers in both, or the exponentials of large logs would differ
        leaves = [x.to(dtype).to(to).requires_grad_() for x in inputs]
        out = call(*leaves)
        direction = random_normal(seed + 40, B, H, T, M).to(to)
        values.append(out)
        grads.append(torch.autograd.grad((out * direction).sum(), leaves))
    rounding = 1 if double else 2e7 * max(1, scale) ** 2  # of logs that grow with the square
    assert_close(values[:1], values[1:], 1e-11 * rounding)
    assert_close(grads[0], grads[1], 1e-10 * rounding)


@needs_compiler
@pytest.mark.parametrize(
    ("dtype", "name", "low"), [(torch.float32, "float", -87), (torch.float64, "double", -708)]
)
def test_the_exponential(dtype: torch.dtype, name: str, low: float) -> None:
    """Exact to two units in the last place, or |x| / 2 units, the effect of rounding x; exactly 1
    at 0 and 0 far below; NaN stays NaN."""
    exponential = getattr(compiled.status().library, f"attnlab_exp_{name}")
    x = torch.cat([torch.linspace(low, 10, 4093), torch.tensor([0.0, -1e30, torch.nan])]).to(dtype)
    y = torch.empty_like(x)
    pointers = (ctypes.c_void_p(each.data_ptr()) for each in (x, y))
    exponential(*pointers, ctypes.c_int64(len(x)))
    expected = x[:-3].double().exp()
    error = ((y[:-3].double() - expected) / expected).abs()
    assert bool((error < (2 + x[:-3].abs() / 5) * torch.finfo(dtype).eps).all())
    assert y[-3:-1].tolist() == [1, 0]
    assert bool(y[-1].isnan())


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
@examples(30)
@given(
    sizes=st.tuples(*[st.integers(1, n) for n in (2, 3, 110, 110, 40, 40)]),
    scale=st.sampled_from([0.3, 3.0, 40.0]),
    seed=st.integers(0, 999),
)
def test_sums_and_reading_equal_the_definition(
    kind: str, sizes: tuple[int, ...], scale: float, seed: int
) -> None:
    B, H, T, S, C, M = sizes
    query, key = (
        features(seed, kind, (B, H, T), C, scale),
        features(seed, kind, (B, H, S), C, scale),
    )
    value, direction = random_normal(seed + 20, B, H, S, M), random_normal(seed + 30, B, H, T, M)

    def define(query: Features, key: Features, value: Tensor) -> Tensor:
        top = key.log.amax(2, keepdim=True).detach()
        log_bound = query.log + top
        terms = Features(query.sign, log_bound).divide_by_exp(
            log_bound.amax(-1, keepdim=True).detach()
        )
        weights = terms @ key.divide_by_exp(top).mT  # (B, H, T, S)
        return weights @ value / weights.sum(-1, keepdim=True)

    compiled_inputs, torch_inputs = leaves(query, key, value), leaves(query, key, value)
    query, key, value = rebuilt(compiled_inputs)
    one, other = compiled.read(query, *compiled.sums(key, value)), define(*rebuilt(torch_inputs))
    assert_close([one], [other], 1e-11)
    actual = torch.autograd.grad((one * direction).sum(), compiled_inputs)
    assert_close(actual, torch.autograd.grad((other * direction).sum(), torch_inputs), 1e-10)


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck_of_the_kernels(kind: str) -> None:
    query, key = (features(n, kind, (1, 2, 27), 3, 1.0) for n in (0, 10))
    inputs = leaves(query, key, random_normal(20, 1, 2, 27, 2))

    def causal(*given: Tensor) -> Tensor:
        return compiled.causal(*rebuilt(given))

    def whole(*given: Tensor) -> Tensor:
        query, key, value = rebuilt(given)
        return compiled.read(query, *compiled.sums(key, value))

    assert torch.autograd.gradcheck(causal, inputs)
    assert torch.autograd.gradcheck(whole, inputs)


@needs_compiler
@pytest.mark.parametrize(("causal", "window"), [(True, 0), (True, 4), (False, 4), (False, 0)])
def test_gradcheck_of_the_blocks(causal: bool, window: int) -> None:
    q, k, v = (random_normal(n, 2, 1, 11, 3).requires_grad_() for n in range(3))
    keys = random_normal(4, 2, 11) > -0.5
    table = torch.tensor([[0, -1], [0, 1], [1, 2], [-1, 3]])

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return compiled.attend_blocks(q, k, v, keys, table, 3, causal, window, 0.7)

    assert torch.autograd.gradcheck(call, (q, k, v))


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_the_operators_pass_opcheck(kind: str) -> None:
    """Schema, fake tensors, autograd registration and AOT dispatch, by PyTorch's own checker;
    of what computes gradients, schema and fake tensors."""
    query, key = (features(n, kind, (1, 2, 27), 3, 1.0) for n in (0, 10))
    value = random_normal(20, 1, 27, 2, 5).transpose(1, 2).requires_grad_()
    checks = ["test_schema", "test_faketensor"]
    all_checks = [*checks, "test_autograd_registration", "test_aot_dispatch_dynamic"]
    operators = torch.ops.attnlab
    sums, peak = compiled.sums(key, value.detach())
    table = torch.tensor([[0], [1], [1]])
    bounds = torch.tensor([[0, 12]] * 12 + [[12, 27]] * 15)[None]
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (operators.causal, (*query, *key, value)),
        (operators.projected, (value, value, value, random_normal(30, 3, 5), None, 0.5)),
        (operators.sums, (*key, value)),
        (operators.read, (*query, sums.requires_grad_(), peak)),
        (operators.blocks, (value, value, value, None, table, bounds, 10, True, 7, 3, 0.5)),
    ]
    for operator, inputs in calls:
        results = torch.library.opcheck(operator, inputs, test_utils=all_checks)
        assert set(results.values()) == {"SUCCESS"}
        plain = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
        outputs = operator(*plain)
        if operator is operators.sums:
            outputs = (outputs[1], outputs[0])  # it takes the peak, and the gradient of the sums
        name = operator._qualified_op_name.split("::")[1]
        grads = () if operator is operators.sums else (torch.ones_like(outputs[0]),)
        backward = getattr(operators, f"{name}_backward")
        results = torch.library.opcheck(backward, (*plain, *outputs, *grads), test_utils=checks)
        assert set(results.values()) == {"SUCCESS"}


COMPILABLE = sorted(name for name, kind in MECHANISMS.items() if kind.compilable)


def make(name: str, **sizes: int) -> Mechanism:
    """In float64, with options so small that 30 tokens span several blocks."""
    length = 400 if MECHANISMS[name].card.needs_length else None
    both = {"head_dim": 4, "heads": 2, **sizes}
    return create_mechanism(name, **both, max_length=length, **SMALL.get(name, {})).double()


@needs_compiler
@pytest.mark.parametrize(("causal", "padded"), [(False, True), (True, False)])
@pytest.mark.parametrize("name", slow_unless(("bigbird", "favor", "gla"), COMPILABLE))
def test_torch_compile_has_no_graph_break(name: str, causal: bool, padded: bool) -> None:
    """At several lengths: from the second on, torch.compile treats the length as a symbol."""
    mechanism = make(name)
    skip_missing_form(mechanism, causal)

    def attend(q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None, gates: Gates) -> Tensor:
        return mechanism(q, k, v, Mask(causal, keys), **gates)

    torch.compiler.reset()
    call = torch.compile(attend, backend="aot_eager", fullgraph=True)
    for T in (30, 21, 33):
        x = make_inputs(mechanism, B=2, G=2, T=T, S=T)
        keys = random_normal(5, 2, T) > -1 if padded else None
        inputs = (x.q, x.k, x.v, keys, x.gates)
        expected, actual = attend(*inputs), call(*inputs)
        assert_close([actual], [expected], 1e-12)
        grads = [torch.autograd.grad(y.square().sum(), x.leaves()) for y in (actual, expected)]
        assert_close(grads[0], grads[1], 1e-12)


@needs_compiler
@pytest.mark.parametrize("all_inputs", [False, True])
@pytest.mark.parametrize("in_torch", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", COMPILABLE)
def test_second_derivatives_are_right_or_refused(
    name: str, causal: bool, in_torch: bool, all_inputs: bool
) -> None:
    """They are never silently zero."""
    mechanism = make(name)
    mechanism.use_compiled = not in_torch
    skip_missing_form(mechanism, causal)
    x, mask = make_inputs(mechanism, B=1, G=2, T=30, S=30), Mask(causal)

    def twice(out: Tensor) -> list[Tensor]:
        """The second derivative of a gradient penalty; a plain sum would give a constant."""
        loss, which = (out.square().sum(), x.leaves()) if all_inputs else (out.sum(), [x.q])
        slopes = torch.autograd.grad(loss, which, create_graph=True)
        penalty = torch.stack([slope.square().sum() for slope in slopes]).sum()
        # some outputs are linear in q, which is then unused
        return list(torch.autograd.grad(penalty, x.leaves(), materialize_grads=True))

    out = x.output(mechanism, mask)
    kind = MECHANISMS[name]
    if in_torch and (issubclass(kind, Recurrent) or (issubclass(kind, Kernel) and not causal)):
        assert_close(twice(out), twice(x.weights(mechanism, mask) @ x.v), 1e-8)
    else:
        gates = "" if in_torch else r", \*\*gates"
        words = rf"differentiated twice; weights\(q, k, mask{gates}\) @ v can|not implemented"
        with pytest.raises(RuntimeError, match=words):
            twice(out)


@needs_compiler
def test_operators_refuse_what_does_not_fit() -> None:
    """C trusts the sizes that it gets, so wrong ones must be refused before."""
    operators, f32 = torch.ops.attnlab, torch.float32
    log, value = random_normal(0, 1, 2, 40, 3), random_normal(1, 1, 2, 40, 5)
    sums, peak = random_normal(2, 1, 2, 3, 6), random_normal(3, 1, 2, 1, 3)
    table = torch.tensor([[0], [1], [1], [3]])
    good = (value, value, value, None, table, None, 10, True, 0, 0, 0.5)
    wrong: list[tuple[Any, tuple[Any, ...]]] = [
        (operators.causal, (None, log[:, :, :4], None, log, value)),
        (operators.causal, (None, log.to(f32), None, log, value)),
        (operators.causal, (None, log, None, log[:, :1], value)),
        (operators.causal, (None, log[0], None, log, value)),
        (operators.causal, (log, log, None, log, value)),
        (operators.causal, (log, log[..., :2], log, log[..., :2], value)),
        (operators.causal, (None, log.half(), None, log.half(), value.half())),
        (operators.projected, (log, log, value, log[0, 0, :, :2], None, 0.5)),
        (operators.projected, (log, log, value, log[0, 0], value[0, :, :, 0] > 0, 0.5)),
        (operators.projected, (log, log, value, log[0, 0].to(f32), None, 0.5)),
        (operators.sums, (None, log, value[:, :, :7])),
        (operators.read, (None, log, sums[:, :, :2], peak)),
        (operators.read, (None, log, sums.to(f32), peak)),
        (operators.read, (None, log, sums, peak[..., :2])),
        (operators.blocks, (*good[:4], table[:3], *good[5:])),
        (operators.blocks, (*good[:4], table + 1, *good[5:])),
        (operators.blocks, (*good[:4], table - 2, *good[5:])),
        (operators.blocks, (*good[:4], table.int(), *good[5:])),
        (operators.blocks, (*good[:5], torch.zeros(1, 39, 2, dtype=torch.int64), *good[6:])),
        (operators.blocks, (*good[:6], 0, *good[7:])),
        (operators.blocks, (*good[:3], torch.ones(1, 39, dtype=torch.bool), *good[4:])),
    ]
    for operator, inputs in wrong:
        with pytest.raises(ValueError, match=r"takes? "):
            operator(*inputs)
    operators.causal(None, log, None, log, value)
    operators.projected(log, log, value, log[0, 0], value[0, :1, :, 0] > 0, 0.5)
    operators.read(None, log, sums, peak)
    operators.blocks(*good)


@needs_compiler
@pytest.mark.parametrize("name", COMPILABLE)
@pytest.mark.parametrize("causal", [False, True])
def test_threads_and_layout_change_nothing(name: str, causal: bool) -> None:
    """Bit-identical: one thread computes a row, and the memory layout may be (token, head)."""
    mechanism = make(name, head_dim=16, heads=5).float()  # and enough work for several threads
    skip_missing_form(mechanism, causal)
    inputs = make_inputs(mechanism, B=2, G=5, T=400, S=400).to(torch.float32).leaves()

    def heads_last(x: Tensor) -> Tensor:
        return x.transpose(1, 2).contiguous().transpose(1, 2)

    before = torch.get_num_threads()
    results = []
    try:
        for threads, layout in ((1, Tensor.contiguous), (3, Tensor.contiguous), (2, heads_last)):
            torch.set_num_threads(threads)
            q, k, v, *gates = (layout(x).requires_grad_() for x in inputs)
            named = {gate.name: x for gate, x in zip(mechanism.gates, gates, strict=True)}
            out = mechanism(q, k, v, Mask(causal), **named)
            results.append([out, *torch.autograd.grad(out.square().sum(), (q, k, v, *gates))])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert torch.equal(results[0][0], other[0])
        assert_close(other[1:], [x.double() for x in results[0][1:]], 1e-5)


@needs_compiler
def test_own_threads_without_pytorchs() -> None:
    library = compiled.status().library
    assert library is not None
    inputs = [random_normal(n, 2, 3, 400, 32) for n in range(3)]  # enough work for several threads
    query, key, value = rebuilt(inputs)
    expected = compiled.causal(query, key, value)
    before = torch.get_num_threads()
    library.attnlab_use_team(None)
    try:
        torch.set_num_threads(3)
        assert torch.equal(compiled.causal(query, key, value), expected)
    finally:
        torch.set_num_threads(before)
        build._use_pytorch_threads(library)


@needs_compiler
@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="this system has no such pages"
)
def test_large_results_use_large_pages() -> None:
    """Page faults of a fresh result cost half as much as its computation."""
    log, value = torch.zeros(1, 1, 40_000, 1), torch.zeros(1, 1, 40_000, 64)  # 10 MB
    out = compiled.causal(Features(None, log), Features(None, log), value)
    middle = out.data_ptr() + out.nbytes // 2
    flags, inside = "", False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if match:
            inside = int(match[1], 16) <= middle < int(match[2], 16)
        elif inside and line.startswith("VmFlags:"):
            flags = line
    assert " hg" in flags


@needs_compiler
def test_unsupported_tensors_are_computed_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """bfloat16 is summed in float32; other devices and types never reach the kernels."""
    assert compiled.can_run(torch.zeros(1))
    assert not compiled.can_run(torch.zeros(1, dtype=torch.bfloat16))
    assert not compiled.can_run(torch.zeros(1, device="meta"))
    mechanism = create_mechanism("favor", head_dim=4, heads=2)
    q, k, v = (random_normal(n, 1, 2, 30, 4, dtype=torch.float32) for n in range(3))
    expected = mechanism(q, k, v, Mask(True))
    monkeypatch.setattr(compiled, "can_run", lambda _: False)
    monkeypatch.setattr(compiled, "causal_projected", None)  # would raise
    assert_close([mechanism(q, k, v, Mask(True))], [expected.double()], 1e-5)
