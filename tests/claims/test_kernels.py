"""Topic 5: the verdicts that mathematics gives, and that wrong implementations change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnlab.bench import _measure_costs as costs
from attnlab.claims import kernels, kernels_cost
from attnlab.claims import kernels_future_leak as kernels_leak
from attnlab.claims import kernels_random_directions as kernels_draws
from attnlab.claims import kernels_trigonometric as kernels_trig
from attnlab.claims._registry import CLAIMS
from attnlab.claims._run_claims import Result, run_one
from attnlab.mechanisms._scan import Features
from attnlab.mechanisms.kernel import Kernel
from attnlab.mechanisms.polynomial import Polynomial
from attnlab.mechanisms.softmax import Softmax
from attnlab.state import State

EXPECTED = {
    "gaussian-factor": "holds",
    "fourier-variance": "refuted",
    "polynomial-two": "holds",
    "taylor-expensive": "holds",
    "features-more": "holds only when",
    "dimension-more": "refuted",
    "trig-unstable": "holds",
    "trig-training": "holds",
    "positive-always-better": "refuted",
    "orthogonal-better": "holds",
    "random-features-beat-uniform": "refuted",
    "recurrence": "holds",
    "linear-cost": "holds",
    "constant-state": "holds",
    "stabilizer-leak": "holds",
}
TIMED = ("linear-cost", "constant-state")
LONG = {("trig-training", 1)}
CASES = [
    pytest.param(name, seed, marks=[pytest.mark.slow] if (name, seed) in LONG else [])
    for name in EXPECTED
    for seed in (0, 1)
]


def run(name: str, seed: int = 0) -> Result:
    return run_one(CLAIMS[name], seed, "small")


class Touched(TorchDispatchMode):
    """Counts the numbers that operators are given and return: work that no busy machine changes."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        tensors = [each for each in tree_leaves((args, out)) if isinstance(each, Tensor)]
        if not func.is_view:
            self.count += 1 + sum(each.numel() for each in tensors)
        return out


def work(call: Callable[[], object], times: int = 1) -> float:
    del times
    with Touched() as touched:
        call()
    return float(touched.count)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in place of time: no timing is asserted in a test."""
    shorter = {name: (first, 4) for name, (first, _) in kernels_cost.LENGTHS.items()}
    monkeypatch.setattr(kernels_cost, "LENGTHS", shorter)
    monkeypatch.setattr(costs, "seconds", work)
    monkeypatch.setattr(costs, "least_seconds", lambda calls, **_: [work(each) for each in calls])


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize(("name", "seed"), CASES)
def test_verdicts(name: str, seed: int) -> None:
    result = run(name, seed)
    assert result.verdict.outcome == EXPECTED[name], result
    assert result.trusted, result.control


def test_all_of_the_topic_are_expected_in_the_ledgers_order() -> None:
    assert [name for name, each in CLAIMS.items() if each.topic == "kernels"] == list(EXPECTED)
    assert [name for name in EXPECTED if CLAIMS[name].alone] == list(TIMED)


# Wrong implementations


def test_a_map_without_mixed_products_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Polynomial, "phi", lambda _, x: Features(x.square(), torch.zeros_like(x[..., :1]))
    )
    assert run("polynomial-two").verdict.outcome == "refuted"


def test_draws_of_the_right_width_confirm_the_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels._cosine_error
    monkeypatch.setattr(
        kernels, "_cosine_error", lambda random, s, _, draws: right(random, s, -1, draws)
    )
    assert run("fourier-variance").verdict.outcome == "holds"


def test_independent_draws_are_not_taken_for_orthogonal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels_draws, "orthogonal", kernels_draws.independent)
    assert run("orthogonal-better").verdict.outcome == "refuted"


def test_positive_features_in_the_place_of_sines(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = {
        "sines and cosines": kernels_trig.positive,
        "positive features": kernels_trig.trigonometric,
    }
    monkeypatch.setattr(kernels_trig, "MAPS", swapped)
    assert run("trig-unstable").verdict.outcome == "refuted"


def test_a_state_that_forgets_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    absorb = Kernel.absorb

    def forget(
        self: Kernel, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        del state
        return absorb(self, k, v, keys)

    monkeypatch.setattr(Kernel, "absorb", forget)
    assert run("recurrence").verdict.outcome == "refuted"


def test_a_stabilizer_that_looks_back_alone_does_not_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    own, usual = kernels_leak.own, kernels_leak.usual
    monkeypatch.setattr(kernels_leak, "usual", lambda q, k, v, w, **_: own(q, k, v, w))
    assert run("stabilizer-leak").verdict.outcome == "refuted"
    monkeypatch.setattr(kernels_leak, "usual", usual)
    monkeypatch.setattr(kernels_leak, "own", lambda q, k, v, w: usual(q, k, v, w, 1e-4))
    assert run("stabilizer-leak").trusted is False  # were attnlab's to leak, the control says so


@pytest.mark.usefixtures("counted")
def test_a_state_that_grows_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        kernels_cost, "Favor", lambda head_dim, heads, **_: Softmax(head_dim=head_dim, heads=heads)
    )
    assert run("constant-state").verdict.outcome == "refuted"


@pytest.mark.usefixtures("counted")
def test_a_kernel_by_its_matrix_is_not_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = kernels_cost._matrix
    monkeypatch.setattr(kernels_cost, "_kernel", lambda q, k, v, **_: matrix(q, k, v))
    assert run("linear-cost").verdict.outcome == "refuted"


# Against definitions


def test_maps_by_hand() -> None:
    x = torch.tensor([[2.0, 3.0]], dtype=torch.float64)
    assert kernels.all_products(x)[0].tolist() == pytest.approx([4, 6, 6, 9])
    assert kernels.each_product_once(x)[0].tolist() == pytest.approx([4, 9, 6 * 2**0.5])
    w = torch.zeros(1, 2, 2, dtype=torch.float64)
    assert kernels_trig.positive(w, x)[0, 0].tolist() == pytest.approx(
        [float(torch.tensor(-6.5).exp()) / 2**0.5] * 2, rel=1e-5
    )
    assert kernels_trig.trigonometric(w, x)[0, 0].tolist() == pytest.approx(
        [float(torch.tensor(6.5).exp()), 0.0], rel=1e-5
    )


def test_keys_stand_at_their_angle() -> None:
    q, k = kernels_trig.at_angle(torch.Generator().manual_seed(3), -0.25, 2.0, 7)
    assert k.square().sum(-1).tolist() == pytest.approx([2.0] * 7)
    assert (k @ q[0]).tolist() == pytest.approx([-0.5] * 7)


def test_memory_by_hand() -> None:
    given = torch.ones(1000)

    def one_after_the_other() -> None:
        x = given + 1
        del x
        _ = given[:500] + 1

    def both_and_a_view() -> None:
        x, y = given + 1, given * 2
        _ = x.view(10, 100)[3], y

    def inside_what_is_given() -> None:
        given.view(10, 100).mul_(1)

    assert costs.peak_bytes_no_grad(one_after_the_other) == 4000
    assert costs.peak_bytes_no_grad(both_and_a_view) == 8000
    assert costs.peak_bytes_no_grad(inside_what_is_given) == 0


def test_where_lines_cross() -> None:
    linear = [(x, 100 * x) for x in (1.0, 2.0, 8.0)]
    square = [(x, x * x) for x in (1.0, 3.0, 9.0)]
    assert costs.crossing(linear, square) == pytest.approx(100)
    assert costs.crossing(linear, linear) == float("inf")
