"""Claims of topic 5: the expected verdicts, and wrong code that changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnlab.bench import _measure_costs as costs
from attnlab.claims import kernels, kernels_cost, kernels_error
from attnlab.claims import kernels_future_leak as future_leak
from attnlab.claims import kernels_random_directions as random_directions
from attnlab.claims import kernels_trigonometric as trigonometric
from attnlab.claims._registry import CLAIMS
from attnlab.claims._run_claims import Result, run_claim
from attnlab.mechanisms._scan import Features
from attnlab.mechanisms.fourier import Fourier
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
SLOW = {("trig-training", 0), ("trig-training", 1)}
CASES = [
    pytest.param(name, seed, marks=[pytest.mark.slow] if (name, seed) in SLOW else [])
    for name in EXPECTED
    for seed in (0, 1)
]


def run_small(name: str, seed: int = 0) -> Result:
    return run_claim(CLAIMS[name], seed, "small")


class CountedNumbers(TorchDispatchMode):
    """Counts the numbers that operators read and write, which does not depend on the machine."""

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


def count_numbers(call: Callable[[], object], times: int = 1) -> float:
    del times
    with CountedNumbers() as counter:
        call()
    return float(counter.count)


@pytest.fixture
def work_instead_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts work instead of time, because tests must not depend on timing."""
    shorter = {name: (first, 4) for name, (first, _) in kernels_cost.LENGTHS.items()}
    monkeypatch.setattr(kernels_cost, "LENGTHS", shorter)
    monkeypatch.setattr(costs, "seconds", count_numbers)
    monkeypatch.setattr(
        costs, "least_seconds", lambda calls, **_: [count_numbers(each) for each in calls]
    )


@pytest.mark.usefixtures("work_instead_of_seconds")
@pytest.mark.parametrize(("name", "seed"), CASES)
def test_verdicts(name: str, seed: int) -> None:
    result = run_small(name, seed)
    assert result.verdict.outcome == EXPECTED[name], result
    assert result.trusted, result.control


def test_topic_has_exactly_these_claims() -> None:
    assert [name for name, each in CLAIMS.items() if each.topic == "kernels"] == list(EXPECTED)
    assert [name for name in EXPECTED if CLAIMS[name].alone] == list(TIMED)


def test_the_dimension_is_measured_with_sines_and_cosines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement is about sines and cosines: positive features must not decide it."""
    monkeypatch.setattr(kernels_error, "Favor", None)
    result = run_small("dimension-more")
    assert (result.verdict.outcome, result.trusted) == ("refuted", True)
    wrong = lambda *_, **__: torch.full((1, 1, kernels_error.TOKENS, kernels_error.TOKENS), 9.0)  # noqa: E731
    monkeypatch.setattr(Fourier, "weights", wrong)
    assert not run_small("dimension-more").trusted  # the control cannot hold anymore


# Wrong implementations


def test_map_without_mixed_products_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Polynomial, "phi", lambda _, x: Features(x.square(), torch.zeros_like(x[..., :1]))
    )
    assert run_small("polynomial-two").verdict.outcome == "refuted"


def test_fourier_samples_of_the_correct_width(monkeypatch: pytest.MonkeyPatch) -> None:
    original = kernels._cosine_error
    monkeypatch.setattr(
        kernels, "_cosine_error", lambda random, s, _, draws: original(random, s, -1, draws)
    )
    assert run_small("fourier-variance").verdict.outcome == "holds"


def test_independent_directions_are_not_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        random_directions, "sample_orthogonal", random_directions.sample_independent
    )
    assert run_small("orthogonal-better").verdict.outcome == "refuted"


def test_swapped_feature_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = {
        "sines and cosines": trigonometric.positive_features,
        "positive features": trigonometric.trigonometric_features,
    }
    monkeypatch.setattr(trigonometric, "MAPS", swapped)
    assert run_small("trig-unstable").verdict.outcome == "refuted"


def test_forgetting_state_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    absorb = Kernel.absorb

    def forget(
        self: Kernel, k: Tensor, v: Tensor, keys: Tensor | None = None, state: State | None = None
    ) -> State:
        del state
        return absorb(self, k, v, keys)

    monkeypatch.setattr(Kernel, "absorb", forget)
    assert run_small("recurrence").verdict.outcome == "refuted"


def test_causal_stabilizer_does_not_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    own, usual = future_leak.attnlab_attention, future_leak.usual_attention
    monkeypatch.setattr(future_leak, "usual_attention", lambda q, k, v, w, **_: own(q, k, v, w))
    assert run_small("stabilizer-leak").verdict.outcome == "refuted"
    monkeypatch.setattr(future_leak, "usual_attention", usual)
    monkeypatch.setattr(
        future_leak, "attnlab_attention", lambda q, k, v, w: usual(q, k, v, w, 1e-4)
    )
    assert (
        run_small("stabilizer-leak").trusted is False
    )  # if attnlab's attention leaked, the control would show it


@pytest.mark.usefixtures("work_instead_of_seconds")
def test_growing_state_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        kernels_cost, "Favor", lambda head_dim, heads, **_: Softmax(head_dim=head_dim, heads=heads)
    )
    assert run_small("constant-state").verdict.outcome == "refuted"


@pytest.mark.usefixtures("work_instead_of_seconds")
def test_kernel_with_a_full_matrix_is_not_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = kernels_cost._matrix_call
    monkeypatch.setattr(kernels_cost, "_kernel_call", lambda q, k, v, **_: matrix(q, k, v))
    assert run_small("linear-cost").verdict.outcome == "refuted"


# Against definitions


def test_feature_maps_by_hand() -> None:
    x = torch.tensor([[2.0, 3.0]], dtype=torch.float64)
    assert kernels.all_products(x)[0].tolist() == pytest.approx([4, 6, 6, 9])
    assert kernels.each_product_once(x)[0].tolist() == pytest.approx([4, 9, 6 * 2**0.5])
    w = torch.zeros(1, 2, 2, dtype=torch.float64)
    assert trigonometric.positive_features(w, x)[0, 0].tolist() == pytest.approx(
        [float(torch.tensor(-6.5).exp()) / 2**0.5] * 2, rel=1e-5
    )
    assert trigonometric.trigonometric_features(w, x)[0, 0].tolist() == pytest.approx(
        [float(torch.tensor(6.5).exp()), 0.0], rel=1e-5
    )


def test_keys_have_the_given_angle() -> None:
    q, k = trigonometric.sample_at_angle(torch.Generator().manual_seed(3), -0.25, 2.0, 7)
    assert k.square().sum(-1).tolist() == pytest.approx([2.0] * 7)
    assert (k @ q[0]).tolist() == pytest.approx([-0.5] * 7)


def test_peak_bytes_by_hand() -> None:
    inputs = torch.ones(1000)

    def sequential() -> None:
        x = inputs + 1
        del x
        _ = inputs[:500] + 1

    def two_tensors_and_a_view() -> None:
        x, y = inputs + 1, inputs * 2
        _ = x.view(10, 100)[3], y

    def in_place() -> None:
        inputs.view(10, 100).mul_(1)

    assert costs.peak_bytes_no_grad(sequential) == 4000
    assert costs.peak_bytes_no_grad(two_tensors_and_a_view) == 8000
    assert costs.peak_bytes_no_grad(in_place) == 0


def test_crossing_of_lines() -> None:
    linear = [(x, 100 * x) for x in (1.0, 2.0, 8.0)]
    square = [(x, x * x) for x in (1.0, 3.0, 9.0)]
    assert costs.crossing(linear, square) == pytest.approx(100)
    assert costs.crossing(linear, linear) == float("inf")
