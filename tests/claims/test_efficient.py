"""Efficient mechanisms: the expected verdicts, and wrong code that changes them."""

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
    efficient_bigbird,
    efficient_linformer,
    efficient_low_rank,
    efficient_synthesizer,
    run_claim,
    select_claims,
)
from attnlab.claims import (
    efficient_long_distance_copying as long_distance,
)
from attnlab.claims import (
    efficient_versus_recurrent as recurrent_cost,
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
    # the PyTorch implementation copies keys, and pays off only for long sequences
    "bigbird-longer": "holds only when",
    "synthesizer-blind": "holds",
    "synthesizer-compare": "holds",
    "synthesizer-faster": "refuted",
    "sequence-cost": "holds",
    "longer-free": "refuted",
    "long-range": "holds",
    "universality": "not run",
}
SLOW = ("low-rank", "synthesizer-compare", "long-range", "bigbird-longer", "sequence-cost")
CASES = [
    pytest.param(name, seed, marks=[pytest.mark.slow] if name in SLOW else [])
    for name in EXPECTED
    for seed in (0, 1)
]


def run_small(name: str, seed: int = 0) -> Result:
    return run_claim(CLAIMS[name], seed, "small")


def run_outcome(name: str) -> str:
    return run_small(name).verdict.outcome


def count_flops(call: Callable[[], object], times: int = 1) -> float:
    """Replaces `costs.seconds`, because tests must not depend on timing."""
    del times

    def fused(q: list[int], k: list[int], v: list[int], *_: Any, **__: Any) -> int:
        return 2 * math.prod(q) * k[2] + 2 * math.prod(q[:3]) * math.prod(v[2:])

    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # otherwise not counted
    with FlopCounterMode(display=False, custom_mapping={kernel: fused}) as counter:
        call()
    return 1.0 + counter.get_total_flops()


@pytest.fixture(autouse=True)
def flops_instead_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "seconds", count_flops)


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_verdicts(name: str, seed: int) -> None:
    if name == "low-rank" and efficient_low_rank.missing_model():
        pytest.skip(efficient_low_rank.missing_model())
    result = run_small(name, seed)
    assert result.verdict.outcome == EXPECTED[name], result
    assert result.trusted is (None if name == "universality" else True), result.control


def test_topic_has_exactly_these_claims() -> None:
    rows = select_claims(topic="efficient")
    assert [claim.name for claim in rows] == list(EXPECTED)
    assert {claim.name for claim in rows if claim.quoted} == {
        name for name, verdict in EXPECTED.items() if verdict == "refuted"
    }
    assert [claim.name for claim in rows if claim.alone] == [
        "bigbird-longer", "synthesizer-faster", "sequence-cost", "longer-free",
    ]  # fmt: skip


def test_missing_model_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficient_low_rank, "MODEL", "gt_no_such_model")
    result = run_small("low-rank")
    assert result.verdict.outcome == "not run"
    assert result.verdict.condition.startswith("needs ")


# Wrong implementations


