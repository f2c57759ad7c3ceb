"""Efficient mechanisms and the alternatives: the verdicts, and what would flip them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attnlab.bench import _measure_costs as costs
from attnlab.claims import (
    CLAIMS,
    Result,
    Trial,
    chosen,
    efficient_bigbird,
    efficient_linformer,
    efficient_synthesizer,
    run_one,
)
from attnlab.claims import efficient as low
from attnlab.claims import (
    efficient_long_distance as efficient_distance,
)
from attnlab.claims import (
    efficient_recurrent_cost as efficient_sequence,
)
from attnlab.mask import Mask
from attnlab.mechanisms.bigbird import BigBird
from attnlab.mechanisms.linformer import Linformer
from attnlab.mechanisms.softmax import Softmax
from attnlab.mechanisms.synthesizer import Synthesizer

EXPECTED = {
    "low-rank": "holds",
    "linformer-rank": "holds only when",
    "linformer-svd": "refuted",
    "linformer-not-causal": "holds",
    "bigbird-linear": "holds",
    "bigbird-shared-random": "refuted",
    # the path in PyTorch gathers keys, and pays off for long sequences alone
    "bigbird-longer": "holds only when",
    "synthesizer-blind": "holds",
    "synthesizer-compare": "holds",
    "synthesizer-faster": "refuted",
    "sequence-cost": "holds",
    "longer-free": "refuted",
    "long-range": "holds",
    "universality": "not run",
}
LONG = ("low-rank", "synthesizer-compare", "long-range", "bigbird-longer", "sequence-cost")
CASES = [
    pytest.param(name, seed, marks=[pytest.mark.slow] if name in LONG and seed else [])
    for name in EXPECTED
    for seed in (0, 1)
]


def run(name: str, seed: int = 0) -> Result:
    return run_one(CLAIMS[name], seed, "small")


def outcome(name: str) -> str:
    return run(name).verdict.outcome


def work(call: Callable[[], object], times: int = 1) -> float:
    """In place of `costs.seconds`: no timing is asserted in a test."""
    del times

    def fused(q: list[int], k: list[int], v: list[int], *_: Any, **__: Any) -> int:
        return 2 * math.prod(q) * k[2] + 2 * math.prod(q[:3]) * math.prod(v[2:])

    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # not counted otherwise
    with FlopCounterMode(display=False, custom_mapping={kernel: fused}) as counter:
        call()
    return 1.0 + counter.get_total_flops()


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "seconds", work)


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_the_verdict(name: str, seed: int) -> None:
    if name == "low-rank" and low.missing_model():
        pytest.skip(low.missing_model())
    result = run(name, seed)
    assert result.verdict.outcome == EXPECTED[name], result
    assert result.trusted is (None if name == "universality" else True), result.control


def test_all_rows_are_there_in_the_ledgers_order() -> None:
    rows = chosen(topic="efficient")
    assert [claim.name for claim in rows] == list(EXPECTED)
    assert {claim.name for claim in rows if claim.quoted} == {
        name for name, verdict in EXPECTED.items() if verdict == "refuted"
    }
    assert [claim.name for claim in rows if claim.alone] == [
        "bigbird-longer", "synthesizer-faster", "sequence-cost", "longer-free",
    ]  # fmt: skip


def test_a_model_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(low, "MODEL", "gt_no_such_model")
    result = run("low-rank")
    assert result.verdict.outcome == "not run"
    assert result.verdict.condition.startswith("needs ")


# Wrong implementations


def test_heads_of_full_rank_are_not_taken_for_low_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token to the one before: a shifted identity."""
    before = torch.eye(128, dtype=torch.float64).roll(1, 0).expand(3, -1, -1)
    monkeypatch.setattr(low, "_trained", lambda *_: ([before] * 3, {}))
    monkeypatch.setattr(low, "missing_model", lambda: "")
    assert low.low_rank(Trial()).figure.ends[0] > 0.8


def test_attention_to_oneself_has_no_small_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        low, "random_attention", lambda _, count, n, d: torch.eye(n).expand(count, n, n) * d
    )
    assert outcome("linformer-rank") == "refuted"


def test_projections_from_a_decomposition_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = efficient_linformer._linformer_errors

    def decomposed(trial: Trial, r: int, repeat: int) -> dict[str, float]:
        found = right(Trial(trial.seed, control=True), r, repeat)
        return {**found, "learned": found["decomposition"]}

    monkeypatch.setattr(efficient_linformer, "_linformer_errors", decomposed)
    assert outcome("linformer-svd") == "holds"


def test_a_linformer_that_masked_would_not_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    def masked(_: Linformer, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        del mask
        return Softmax(head_dim=q.shape[-1], heads=1)(q, k, v, Mask(causal=True))

    monkeypatch.setattr(Linformer, "forward", masked)
    assert outcome("linformer-not-causal") == "refuted"


def test_a_dropped_mask_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Softmax,
        "compute",
        lambda self, q, k, v, _: self.weights(q, k, Mask()) @ v,
    )
    assert run("linformer-not-causal").trusted is False


