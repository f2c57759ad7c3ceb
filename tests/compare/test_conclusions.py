"""The best setting of each contender, and whether it matches the first contender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from attnlab._confidence_intervals import Estimate
from attnlab.compare._conclusions import Conclusions, best_runs, conclude, verdict
from attnlab.compare._runs import Attempt, Failure
from attnlab.tasks.comparison import ComparisonTrial, Metric
from tests.support.fake_comparison import FakeComparison, create_run

LOSS, ACCURACY = Metric("loss", "loss"), Metric("accuracy", "accuracy", "higher")


def create_runs(losses: Mapping[tuple[str, float], Sequence[float]]) -> list[Attempt]:
    return [
        create_run(variant, loss, seed, factor)
        for (variant, factor), values in losses.items()
        for seed, loss in enumerate(values)
    ]


def conclude_runs(attempts: list[Attempt], floor: float | None = None) -> Conclusions:
    return conclude(FakeComparison(floor=floor), ["softmax", "favor"], attempts)


def test_the_best_settings_are_compared_seed_by_seed() -> None:
    conclusions = conclude_runs(create_runs({
        ("softmax", 1.0): [2.0, 2.4], ("softmax", 0.5): [3.0, 3.0],
        ("favor:features=8", 1.0): [9.0, 9.0], ("favor:features=16", 1.0): [2.05, 2.44],
    }))  # fmt: skip
    assert [(best.variant, best.rate) for best in conclusions.best] == [
        ("softmax", 1.0), ("favor:features=16", 1.0),
    ]  # fmt: skip
    assert [best.settings for best in conclusions.best] == [2, 2]
    (difference,) = conclusions.differences
    assert difference.metrics["loss"].value == pytest.approx(0.045)
    low, high = difference.metrics["loss"].ends
    assert low < 0.045 < high


def test_best_runs_have_the_highest_metric_if_higher_is_better() -> None:
    class Higher(FakeComparison):
        metrics = (ACCURACY, LOSS)

    attempts = create_runs({("softmax", 1.0): [0.2], ("softmax", 0.5): [0.9]})
    (run,) = best_runs(Higher(), attempts, "softmax", None)
    assert run.trial.rate == 0.5


def test_a_setting_with_a_failed_seed_comes_last() -> None:
    attempts = create_runs({("softmax", 1.0): [1.0], ("softmax", 0.5): [3.0, 3.0]})
    attempts.append(Failure(ComparisonTrial("softmax", "softmax", 1.0, 1), "diverged"))
    best = best_runs(FakeComparison(), attempts, "softmax", None)
    assert [run.trial.rate for run in best] == [0.5, 0.5]
    (only,) = best_runs(FakeComparison(), [attempts[0], attempts[-1]], "softmax", None)
    assert only.trial.seed == 0
    assert best_runs(FakeComparison(), attempts[-1:], "softmax", None) == []
    conclusions = conclude_runs([*attempts, *create_runs({("favor", 1.0): [2.0, 2.0]})])
    assert [difference.seeds for difference in conclusions.differences] == [2]


@pytest.mark.parametrize(
    ("floor", "expected"), [(0.49, "matches"), (0.5, "not learned enough"), (None, "matches")]
)
def test_a_match_needs_a_reference_that_beats_the_baseline(
    floor: float | None, expected: str
) -> None:
    attempts = create_runs({("softmax", 1.0): [2.0, 2.4, 2.2], ("favor", 1.0): [2.01, 2.42, 2.2]})
    (difference,) = conclude_runs(attempts, floor).differences
    assert difference.verdict == expected


def test_missing_runs_are_not_compared() -> None:
    one, other = create_runs({("softmax", 1.0): [2.0], ("favor", 1.0): [2.1]})
    assert conclude_runs([]).best == []
    assert conclude_runs([one]).differences == conclude_runs([other]).differences == []
    (difference,) = conclude_runs([one, other]).differences
    assert (difference.seeds, difference.verdict) == (1, "undecided")
    assert conclude_runs([one, create_run("favor", 2.1, seed=5)]).differences == []


@pytest.mark.parametrize(
    ("interval", "learned", "expected"),
    [
        ((-0.05, 0.09), True, "matches"),
        ((0.01, 0.09), True, "matches"),
        ((0.2, 0.3), True, "worse"),
        ((-0.3, -0.2), True, "better"),
        ((-0.3, 0.2), True, "undecided"),
        ((None, None), True, "undecided"),
        ((None, None), False, "not learned enough"),
        ((-0.05, 0.09), False, "not learned enough"),
        ((-0.3, 0.2), False, "not learned enough"),
        ((0.2, 0.3), False, "worse"),
        ((-0.3, -0.2), False, "better"),
    ],
)
def test_verdicts(
    interval: tuple[float | None, float | None], learned: bool, expected: str
) -> None:
    difference = Estimate(0.0, *interval)
    assert verdict(difference, LOSS, 0.1, learned) == expected
    opposite = {"worse": "better", "better": "worse"}.get(expected, expected)
    assert verdict(difference, ACCURACY, 0.1, learned) == opposite