def test_full_rank_heads_are_not_low_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token attends to the previous one: a shifted identity matrix."""
    before = torch.eye(128, dtype=torch.float64).roll(1, 0).expand(3, -1, -1)
    monkeypatch.setattr(efficient_low_rank, "_trained_attention", lambda *_: ([before] * 3, {}))
    monkeypatch.setattr(efficient_low_rank, "missing_model", lambda: "")
    assert efficient_low_rank.low_rank(Trial()).figure.ends[0] > 0.8


def test_identity_attention_needs_full_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        efficient_low_rank,
        "random_attention",
        lambda _, count, n, d: torch.eye(n).expand(count, n, n) * d,
    )
    assert run_outcome("linformer-rank") == "refuted"


def test_projections_from_a_decomposition_would_be_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = efficient_linformer._weight_errors

    def decomposed(trial: Trial, r: int, repeat: int) -> dict[str, float]:
        errors = original(Trial(trial.seed, control=True), r, repeat)
        return {**errors, "learned": errors["decomposition"]}

    monkeypatch.setattr(efficient_linformer, "_weight_errors", decomposed)
    assert run_outcome("linformer-svd") == "holds"


def test_masked_linformer_would_not_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    def masked(_: Linformer, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        del mask
        return Softmax(head_dim=q.shape[-1], heads=1)(q, k, v, Mask(causal=True))

    monkeypatch.setattr(Linformer, "forward", masked)
    assert run_outcome("linformer-not-causal") == "refuted"


def test_dropped_mask_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Softmax,
        "compute",
        lambda self, q, k, v, _: self.weights(q, k, Mask()) @ v,
    )
    assert run_small("linformer-not-causal").trusted is False


def test_bigbird_with_full_edges_or_without_global_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = efficient_bigbird._make_bigbird
    monkeypatch.setattr(efficient_bigbird, "_make_bigbird", lambda trial, _: original(trial, 0))
    assert run_outcome("bigbird-linear") == "refuted"
    monkeypatch.setattr(efficient_bigbird, "_make_bigbird", original)
    monkeypatch.setattr(BigBird, "edges", lambda _, n, __: torch.ones(n, n, dtype=torch.bool))
    evidence = run_small("bigbird-linear").evidence
    assert evidence is not None
    assert evidence.figure.value == pytest.approx(1)


def test_shared_random_blocks_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.tensor([[0, 1, 2, 7, 8, 9]]).repeat(256, 1)
    monkeypatch.setattr(BigBird, "__init__", lambda self, **_: nn.Module.__init__(self))

    class FixedPattern:
        def table(self, *_: Any) -> Tensor:
            return table

    monkeypatch.setattr(BigBird, "pattern", FixedPattern(), raising=False)
    assert run_outcome("bigbird-shared-random") == "holds"


def test_synthesizer_that_reads_keys_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def softmax_weights(self: Synthesizer, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        del self, k
        return Softmax(head_dim=q.shape[-1], heads=q.shape[1]).weights(q, q, mask)

    monkeypatch.setattr(Synthesizer, "weights", softmax_weights)
    monkeypatch.setattr(
        Synthesizer, "compute", lambda self, q, k, v, mask: self.weights(q, k, mask) @ v
    )
    assert run_outcome("synthesizer-blind") == "refuted"


def test_known_position_needs_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters in a fixed order: the equal letter is always half the length away."""
    original = efficient_synthesizer.sample_marked_tokens

    def in_order(size: int, T: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        _, marks, _ = original(size, T, random)
        position = torch.arange(T)
        return (position % (T // 2)).expand(size, T), marks, position.roll(T // 2).expand(size, T)

    monkeypatch.setattr(efficient_synthesizer, "sample_marked_tokens", in_order)
    assert efficient_synthesizer.synthesizer_compare(Trial()).figure.ends[1] < 0.3


# Against definitions


def test_rank_errors_match_the_svd() -> None:
    random = torch.Generator().manual_seed(3)
    A = torch.randn(3, 7, 11, generator=random, dtype=torch.float64)
    U, S, V = torch.linalg.svd(A, full_matrices=False)
    for r in (1, 4, 6):
        truncated = U[..., :r] * S[:, None, :r] @ V[:, :r]
        expected = (A - truncated).norm(dim=(1, 2)) / A.norm(dim=(1, 2))
        torch.testing.assert_close(efficient_low_rank.best_error(A, r), expected)
    assert efficient_low_rank.required_rank(torch.eye(50, dtype=torch.float64)[None]) == 50
    assert efficient_low_rank.required_rank(torch.ones(1, 9, 9, dtype=torch.float64)) == 1


def test_reachable_by_hand() -> None:
    line = torch.zeros(4, 4, dtype=torch.bool)
    line[0, 1] = line[1, 2] = line[2, 3] = True
    assert efficient_bigbird.reachable(line, 1).int().tolist()[0] == [1, 1, 0, 0]
    assert efficient_bigbird.reachable(line, 2).int().tolist()[0] == [1, 1, 1, 0]
    assert efficient_bigbird.reachable(line, 3).int().tolist()[0] == [1, 1, 1, 1]
    assert efficient_bigbird.reachable(line, 3).int().tolist()[3] == [0, 0, 0, 1]


def test_tokens_in_memory_interpolates() -> None:
    linear = [(100.0, 50.0), (200.0, 100.0), (400.0, 200.0)]
    for size, n in ((50, 100), (75, 150), (200, 400), (800, 1600), (10, 20)):
        assert efficient_bigbird._tokens_in_memory(linear, size) == pytest.approx(n)


def test_marked_tokens_have_equal_letters() -> None:
    letters, _, other = efficient_synthesizer.sample_marked_tokens(
        7, 6, torch.Generator().manual_seed(0)
    )
    assert torch.equal(letters.gather(1, other), letters)
    assert bool((other != torch.arange(6)).all())
    assert all(len(row.unique()) == 3 for row in letters)


def test_operations_and_chains_by_hand() -> None:
    n, d = 5, 3
    assert recurrent_cost.count_operations(recurrent_cost.attention, n, d) == 4 * n * n * d
    assert recurrent_cost.count_operations(recurrent_cost.recurrent, n, d) == 4 * n * d * d
    whole = recurrent_cost.count_operations(recurrent_cost.attention_layer, n, d)
    assert whole == 4 * n * n * d + 8 * n * d * d
    x = torch.zeros(2, 2, requires_grad=True)
    assert recurrent_cost.longest_chain(x.exp()) == 2  # the input itself and exp
    assert recurrent_cost.longest_chain(x.exp() + x) == 3


def test_attention_and_lstm_have_equal_size() -> None:
    attention = long_distance._parameter_count(long_distance._attention_model(16))
    recurrent = long_distance._parameter_count(long_distance._recurrent_model(16))
    assert math.isclose(attention, recurrent, rel_tol=0.1)