def test_full_edges_are_not_linear_and_no_global_block_is_too_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = efficient_bigbird._bird
    monkeypatch.setattr(efficient_bigbird, "_bird", lambda trial, _: right(trial, 0))
    assert outcome("bigbird-linear") == "refuted"
    monkeypatch.setattr(efficient_bigbird, "_bird", right)
    monkeypatch.setattr(BigBird, "edges", lambda _, n, __: torch.ones(n, n, dtype=torch.bool))
    found = run("bigbird-linear").evidence
    assert found is not None
    assert found.figure.value == pytest.approx(1)


def test_one_random_set_for_all_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.tensor([[0, 1, 2, 7, 8, 9]]).repeat(256, 1)
    monkeypatch.setattr(BigBird, "__init__", lambda self, **_: nn.Module.__init__(self))

    class Same:
        def table(self, *_: Any) -> Tensor:
            return table

    monkeypatch.setattr(BigBird, "pattern", Same(), raising=False)
    assert outcome("bigbird-shared-random") == "holds"


def test_a_synthesizer_that_sees_keys_is_not_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    def seeing(self: Synthesizer, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        del self, k
        return Softmax(head_dim=q.shape[-1], heads=q.shape[1]).weights(q, q, mask)

    monkeypatch.setattr(Synthesizer, "weights", seeing)
    monkeypatch.setattr(
        Synthesizer, "compute", lambda self, q, k, v, mask: self.weights(q, k, mask) @ v
    )
    assert outcome("synthesizer-blind") == "refuted"


def test_a_place_that_is_known_needs_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters in a fixed order: the other one is always half the length away."""
    right = efficient_synthesizer.marked

    def in_order(size: int, T: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        _, marks, _ = right(size, T, random)
        place = torch.arange(T)
        return (place % (T // 2)).expand(size, T), marks, place.roll(T // 2).expand(size, T)

    monkeypatch.setattr(efficient_synthesizer, "marked", in_order)
    assert efficient_synthesizer.synthesizer_compare(Trial()).figure.ends[1] < 0.3


# Against definitions


def test_ranks_and_errors_against_the_decomposition() -> None:
    random = torch.Generator().manual_seed(3)
    A = torch.randn(3, 7, 11, generator=random, dtype=torch.float64)
    U, S, V = torch.linalg.svd(A, full_matrices=False)
    for r in (1, 4, 6):
        near = U[..., :r] * S[:, None, :r] @ V[:, :r]
        wanted = (A - near).norm(dim=(1, 2)) / A.norm(dim=(1, 2))
        torch.testing.assert_close(low.best_error(A, r), wanted)
    assert low.rank_needed(torch.eye(50, dtype=torch.float64)[None]) == 50
    assert low.rank_needed(torch.ones(1, 9, 9, dtype=torch.float64)) == 1


def test_hops_by_hand() -> None:
    line = torch.zeros(4, 4, dtype=torch.bool)
    line[0, 1] = line[1, 2] = line[2, 3] = True
    assert efficient_bigbird.reached(line, 1).int().tolist()[0] == [1, 1, 0, 0]
    assert efficient_bigbird.reached(line, 2).int().tolist()[0] == [1, 1, 1, 0]
    assert efficient_bigbird.reached(line, 3).int().tolist()[0] == [1, 1, 1, 1]
    assert efficient_bigbird.reached(line, 3).int().tolist()[3] == [0, 0, 0, 1]


def test_what_fits_between_points_that_were_measured() -> None:
    linear = [(100.0, 50.0), (200.0, 100.0), (400.0, 200.0)]
    for size, n in ((50, 100), (75, 150), (200, 400), (800, 1600), (10, 20)):
        assert efficient_bigbird._fits(linear, size) == pytest.approx(n)


def test_the_other_one_has_the_same_letter() -> None:
    letters, _, other = efficient_synthesizer.marked(7, 6, torch.Generator().manual_seed(0))
    assert torch.equal(letters.gather(1, other), letters)
    assert bool((other != torch.arange(6)).all())
    assert all(len(row.unique()) == 3 for row in letters)


def test_operations_and_chains_by_hand() -> None:
    n, d = 5, 3
    assert efficient_sequence.operations(efficient_sequence.attention, n, d) == 4 * n * n * d
    assert efficient_sequence.operations(efficient_sequence.recurrent, n, d) == 4 * n * d * d
    whole = efficient_sequence.operations(efficient_sequence.attention_layer, n, d)
    assert whole == 4 * n * n * d + 8 * n * d * d
    x = torch.zeros(2, 2, requires_grad=True)
    assert efficient_sequence.chain(x.exp()) == 2  # the input itself and exp
    assert efficient_sequence.chain(x.exp() + x) == 3


def test_both_learners_have_about_the_same_size() -> None:
    attention = efficient_distance._size(efficient_distance._attention_model(16))
    recurrent = efficient_distance._size(efficient_distance._recurrent_model(16))
    assert math.isclose(attention, recurrent, rel_tol=0.1)
