"""Each contender's best setting, and whether it matches the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from attnlab._confidence_intervals import Estimate
from attnlab.compare._conclusions import Conclusions, best_runs, conclude, verdict
from attnlab.compare._runs import Attempt, Failure
from attnlab.tasks.comparison import Metric, Trial
from tests.support.fake_comparison import FakeComparison, made_run

LOSS, ACCURACY = Metric("loss", "loss"), Metric("accuracy", "accuracy", "higher")


def runs(losses: Mapping[tuple[str, float], Sequence[float]]) -> list[Attempt]:
    return [
        made_run(variant, loss, seed, rate)
        for (variant, rate), values in losses.items()
        for seed, loss in enumerate(values)
    ]


def concluded(attempts: list[Attempt], floor: float | None = None) -> Conclusions:
    return conclude(FakeComparison(floor=floor), ["softmax", "favor"], attempts)


def test_the_best_settings_are_compared_seed_by_seed() -> None:
    made = concluded(runs({
        ("softmax", 1.0): [2.0, 2.4], ("softmax", 0.5): [3.0, 3.0],
        ("favor:features=8", 1.0): [9.0, 9.0], ("favor:features=16", 1.0): [2.05, 2.44],
    }))  # fmt: skip
    assert [(each.variant, each.rate) for each in made.best] == [
        ("softmax", 1.0), ("favor:features=16", 1.0),
    ]  # fmt: skip
    assert [each.settings for each in made.best] == [2, 2]
    (difference,) = made.differences
    assert difference.metrics["loss"].value == pytest.approx(0.045)
    low, high = difference.metrics["loss"].ends
    assert low < 0.045 < high


def test_a_higher_metric_is_chosen_by_the_highest() -> None:
    class Higher(FakeComparison):
        metrics = (ACCURACY, LOSS)

    attempts = runs({("softmax", 1.0): [0.2], ("softmax", 0.5): [0.9]})
    (chosen,) = best_runs(Higher(), attempts, "softmax", None)
    assert chosen.trial.rate == 0.5


def test_a_setting_that_failed_with_a_seed_is_the_last_choice() -> None:
    attempts = runs({("softmax", 1.0): [1.0], ("softmax", 0.5): [3.0, 3.0]})
    attempts.append(Failure(Trial("softmax", "softmax", 1.0, 1), "diverged"))
    chosen = best_runs(FakeComparison(), attempts, "softmax", None)
    assert [run.trial.rate for run in chosen] == [0.5, 0.5]
    (alone,) = best_runs(FakeComparison(), [attempts[0], attempts[-1]], "softmax", None)
    assert alone.trial.seed == 0
    assert best_runs(FakeComparison(), attempts[-1:], "softmax", None) == []
    made = concluded([*attempts, *runs({("favor", 1.0): [2.0, 2.0]})])
    assert [each.seeds for each in made.differences] == [2]


@pytest.mark.parametrize(
    ("floor", "wanted"), [(0.49, "matches"), (0.5, "not learned enough"), (None, "matches")]
)
def test_a_match_needs_a_first_one_that_has_learned(floor: float | None, wanted: str) -> None:
    attempts = runs({("softmax", 1.0): [2.0, 2.4, 2.2], ("favor", 1.0): [2.01, 2.42, 2.2]})
    (difference,) = concluded(attempts, floor).differences
    assert difference.verdict == wanted


def test_what_is_missing_is_not_compared() -> None:
    one, other = runs({("softmax", 1.0): [2.0], ("favor", 1.0): [2.1]})
    assert concluded([]).best == []
    assert concluded([one]).differences == concluded([other]).differences == []
    (difference,) = concluded([one, other]).differences
    assert (difference.seeds, difference.verdict) == (1, "undecided")
    assert concluded([one, made_run("favor", 2.1, seed=5)]).differences == []


@pytest.mark.parametrize(
    ("interval", "learned", "wanted"),
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
def test_verdicts(interval: tuple[float | None, float | None], learned: bool, wanted: str) -> None:
    difference = Estimate(0.0, *interval)
    assert verdict(difference, LOSS, 0.1, learned) == wanted
    opposite = {"worse": "better", "better": "worse"}.get(wanted, wanted)
    assert verdict(difference, ACCURACY, 0.1, learned) == opposite
